//! A scorer is one of the worker's own, or one that an installed package offers.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, did_you_mean, one_of};
use crate::manifest::Manifest;

/// As `expert_worker.evaluate.scorers` has them.
pub const BUILT_IN: &[&str] = &["sql", "json", "cypher", "typescript", "exact", "regex"];

const HOW_TO_CHECK: &str = "the worker looks it up when scoring starts; to see what is installed there, run with its interpreter: \
     python -c \"from importlib.metadata import entry_points as e; print(*e(group='expert_worker.scorers'))\"";

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let scorer = &manifest.root.evaluation.scorer;
    let Some(name) = scorer.as_deref().filter(|name| !BUILT_IN.contains(name)) else { return };
    if is_installed_name(name) {
        let message =
            format!("`{name}` is an installed scorer, which cannot be checked before the worker starts");
        problems.push(Problem::new(Code::ScorerInstalled, scorer.span, message).hint(HOW_TO_CHECK));
        return;
    }
    let message = format!("there is no scorer `{name}`");
    let offered =
        || format!("{}; a scorer that a package offers is written `package:name`", one_of(name, BUILT_IN));
    let hint = did_you_mean(name, BUILT_IN.iter().copied()).unwrap_or_else(offered);
    problems.push(Problem::new(Code::UnknownScorer, scorer.span, message).hint(hint));
}

/// `package:name`, each as Python's packaging has them.
fn is_installed_name(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.split_once(':').is_some_and(|(package, name)| is_name(package) && is_name(name))
}
