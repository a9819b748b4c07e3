//! Settings that decide the result: no absolute path, no device, nothing that a faster machine would change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! word {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every spelling that a document may use, in the order of declaration.
            pub const WORDS: &[&str] = &[$($text),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl $crate::words::Word for $name {
            const WORDS: &'static [&'static str] = Self::WORDS;

            fn word(self) -> &'static str {
                self.as_str()
            }

            fn from_word(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.as_str())
            }
        }
    };
}
pub(crate) use word;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub expert: String,
    pub base: Base,
    pub template: Template,
    pub data: Data,
    pub adapter: Adapter,
    pub batch: Batch,
    pub optimizer: Optimizer,
    pub schedule: Schedule,
    pub precision: Precision,
    pub evaluation: Evaluation,
    pub saving: Saving,
    pub decoding: Decoding,
    /// Every random draw is a function of this number and of its position.
    pub seed: u64,
    /// Left out if it is `sft`, so that recipes from before it was a choice keep their digests.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "sft"))]
    pub objective: Objective,
}

word! {
    /// What is learned from a row. Preference and reinforcement methods are refused, never trained as something else.
    #[derive(Default)]
    Objective { #[default] Sft = "sft" }
}

/// Left out, so that recipes from before it was a choice keep their digests.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Logical name: a Hub id, the embedded base's name, or a folder's last component. Never a path.
    pub name: String,
    /// The digest that the manifest demands of the weights, if it demands one.
    pub sha256: Option<String>,
    pub quantization: Quantization,
    pub rope_scaling: Option<RopeScaling>,
}

word! {
    Quantization { None = "none", Fp16 = "fp16", Bf16 = "bf16", Int8 = "int8", Int4 = "int4" }
}

impl Quantization {
    /// Whether FSDP2 shards weights of this format.
    pub fn can_be_sharded(self) -> bool {
        !matches!(self, Self::Int4 | Self::Int8)
    }
}

word! {
    RopeKind { Linear = "linear", Dynamic = "dynamic", Yarn = "yarn", Longrope = "longrope", Llama3 = "llama3" }
}

/// `rope_scaling` as transformers takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RopeScaling {
    pub kind: RopeKind,
    pub factor: f64,
    pub original_max_position_embeddings: Option<u64>,
    pub max_position_embeddings: Option<u64>,
    /// Set to 1.0 for `ntk-by-parts`, which is YaRN without its attention temperature.
    pub attention_factor: Option<f64>,
    pub beta_fast: Option<f64>,
    pub beta_slow: Option<f64>,
    pub low_freq_factor: Option<f64>,
    pub high_freq_factor: Option<f64>,
    pub short_factor: Option<Vec<f64>>,
    pub long_factor: Option<Vec<f64>>,
}

word! {
    /// `tokenizer` is the chat template that the base's tokenizer carries.
    TemplateKind {
        Tokenizer = "tokenizer", Chatml = "chatml", Qwen3 = "qwen3", Alpaca = "alpaca", Llama = "llama",
        Mistral = "mistral", Phi = "phi", Gemma = "gemma", Deepseek = "deepseek", Vicuna = "vicuna",
        Custom = "custom",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    pub kind: TemplateKind,
    /// The Jinja text of a `custom` template; null for the others.
    pub source: Option<String>,
    /// Variables that the template reads. Left out if there are none, so that older recipes keep their digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kwargs: BTreeMap<String, TemplateValue>,
}

/// The value of a variable of a chat template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TemplateValue {
    Flag(bool),
    Integer(i64),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    pub train: Vec<Source>,
    pub validation: Vec<Source>,
    pub test: Vec<Source>,
    /// Share of the training rows held out for validation; null where a validation file is named or none is wanted.
    pub validation_split: Option<f64>,
    /// Canonical field name -> dotted path in the row (`completion` -> `output.sql`). Empty: recognise the shape.
    pub field_mapping: BTreeMap<String, String>,
    pub train_on: TrainOn,
    pub on_bad_row: BadRow,
    pub overlong: Overlong,
    pub text_dialogue: TextDialogue,
    pub deduplicate: bool,
    /// Whether near copies among the training rows are dropped too. Left out if not, so that older recipes keep their
    /// digests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub drop_near_copies: bool,
    /// Rows with fewer characters than this are dropped and counted.
    pub min_length: Option<u64>,
    /// Rows with more characters than this are dropped and counted.
    pub max_length: Option<u64>,
    pub streaming: bool,
    /// Which task of a mixture decides how many rows there are. Left out if it is the scarcest, so that older recipes
    /// keep their digests.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "first_exhausted"))]
    pub stopping_strategy: StoppingStrategy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Relative path with forward slashes, or `name::split::config` of a Hub dataset.
    /// For data named on the command line: the file's name and its absolute place in `machine.paths.data`.
    pub name: String,
    pub format: DataFormat,
    /// Share of this source's task in a mixture; 1 where all rows are taken.
    pub weight: f64,
    /// The mixture's name for this source.
    pub task: Option<String>,
}

