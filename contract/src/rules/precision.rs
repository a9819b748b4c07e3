//! One precision computes.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    if *config.fp16 && *config.bf16 == Some(true) {
        let problem =
            Problem::new(Code::PrecisionConflict, config.bf16.span, "`fp16` and `bf16` are both true");
        problems
            .push(problem.hint("set one of them to false; bf16 is the safer one where the device has it"));
    }
}
