//! `export`: the files it wrote, and how their answers were checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `export`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExportResult {
    /// The new folder.
    pub target: String,
    pub merged: bool,
    pub bytes: u64,
    /// How far the logits are from those of the adapter on the base that it was trained on; null for GGUF.
    #[schemars(extend("x-added-later" = true))]
    pub logits_difference: Option<f64>,
    /// Only of GGUF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerCheck>,
    /// Commands that serve what was exported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Greedy answers of llama.cpp against those of plain transformers and peft.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnswerCheck {
    pub asked: u64,
    pub equal: u64,
    /// Answers that part at two tokens of nearly the same likelihood, which rounding decides.
    pub near_ties: u64,
    /// Answers of the quantized file that are also those of the unquantized weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal_unquantized: Option<u64>,
}
