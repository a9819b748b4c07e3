//! `search.json`: trials and the winner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scores::{PairedComparison, Share};
use crate::plan::Inputs;

/// `search.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchRecord {
    pub expert: Option<String>,
    pub base: Option<String>,
    /// Random seed of the trials.
    pub seed: u64,
    /// Null where the budget is a time.
    pub trial_limit: Option<u64>,
    /// Validation rows that are scored at most; null for all.
    pub rows: Option<u64>,
    pub space: Vec<SearchRange>,
    /// What the manifest's own recipe is trained with.
    pub inputs: Option<Inputs>,
    /// How the answers of all trials are scored.
    #[schemars(extend("x-added-later" = true))]
    pub scoring: Option<SearchScoring>,
    /// The first one is the manifest's own recipe.
    pub trials: Vec<SearchTrial>,
    /// False while the first of them are trained, which say how many there can be.
    #[schemars(extend("x-added-later" = true))]
    pub is_drawn: bool,
    /// Spent until the last change of the record.
    pub seconds: f64,
    /// The number of a trial, from 0.
    pub winner: Option<u64>,
    /// At which it won: 0 is a ninth of the steps, 2 all of them.
    pub winner_rung: Option<u64>,
    /// The winner less the manifest's own recipe, row by row; null where they are one.
    pub comparison: Option<PairedComparison>,
    /// The manifest with the winner's settings in it; null until `--write` put them there.
    #[schemars(extend("x-added-later" = true))]
    pub written: Option<SearchWritten>,
}

/// What the same command finds after `--write`: by this it knows that the search is over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchWritten {
    /// What the manifest's own recipe is trained with.
    pub inputs: Inputs,
    /// Ranges that `--space` does not give are around those of the manifest.
    pub space: Vec<SearchRange>,
}

/// What decides a score beside the adapter and the rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchScoring {
    /// The plan's `evaluation_digest`.
    pub evaluation_digest: String,
    /// SHA-256 of the expert's own scorer.
    pub scorer_sha256: Option<String>,
    /// SHA-256 of the grammar of answers.
    pub grammar_sha256: Option<String>,
}

/// A searched setting and what it may be: `1e-4..0.005` or `8|16|32`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchRange {
    pub name: String,
    pub values: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchTrial {
    pub settings: Vec<SearchSetting>,
    pub scores: Vec<SearchScore>,
}

/// A value for a key of `training.config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchSetting {
    pub name: String,
    pub key: String,
    pub value: Value,
}

/// How a trial ended at one rung.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchScore {
    pub rung: u64,
    /// On validation rows; null where it failed.
    pub share: Option<Share>,
    /// Of the scored adapter; decides between equal shares of right answers.
    #[schemars(extend("x-added-later" = true))]
    pub validation_loss: Option<f64>,
    /// Decides where the losses are equal too.
    #[schemars(extend("x-added-later" = true))]
    pub steps: Option<u64>,
    /// Of training and scoring.
    pub seconds: Option<f64>,
    pub training_seconds: Option<f64>,
    pub failure: Option<String>,
}
