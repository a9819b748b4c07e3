//! Validation rows come from a file where one is named, else from the training rows.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    if dataset.validation_split.is_some() && dataset.validation_path.is_some() {
        let message = "`validation_split` has no effect: `validation_path` names the validation rows";
        let problem = Problem::new(Code::ValidationTwice, dataset.validation_split.span, message);
        problems.push(problem.hint("remove one of the two"));
    }
}
