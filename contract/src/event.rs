//! Events: one JSON object per line, from the worker to the CLI and into `events.jsonl`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::Exit;
use crate::plan::{Task, word};

/// The fields of every line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Seconds since the epoch.
    pub time: f64,
    /// The attempt of this run that wrote the line, from 1. Readers drop an earlier attempt's steps beyond `resumed_from`.
    pub attempt: u32,
    pub body: Body,
}

/// A line of a worker that trains several experts: whose it is. Their records hold the event alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertEvent {
    pub expert: String,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    /// The first line of an attempt.
    Started {
        contract: u32,
        stage: Task,
        pid: u32,
        recipe_digest: String,
        /// The step that this attempt resumes from; 0 for a fresh start.
        resumed_from: u64,
    },
    /// The worker has begun a part of its work.
    Stage {
        name: StageName,
        detail: Option<String>,
        /// Seconds without progress in this part before a warning.
        quiet_budget: f64,
    },
    /// A countable part of a stage: rows tokenized, answers scored, bytes copied.
    Advance {
        stage: StageName,
        done: u64,
        total: Option<u64>,
        unit: String,
        rate: Option<f64>,
    },
    /// Micro-batch `micro` of `of` has been added to the gradients of the step after `step`.
    Accumulating {
        step: u64,
        micro: u64,
        of: u64,
    },
    /// The optimizer has stepped.
    Progress(Progress),
    /// A setting as read back from torch, peft or the loader: never from the plan.
    Applied {
        key: String,
        value: Value,
        /// The message for the user, if the setting has one: "TF32 enabled".
        note: Option<String>,
    },
    Evaluated {
        step: u64,
        metrics: BTreeMap<String, f64>,
        seconds: f64,
    },
    /// A checkpoint is committed.
    Checkpoint {
        step: u64,
        path: String,
        bytes: u64,
        seconds: f64,
    },
    /// A checkpoint is the best so far.
    Best {
        step: u64,
        metric: String,
        value: f64,
    },
    /// A problem was handled without changing the result's meaning.
    Recovered {
        kind: Recovery,
        /// The number of the step that was made; 0 outside of the steps.
        step: u64,
        detail: String,
    },
    Warning {
        code: String,
        message: String,
        hint: Option<String>,
    },
    /// Every two seconds; `ticks` counts the main loop's iterations, so that a stuck loop is visible.
    Heartbeat {
        ticks: u64,
    },
    /// Decoded text while it is generated.
    Text {
        source: String,
        text: String,
        done: bool,
        /// With `done`: the answer ended because it reached the most tokens that it may have.
        #[serde(default)]
        cut: bool,
    },
    /// The last line of a successful attempt; `result` is the stage's result document.
    Finished {
        result: Value,
    },
    /// The last line of a failed attempt.
    Failed {
        exit: u8,
        code: String,
        message: String,
        hint: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub step: u64,
    pub total_steps: u64,
    pub epoch: f64,
    pub loss: f64,
    pub lr: f64,
    pub grad_norm: Option<f64>,
    /// Real tokens of this step, padding not counted.
    pub tokens: u64,
    pub supervised_tokens: u64,
    pub tokens_per_second: f64,
    /// Seconds of this step, and of it those spent waiting for data.
    pub seconds: f64,
    pub data_wait: f64,
    /// Seconds of copying the step's batches to the device.
    pub transfer: Option<f64>,
    /// Seconds until the host had launched the step's forward and backward passes.
    pub host_launch: Option<f64>,
    /// Seconds from their beginning to their end on the device; on a CPU this equals the host's time.
    pub device_compute: Option<f64>,
    pub memory_allocated: u64,
    pub memory_reserved: u64,
    pub gpu_util: Option<f64>,
    /// Seconds to the end, from the steps measured so far.
    pub eta: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The device ran out of memory: the micro-batch was halved in place.
    OutOfMemory,
    /// Loss or gradients were not finite: the step was not applied.
    NonFinite,
    /// A damaged checkpoint was skipped for an older one.
    DamagedCheckpoint,
    /// A tracker stopped responding; training continued.
    Tracker,
}

word! {
    /// A part of the worker's work.
    StageName {
        LoadLibraries = "load libraries",
        Processes = "processes",
        DownloadTokenizer = "download tokenizer",
        CheckTokenizer = "check tokenizer",
        DownloadData = "download data",
        DigestData = "digest data",
        /// Copies are looked for among training, validation and test rows.
        CompareRows = "compare rows",
        TokenCache = "token cache",
        /// Another process is building the same token cache.
        Wait = "wait",
        Tokenize = "tokenize",
        Pack = "pack",
        DownloadBase = "download base",
        VerifyBase = "verify base",
        ConvertBase = "convert base",
        LoadBase = "load base",
        Adapter = "adapter",
        TryLargestBatch = "try largest batch",
        TryEvaluationBatch = "try evaluation batch",
        Train = "train",
        Evaluate = "evaluate",
        Mirror = "mirror",
        Final = "final",
        BaseAnswers = "base answers",
        BaseJudged = "base judged",
        BaseLoss = "base loss",
        AdapterAnswers = "adapter answers",
        AdapterJudged = "adapter judged",
        AdapterLoss = "adapter loss",
        ModelAnswers = "compared model answers",
        ModelJudged = "compared model judged",
        ModelLoss = "compared model loss",
        SampledAnswers = "sampled answers",
        SamplesJudged = "samples judged",
        /// Prompts are answered as they come.
        Answering = "answering",
        Copy = "copy",
        Merge = "merge",
        Write = "write",
        CompareLogits = "compare logits", CompareAnswers = "compare answers",
    }
}

/// A recorded line of any version: the keys that readers of past runs need. A value of another type makes it no event.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Recorded {
    pub time: Option<f64>,
    pub body: RecordedBody,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecordedBody {
    #[serde(rename = "type")]
    pub kind: String,
    pub step: Option<u64>,
    pub epoch: Option<f64>,
    pub loss: Option<f64>,
    pub exit: Option<u8>,
    pub message: Option<String>,
}

impl Recorded {
    /// The first line of an attempt.
    pub fn is_start(&self) -> bool {
        self.body.kind == "started"
    }

    pub fn is_step(&self) -> bool {
        self.body.kind == "progress"
    }

    pub fn is_checkpoint(&self) -> bool {
        self.body.kind == "checkpoint"
    }

    /// A step that is repeated, or left out.
    pub fn is_recovery(&self) -> bool {
        self.body.kind == "recovered"
    }

    /// Why the attempt failed; None for a requested stop.
    pub fn failure(&self) -> Option<&str> {
        let stopped = self.body.exit.is_some_and(|exit| Exit::from_code(exit.into()).is_stop());
        (self.body.kind == "failed" && !stopped).then(|| self.body.message.as_deref().unwrap_or_default())
    }
}
