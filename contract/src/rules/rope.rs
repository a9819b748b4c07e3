//! Each kind of rope scaling has required numbers.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Manifest, RopeScaling, RopeWord};
use crate::plan::RopeKind;
use crate::source::Span;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for base in &manifest.bases {
        if let Some(rope) = &*base.rope_scaling {
            judge(rope, base.rope_scaling.span, problems);
        }
    }
}

fn judge(rope: &RopeScaling, span: Span, problems: &mut Problems) {
    if *rope.kind == RopeWord::Default {
        return;
    }
    if rope.is_word() {
        let message = "the kind alone gives no length: the base's own rope setting is used";
        let problem = Problem::new(Code::RopeUnchanged, span, message);
        problems.push(problem.hint("write an object with `type` and `factor`, or remove the key"));
        return;
    }
    for (key, is_there) in needed(rope) {
        if !is_there {
            let message = format!("{} rope scaling needs `{key}`", shown(*rope.kind));
            let problem = Problem::new(Code::RopeScaling, rope.kind.span, message);
            problems.push(problem.hint(format!("add `{key}`, or choose another type")));
        }
    }
}

fn needed(rope: &RopeScaling) -> Vec<(&'static str, bool)> {
    // Two lengths imply the factor between them.
    let lengths = rope.max_position_embeddings.is_some() && rope.original_max_position_embeddings.is_some();
    let factor = ("factor", rope.factor.is_some() || lengths);
    match *rope.kind {
        RopeWord::Kind(RopeKind::Llama3) => vec![
            factor,
            ("low_freq_factor", rope.low_freq_factor.is_some()),
            ("high_freq_factor", rope.high_freq_factor.is_some()),
            ("original_max_position_embeddings", rope.original_max_position_embeddings.is_some()),
        ],
        RopeWord::Kind(RopeKind::Longrope) => {
            vec![("short_factor", rope.short_factor.is_some()), ("long_factor", rope.long_factor.is_some())]
        }
        RopeWord::Default => Vec::new(),
        _ => vec![factor],
    }
}

fn shown(kind: RopeWord) -> &'static str {
    match kind {
        RopeWord::Default => "default",
        RopeWord::NtkByParts => "ntk-by-parts",
        RopeWord::Kind(kind) => kind.as_str(),
    }
}
