//! A row is read by the names that are known; a mapping to any other name has no effect.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, one_of};
use crate::manifest::Manifest;
use crate::source::Span;

/// The names that rows are read by. `tests/field_names.rs` compares them with the reader's.
pub const FIELDS: [&str; 21] = [
    "prompt",
    "completion",
    "messages",
    "conversations",
    "system",
    "system_prompt",
    "tools",
    "history",
    "text",
    "instruction",
    "input",
    "context",
    "question",
    "query",
    "problem",
    "output",
    "response",
    "answer",
    "solution",
    "target",
    "label",
];
/// Of these, those that a row need not have.
pub const OPTIONAL_FIELDS: [&str; 6] = ["input", "context", "system", "system_prompt", "tools", "history"];

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let mapping = &manifest.root.training.dataset.field_mapping;
    for name in mapping.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let message = format!("no row is read by a field `{name}`");
        let span = key_span(manifest, name).unwrap_or(mapping.span);
        problems.push(Problem::new(Code::UnknownField, span, message).hint(one_of(name, &FIELDS)));
    }
}

fn key_span(manifest: &Manifest, name: &str) -> Option<Span> {
    let mut node = manifest.document.root.as_ref()?;
    for key in ["training", "dataset", "field_mapping"] {
        node = node.as_object()?.get(key)?;
    }
    Some(node.as_object()?.member(name)?.key_span)
}
