//! `evaluate`: scores base and adapter on the test set.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::Set;
use expert_contract::plan::Request;

use crate::args::{Global, PlanOptions, Supervision};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, prepare};
use crate::run::adapter;
use crate::ui::{Console, summary};
use crate::worker::{self, Home, carry_out};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// Test rows instead of the manifest's
    #[arg(long, short, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Score at most this many rows, drawn evenly from the test set
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// The adapter's folder (default: that of the expert's run)
    #[arg(long, value_name = "DIR", conflicts_with = "base_only")]
    adapter: Option<PathBuf>,
    /// Score the base alone
    #[arg(long)]
    base_only: bool,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let mut options = PlanOptions { test: args.data.clone(), ..args.options.clone() };
    options
        .set
        .extend(args.rows.map(|rows| Set::flag("--rows", "evaluation.test_set_size", rows.to_string())));
    let resolved = prepare(&options, Reads::TestData, console)?.resolved;
    let paths = &resolved.machine.paths;
    let adapter = match &args.adapter {
        Some(folder) => Some(adapter::named(folder)?),
        None if args.base_only => None,
        None => Some(adapter::of_run(paths).ok_or_else(|| {
            adapter::not_trained(paths)
                .hint("train first, name an adapter with --adapter, or use --base-only")
        })?),
    };
    let plan = resolved.plan(Request::Evaluate { adapter });
    let result = carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)?;
    if console.json {
        console.document(&result);
    } else {
        console.data(&summary::evaluated(&worker::result(&result)?));
    }
    next::lead_on(Path::new(&plan.machine.paths.output), &next::ask(&args.options), console);
    Ok(Exit::Done)
}
