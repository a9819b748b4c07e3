//! Only one warm-up setting is used (a ratio wins over 0 steps), and training continues after the warm-up.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::{ScheduleKind, Warmup};

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let (steps, ratio) = (&config.warmup_steps, &config.warmup_ratio);
    if **steps > 0 && **ratio > 0.0 {
        let message =
            format!("`warmup_steps` is {} and `warmup_ratio` is {}; only one can hold", **steps, **ratio);
        problems.push(Problem::new(Code::WarmupConflict, steps.span, message).hint("set one of them to 0"));
    } else {
        problems.extend(too_long(effective));
    }
    if *config.lr_scheduler == ScheduleKind::Constant && (**steps > 0 || **ratio > 0.0) {
        let span = if **steps > 0 { steps.span } else { ratio.span };
        let problem =
            Problem::new(Code::WarmupUnused, span, "the `constant` schedule has no warm-up; none is done");
        problems.push(problem.hint("use `constant_with_warmup`, or remove the warm-up"));
    }
}

/// Where the number of steps is known; epochs are counted by the worker. Step `n` of a warm-up over `w` steps has `n / w` of
/// the rate, from 0 on; that of `one_cycle` ends with its last step.
fn too_long(effective: &Effective<'_>) -> Option<Problem> {
    let config = &effective.config;
    let total = config.max_steps.0?;
    // A ratio always leaves a step.
    let Warmup::Steps(warm) = effective.warmup() else { return None };
    let schedule = *config.lr_scheduler;
    let is_one_cycle = schedule == ScheduleKind::OneCycle;
    let is_reached = if is_one_cycle { warm <= total } else { warm < total };
    if is_reached || warm == 0 || schedule == ScheduleKind::Constant {
        return None;
    }
    let steps_are_later = config.max_steps.origin > config.warmup_steps.origin;
    let span = if steps_are_later { config.max_steps.span } else { config.warmup_steps.span };
    if total == 1 && !is_one_cycle {
        let message = "`max_steps` is 1, and the first step of a warm-up has a learning rate of 0";
        let problem = Problem::new(Code::WarmupOnly, span, message);
        return Some(problem.hint("train for more steps, or set the warm-up to 0"));
    }
    let message = format!(
        "the warm-up takes {warm} steps and `max_steps` is {total}: `learning_rate` is never reached"
    );
    let problem = Problem::new(Code::WarmupTooLong, span, message);
    Some(problem.hint("warm up over a tenth of the steps: \"warmup_ratio\": 0.1 and \"warmup_steps\": 0"))
}
