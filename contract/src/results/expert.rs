//! `expert.json` beside an adapter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::FileDigest;
use super::scores::Share;
use crate::plan::RopeScaling;

/// `expert.json` beside an adapter: what it is, what it was made of and how well it does. Nothing in it depends on the
/// machine or the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertRecord {
    /// Of this document.
    #[schemars(with = "u32")]
    pub format: Option<u32>,
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// The expert's own, from its manifest; the base has its own licence.
    pub license: Option<String>,
    #[schemars(with = "ExpertBase")]
    pub base: Option<ExpertBase>,
    /// The kind of adapter.
    #[schemars(with = "String")]
    pub adapter: Option<String>,
    /// The name of the template that rendered the training rows; its text is `chat_template.jinja`.
    #[schemars(with = "String")]
    pub template: Option<String>,
    /// The one that the training rows begin with; absent where the first of them do not share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    #[schemars(with = "String")]
    pub recipe_digest: Option<String>,
    /// By the names in the manifest; of rows that another tool tokenized, by their folder.
    pub data: BTreeMap<String, Option<FileDigest>>,
    /// The files beside this one; the model card is left out, because people edit it.
    pub files: BTreeMap<String, FileDigest>,
    /// What constrains its answers, where anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<ExpertGrammar>,
    /// Of an export: the adapter's weights that it was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exported_from: Option<FileDigest>,
    /// Null until the adapter is evaluated.
    pub score: Option<ExpertScore>,
}

/// The file beside `expert.json` that constrains answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertGrammar {
    /// `grammar.gbnf`, or `grammar.json` for a JSON Schema; `sql` or `cypher` for a built-in one, which has no file.
    #[schemars(with = "String")]
    pub name: Option<String>,
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertBase {
    /// The Hub id; of a base in a folder the folder's name.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// How its weights were held in training.
    #[schemars(with = "String")]
    pub quantization: Option<String>,
    /// What training set over the base's own; absent where it set nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rope_scaling: Option<RopeScaling>,
    /// Weights, configuration and tokenizer.
    pub files: BTreeMap<String, Option<FileDigest>>,
}

/// What `evaluate` measured on the expert's own test rows, with 95% intervals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertScore {
    pub scorer: Option<String>,
    #[serde(flatten)]
    pub main: SetScore,
    /// In the base's prompt; absent where the adapter was scored alone, and in records of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_examples: Option<u64>,
    /// Of further test sets, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, SetScore>,
}

/// The score on one test set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SetScore {
    /// What the field `accuracy` holds.
    pub measure: Option<String>,
    pub rows: Option<u64>,
    pub base: Option<Share>,
    pub adapter: Option<Share>,
}
