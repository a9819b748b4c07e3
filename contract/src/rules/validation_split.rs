//! Validation rows come from a file or from the training rows, not from both.

use super::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    if dataset.validation_split.is_some() && dataset.validation_path.is_some() {
        let message = "`validation_split` and `validation_path` are both given";
        let problem = Problem::new(Code::ValidationTwice, dataset.validation_split.span, message);
        problems.push(problem.hint("remove `validation_split` to use the file"));
    }
}
