//! `pretokenize`: what became of the rows, copies between them, and `cache.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `pretokenize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PretokenizeResult {
    pub ok: bool,
    /// The cache's folder.
    pub cache: Option<String>,
    /// Whether the cache was there before.
    pub existed: bool,
    pub seconds: Option<f64>,
    /// Of the training rows; those of validation are in `sources` and `splits`.
    pub totals: RowCounts,
    pub preview: Vec<PreviewRow>,
    pub key: Option<String>,
    /// `native`, `tokenizers` or `another tool`.
    pub encoder: Option<String>,
    /// Why the native encoder was not used, and what that cost; null where it was.
    pub slow_encoder: Option<SlowEncoder>,
    /// Copies between training, validation and test rows, and within the training rows; null where nothing was compared.
    #[schemars(extend("x-added-later" = true))]
    pub duplicates: Option<Duplicates>,
    pub sources: Vec<SourceCounts>,
    pub splits: BTreeMap<String, SplitStatistics>,
}

/// Why Hugging Face tokenizers encoded the rows, and what that cost as measured on the first of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EncoderCost {
    pub reason: String,
    /// How many rows were measured.
    pub rows: u64,
    /// MB of text per second of processor time.
    pub megabytes_per_second: Option<f64>,
    /// How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    pub times_slower: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlowEncoder {
    #[serde(flatten)]
    pub cost: EncoderCost,
    /// The cost as a text.
    pub words: String,
}

/// The number of rows by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RowCounts {
    pub read: u64,
    pub used: u64,
    pub bad: u64,
    pub truncated: u64,
    pub split_rows: u64,
    /// Pieces of split rows from which nothing is learned.
    #[schemars(extend("x-added-later" = true))]
    pub dropped_pieces: u64,
    /// Their tokens.
    #[schemars(extend("x-added-later" = true))]
    pub dropped_tokens: u64,
    pub dropped_overlong: u64,
    pub dropped_unsupervised: u64,
    pub dropped_duplicate: u64,
    /// Near copies of training rows, where `deduplicate` is `near`.
    #[schemars(extend("x-added-later" = true))]
    pub dropped_near: u64,
    pub dropped_short: u64,
    pub dropped_long: u64,
    pub dropped_mixture: u64,
    /// Further times that rows of a mixture are used.
    #[schemars(extend("x-added-later" = true))]
    pub repeated: u64,
    /// Used rows whose trailing messages, which have no answer, are left out.
    #[schemars(extend("x-added-later" = true))]
    pub unanswered: u64,
    /// Used rows whose answers hold thoughts that the chat template leaves out.
    #[schemars(extend("x-added-later" = true))]
    pub thoughts_left_out: u64,
    pub parsed_dialogues: u64,
    /// Rendered by the template's interpreter instead of its compiled form.
    #[schemars(extend("x-added-later" = true))]
    pub interpreted: u64,
    pub eos_added: u64,
    pub tokens: u64,
    pub supervised_tokens: u64,
    pub bytes: u64,
}

/// The row counts of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SourceCounts {
    pub name: String,
    pub split: String,
    #[serde(flatten)]
    pub counts: RowCounts,
    /// Fields that nothing was read from, and in how many rows.
    #[schemars(extend("x-added-later" = true))]
    pub unused_fields: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SplitStatistics {
    pub rows: u64,
    pub documents: u64,
    /// Shared ones counted once.
    pub tokens: u64,
    /// Further tokens that documents share with others, so that they are not computed again.
    #[schemars(extend("x-added-later" = true))]
    pub shared_tokens: u64,
    pub supervised_tokens: u64,
    /// Share of the rows' capacity that holds tokens; null without packing.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-added-later" = true))]
    pub fill: Option<f64>,
    /// Documents by length: how many are at most this many tokens long, and longer than the bound before. The first
    /// bound counts nothing.
    pub length_histogram: Vec<(u64, u64)>,
    /// Shortest, quarter, median, three quarters, 90 %, 99 %, longest.
    pub length_quantiles: Vec<u64>,
    pub bytes: u64,
    /// Of the Arrow file.
    pub sha256: String,
}

/// Copies between training, validation and test rows, and within the training rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Duplicates {
    /// Rows that were compared, by part: `train`, `validation`, `test`, or a test set's name.
    pub rows: BTreeMap<String, u64>,
    /// Test file -> SHA-256. The files of the other parts are inputs of the cache.
    pub test_files: BTreeMap<String, String>,
    /// `recipe.data` of the plan by which they were read.
    #[schemars(extend("x-added-later" = true))]
    pub data: Option<Value>,
    /// Empty where there is no copy.
    pub found: Vec<DuplicateRows>,
    /// Of test sets that could not be read in whole.
    #[schemars(extend("x-added-later" = true))]
    pub unread: Vec<DataWarning>,
}

/// Rows of a part that copy rows of another part, or earlier rows of the same one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DuplicateRows {
    pub part: String,
    /// The part that has the originals.
    pub of: String,
    /// All rows of `part`.
    pub rows: u64,
    /// Copies that are equal to their originals.
    pub exact: u64,
    /// Copies with the same answer to a similar question.
    pub near: u64,
    /// The first ones: a copy and its original, each as file:line.
    pub examples: Vec<(String, String)>,
    /// Where there are enough to make scores worthless.
    #[schemars(extend("x-added-later" = true))]
    pub leak: Option<DataWarning>,
}

/// What a run that uses the cache says of its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DataWarning {
    pub message: String,
    pub hint: String,
}

impl DuplicateRows {
    pub fn is_within(&self) -> bool {
        self.part == self.of
    }
}

/// A row as it is learned, or why it cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub spans: Vec<PreviewSpan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervised_tokens: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewSpan {
    pub text: String,
    pub learned: bool,
}

/// `cache.json`, without its digest: what a token cache was made of, what became of the rows, and what the rows are
/// like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheRecord {
    pub format: u64,
    pub key: String,
    /// Everything that the key is made of.
    pub inputs: BTreeMap<String, Value>,
    /// The Jinja text that the rows were rendered with.
    #[schemars(extend("x-added-later" = true))]
    pub template: Option<String>,
    /// `native`, `tokenizers` or `another tool`.
    pub encoder: String,
    /// Why the native encoder was not used, and what that cost.
    #[schemars(extend("x-added-later" = true))]
    pub slow_encoder: Option<EncoderCost>,
    /// Null where nothing was compared.
    #[schemars(extend("x-added-later" = true))]
    pub duplicates: Option<Duplicates>,
    /// The data files when their rows were read: while they are so, `duplicates` holds. Empty where a source is not one
    /// plain file.
    #[schemars(extend("x-added-later" = true))]
    pub read_files: Vec<ReadFile>,
    /// `recipe.template` of the plan by which the rows were rendered.
    #[schemars(extend("x-added-later" = true))]
    pub rendered_by: Option<Value>,
    /// The base's files that decide tokens and template, when they were read: while they are so, a plan with the same
    /// `template` and `inputs` has these rows. Part `base`.
    #[schemars(extend("x-added-later" = true))]
    pub tokenizer_files: Vec<ReadFile>,
    pub sources: Vec<SourceCounts>,
    pub splits: BTreeMap<String, SplitStatistics>,
}

/// A data file as the file system describes it; times are nanoseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReadFile {
    /// `train`, `validation`, `test`, or a test set's name.
    pub part: String,
    pub name: String,
    pub bytes: u64,
    pub modified: u64,
    pub changed: u64,
    pub inode: u64,
}
