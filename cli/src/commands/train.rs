//! `train`: one expert, or with `--all` every expert of a shelf.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{Plan, Request, Resume};
use expert_contract::results::TrainResult;

use super::{plan, report};
use crate::experts::{MANIFEST, portable};
use crate::failure::Failure;
use crate::launch::Supervision;
use crate::lock::{self, Digests};
use crate::next;
use crate::options::TrainOptions;
use crate::prepare::prepare;
use crate::queue;
use crate::render::{Board, Console, summary};
use crate::site;
use crate::train::{self, Runner, Trained, Trainer};
use crate::usage::Global;

const SHELF: &str = "Every expert of a folder";

#[derive(clap::Args, Clone)]
pub struct Args {
    #[command(flatten)]
    pub options: TrainOptions,
    /// Resume from the newest checkpoint that verifies (auto), or from this one
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = "auto", conflicts_with = "fresh")]
    pub resume: Option<PathBuf>,
    /// Start at step 0; the earlier run is kept as previous/ in the output folder
    #[arg(long)]
    pub fresh: bool,
    /// Train a finished or interrupted run for longer than its recipe said
    #[arg(long, conflicts_with = "fresh")]
    pub extend: bool,
    /// Score base and adapter on the test set, before and after (--all does where there is a test set)
    #[arg(long)]
    pub evaluate: bool,
    /// Train only what expert.lock says: refuse if manifest, data, base or code differ
    #[arg(long, conflicts_with_all = ["data", "output", "extend"])]
    pub locked: bool,
    /// Record where the time of each step goes
    #[arg(long)]
    pub profile: bool,
    /// Wait for each checkpoint's copy to the mirror before training continues
    #[arg(long)]
    pub no_background_upload: bool,
    /// Show the plan and stop
    #[arg(long, conflicts_with = "all")]
    pub dry_run: bool,
    /// Train every expert of a folder (default: experts): finished ones are skipped, interrupted ones are resumed, and
    /// those whose manifest, data, base or code changed are trained again
    #[arg(long, help_heading = SHELF, value_name = "DIR", num_args = 0..=1, default_missing_value = "experts", conflicts_with_all = ["expert", "manifest", "data", "output"])]
    pub all: Option<PathBuf>,
    /// Only these experts, with --all: names separated by commas
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
    /// Experts that train at once, with --all (default: one per GPU, or one per CPU core up to what memory allows)
    #[arg(long, help_heading = SHELF, value_name = "N", requires = "all", conflicts_with = "manifest", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Do not score, with --all
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with_all = ["evaluate", "manifest"])]
    pub no_evaluate: bool,
    /// Start a new Python for every expert, with --all, instead of forking it from a process that has everything loaded (Linux)
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with = "manifest")]
    pub separate: bool,
    #[command(flatten)]
    pub supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    if let Some(shelf) = &args.all {
        return queue::run(shelf, args, global, console);
    }
    refuse_expert_as_checkpoint(args)?;
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
    let runner = Runner { supervision: &args.supervision, global, digests: &digests, warm: None };
    let outcome = Trainer { args, runner }.train(&prepared, &mut |notice| board.notify(notice));
    board.finish();
    drop(board);
    let trained = outcome.map_err(|failure| resumable(failure, args))?;
    if let Trained::Before(_) = &trained {
        let output = &prepared.resolved.plan.machine.paths.output;
        console.say(&format!("this recipe is finished in {output}; --fresh trains it again"));
    }
    let result = trained.result()?;
    if console.json {
        console.document(trained.document());
    } else {
        show(&result, console);
    }
    lead_on(&prepared.resolved.plan, &result, args, console);
    Ok(Exit::Done)
}

/// Where to read about the run, and what to do with it.
fn lead_on(plan: &Plan, result: &TrainResult, args: &Args, console: &Console) {
    let report = Path::new(&plan.machine.paths.output).join(report::PAGE);
    if report.is_file() {
        console.say(&format!("report: {}", portable(&report)));
    }
    let unscored = train::has_test_set(plan) && result.evaluation.is_none();
    let next = if unscored {
        next::command("evaluate", &args.options, "")
    } else {
        next::command("generate", &args.options, "--prompt '...'")
    };
    console.say(&format!("next: {next}"));
}

/// An interrupted training says how to resume it.
fn resumable(failure: Failure, args: &Args) -> Failure {
    if failure.hint.is_some() || !matches!(failure.exit, Exit::Interrupted | Exit::Terminated) {
        return failure;
    }
    let again = next::command("train", &args.options, "--resume");
    failure.hint(format!("to continue: {again}"))
}

/// `--resume EXPERT` reads as if the expert were the checkpoint.
fn refuse_expert_as_checkpoint(args: &Args) -> Result<(), Failure> {
    match &args.resume {
        Some(path) if path.join(MANIFEST).is_file() || path.ends_with(MANIFEST) => {
            let path = next::quoted(&portable(path));
            Err(Failure::bad_input(
                "no-checkpoint",
                format!("--resume names {path}, which is an expert and not a checkpoint"),
            )
            .hint(format!("expert-cli train {path} --resume")))
        }
        _ => Ok(()),
    }
}

/// Until the content of the output folder is known.
pub const ASKED: Request =
    Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };

fn show(result: &TrainResult, console: &Console) {
    console.data(&summary::trained(result));
    if let Some(evaluation) = &result.evaluation {
        console.data(&summary::evaluated(evaluation));
    }
}

/// The worker's working directory may be another.
pub fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
