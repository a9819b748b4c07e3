//! The best checkpoint must be measured. It is saved at its evaluation, whatever the settings of saving say.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::Strategy;
use crate::plan::{ACCURACY, EVAL_LOSS};

const METRICS: [&str; 2] = [EVAL_LOSS, ACCURACY];

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    if !*config.load_best_model_at_end {
        return;
    }
    metric(effective, problems);
    if *config.evaluation_strategy == Strategy::No {
        let span = place(&config.load_best_model_at_end, effective);
        let message =
            "`load_best_model_at_end` is true and nothing is evaluated: `evaluation_strategy` is `no`";
        let problem = Problem::new(Code::BestWithoutEvaluation, span, message);
        problems.push(
            problem.hint(
                "set `evaluation_strategy` to `steps` or `epoch`, or `load_best_model_at_end` to false",
            ),
        );
    }
}

fn metric(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let metric = effective.best_metric();
    if !METRICS.contains(&metric) {
        let message = format!("evaluation during training does not measure `{metric}`");
        let problem = Problem::new(Code::UnknownMetric, config.metric_for_best_model.span, message);
        problems.push(problem.hint("use `eval_loss`, or `accuracy` to score answers"));
    } else if config.greater_is_better.is_some_and(|greater| greater == metric.ends_with("loss")) {
        let (way, what) = if metric.ends_with("loss") { ("true", "a loss") } else { ("false", "accuracy") };
        let message =
            format!("`greater_is_better` is {way} for {what}, so the worst checkpoint would be chosen");
        let problem = Problem::new(Code::MetricDirection, config.greater_is_better.span, message);
        problems.push(problem.hint(format!("set it to {}, or leave it out", way == "false")));
    }
    answered_rows(effective, problems);
    not_by_a_judge(effective, problems);
}

/// Every evaluation would cost calls, and one that fails would end the training.
fn not_by_a_judge(effective: &Effective<'_>, problems: &mut Problems) {
    let scorer = &effective.manifest.root.evaluation.scorer;
    let is_judge = scorer.as_ref().is_some_and(|scorer| scorer.chosen().contains(&"judge"));
    if is_judge && effective.best_metric() == ACCURACY {
        let message = "a checkpoint is not chosen by the scores of a `judge`";
        let problem = Problem::new(Code::UnknownMetric, effective.config.metric_for_best_model.span, message);
        problems.push(problem.hint("use `eval_loss`, or another scorer"));
    }
}

/// A split of the training rows exists only as tokens; answers can be scored only for rows of a file.
fn answered_rows(effective: &Effective<'_>, problems: &mut Problems) {
    let dataset = &effective.manifest.root.training.dataset;
    if effective.best_metric() == ACCURACY && dataset.has_validation() && !dataset.has_validation_files() {
        let span = effective.config.metric_for_best_model.span;
        let message =
            "`accuracy` needs a separate file of validation rows, and there is only a `validation_split`";
        let problem = Problem::new(Code::UnknownMetric, span, message);
        problems.push(problem.hint("name a `validation_path`, or use `eval_loss`"));
    }
}
