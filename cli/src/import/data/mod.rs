//! Where the rows are, and how they are read: the data's keys of each trainer.

mod axolotl;
mod items;
mod llama_factory;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod trl;

use serde_json::json;

use crate::import::draft::{Fate, Import, KeyFate};
use crate::import::keys;
use crate::import::tool::Tool;
use crate::import::tree::Value;
use settings::has_no_rows;
use source::{DATASET, NOT_HERE};

pub(super) use llama_factory::ranked;

/// The data's keys; all others can then depend on whether there is validation data.
pub(super) fn read(import: &mut Import<'_>) {
    match import.tool {
        Tool::Axolotl => axolotl::read(import),
        Tool::LlamaFactory => llama_factory::read(import),
        Tool::Trl => trl::read(import),
    }
    for key in keys::HELD_OUT {
        if let Some(entry) = import.source.entry(key).filter(|entry| entry.value != Value::Null) {
            keys::special(import, entry);
        }
    }
    if has_no_rows(import) {
        import.put("training.dataset.path", json!("datasets/train.jsonl"));
        import.lines.push(KeyFate {
            key: "datasets".to_owned(),
            line: None,
            value: String::new(),
            fate: Fate::Changed,
            here: vec![format!("{DATASET}.path = {}", json!("datasets/train.jsonl"))],
            why: "no data is named that can be read here".to_owned(),
            instead: NOT_HERE.to_owned(),
        });
    }
}
