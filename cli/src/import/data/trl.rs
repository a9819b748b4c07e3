//! The datasets and files that TRL's scripts take.

use serde_json::json;

use super::settings::write;
use super::source::{place, said};
use crate::import::draft::Import;
use crate::import::tree::Value;

pub(super) fn read(import: &mut Import<'_>) {
    let source = import.source;
    let text = |key: &str| source.get(key).and_then(Value::text);
    let config = text("dataset_config").or_else(|| text("dataset_config_name"));
    let keys = ["dataset_name", "dataset_path", "train_file", "data_path", "dataset"];
    if let Some(entry) =
        keys.iter().find_map(|key| source.entry(key)).filter(|entry| entry.value.text().is_some())
    {
        let split = text("dataset_train_split").or_else(|| text("train_split"));
        let found = place(import, "path", entry.value.text().unwrap_or_default(), split, config, None);
        for key in [
            entry.key.as_str(),
            "dataset_config",
            "dataset_config_name",
            "dataset_train_split",
            "train_split",
        ] {
            if let Some(part) = source.entry(key) {
                said(import, part, &found);
            }
        }
        let test_split = source.entry("dataset_test_split");
        if let Some(part) = test_split.filter(|part| part.value != Value::Null) {
            let raw = entry.value.text().unwrap_or_default();
            let held = place(import, "validation_path", raw, part.value.text(), config, None);
            if held.from.is_none() && held.unread.is_none() {
                said(import, part, &held);
                write(import, &[held], "validation_path", "dataset_test_split");
            } else {
                import.left(
                    part,
                    "a file has no splits",
                    "name the rows in training.dataset.validation_path",
                );
            }
        }
        let is_of_hub = found.from.is_none() && found.unread.is_none();
        if is_of_hub && entry.key == "dataset_name" && evaluates_by_default(source) {
            let raw = entry.value.text().unwrap_or_default();
            let held = place(import, "validation_path", raw, Some("test"), config, None);
            import.default("dataset_test_split", "training.dataset.validation_path", json!(held.path));
        }
        if found.unread.is_none() {
            write(import, &[found], "path", &entry.key);
        }
    }
    if let Some(entry) = source.entry("validation_file").filter(|entry| entry.value.text().is_some()) {
        let raw = entry.value.text().unwrap_or_default();
        let found = place(import, "validation_path", raw, None, None, None);
        said(import, entry, &found);
        if found.unread.is_none() {
            write(import, &[found], "validation_path", "validation_file");
        }
    }
}

/// Whether TRL's script evaluates on the split `test`, its default, because no validation rows are named.
fn evaluates_by_default(source: &Value) -> bool {
    let is_given = |key: &str| source.get(key).is_some_and(|it| *it != Value::Null);
    let is_on = |key: &str| source.get(key).is_some_and(|it| !it.is_off());
    (is_on("eval_strategy") || is_on("evaluation_strategy"))
        && !is_given("dataset_test_split")
        && !is_given("validation_file")
}
