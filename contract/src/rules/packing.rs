//! Settings that packing excludes, and settings that exclude packing.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    if *config.packing && config.adapter_type.is_soft_prompt() {
        let message =
            "prompt learning puts its tokens before each document, so rows are not packed: `packing` is off";
        problems.push(
            Problem::new(Code::PromptPacking, config.packing.span, message).hint("set `packing` to false"),
        );
    }
    if *config.share_prefixes && !effective.packing() {
        let message = "`share_prefixes` has no effect: only packed documents share a beginning";
        let problem = Problem::new(Code::SharingWithoutPacking, config.share_prefixes.span, message);
        // Prompt learning does not pack, whatever `packing` says.
        let hint = if config.adapter_type.is_soft_prompt() {
            "remove it"
        } else {
            "set `packing` to true, or remove it"
        };
        problems.push(problem.hint(hint));
    }
    if effective.packing()
        && *config.group_by_length
        && config.group_by_length.origin >= config.packing.origin
    {
        let message = "`group_by_length` has no effect: packed rows are all of one length";
        let problem = Problem::new(Code::PackingOverGrouping, config.group_by_length.span, message);
        problems.push(problem.hint("remove it, or set `packing` to false"));
    }
}
