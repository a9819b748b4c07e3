//! `export`: the adapter merged into its base, or the plain adapter, also as GGUF; the worker compares what it wrote.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::Request;

use crate::args::{Global, PlanOptions, Supervision};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, prepare};
use crate::run::adapter;
use crate::sys::paths::{absolute, near};
use crate::ui::{Console, summary};
use crate::worker::{self, Home, carry_out};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("kind").required(true).multiple(true).args(["merge", "adapter", "gguf"])))]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// A merged model: the adapter's weights added to the base's
    #[arg(long)]
    merge: bool,
    /// The adapter alone, in PEFT's layout
    #[arg(long, conflicts_with = "merge")]
    adapter: bool,
    /// GGUF files for llama.cpp, Ollama and LM Studio: the adapter beside its base, or with --merge one model in f16
    #[arg(long)]
    gguf: bool,
    /// The adapter's folder (default: that of the expert's run)
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The new folder (default: export/merged, export/adapter, export/gguf or export/merged-gguf in the run's folder)
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let resolved = prepare(&args.options, Reads::Nothing, console)?.resolved;
    let paths = &resolved.machine.paths;
    let adapter = match &args.from {
        Some(folder) => adapter::named(folder)?,
        None => adapter::of_run(paths)
            .ok_or_else(|| adapter::not_trained(paths).hint("train first, or name an adapter with --from"))?,
    };
    let name = match (args.merge, args.gguf) {
        (true, true) => "merged-gguf",
        (true, false) => "merged",
        (false, true) => "gguf",
        (false, false) => "adapter",
    };
    let usual = || Path::new(&paths.output).join("export").join(name);
    let target = absolute(&args.to.clone().unwrap_or_else(usual));
    let plan = resolved.plan(Request::Export {
        adapter,
        target: target.clone(),
        merge: args.merge,
        gguf: args.gguf,
    });
    let result = carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)?;
    if console.json {
        console.document(&result);
    } else {
        console.data(&summary::exported(&worker::result(&result)?));
    }
    if !args.gguf {
        let target = near(Path::new(&target));
        let written = if args.merge { "--base-only --model" } else { "--adapter" };
        let next = next::command("evaluate", &args.options, &format!("{written} {}", next::quoted(&target)));
        next::lead_on(Path::new(&plan.machine.paths.output), &next, console);
    }
    Ok(Exit::Done)
}
