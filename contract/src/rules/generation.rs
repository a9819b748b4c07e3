//! A manifest has one version of the format.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let root = &manifest.root;
    if root.base_model.is_some() && !root.base_models.is_empty() {
        let message =
            "`base_model` and `base_models` are both set; they are one setting in two versions of the format";
        let problem = Problem::new(Code::Conflict, root.base_model.key, message);
        problems.push(problem.hint("move the base into `base_models`"));
    }
    let Some(version) = root.schema_version.as_deref() else { return };
    let span = root.schema_version.span;
    let first = matches!(version, "1.0" | "1");
    if !first && !matches!(version, "2.0" | "2") {
        let problem =
            Problem::new(Code::SchemaVersion, span, format!("version `{version}` of the format is unknown"));
        problems.push(problem.hint("write \"2.0\""));
    } else if first && !root.base_models.is_empty() {
        let message = "`schema_version` is 1.0, and `base_models` belongs to 2.0";
        problems.push(Problem::new(Code::SchemaVersion, span, message).hint("write \"2.0\""));
    } else if !first && root.base_model.is_some() {
        let message = "`schema_version` is 2.0, and `base_model` belongs to 1.0";
        problems.push(
            Problem::new(Code::SchemaVersion, span, message)
                .hint("use `base_models`, a list, or write \"1.0\""),
        );
    }
}
