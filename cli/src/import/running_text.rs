//! Rows of running text: what they are called here, and how other trainers ask for them.

use serde_json::json;

use super::draft::Import;
use super::tree::Value;

pub(super) const DIALOGUE: &str = "training.dataset.text_dialogue";
/// What keeps the tokens of running text beside other rows.
pub(super) const LONG_TEXTS: &str =
    "set training.dataset.overlong to \"split\": it cuts other long rows into pieces too";

/// LLaMA-Factory's training on running text.
pub(super) fn is_pretraining(source: &Value) -> bool {
    source.get("stage").and_then(Value::text) == Some("pt")
}

/// Whether the training rows are running text, all of them.
pub(super) fn is_running_text(import: &Import<'_>) -> bool {
    import.at(DIALOGUE) == Some(&json!("raw"))
}
