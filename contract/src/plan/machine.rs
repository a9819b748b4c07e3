//! How the recipe is computed on this machine. All of it may differ between two attempts at one run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recipe::word;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub device: Device,
    pub dtype: Dtype,
    /// True on a CPU whose products in the run's 16-bit format are slower than those in fp32: the base, read in its format, is
    /// held and computed in fp32. The result is that of the 16-bit format within rounding.
    pub fp32_products: bool,
    /// Rows per micro-batch; the worker halves it when memory runs out.
    pub micro_batch: u64,
    /// Micro-batches per optimizer step in each process: ceil(rows_per_step / micro_batch / processes).
    pub accumulation: u64,
    /// Null for a single process.
    pub distributed: Option<Distributed>,
    /// Tokens of a micro-batch that the fast path processes at once, in whole documents; null processes all of them
    /// together. A chunk that fits a CPU's cache is faster, and the gradients have the same sum.
    pub piece_tokens: Option<u64>,
    /// False takes the plain transformers + peft path: the adapter, eager attention or a sharded base needs it, or it is
    /// compared. The worker takes it for unknown architectures too.
    pub fast_path: bool,
    /// The kernel of an operation of the fast path, by name, where a benchmark wants another than the first that runs.
    pub kernels: BTreeMap<String, String>,
    pub flash_attention: bool,
    pub sdpa: bool,
    pub checkpointing: CheckpointingMode,
    pub compile: Option<Compile>,
    /// Null where each launch is the host's. The worker says why where it cannot capture what is wanted.
    pub cuda_graphs: Option<Graphs>,
    /// Steps between two releases of the allocator's cached memory; null never.
    pub memory_clear_every: Option<u64>,
    pub threads: Threads,
    pub loader: Loader,
    pub logging: Logging,
    /// Checkpoints to keep, including the best; the newest is never deleted, null keeps all.
    pub save_total_limit: Option<u32>,
    pub mirror: Option<Mirror>,
    pub paths: Paths,
    pub estimate: MemoryEstimate,
    /// Where the model is asked that scores answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeEndpoint>,
    /// Null where the base's layers are not known before it is loaded.
    #[serde(default)]
    pub modules: Option<AdaptedModules>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeEndpoint {
    pub url: String,
    /// The environment variable that holds the key.
    pub key_variable: Option<String>,
    pub timeout_seconds: u32,
    pub concurrency: u32,
}

/// The layers of this base that get an adapter. The worker refuses to train anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptedModules {
    pub target: Vec<String>,
    pub feedforward: Vec<String>,
    /// Parameters that are trained; null where they are counted in the loaded base only.
    pub parameters: Option<u64>,
}

word! {
    /// `ddp`: every process holds the base. `fsdp2`: its weights are sharded over them.
    DistributedStrategy { Ddp = "ddp", Fsdp2 = "fsdp2" }
}

/// Processes that train together, each on its own device: `device.index` and the following ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distributed {
    pub strategy: DistributedStrategy,
    pub processes: u32,
}

word! { DeviceKind { Cuda = "cuda", Mps = "mps", Cpu = "cpu" } }
word! { Dtype { Bf16 = "bf16", Fp16 = "fp16", Fp32 = "fp32" } }

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub kind: DeviceKind,
    pub index: u32,
    pub name: String,
    pub memory_bytes: Option<u64>,
}

word! {
    /// `selective` recomputes attention only; `full` each whole layer.
    CheckpointingMode { None = "none", Selective = "selective", Full = "full" }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compile {
    pub backend: String,
    pub mode: String,
    /// Whether the manifest asks for it; if not, it must have been found right on the device.
    pub asked: bool,
}

/// A micro-batch's forward and backward pass as one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graphs {
    /// Whether the manifest asks for them; if not, they must have been found right on the device.
    pub asked: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threads {
    /// torch's intra-op threads; null leaves torch's own choice.
    pub compute: Option<u32>,
    /// Threads that tokenize; null uses every core.
    pub pretokenize: Option<u32>,
}

/// Honoured where rows do not come from the mapped cache; the worker reports the values in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// False tokenizes on the fly instead of reading the token cache.
    pub use_cache: bool,
    pub workers: u32,
    pub pin_memory: bool,
    pub prefetch_factor: Option<u32>,
}

word! { Tracker { Tensorboard = "tensorboard", Wandb = "wandb" } }

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Logging {
    pub steps: u64,
    pub trackers: Vec<Tracker>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// Any fsspec URL.
    pub target: String,
    pub compress: bool,
    /// False waits for the copy before training continues.
    pub background: bool,
}

/// Absolute paths on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    pub manifest: String,
    pub expert_dir: String,
    pub output: String,
    /// Root of this expert's token caches; a cache is `<cache>/<key>/`.
    pub cache: String,
    /// Where downloaded and converted base models, compiled tokenizers and base scores are kept.
    pub home: String,
    /// The base's folder; null for a Hub id that the worker finds in the Hub's cache, and for the embedded base.
    pub base: Option<String>,
    /// Source name -> absolute file. Hub datasets are not listed.
    pub data: BTreeMap<String, String>,
    /// The Python file of the expert's own scorer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
    /// The folder of the adapter that training starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_adapter: Option<String>,
}

/// Bytes by part for one micro-batch on the device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryEstimate {
    /// Python and its libraries. GPUs hold none of it.
    #[serde(default)]
    pub process: u64,
    pub weights: u64,
    pub adapter: u64,
    pub gradients: u64,
    pub optimizer: u64,
    pub activations: u64,
    pub logits: u64,
    pub context: u64,
    pub total: u64,
}
