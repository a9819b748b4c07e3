//! `plan.json`: every setting of a run, with defaults filled in. Rust writes it, the worker reads it.
//!
//! It has two halves. [`Recipe`] decides the result: it is the same on every machine and its digest identifies
//! the result. [`Machine`] says how it is computed here and may change between two attempts at one
//! run.

mod inputs;
mod keys;
mod machine;
mod recipe;
mod request;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use inputs::{Code, Inputs};
pub use keys::{by_key, manifest_key};
pub use machine::{
    AdaptedModules, CheckpointingMode, Compile, Device, DeviceKind, Distributed, DistributedStrategy, Dtype,
    Graphs, JudgeEndpoint, Loader, Logging, Machine, MemoryEstimate, Mirror, Paths, Threads, Tracker,
};
pub(crate) use recipe::word;
pub use recipe::{
    ACCURACY, Adapter, AdapterKind, BadRow, Base, Batch, BestModel, Data, DataFormat, Decoding, Duration,
    EVAL_LOSS, Evaluation, Grammar, GrammarKind, Neftune, Objective, Optimizer, OptimizerName, Overlong,
    Precision, PrecisionRequest, Quantization, Recipe, RopeKind, RopeScaling, RougeVariant, Saving, Schedule,
    ScheduleKind, ScorerSettings, SoftPrompt, SoftPromptInit, Source, StoppingStrategy, Strategy, Template,
    TemplateKind, TemplateValue, TestCase, TextDialogue, TrainOn, Warmup,
};
pub use request::{Against, GgufQuantization, OtherRows, Request, Resume, Samples, Task};

use crate::digest;

/// The version of the plan and event documents. The worker refuses any other (exit 3).
pub const CONTRACT_VERSION: u32 = 1;

/// The document that the CLI hands to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this document; see the worker's refusal of any other.
    pub contract: u32,
    /// SHA-256 of the RFC 8785 canonical JSON of what training depends on in `recipe`, in hex.
    pub recipe_digest: String,
    /// SHA-256 of the recipe's settings of an evaluation, likewise: scores under other ones are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_digest: Option<String>,
    /// What the expert is for, as the manifest says it; it decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub recipe: Recipe,
    pub machine: Machine,
    /// The task of this invocation of the worker.
    pub request: Request,
    /// Digests of what the run is made of; null in plans that train nothing.
    #[serde(default)]
    pub inputs: Option<Inputs>,
    /// The expert's licence, for its model card and `expert.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Further test sets by name. No part of the recipe: they do not change what is trained.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, TestSet>,
    /// Settings of the command line that trains, with which the run is continued. They are in `recipe` and `machine` already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typed: Vec<String>,
}

/// Rows that are scored by themselves, with the scorer, decoding and number of rows of the recipe's test rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSet {
    pub sources: Vec<Source>,
    /// Source name -> absolute file; Hub datasets have none.
    pub files: BTreeMap<String, String>,
}

impl Plan {
    pub fn new(recipe: Recipe, machine: Machine, request: Request) -> Self {
        Self {
            contract: CONTRACT_VERSION,
            recipe_digest: recipe.digest(),
            evaluation_digest: Some(recipe.evaluation_digest()),
            description: None,
            recipe,
            machine,
            request,
            inputs: None,
            license: None,
            test_sets: BTreeMap::new(),
            typed: Vec::new(),
        }
    }
}

impl Plan {
    /// The same settings for another task.
    #[must_use]
    pub fn asking(&self, request: Request) -> Self {
        Self { request, ..self.clone() }
    }
}

impl Machine {
    /// With the base in the folder that it was downloaded to; None keeps the one that is named.
    #[must_use]
    pub fn with_base(mut self, folder: Option<String>) -> Self {
        self.paths.base = folder.or(self.paths.base);
        self
    }
}

impl Recipe {
    /// Identifies the adapter: equal on any machine and from any working directory.
    pub fn digest(&self) -> String {
        digest::of(&self.of_training())
    }

    /// The settings of answers that are scored.
    pub fn scoring(&self) -> Decoding {
        let max_new_tokens = self.evaluation.max_new_tokens.unwrap_or(self.decoding.max_new_tokens);
        Decoding { max_new_tokens, ..self.decoding.clone() }
    }

    /// Identifies how its answers are scored.
    pub fn evaluation_digest(&self) -> String {
        let Evaluation { scorer, scorer_settings, test_set_size, test_cases, .. } = &self.evaluation;
        digest::of(&json!({
            "decoding": self.scoring(),
            "scorer": scorer,
            "scorer_settings": scorer_settings,
            "test_cases": test_cases,
            "test_set_size": test_set_size,
        }))
    }

    /// What the adapter depends on: without the test rows, and without the settings of answers and scores unless scores
    /// of validation rows decide which checkpoint the adapter is.
    #[must_use]
    pub fn of_training(&self) -> Self {
        let mut recipe = self.clone();
        recipe.data.test = Vec::new();
        let evaluation = &mut recipe.evaluation;
        evaluation.test_set_size = None;
        evaluation.without_base = false;
        if !self.chooses_by_score() {
            evaluation.scorer = None;
            evaluation.scorer_settings = None;
            evaluation.test_cases = Vec::new();
            evaluation.max_new_tokens = None;
            recipe.decoding = Decoding::default();
        }
        recipe
    }

    /// Whether scores decide which checkpoint the adapter is.
    pub fn chooses_by_score(&self) -> bool {
        self.evaluation.best.as_ref().is_some_and(|best| best.metric == ACCURACY)
    }
}
