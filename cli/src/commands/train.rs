//! `train`: one expert, or with `--all` every one of a shelf.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};
use serde_json::Value;

use super::plan;
use crate::failure::Failure;
use crate::launch::Supervision;
use crate::lock::{self, Digests};
use crate::options::TrainOptions;
use crate::prepare::prepare;
use crate::queue;
use crate::render::{Board, Console, summary};
use crate::site;
use crate::train::{Trained, Trainer};
use crate::usage::Global;

const SHELF: &str = "Every expert of a folder";

#[derive(clap::Args, Clone)]
pub struct Args {
    #[command(flatten)]
    pub options: TrainOptions,
    /// Go on from the newest checkpoint that verifies (auto), or from this one
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = "auto", conflicts_with = "fresh")]
    pub resume: Option<PathBuf>,
    /// Remove what an earlier run left in the output folder, and start at step 0
    #[arg(long)]
    pub fresh: bool,
    /// Train a finished or interrupted run for longer than its recipe said
    #[arg(long, conflicts_with = "fresh")]
    pub extend: bool,
    /// Score base and adapter on the test set, before and after (--all does where there is a test set)
    #[arg(long)]
    pub evaluate: bool,
    /// Train only what expert.lock says: refuse where manifest, data, base or code differ
    #[arg(long, conflicts_with_all = ["data", "output", "extend"])]
    pub locked: bool,
    /// Record where the time goes, step by step
    #[arg(long)]
    pub profile: bool,
    /// Copy each checkpoint to its mirror before training goes on, not beside it
    #[arg(long)]
    pub no_background_upload: bool,
    /// Show the plan and stop
    #[arg(long, conflicts_with = "all")]
    pub dry_run: bool,
    /// Train every expert of a folder (experts): finished ones are passed over, interrupted ones go on, and those whose
    /// manifest, data, base or code changed are trained anew
    #[arg(long, help_heading = SHELF, value_name = "DIR", num_args = 0..=1, default_missing_value = "experts", conflicts_with_all = ["manifest", "data", "output"])]
    pub all: Option<PathBuf>,
    /// Only these experts, with --all: names with commas between them
    #[arg(long, help_heading = SHELF, value_name = "NAMES", requires = "all", conflicts_with = "manifest", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only experts whose result would differ from that of this git revision, with --all
    #[arg(
        long,
        help_heading = SHELF,
        value_name = "REF",
        requires = "all",
        conflicts_with = "manifest",
        allow_hyphen_values = true
    )]
    pub changed_since: Option<String>,
    /// Experts that train at once, with --all (one a GPU, or one a core of the processor as memory allows)
    #[arg(long, help_heading = SHELF, value_name = "N", requires = "all", conflicts_with = "manifest", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Do not score, with --all
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with_all = ["evaluate", "manifest"])]
    pub no_evaluate: bool,
    /// Start Python anew for every expert, with --all, instead of forking it from one that has everything loaded (Linux)
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with = "manifest")]
    pub separate: bool,
    #[command(flatten)]
    pub supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    if let Some(shelf) = &args.all {
        return queue::run(shelf, args, global, console);
    }
    let prepared = prepare(&args.options, ASKED, console)?;
    if args.dry_run {
        let mut prepared = prepared;
        let plan = &mut prepared.resolved.plan;
        plan.request = args.request(plan);
        let digests = Digests::open(&site::home());
        plan.inputs = Some(lock::inputs::here(plan, global.python.as_deref(), &digests));
        plan::show(&prepared, false, console);
        return Ok(Exit::Done);
    }
    let digests = Digests::open(&site::home());
    let mut board = Board::new(console);
    let outcome = Trainer { args, global, digests: &digests, warm: None }
        .train(&prepared, &mut |notice| board.notify(notice));
    board.finish();
    drop(board);
    let trained = outcome?;
    if let Trained::Before(_) = &trained {
        let output = &prepared.resolved.plan.machine.paths.output;
        console.say(&format!("this recipe is finished in {output}; --fresh trains it again"));
    }
    show(trained.result(), console);
    Ok(Exit::Done)
}

/// Until it is known what the output folder holds.
pub const ASKED: Request =
    Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };

fn show(result: &Value, console: &Console) {
    if console.json {
        console.document(result);
    } else {
        console.data(&summary::trained(result));
        if result["evaluation"].is_object() {
            console.data(&summary::evaluated(&result["evaluation"]));
        }
    }
}

/// The worker's working directory may be another.
pub fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
