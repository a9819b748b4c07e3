//! `report`: rewrites a run's report.html, or those of many runs and their index.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};
use serde_json::json;

use super::train::absolute;
use crate::failure::Failure;
use crate::options::PlanOptions;
use crate::prepare::prepare;
use crate::render::Console;
use crate::runs;
use crate::usage::Global;
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.report";
pub const PAGE: &str = "report.html";

#[derive(clap::Args)]
#[command(mut_arg("expert", |arg| arg.value_name("RUN").help("A run's folder, or one that holds experts or runs (default: that of the manifest's run)")))]
pub struct Args {
    /// Every run of a folder (default: experts), and an index, the best run of each expert first
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "experts", conflicts_with_all = ["expert", "manifest", "output"])]
    all: Option<PathBuf>,
    #[command(flatten)]
    options: PlanOptions,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let path = write(&arguments(args, console)?, global, console)?;
    if console.json {
        console.document(&json!({"ok": true, "report": path}));
    } else {
        console.data(&path);
    }
    Ok(Exit::Done)
}

/// After training a shelf: a page that cannot be written is a warning, not a failure.
pub fn refresh(shelf: &Path, global: &Global, console: &Console) {
    match whole_shelf(shelf).and_then(|arguments| write(&arguments, global, console)) {
        Ok(path) => console.say(&format!("all runs: {path}")),
        Err(failure) => console.warn(&failure.message, failure.hint.as_deref()),
    }
}

fn write(arguments: &[String], global: &Global, console: &Console) -> Result<String, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?;
    let ran = run_module(&python, MODULE, arguments)?;
    for warning in &ran.warnings {
        console.warn(warning, None);
    }
    Ok(ran.stdout)
}

fn arguments(args: &Args, console: &Console) -> Result<Vec<String>, Failure> {
    Ok(match (&args.all, &args.options.expert) {
        (Some(shelf), _) => whole_shelf(shelf)?,
        (None, Some(folder)) if !runs::is_run(folder) && folder.is_dir() => whole_shelf(folder)?,
        (None, Some(folder)) => vec![absolute(folder)],
        (None, None) => vec![own_run(args, console)?],
    })
}

fn own_run(args: &Args, console: &Console) -> Result<String, Failure> {
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    Ok(prepare(&args.options, request, console)?.resolved.plan.machine.paths.output)
}

/// The page is in the folder itself, so that both can be moved together.
fn whole_shelf(shelf: &Path) -> Result<Vec<String>, Failure> {
    let found = runs::below(shelf)?;
    if found.is_empty() {
        return Err(Failure::bad_input("no-runs", format!("there is no run in {}", shelf.display()))
            .hint("train first, or name a run's folder or one that holds runs"));
    }
    let page = ["--index".to_owned(), absolute(&shelf.join(PAGE))];
    Ok(page.into_iter().chain(found.iter().map(|run| absolute(&run.path))).collect())
}
