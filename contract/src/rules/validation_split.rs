//! Validation rows come from files where one is named, else from the training rows.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, listed};
use crate::manifest::{Dataset, Manifest};

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    if dataset.validation_split.is_none() || !dataset.has_validation_files() {
        return;
    }
    let span = dataset.validation_split.span;
    let without = without_rows(dataset);
    problems.push(if without.is_empty() {
        let message = "`validation_split` has no effect: `validation_path` names the validation rows";
        Problem::new(Code::ValidationTwice, span, message).hint("remove one of the two")
    } else {
        let (tasks, have) = if without.len() == 1 { ("task", "has") } else { ("tasks", "have") };
        let message = format!(
            "`validation_split` has no effect beside another task's `validation_path`: {tasks} {} {have} no validation rows",
            listed(&without.iter().map(String::as_str).collect::<Vec<_>>())
        );
        let hint = "give every task a `validation_path`, or none of them";
        Problem::new(Code::ValidationOfSomeTasks, span, message).hint(hint)
    });
}

/// Tasks that are used and have no validation rows.
fn without_rows(dataset: &Dataset) -> Vec<String> {
    if dataset.validation_path.is_some() {
        return Vec::new();
    }
    let without = dataset.used_tasks().filter(|(.., task)| task.validation_path.is_none());
    without.map(|(name, ..)| name).collect()
}
