//! Only one warm-up setting is used; a ratio wins over 0 steps.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::ScheduleKind;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let (steps, ratio) = (&config.warmup_steps, &config.warmup_ratio);
    if **steps > 0 && **ratio > 0.0 {
        let message =
            format!("`warmup_steps` is {} and `warmup_ratio` is {}; only one can hold", **steps, **ratio);
        let later = if ratio.origin > steps.origin { ratio.span } else { steps.span };
        problems.push(Problem::new(Code::WarmupConflict, later, message).hint("set one of them to 0"));
    }
    if *config.lr_scheduler == ScheduleKind::Constant && (**steps > 0 || **ratio > 0.0) {
        let span = if **steps > 0 { steps.span } else { ratio.span };
        let problem =
            Problem::new(Code::WarmupUnused, span, "the `constant` schedule has no warm-up; none is done");
        problems.push(problem.hint("use `constant_with_warmup`, or remove the warm-up"));
    }
}
