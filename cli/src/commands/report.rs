//! `report`: writes a run's report.html again.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};
use serde_json::json;

use super::train::absolute;
use crate::failure::Failure;
use crate::options::PlanOptions;
use crate::prepare::prepare;
use crate::render::Console;
use crate::usage::Global;
use crate::worker::{Search, run_module};

#[derive(clap::Args)]
pub struct Args {
    /// The run's folder (that of the manifest's own run)
    run: Option<PathBuf>,
    #[command(flatten)]
    options: PlanOptions,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let folder = match &args.run {
        Some(folder) => absolute(folder),
        None => own_run(args, console)?,
    };
    let python = Search::here(global.python.as_deref(), None).find()?;
    let path = run_module(&python, "expert_worker.report", &folder)?;
    if console.json {
        console.document(&json!({"ok": true, "report": path}));
    } else {
        console.data(&path);
    }
    Ok(Exit::Done)
}

fn own_run(args: &Args, console: &Console) -> Result<String, Failure> {
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    Ok(prepare(&args.options, request, console)?.resolved.plan.machine.paths.output)
}
