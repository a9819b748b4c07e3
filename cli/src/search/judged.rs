//! An expert's plan as a search trains and scores it: answers to validation rows decide, and no test row is read.

use std::path::{Path, PathBuf};

use expert_contract::manifest::model_slug;
use expert_contract::plan::{Duration, Strategy, Warmup};
use expert_contract::resolve::Resolved;

use super::halving::LENGTHS;
use crate::failure::Failure;
use crate::sys::paths::absolute;

pub fn check(own: &Resolved) -> Result<(), Failure> {
    if !own.recipe.data.validation.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input("no-validation", "a search is judged by validation rows, and no file holds any")
        .hint("set training.dataset.validation_path; rows that validation_split holds out are in no file"))
}

/// Beside the expert's run, unless another folder is named.
pub fn folder(own: &Resolved, named: Option<&Path>) -> PathBuf {
    let slug = model_slug(&own.recipe.base.name);
    named.map_or_else(
        || Path::new(&own.machine.paths.expert_dir).join("weights").join(format!("{slug}-search")),
        |named| PathBuf::from(absolute(named)),
    )
}

/// The validation rows in place of the test rows, the length of this rung, and the trial's folder.
pub fn of(mut resolved: Resolved, rows: Option<u64>, rung: usize, output: &Path) -> Resolved {
    let recipe = &mut resolved.recipe;
    recipe.data.test = recipe.data.validation.clone();
    recipe.evaluation.test_cases.clear();
    recipe.evaluation.test_set_size = rows;
    recipe.evaluation.without_base = true;
    if recipe.evaluation.strategy == Strategy::No {
        // The validation loss decides between equal scores: measured once, after the last step.
        recipe.evaluation.strategy = Strategy::Steps;
        recipe.evaluation.steps = None;
    }
    let length = LENGTHS[rung];
    recipe.schedule.duration = match recipe.schedule.duration {
        Duration::Epochs(epochs) => Duration::Epochs(epochs * length),
        Duration::Steps(steps) => Duration::Steps(part(steps, length).max(1)),
    };
    if let Warmup::Steps(steps) = recipe.schedule.warmup {
        recipe.schedule.warmup = Warmup::Steps(part(steps, length));
    }
    let sources: Vec<String> =
        recipe.data.train.iter().chain(&recipe.data.validation).map(|source| source.name.clone()).collect();
    resolved.test_sets.clear();
    let machine = &mut resolved.machine;
    machine.paths.data.retain(|name, _| sources.contains(name));
    machine.paths.output = output.to_string_lossy().into_owned();
    // Hundreds of trials: each keeps one checkpoint, and no copies elsewhere.
    machine.save_total_limit = Some(1);
    machine.mirror = None;
    machine.logging.trackers.clear();
    resolved
}

fn part(steps: u64, length: f64) -> u64 {
    (steps as f64 * length).round() as u64
}
