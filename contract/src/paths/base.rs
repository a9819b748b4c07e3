//! Whether a base model can be found.

use std::path::Path;

use super::parse::{anywhere, is_foreign};
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{Manifest, Options, is_embedded, is_hub_id};

pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    for base in &manifest.bases {
        let name = &base.name;
        if name.trim().is_empty() || base_is_known(name, &manifest.folder) {
            continue;
        }
        let severity = if options.strict { Severity::Error } else { Severity::Warning };
        let what = if is_foreign(name) { "is a path of another operating system" } else { "is not here" };
        let problem =
            Problem::new(Code::BaseMissing, name.span, format!("the base model `{}` {what}", **name));
        problems.push(problem.severity(severity).hint(
            "name a folder with a config.json, a Hub id such as Qwen/Qwen3-0.6B, or SmolLM2-135M-Instruct",
        ));
    }
}

/// The embedded base, a folder with a model in it, or a name that the Hub could have.
pub fn base_is_known(name: &str, folder: &Path) -> bool {
    let here = || anywhere(name, folder).is_some_and(|path| path.join("config.json").is_file());
    is_embedded(name) || here() || is_hub_id(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_had() {
        let known = |name| base_is_known(name, Path::new("/nowhere"));
        assert!(known("SmolLM2-135M-Instruct") && known("Qwen/Qwen3-0.6B"));
        for name in
            ["F:/models/Qwen3-0.6B", "\\\\server\\models\\q", "~/q", "models/a/b", "../q", "", "a b/c", "q\0"]
        {
            assert!(!known(name), "{name}");
        }
    }
}
