//! `generate`: answers to prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `generate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GenerateResult {
    pub answers: Vec<GeneratedAnswer>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratedAnswer {
    pub prompt: String,
    pub base: String,
    /// Absent where the base alone was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// `base` and `adapter`, whichever answer ends at `max_new_tokens` and not by itself.
    #[schemars(extend("x-added-later" = true))]
    pub cut: Vec<String>,
}
