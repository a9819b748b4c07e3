//! `train`: one expert, or all of a shelf; pretokenizes what is not yet.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{Plan, Request, Resume};
use serde_json::Value;

use super::plan;
use crate::adapter;
use crate::failure::Failure;
use crate::launch::{Home, Supervision, carry_out_with};
use crate::options::PlanOptions;
use crate::output::{RunFolder, State};
use crate::prepare::{Prepared, prepare};
use crate::queue;
use crate::render::{Board, Console, summary};
use crate::usage::Global;
use crate::worker::Notice;

#[derive(clap::Args, Clone)]
pub struct Args {
    #[command(flatten)]
    pub options: PlanOptions,
    /// Go on from the newest checkpoint that verifies (auto), or from this one
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = "auto", conflicts_with = "fresh")]
    pub resume: Option<PathBuf>,
    /// Remove what an earlier run left in the output folder, and start at step 0
    #[arg(long)]
    pub fresh: bool,
    /// Train a finished or interrupted run for longer than its recipe said
    #[arg(long, conflicts_with = "fresh")]
    pub extend: bool,
    /// Score base and adapter on the test set, before and after
    #[arg(long)]
    pub evaluate: bool,
    /// Record where the time goes, step by step
    #[arg(long)]
    pub profile: bool,
    /// Show the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Train every expert of a folder (experts); finished ones are passed over, interrupted ones go on
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "experts", conflicts_with_all = ["manifest", "data", "output"])]
    pub all: Option<PathBuf>,
    /// Experts that train at once, with --all
    #[arg(long, value_name = "N", default_value_t = 1, requires = "all", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    #[command(flatten)]
    pub supervision: Supervision,
}

/// How one expert's training ended.
pub enum Trained {
    Now(Value),
    /// The very recipe was finished before.
    Before(Value),
}

impl Trained {
    pub fn result(&self) -> &Value {
        match self {
            Self::Now(result) | Self::Before(result) => result,
        }
    }

    fn add(&mut self, key: &str, value: Value) {
        let (Self::Now(result) | Self::Before(result)) = self;
        if let Some(result) = result.as_object_mut() {
            result.insert(key.to_owned(), value);
        }
    }
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    if let Some(shelf) = &args.all {
        return queue::run(shelf, args, global, console);
    }
    let prepared = prepare(&args.options, args.request(), console)?;
    if args.dry_run {
        plan::show(&prepared, false, console);
        return Ok(Exit::Done);
    }
    let mut board = Board::new(console);
    let trained = train(&prepared, args, global, &mut |notice| board.notify(notice));
    board.finish();
    drop(board);
    let trained = trained?;
    if let Trained::Before(_) = &trained {
        let output = &prepared.resolved.plan.machine.paths.output;
        console.say(&format!("this recipe is finished in {output}; --fresh trains it again"));
    }
    show(trained.result(), console);
    Ok(Exit::Done)
}

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

/// Trains the expert, unless the output folder says that there is nothing to do or that it must not be touched.
pub fn train(
    prepared: &Prepared,
    args: &Args,
    global: &Global,
    notify: &mut dyn FnMut(Notice),
) -> Result<Trained, Failure> {
    let plan = &prepared.resolved.plan;
    if args.evaluate {
        refuse_without_test_set(plan)?;
    }
    let folder = RunFolder::claim(Path::new(&plan.machine.paths.output))?;
    let mut trained = match settle(&folder, plan, args)? {
        Some(result) => {
            drop(folder);
            Trained::Before(result)
        }
        None => {
            carry_out_with(plan, Home::Run(folder), &args.supervision, global, notify).map(Trained::Now)?
        }
    };
    // A run that trained now has scored itself; one that was finished before has not.
    if args.evaluate && !trained.result()["evaluation"].is_object() {
        trained.add("evaluation", score(plan, args, global, notify)?);
    }
    Ok(trained)
}

/// Told before hours of training, not after.
fn refuse_without_test_set(plan: &Plan) -> Result<(), Failure> {
    if plan.recipe.data.test.is_empty() && plan.recipe.evaluation.test_cases.is_empty() {
        return Err(Failure::bad_input(
            "no-test-set",
            "there is nothing to score on: the manifest names no test set",
        )
        .hint("set training.dataset.test_path or evaluation.test_cases, or leave --evaluate out"));
    }
    Ok(())
}

/// Base and adapter on the test set; the answers themselves stay in the run's evaluation.json.
fn score(
    plan: &Plan,
    args: &Args,
    global: &Global,
    notify: &mut dyn FnMut(Notice),
) -> Result<Value, Failure> {
    let adapter = adapter::of_run(plan).ok_or_else(|| adapter::not_trained(plan))?;
    let plan = adapter::asking(plan.clone(), Request::Evaluate { adapter: Some(adapter) });
    let mut result = carry_out_with(&plan, Home::of(&plan)?, &args.supervision, global, notify)?;
    if let Some(report) = result.as_object_mut() {
        report.remove("failures");
        report.remove("gains");
    }
    Ok(result)
}

/// The rules of a used output folder. Some where the very recipe is finished in it.
fn settle(folder: &RunFolder, plan: &Plan, args: &Args) -> Result<Option<Value>, Failure> {
    if args.fresh {
        folder.clear()?;
        return Ok(None);
    }
    match folder.state(&plan.recipe_digest) {
        State::Finished(result) => Ok(Some(result)),
        State::Used if !args.resumes() => Err(used(folder.path())),
        State::Used | State::Unused => Ok(None),
    }
}

fn used(path: &Path) -> Failure {
    Failure::bad_input("output-used", format!("{} holds an earlier run", path.display()))
        .hint("--resume goes on with it, --fresh removes it, -o names another folder")
}

impl Args {
    fn resumes(&self) -> bool {
        self.resume.is_some() || self.extend
    }

    pub fn request(&self) -> Request {
        let resume = match &self.resume {
            Some(path) if path != Path::new("auto") => Resume::Checkpoint { path: absolute(path) },
            Some(_) => Resume::Newest,
            None if self.extend => Resume::Newest,
            None => Resume::Nothing,
        };
        Request::Train { resume, extend: self.extend, evaluate: self.evaluate, profile: self.profile }
    }
}

/// The worker's working directory may be another.
pub fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
