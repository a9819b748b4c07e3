//! The task of one invocation of the worker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recipe::{Base, word};

word! {
    /// What one process of the worker does, as its command line names it.
    Task {
        Pretokenize = "pretokenize",
        Train = "train",
        Base = "base",
        Bench = "bench",
        Evaluate = "evaluate",
        Generate = "generate",
        Export = "export",
    }
}

word! {
    /// What replaces the manifest's test rows, or how they are scored. Such scores stay out of the adapter's folder.
    OtherRows {
        /// Rows of another file.
        File = "file",
        /// `evaluation`, settings of answers or the test data as `--set` changes them, unless the run was trained with the same.
        Settings = "settings",
        /// At most so many rows of the test set.
        Few = "few"
    }
}

word! {
    /// A block format of GGUF, by the name that llama.cpp's tools and Ollama give it.
    GgufQuantization { Q8_0 = "q8_0", Q4_1 = "q4_1" }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Pretokenize {
        /// Build again although a valid cache of this key exists.
        force: bool,
        /// Rows to show decoded, with their loss mask.
        preview: u32,
    },
    Train {
        resume: Resume,
        /// Accept a recipe that differs from the checkpoint's only in running longer.
        extend: bool,
        /// Score base and adapter on the test set once training has ended.
        evaluate: bool,
        profile: bool,
    },
    /// Download or convert the base, and download the Hub datasets, if they are not on this machine yet; report the base's
    /// folder.
    Base,
    /// Train the recipe's few steps as a measurement, the longest batch first, and report their time and memory.
    Bench {
        /// Seconds after which the measurement is given up.
        limit_seconds: f64,
    },
    Evaluate {
        /// The adapter's folder; null scores the base alone.
        adapter: Option<String>,
        /// Answers that are sampled besides those that are scored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        samples: Option<Samples>,
        /// What else answers the same rows, after base and adapter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        against: Option<Against>,
        /// What replaces the manifest's test rows; absent where nothing does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_rows: Option<OtherRows>,
    },
    Generate {
        adapter: Option<String>,
        /// Null reads prompts from standard input, one JSON string a line.
        prompt: Option<String>,
        /// A system message before each prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
    },
    Export {
        adapter: String,
        target: String,
        merge: bool,
        /// As GGUF, with the base beside an adapter.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("default" = false))]
        gguf: bool,
        /// Of the model's weights in the GGUF file; without it f16.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quantize: Option<GgufQuantization>,
        /// The adapter in MLX's layout.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[schemars(extend("default" = false))]
        mlx: bool,
    },
}

impl Request {
    pub fn task(&self) -> Task {
        match self {
            Self::Pretokenize { .. } => Task::Pretokenize,
            Self::Train { .. } => Task::Train,
            Self::Base => Task::Base,
            Self::Bench { .. } => Task::Bench,
            Self::Evaluate { .. } => Task::Evaluate,
            Self::Generate { .. } => Task::Generate,
            Self::Export { .. } => Task::Export,
        }
    }
}

/// What an adapter is compared with besides its base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Against {
    /// Another model, asked with its tokenizer's chat template.
    Model {
        base: Box<Base>,
        /// Null where it is in the Hub's cache or comes with the worker.
        folder: Option<String>,
    },
    /// Another adapter of the same base.
    Adapter { path: String },
}

/// Several answers to each row, of the adapter or else of the base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    pub per_row: u32,
    pub temperature: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub enum Resume {
    /// Start at step 0; the output folder is fresh.
    Nothing,
    /// The newest checkpoint that verifies; step 0 if there is none at all.
    Newest,
    Checkpoint {
        path: String,
    },
}
