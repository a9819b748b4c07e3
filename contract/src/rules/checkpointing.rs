//! Two keys set activation checkpointing. Of one layer the more explicit one is used, and the message names it; of two
//! layers the later one is.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{ActivationCheckpointing, Effective, GradientCheckpointing};
use crate::plan::CheckpointingMode;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let Some(activation) = *config.activation_checkpointing else { return };
    let asked = match activation {
        ActivationCheckpointing::None => CheckpointingMode::None,
        ActivationCheckpointing::AttentionOnly => CheckpointingMode::Selective,
        ActivationCheckpointing::Full => CheckpointingMode::Full,
    };
    let gradient = &config.gradient_checkpointing;
    let holds = effective.checkpointing();
    let contradicts = **gradient == GradientCheckpointing::On && holds == CheckpointingMode::None;
    if gradient.is_given()
        && gradient.origin == config.activation_checkpointing.origin
        && (asked != holds || contradicts)
    {
        let message = format!(
            "`activation_checkpointing` is `{activation}` and `gradient_checkpointing` is {}: `{holds}` is used",
            crate::manifest::Decode::show(&gradient.value).unwrap_or_default()
        );
        let problem =
            Problem::new(Code::CheckpointingConflict, config.activation_checkpointing.span, message);
        problems.push(problem.hint("remove one of the two"));
    }
}
