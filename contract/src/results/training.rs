//! `train`: the result, how the best checkpoint was chosen, and `state.json` of a checkpoint.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::data::{DuplicateRows, SlowEncoder};
use super::file::FileDigest;
use super::scores::EvaluationResult;
use crate::plan::Inputs;

/// `train`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainResult {
    pub ok: bool,
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub train_loss: Option<f64>,
    /// The validation loss of the adapter in `final/`.
    pub eval_loss: Option<f64>,
    /// The folder of the best checkpoint; null where none was asked for.
    pub best_checkpoint: Option<String>,
    /// The folder of the adapter.
    pub adapter: Option<String>,
    pub seconds: Option<f64>,
    /// Real tokens, from the end of the first step to the end of the last, without evaluation and saving.
    pub tokens_per_second: Option<f64>,
    /// The worker's peak resident size on a CPU, the peak reserved memory on a GPU.
    pub peak_memory_bytes: Option<u64>,
    pub resumed_from: Option<u64>,
    /// Why the native encoder did not make the rows, and what that cost; null where it did.
    pub slow_encoder: Option<SlowEncoder>,
    /// Copies between training, validation and test rows, and within the training rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-added-later" = true))]
    pub duplicates: Vec<DuplicateRows>,
    /// Absent where nothing was scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationResult>,
}

/// Which checkpoint became `final/`, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BestChoice {
    pub step: u64,
    pub reason: String,
    pub metric: Option<String>,
    pub value: Option<f64>,
    /// Each evaluation's value by its step.
    pub evaluations: BTreeMap<String, Option<f64>>,
}

/// `state.json` of a checkpoint without its seal, which the worker checks before using the checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckpointRecord {
    pub format: u64,
    pub step: u64,
    pub facts: CheckpointFacts,
    pub files: BTreeMap<String, FileDigest>,
}

/// The trainer's state at a step, needed to resume or to refuse it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckpointFacts {
    #[schemars(with = "String")]
    pub recipe_digest: Option<String>,
    /// As it was written, whatever the version.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub recipe: Option<Value>,
    #[schemars(with = "String")]
    pub cache_key: Option<String>,
    pub total_steps: u64,
    /// The micro-batch that fits this machine, as found after out-of-memory splits.
    pub micro_batch: u64,
    /// Running sums, of which the summary at the end is made.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub totals: Value,
    /// Of the evaluation at exactly this step; empty where there was none.
    pub metrics: BTreeMap<String, f64>,
    /// True where it was saved before its evaluation was made: a resumed run makes that first.
    #[schemars(extend("x-added-later" = true))]
    pub evaluation_owed: Option<bool>,
    /// Digests of the inputs that the run started with.
    #[schemars(extend("x-added-later" = true))]
    pub inputs: Option<Inputs>,
    /// The number of compute threads affects rounding, so a resumed run keeps it.
    #[schemars(extend("x-added-later" = true))]
    pub threads: Option<u32>,
    /// Whether a 16-bit run on a CPU computes in fp32, which a resumed run keeps for the same reason; null
    /// where there is no choice.
    #[schemars(extend("x-added-later" = true))]
    pub fp32_products: Option<bool>,
    /// Whether steps of the run were computed in passes with other experts, which rounds differently; the queue of
    /// `train --all` continues it as it was begun.
    #[schemars(extend("x-added-later" = true))]
    pub fused: Option<bool>,
    /// What computed the run: another one rounds differently.
    #[schemars(extend("x-added-later" = true))]
    pub processor: Option<String>,
    /// How the layers were computed, which rounds differently, too.
    #[schemars(extend("x-added-later" = true))]
    pub layers: Option<LayersRecord>,
    /// Of the steps of this attempt so far, the first one left out; null before the second.
    #[schemars(extend("x-added-later" = true))]
    pub tokens_per_second: Option<f64>,
    /// The most memory that the attempt has held so far: resident on a CPU, reserved on a GPU.
    #[schemars(extend("x-added-later" = true))]
    pub peak_memory_bytes: Option<u64>,
}

/// How the layers of a run were computed, as the worker found it possible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LayersRecord {
    /// `fast` or `plain`.
    pub path: String,
    /// As transformers names it.
    pub attention: String,
    /// Backend and mode of torch.compile; null where nothing is compiled.
    pub compiled: Option<String>,
    /// Tokens of a chunk on a CPU, which a resumed run keeps; null where batches are processed as a whole.
    pub piece_tokens: Option<u64>,
}
