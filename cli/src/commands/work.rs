//! `work PLAN`: runs a plan that was written before, here or on another machine.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::{CONTRACT_VERSION, Inputs, Plan, Request, Resume};
use expert_contract::results::PlanRecord;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Global, Supervision};
use crate::failure::Failure;
use crate::lock::{self, Kind};
use crate::plan::refuse_links_out;
use crate::run::RunFolder;
use crate::sys::digests::Digests;
use crate::train::{Asked, Runner};
use crate::ui::Console;
use crate::worker::{Board, Home, Notice, carry_out};

#[derive(clap::Args)]
pub struct Args {
    /// A run's plan.json, or what `train --dry-run --json` printed
    plan: PathBuf,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let plan = read_plan(&args.plan)?;
    let paths = &plan.machine.paths;
    let named = !Path::new(&paths.output).starts_with(&paths.expert_dir);
    refuse_links_out(paths, named, &[])?;
    let result = if matches!(plan.request, Request::Train { .. }) {
        train(plan, args, global, console)?
    } else {
        carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)?
    };
    console.document(&result);
    Ok(Exit::Done)
}

/// Trains as `train` does, with the plan's request in place of flags; writes no lock, no measured speed and no scores.
fn train(plan: Plan, args: &Args, global: &Global, console: &Console) -> Result<Value, Failure> {
    let digests = Digests::open(Path::new(&plan.machine.paths.home));
    let runner = Runner { supervision: &args.supervision, global, digests: &digests, warm: None, rank: None };
    let output = plan.machine.paths.output.clone();
    let mut board = Board::new(console);
    let mut notify = |notice: Notice| board.notify(notice);
    let trained = (|| {
        let base = runner.fetch(&plan.recipe, &plan.machine, &mut notify)?;
        let machine = plan.machine.with_base(base);
        let inputs = runner.inputs(&plan.recipe, &machine);
        if let Some(remark) = compare(plan.inputs.as_ref(), &inputs)? {
            notify(Notice::Remark(&remark));
        }
        let request = plan.request.clone();
        let folder = RunFolder::claim(Path::new(&output))?;
        let plan = Plan { machine, ..plan };
        let trained = runner.train(&folder, plan, &inputs, asked(&request), None, &mut notify);
        trained.map(|(trained, _)| trained).map_err(with_flags_of_train)
    })();
    board.finish();
    let trained = trained?;
    if trained.was_finished_before() {
        console.say(&format!("this recipe is finished in {output}"));
    }
    Ok(trained.document().clone())
}

fn asked(request: &Request) -> Asked<'_> {
    let Request::Train { resume, extend, .. } = request else { return Asked::default() };
    let checkpoint = match resume {
        Resume::Checkpoint { path } => Some(Path::new(path)),
        Resume::Nothing | Resume::Newest => None,
    };
    Asked { resume: *resume != Resume::Nothing || *extend, checkpoint, extend: *extend, ..Asked::default() }
}

/// What the plan was written for is what is here now; other code is a remark. A plan may be written where the base and
/// Hub datasets are not.
fn compare(written: Option<&Inputs>, now: &Inputs) -> Result<Option<String>, Failure> {
    let Some(written) = written.cloned() else { return Ok(None) };
    let written = lock::differences(&lock::inputs::completed(written, now), now);
    let (code, material): (Vec<_>, Vec<_>) = written.into_iter().partition(|it| it.kind == Kind::Code);
    if !material.is_empty() {
        let message = format!("inputs changed since the plan was written:{}", lock::listed(&material));
        return Err(Failure::bad_input("inputs-changed", message)
            .hint("restore what changed, or write the plan again: train --dry-run --json prints one"));
    }
    let remark = || format!("the plan was written by another version of the program:{}", lock::listed(&code));
    Ok((!code.is_empty()).then(remark))
}

/// This command has no flags for what the folder holds.
fn with_flags_of_train(failure: Failure) -> Failure {
    match failure.code.as_ref() {
        "output-used" | "recipe-changed" | "inputs-changed" | "inputs-unknown" | "no-checkpoint" => failure.hint(
            "`expert-cli train` resumes, extends or replaces the run; a plan for another folder leaves it as it is",
        ),
        _ => failure,
    }
}

fn read_plan(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read(path).map_err(|error| Failure::reading("read the plan", path, &error))?;
    let mut document: Value = serde_json::from_slice(&text).map_err(|error| not_a_plan(path, &error))?;
    // What `train --dry-run --json` prints has other things beside the plan.
    if let Some(plan) = document.get_mut("plan") {
        document = plan.take();
    }
    let found: PlanRecord = PlanRecord::deserialize(&document).map_err(|error| not_a_plan(path, &error))?;
    let version = found.contract;
    if version != Some(CONTRACT_VERSION) {
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
    let plan: Plan = serde_json::from_value(document).map_err(|error| not_a_plan(path, &error))?;
    let evaluation = plan.evaluation_digest.as_ref().map(|it| (plan.recipe.evaluation_digest(), it));
    let digests = std::iter::once((plan.recipe.digest(), &plan.recipe_digest)).chain(evaluation);
    if let Some((digest, planned)) = digests.into_iter().find(|(digest, planned)| digest != *planned) {
        let message = format!(
            "the recipe in {} was edited: its digest is {digest}, and the plan says {planned}",
            path.display()
        );
        return Err(Failure::bad_input("bad-plan", message).hint(
            "change the manifest or use --set, and write the plan again: train --dry-run --json prints one",
        ));
    }
    Ok(plan)
}

fn not_a_plan(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::bad_input("bad-plan", format!("{} is not a plan: {error}", path.display()))
        .hint("plans are written by expert-cli (train --dry-run --json prints one)")
}
