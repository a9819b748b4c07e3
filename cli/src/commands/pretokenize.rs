//! `pretokenize`: builds the token cache, without training.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::Request;
use expert_contract::shell;
use serde_json::{Value, json};

use crate::args::{Global, PlanOptions, Supervision, TrainingData, whole};
use crate::experts;
use crate::failure::Failure;
use crate::next;
use crate::plan::{Here, Reads, prepare_here};
use crate::sys::paths::portable;
use crate::ui::{Console, tokens};
use crate::worker::{self, Home, carry_out};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    #[command(flatten)]
    training: TrainingData,
    /// Every expert of a folder (default: experts)
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = experts::usual().as_os_str(), conflicts_with_all = ["expert", "manifest", "data", "output"])]
    all: Option<PathBuf>,
    /// Show this many decoded rows, with the supervised tokens in colour
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", default_value_t = 0, value_parser = whole::<u32>(0..=u32::MAX.into()))]
    preview: u32,
    /// Build again even if there is a cache
    #[arg(long)]
    force: bool,
    /// Threads that tokenize (default: every core)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024))]
    jobs: Option<u32>,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let Some(shelf) = &args.all else {
        let options = PlanOptions { data: args.training.data.clone(), ..args.options.clone() };
        let result = build(&options, args, global, console)?;
        if console.json {
            console.document(&result);
        } else {
            console.data(&tokens::text(&worker::result(&result)?));
        }
        console.say(&format!("next: {}", next::command("train", &options, "")));
        return Ok(Exit::Done);
    };
    let mut exit = Exit::Done;
    let (mut documents, mut texts) = (Vec::new(), Vec::new());
    for manifest in experts::some_below(shelf)? {
        let options = PlanOptions { manifest: Some(manifest.clone()), ..args.options.clone() };
        let path = portable(manifest.parent().unwrap_or(Path::new(".")));
        let built = build(&options, args, global, console)
            .and_then(|result| Ok((tokens::text(&worker::result(&result)?), result)));
        match built {
            Ok((text, result)) => {
                texts.push(text);
                documents.push(json!({"path": path, "ok": true, "result": result}));
            }
            Err(failure) if worker::interrupted().is_some() => return Err(failure),
            Err(failure) => {
                exit = Exit::Failed;
                console.trouble(&path, &failure);
                documents.push(failure.added_to(json!({"path": path, "ok": false})));
            }
        }
    }
    if console.json {
        console.document(&json!({"ok": exit == Exit::Done, "experts": documents}));
    } else {
        for text in &texts {
            console.data(text);
        }
    }
    if exit == Exit::Done {
        console.say(&format!("next: expert-cli train --all {}", shell::quoted(&portable(shelf))));
    }
    Ok(exit)
}

fn build(options: &PlanOptions, args: &Args, global: &Global, console: &Console) -> Result<Value, Failure> {
    let request = Request::Pretokenize { force: args.force, preview: args.preview };
    let here = Here { jobs: args.jobs, ..Here::default() };
    let plan = prepare_here(options, Reads::TrainingData, here, console)?.resolved.plan(request);
    carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)
}
