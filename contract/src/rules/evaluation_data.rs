//! Evaluation needs data, and validation data needs evaluation.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::Strategy;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let dataset = &effective.manifest.root.training.dataset;
    let evaluates = *config.evaluation_strategy != Strategy::No;
    if evaluates && !dataset.has_validation() {
        let last = if *config.load_best_model_at_end {
            ", and the last checkpoint becomes the final adapter"
        } else {
            ""
        };
        let message = format!("there is no validation data, so nothing is evaluated while training{last}");
        let problem = Problem::new(Code::EvaluationWithoutData, config.evaluation_strategy.span, message);
        problems.push(problem.hint(
            "give `training.dataset` a `validation_path` or a `validation_split`, or set this to `no`",
        ));
    }
    if !evaluates && !config.evaluation_strategy.is_given() && dataset.has_validation() {
        let span = if dataset.validation_split.is_some() {
            dataset.validation_split.key
        } else {
            dataset.validation_path.key
        };
        let message =
            "the validation data is not used while training: `evaluation_strategy` is `no` by default";
        let problem = Problem::new(Code::SwitchedOff, span, message);
        problems.push(problem.hint("add \"evaluation_strategy\": \"steps\" to `training.config`"));
    }
}
