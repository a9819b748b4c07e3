//! Training stops early by the metric that also chooses the best checkpoint.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let patience = &config.early_stopping_patience;
    if patience.is_some()
        && !*config.load_best_model_at_end
        && config.load_best_model_at_end.origin <= patience.origin
    {
        let message = "`early_stopping_patience` has no effect while `load_best_model_at_end` is false: training runs to its end";
        let problem = Problem::new(Code::EarlyStoppingUnused, patience.span, message);
        problems.push(problem.hint("set `load_best_model_at_end` to true"));
    }
}
