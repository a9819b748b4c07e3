//! The LoRA family has a rank and an alpha; ia3 and prompt have neither.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let kind = *config.adapter_type;
    let given = [
        ("rank", config.rank.is_some(), config.rank.is_broken(), config.rank.span),
        ("alpha", config.alpha.is_some(), config.alpha.is_broken(), config.alpha.span),
    ];
    for (name, is_given, is_broken, span) in given {
        if kind.has_rank() && !is_given && !is_broken {
            let message = format!("the adapter type `{kind}` needs `{name}`");
            let problem = Problem::new(Code::RankMissing, place(&config.adapter_type, effective), message);
            problems.push(problem.hint("for example \"rank\": 16 and \"alpha\": 32 in `training.config`"));
        }
        if !kind.has_rank() && is_given {
            let message = format!("the adapter type `{kind}` has no `{name}`");
            problems.push(
                Problem::new(Code::RankUnused, span, message)
                    .hint(format!("remove `{name}`, or set it to null")),
            );
        }
    }
    if !kind.has_rank() && *config.dropout > 0.0 {
        let message = format!("`dropout` has no effect: the adapter type `{kind}` has none");
        problems.push(Problem::new(Code::NoEffect, config.dropout.span, message).hint("remove it"));
    }
}