word! {
    DataFormat {
        Jsonl = "jsonl", Json = "json", Csv = "csv", Parquet = "parquet", Arrow = "arrow", Huggingface = "huggingface",
    }
}
word! {
    /// `completions`: the last answer only; `assistant`: every assistant turn; `all`: every token.
    TrainOn { Completions = "completions", All = "all", Assistant = "assistant" }
}
word! { BadRow { Error = "error", Skip = "skip" } }
word! { Overlong { Truncate = "truncate", KeepEnd = "keep_end", Split = "split", Drop = "drop", Error = "error" } }
word! {
    /// Whether a `text` that is itself a rendered dialogue is parsed into messages.
    TextDialogue { Parse = "parse", Raw = "raw" }
}
word! {
    /// `first_exhausted`: the task that is scarcest for its weight is used whole, and rows of the others are left out.
    /// `all_exhausted`: the task that is largest for its weight is used whole, and rows of the others are repeated.
    #[derive(Default)]
    StoppingStrategy { #[default] FirstExhausted = "first_exhausted", AllExhausted = "all_exhausted" }
}

word! {
    AdapterKind {
        Lora = "lora", Rslora = "rslora", Dora = "dora", Ia3 = "ia3", Lokr = "lokr", Adalora = "adalora",
        Prompt = "prompt",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    pub kind: AdapterKind,
    /// Null for ia3 and prompt.
    pub rank: Option<u32>,
    pub alpha: Option<f64>,
    pub dropout: f64,
    /// Names of layers, sorted and without duplicates, or `all-linear` alone: the linear layers of the base's blocks.
    /// Empty for prompt, and for ia3 where the base's family decides. `machine.modules` has the names on this base.
    pub target_modules: Vec<String>,
    /// For ia3: the subset whose input is scaled. Sorted.
    pub feedforward_modules: Vec<String>,
    /// Trained virtual tokens; only where `kind` is prompt.
    pub soft_prompts: Vec<SoftPrompt>,
    /// The folder of the adapter that training starts from, as the manifest names it; its place is in
    /// `machine.paths.initial_adapter`. Left out for a new one, so that older recipes keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoftPrompt {
    pub name: String,
    pub tokens: u32,
    pub init: SoftPromptInit,
    pub init_text: Option<String>,
}

word! { SoftPromptInit { Random = "random", Text = "text", VocabSample = "vocab_sample" } }

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Rows per optimizer step, over all micro-batches and devices.
    pub rows_per_step: u64,
    pub max_seq_length: u32,
    pub packing: bool,
    /// Only with packing: documents that follow one another and begin alike share their beginning. Left out if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub share_prefixes: bool,
    /// Only without packing: rows of similar length share a micro-batch.
    pub group_by_length: bool,
    /// Whether an epoch's last, smaller step is dropped.
    pub drop_last: bool,
}

word! {
    OptimizerName {
        AdamwTorch = "adamw_torch", AdamwTorchFused = "adamw_torch_fused", AdamwBnb8bit = "adamw_bnb_8bit",
        PagedAdamw32bit = "paged_adamw_32bit", PagedAdamw8bit = "paged_adamw_8bit", Sgd = "sgd",
        Adafactor = "adafactor", Muon = "muon",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    pub name: OptimizerName,
    pub learning_rate: f64,
    pub weight_decay: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    /// Global norm that gradients are clipped to; null leaves them alone.
    pub max_grad_norm: Option<f64>,
    pub neftune: Option<Neftune>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neftune {
    pub noise_alpha: f64,
}

word! {
    ScheduleKind {
        Linear = "linear", Cosine = "cosine", CosineWithRestarts = "cosine_with_restarts",
        Polynomial = "polynomial", Constant = "constant", ConstantWithWarmup = "constant_with_warmup",
        OneCycle = "one_cycle",
    }
}

impl ScheduleKind {
    /// The numbers that it takes in `lr_scheduler_kwargs`.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Linear | Self::OneCycle => &["min_lr_ratio"],
            Self::Cosine | Self::CosineWithRestarts => &["num_cycles", "min_lr_ratio"],
            Self::Polynomial => &["power", "lr_end"],
            Self::Constant | Self::ConstantWithWarmup => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub kind: ScheduleKind,
    /// Numbers that the kind takes: `num_cycles`, `power`, `lr_end`, `min_lr_ratio`.
    pub options: BTreeMap<String, f64>,
    pub warmup: Warmup,
    pub duration: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case", deny_unknown_fields)]
pub enum Warmup {
    Steps(u64),
    /// Share of all steps.
    Ratio(f64),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case", deny_unknown_fields)]
pub enum Duration {
    Epochs(f64),
    Steps(u64),
}

word! {
    /// `auto`: bf16 where the device computes in it, else fp32.
    PrecisionRequest { Auto = "auto", Bf16 = "bf16", Fp16 = "fp16", Fp32 = "fp32" }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    pub compute: PrecisionRequest,
    pub tf32: bool,
}

word! { Strategy { No = "no", Steps = "steps", Epoch = "epoch" } }

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    pub strategy: Strategy,
    pub steps: Option<u64>,
    /// Rows of the validation data that an evaluation during training looks at; null for all.
    pub rows: Option<u64>,
    /// How the best checkpoint is chosen; null: the last one is final.
    pub best: Option<BestModel>,
    /// The name of a built-in scorer, or `package:name` of one that an installed package offers.
    pub scorer: Option<String>,
    /// Of a scorer that has settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer_settings: Option<ScorerSettings>,
    /// Rows of the test set that are scored; null for all.
    pub test_set_size: Option<u64>,
    pub test_cases: Vec<TestCase>,
    /// Maximum tokens of a scored answer, where it differs from that of other answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_new_tokens: Option<u32>,
    /// An adapter is scored alone: trials of a search are compared with each other. Left out if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub without_base: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScorerSettings {
    /// A function in a Python file. The file's place is in `machine.paths.scorer`.
    Python {
        /// Relative to the expert's folder, with forward slashes.
        file: String,
        function: String,
    },
    Classification {
        labels: Vec<String>,
    },
    Rouge {
        variant: RougeVariant,
    },
    /// A model that scores answers. Its endpoint is `machine.judge`.
    Judge {
        model: String,
        instructions: Option<String>,
    },
}

word! { RougeVariant { Rouge1 = "rouge1", Rouge2 = "rouge2", RougeL = "rougeL" } }

/// Metrics of an evaluation during training, by either of which the best checkpoint is chosen.
pub const EVAL_LOSS: &str = "eval_loss";
pub const ACCURACY: &str = "accuracy";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BestModel {
    pub metric: String,
    pub greater_is_better: bool,
    /// Evaluations without a better value after which training stops; null never stops early.
    pub patience: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    pub prompt: String,
    pub expected: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Saving {
    pub strategy: Strategy,
    pub steps: Option<u64>,
}

/// How text is generated when an expert is tried or scored. A temperature of 0 is greedy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decoding {
    pub temperature: f64,
    pub top_p: f64,
    pub top_k: u32,
    pub min_p: f64,
    pub stop_sequences: Vec<String>,
    pub max_new_tokens: u32,
    /// What every answer conforms to. Left out where there is none, so that older recipes keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grammar {
    pub kind: GrammarKind,
    /// The file in the expert's folder, with forward slashes; `json`, `sql` or `cypher` for a built-in one.
    pub name: String,
    /// Of `sql` and `cypher` their name: the worker writes the grammar for the schema in each prompt.
    pub text: String,
}

word! { GrammarKind { Gbnf = "gbnf", JsonSchema = "json_schema", Sql = "sql", Cypher = "cypher" } }

impl Grammar {
    /// SHA-256 of the text.
    pub fn sha256(&self) -> String {
        crate::digest::of_text(&self.text)
    }
}
