//! One field holds the text.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    let mapped = dataset.field_mapping.get("text");
    if let (Some(own), Some(mapped)) = (dataset.text_field.as_ref(), mapped)
        && own != mapped
    {
        let message = format!("`text_field` is `{own}`, and `field_mapping` says `{mapped}`");
        let problem = Problem::new(Code::FieldConflict, dataset.text_field.span, message);
        problems.push(problem.hint("remove `text_field`"));
    }
}
