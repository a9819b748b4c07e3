//! What a run is made of, by digest: recorded in its checkpoints, its `run.json` and `expert.lock`, and compared before
//! a run is resumed, extended, skipped or locked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A digest that is not known is null. Null never equals anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The recipe's digest: comments, formatting and settings of the machine do not count.
    pub recipe: String,
    /// Of training and validation data: source name -> SHA-256 of every byte that its rows are read from, or `revision:`
    /// of the Hub dataset's commit. One that is not in the Hub's cache yet is not listed. Test data is named by its scores.
    /// The adapter that training starts from is listed too.
    pub data: BTreeMap<String, String>,
    /// `sha256:` of the weights and their configuration, or `revision:` of the Hub's snapshot. Null where the base is
    /// not on this machine yet: the worker fills it in when it has located the base.
    pub base: Option<String>,
    pub tokenizer: Option<String>,
    pub template: String,
    pub code: Code,
    /// SHA-256 of the expert's own scorer, where the best checkpoint is chosen by its scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
}

/// The code that decides an adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// expert-cli's version.
    pub version: String,
    /// SHA-256 over the worker's Python sources; null where the package is not installed.
    pub worker: Option<String>,
    /// Of the native module: SHA-256 of the sources that it was built from.
    pub native: Option<String>,
}
