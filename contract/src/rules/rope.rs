//! Each kind of rope scaling has required numbers, which must not contradict each other.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, Severity};
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
            problems.push(problem.hint(match key {
                "factor" => FACTOR_HINT.to_owned(),
                _ => format!("add `{key}`, or choose another type"),
            }));
        }
    }
    let found = match *rope.kind {
        RopeWord::Kind(RopeKind::Llama3) => [band(rope), None],
        RopeWord::Kind(RopeKind::Yarn) | RopeWord::NtkByParts => [rotations(rope), growth(rope)],
        RopeWord::Kind(RopeKind::Longrope) => [lists(rope), growth(rope)],
        RopeWord::Kind(RopeKind::Linear) => [growth(rope), None],
        RopeWord::Kind(RopeKind::Dynamic) | RopeWord::Default => [None, None],
    };
    problems.extend(found.into_iter().flatten());
}

const FACTOR_HINT: &str = "add `factor`, or `max_position_embeddings` and `original_max_position_embeddings`, from \
                           which it follows";

fn contradiction(span: Span, message: String, hint: &str) -> Problem {
    Problem::new(Code::RopeScaling, span, message).hint(hint)
}

fn band(rope: &RopeScaling) -> Option<Problem> {
    let (low, high) = (rope.low_freq_factor.value?, rope.high_freq_factor.value?);
    let message = format!("`low_freq_factor` {low} is not below `high_freq_factor` {high}: no band is left");
    let hint = "set `high_freq_factor` to more than `low_freq_factor` (Llama 3.1 has 4 and 1)";
    (low >= high).then(|| contradiction(rope.low_freq_factor.span, message, hint))
}

/// Equal numbers are a step between what is scaled and what is not.
fn rotations(rope: &RopeScaling) -> Option<Problem> {
    let (slow, fast) = (rope.beta_slow.value?, rope.beta_fast.value?);
    let message = format!(
        "`beta_slow` {slow} is more than `beta_fast` {fast}: the dimensions to be left alone would be scaled, and the \
         others not"
    );
    let hint = "set `beta_fast` to more than `beta_slow` (32 and 1 are usual)";
    (slow > fast).then(|| contradiction(rope.beta_slow.span, message, hint))
}

/// It trains, and other programs take the length that results as it is. A factor may be rounded.
const ROUNDED: f64 = 0.01;

fn growth(rope: &RopeScaling) -> Option<Problem> {
    let factor = rope.factor.value?;
    let (long, short) = (rope.max_position_embeddings.value?, rope.original_max_position_embeddings.value?);
    let grown = long as f64 / short as f64;
    let message = format!(
        "positions are scaled by `factor` {factor}, though `max_position_embeddings` {long} is {} times \
         `original_max_position_embeddings` {short}",
        (grown * 100.0).round() / 100.0
    );
    let hint = "remove `factor`, which follows from the two lengths, or correct one of the three";
    ((factor - grown).abs() > ROUNDED * grown)
        .then(|| contradiction(rope.factor.span, message, hint).severity(Severity::Warning))
}

fn lists(rope: &RopeScaling) -> Option<Problem> {
    let (short, long) = (rope.short_factor.as_ref()?.len(), rope.long_factor.as_ref()?.len());
    let message = format!("`short_factor` has {short} numbers, and `long_factor` has {long}");
    let hint = "give both one number for each pair of dimensions that the base rotates";
    (short != long).then(|| contradiction(rope.long_factor.span, message, hint))
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
            vec![
                factor,
                ("short_factor", rope.short_factor.is_some()),
                ("long_factor", rope.long_factor.is_some()),
            ]
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
