//! Whether a base model can be found.

use std::path::Path;

use super::parse::{anywhere, is_foreign};
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{Manifest, Options, is_embedded, is_hub_id};

pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    for base in &manifest.bases {
        let name = &base.name;
        if is_gguf(name, &manifest.folder) {
            let message = format!(
                "the base model `{}` is in GGUF, a format for inference that cannot be trained",
                **name
            );
            problems.push(Problem::new(Code::BaseUnsupported, name.span, message).hint(
                "name the model that it was made from: its Hub id, or a folder with config.json and safetensors files",
            ));
            continue;
        }
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

/// A GGUF file, a folder of nothing else, or a repository that is named for it.
fn is_gguf(name: &str, folder: &Path) -> bool {
    let lower = name.trim_end_matches(['/', '\\']).to_ascii_lowercase();
    let is_file = |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    if is_file(Path::new(&lower)) {
        return true;
    }
    let Some(path) = anywhere(name, folder).filter(|path| path.is_dir()) else {
        return is_hub_id(name) && lower.ends_with("-gguf");
    };
    let files = std::fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
    !path.join("config.json").is_file() && files.map(|entry| entry.path()).any(|path| is_file(&path))
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
    fn gguf_is_known_by_name_and_by_content() {
        let folder = tempfile::tempdir().unwrap();
        for (name, files) in [("only", &["a.GGUF"][..]), ("both", &["a.gguf", "config.json"]), ("none", &[])]
        {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            for file in files {
                std::fs::write(folder.path().join(name).join(file), "{}").unwrap();
            }
        }
        let found = |name| is_gguf(name, folder.path());
        assert!(
            found("models/smol.gguf") && found("only") && found("only/") && found("bartowski/SmolLM2-GGUF")
        );
        assert!(!found("both") && !found("none") && !found("Qwen/Qwen3-0.6B") && !found("F:/models/qwen"));
    }

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
