//! Advice about adapters that common programs do not load. Merged weights are the way out, except for soft prompts.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem, listed};
use crate::manifest::Effective;
use crate::serving;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let (kind, rank) = (*config.adapter_type, *config.rank);
    let refusing = serving::refusing(kind, rank);
    if refusing.is_empty() {
        return;
    }
    let by_rank = serving::refusing(kind, None).is_empty();
    let what = match rank {
        Some(rank) if by_rank => format!("an adapter of rank {rank}"),
        _ => format!("an adapter of the kind `{kind}`"),
    };
    let message = format!("{} cannot serve {what}", listed(&refusing));
    let hint = if kind.is_soft_prompt() {
        "train `lora` to serve it there: a soft prompt cannot be merged either"
    } else if by_rank {
        "choose a lower rank, or serve merged weights (`export --merge`)"
    } else {
        "train `lora` or `rslora`, or serve merged weights (`export --merge`)"
    };
    let span = if by_rank { config.rank.span } else { place(&config.adapter_type, effective) };
    problems.push(Problem::new(Code::NotServable, span, message).hint(hint));
}
