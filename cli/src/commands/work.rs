//! `work PLAN`: runs a plan that was written before, here or on another machine.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{CONTRACT_VERSION, Plan};
use fs_err as fs;
use serde_json::Value;

use crate::failure::Failure;
use crate::launch::{Home, Supervision, carry_out};
use crate::output;
use crate::render::Console;
use crate::usage::Global;

#[derive(clap::Args)]
pub struct Args {
    /// A plan.json
    plan: PathBuf,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let plan = read_plan(&args.plan)?;
    let paths = &plan.machine.paths;
    let named = !Path::new(&paths.output).starts_with(&paths.expert_dir);
    output::refuse_links_out(&plan, named, &[])?;
    let result = carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)?;
    console.document(&result);
    Ok(Exit::Done)
}

fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let text = fs::read(path).map_err(|error| Failure::reading("read the plan", path, &error))?;
    let document: Value = serde_json::from_slice(&text).map_err(|error| not_a_plan(path, &error))?;
    let version = document.get("contract").and_then(Value::as_u64);
    if version != Some(CONTRACT_VERSION.into()) {
        let theirs = version.map_or("no version".to_owned(), |version| format!("version {version}"));
        return Err(Failure::missing(
            "contract-mismatch",
            format!(
                "{} has {theirs} of the contract, this expert-cli has {CONTRACT_VERSION}",
                path.display()
            ),
        )
        .hint("write the plan again with this expert-cli"));
    }
    serde_json::from_slice(&text).map_err(|error| not_a_plan(path, &error))
}

fn not_a_plan(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::bad_input("bad-plan", format!("{} is not a plan: {error}", path.display()))
        .hint("plans are written by expert-cli (train --dry-run --json prints one)")
}
