//! `evaluate`: scores base and adapter on the test set.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::Set;
use expert_contract::plan::{OtherRows, Request, Samples};

use crate::args::{Global, PlanOptions, Supervision, positive, whole};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, against, prepare};
use crate::run::{adapter, read_evaluation};
use crate::sys::digests::Digests;
use crate::sys::host;
use crate::train::lock_score;
use crate::ui::{Console, summary};
use crate::worker::{self, Home, carry_out};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// Test rows instead of the manifest's; the adapter's card keeps its scores
    #[arg(long, short, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Score at most this many rows, drawn from all parts of the test set; the adapter's card keeps its scores
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    rows: Option<u64>,
    /// The adapter's folder (default: that of the expert's run)
    #[arg(long, value_name = "DIR", conflicts_with = "base_only")]
    adapter: Option<PathBuf>,
    /// Score the base alone
    #[arg(long)]
    base_only: bool,
    /// Also sample N answers to each row: how often one of them is right, and what a vote among them scores
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=256))]
    samples: Option<u32>,
    /// Temperature of --samples (default: the manifest's, or 0.8 where that is 0)
    #[arg(long, value_name = "T", requires = "samples", value_parser = temperature)]
    temperature: Option<f64>,
    /// Also score a base of the manifest, a Hub id, a model's folder, or another adapter of this base, on the same rows
    #[arg(long, value_name = "PATH|BASE")]
    against: Option<String>,
    #[command(flatten)]
    supervision: Supervision,
}

/// Of samples, where the manifest's answers are greedy.
const TEMPERATURE: f64 = 0.8;

fn temperature(text: &str) -> Result<f64, String> {
    positive(text, "temperature")
}

/// Settings that scores depend on.
const OF_SCORES: [&str; 3] = ["evaluation", "training.decoding", "training.dataset"];
/// Of a base, what prompts and answers depend on.
const OF_BASE: [&str; 6] = [
    "prompt_template",
    "template_source",
    "template_path",
    "chat_template_kwargs",
    "quantization",
    "rope_scaling",
];

fn is_of_scores(set: &Set) -> bool {
    let of_base =
        |key| ["base_models[]", "base_model"].iter().any(|base| set.reaches(&format!("{base}.{key}")));
    OF_SCORES.iter().any(|path| set.reaches(path)) || OF_BASE.into_iter().any(of_base)
}

/// What is scored, and how, where that is not as the manifest has it, which limits the rows to `size`. The worker knows whether
/// the run was trained with the same settings, and whether a limit leaves rows out.
fn other_rows(args: &Args, size: Option<u64>) -> Option<OtherRows> {
    if args.data.is_some() {
        return Some(OtherRows::File);
    }
    if args.options.set.iter().any(is_of_scores) {
        return Some(OtherRows::Settings);
    }
    let is_more = |rows| size.is_some_and(|size| rows > size);
    args.rows.map(|rows| if is_more(rows) { OtherRows::Settings } else { OtherRows::Few })
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let options = PlanOptions { test: args.data.clone(), ..args.options.clone() };
    let resolved = prepare(&options, Reads::TestData, console)?.resolved;
    let paths = &resolved.machine.paths;
    let adapter = match &args.adapter {
        Some(folder) => Some(adapter::named(folder)?),
        None if args.base_only => None,
        None => Some(adapter::of_run(paths).ok_or_else(|| {
            let otherwise = "name an adapter with --adapter, or use --base-only";
            next::refuse_untrained(Path::new(&paths.output), &args.options, otherwise)
        })?),
    };
    let decided = Some(resolved.recipe.decoding.temperature).filter(|it| *it > 0.0).unwrap_or(TEMPERATURE);
    let temperature = args.temperature.unwrap_or(decided);
    let samples = args.samples.map(|per_row| Samples { per_row, temperature });
    let against =
        args.against.as_deref().map(|named| against(named, &args.options, &resolved)).transpose()?;
    let other_rows = other_rows(args, resolved.recipe.evaluation.test_set_size);
    let own = resolved.plan(Request::Evaluate { adapter, samples, against, other_rows });
    // Its digest stays that of the manifest's own rows: scores of fewer are marked, and others are of these rows.
    let mut plan = own.clone();
    plan.recipe.evaluation.test_set_size = args.rows.or(own.recipe.evaluation.test_set_size);
    let digests = Digests::open(&host::home());
    let python = global.python.as_deref();
    let result =
        carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console).inspect_err(|_| {
            // Scores that are left although the model to compare with failed.
            if let Some(left) = read_evaluation(Path::new(&plan.machine.paths.output)) {
                let _ = lock_score(&own, python, &left, &digests);
            }
        })?;
    let scores = worker::result(&result)?;
    let locked = lock_score(&own, python, &scores, &digests);
    if !console.json {
        console.data(&summary::evaluated(&scores));
    }
    locked.map_err(|failure| failure.with_result(result.clone()))?;
    if console.json {
        console.document(&result);
    }
    let next = next::ask(&args.options, args.adapter.as_deref());
    next::lead_on(Path::new(&plan.machine.paths.output), &next, console);
    Ok(Exit::Done)
}
