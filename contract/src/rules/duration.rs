//! Steps win over epochs where both are given in one place; of two layers the later one holds, which is intended.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let Some(steps) = config.max_steps.0 else { return };
    if config.epochs.is_given() && config.epochs.origin == config.max_steps.origin {
        let message =
            format!("`max_steps` is {steps}, so `epochs` has no effect: training ends after {steps} steps");
        let problem = Problem::new(Code::StepsOverEpochs, config.epochs.span, message);
        problems.push(problem.hint("remove one of the two; `\"max_steps\": null` leaves it to `epochs`"));
    }
}
