//! Which keys of a manifest hold paths.

/// Their texts are paths; so are those of keys with one of the endings. The ones from `script` on are metadata.
const KEYS: [&str; 12] = [
    "path",
    "initial_adapter",
    "dataset",
    "pretokenized_cache",
    "checkpoint_mirror",
    "target",
    "script",
    "checkpoint",
    "packaging_checkpoint",
    "alternative_checkpoints",
    "source",
    "sources",
];
const ENDINGS: [&str; 6] = ["_path", "_paths", "_file", "_files", "_dir", "_folder"];
/// Objects whose members are named by the expert's author, each a path.
const BY_NAME: [&str; 2] = ["tasks", "test_sets"];

/// Whether a text at this key is a path, also as a member of a list.
pub fn holds_path(key: &str) -> bool {
    KEYS.contains(&key) || ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// Whether the members of the object at this key are paths, whatever their names are.
pub fn holds_paths_by_name(key: &str) -> bool {
    BY_NAME.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Kind, entries};
    use crate::manifest::ROOT;

    #[test]
    fn the_keys_are_those_of_the_ledger() {
        let all = entries(&ROOT);
        let names: Vec<&str> = all.iter().flat_map(|entry| entry.field.keys.iter().copied()).collect();
        for key in KEYS.iter().chain(&BY_NAME) {
            assert!(names.contains(key), "{key}");
        }
        let texts = all.iter().filter(|entry| !matches!(entry.field.kind, Kind::Bool));
        for key in texts.flat_map(|entry| entry.field.keys.iter().copied()) {
            assert!(holds_path(key) || !key.contains("path"), "{key}");
        }
        for key in ["stop_sequences", "labels", "field_mapping", "prompt", "expected", "description"] {
            assert!(!holds_path(key) && !holds_paths_by_name(key), "{key}");
        }
    }
}
