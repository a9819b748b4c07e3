//! What a stage of the worker reports at its end, and the records that a run leaves in its folder. Here every field may
//! be absent: a record may be older than this program. A value of another type makes the whole document unreadable.
//!
//! The worker's models are generated from these types. It writes every field, except those that are skipped when they
//! are absent and those with `x-added-later`, which records of older versions lack.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Device, Inputs, Machine, Recipe};

/// `train`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainResult {
    pub ok: bool,
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub train_loss: Option<f64>,
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

/// `evaluate`, and `evaluation.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvaluationResult {
    pub expert: Option<String>,
    pub scorer: Option<String>,
    /// SHA-256 of the file of the expert's own scorer; scores of different ones are not compared.
    #[schemars(extend("x-added-later" = true))]
    pub scorer_sha256: Option<String>,
    /// SHA-256 of the grammar that constrained the answers; scores with different ones are not compared.
    #[schemars(extend("x-added-later" = true))]
    pub grammar_sha256: Option<String>,
    /// Of `training.dataset.test_path`, or of the manifest's own test cases: what decisions go by.
    #[serde(flatten)]
    pub main: TestScores,
    /// Of each of `evaluation.test_sets`, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, TestScores>,
    /// What held the process that scored; null where nothing was scored.
    #[schemars(with = "Option<Confinement>")]
    pub confinement: Option<Value>,
    pub seconds: Option<f64>,
}

/// The scores on the rows of one test set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TestScores {
    /// What the field `accuracy` holds: `accuracy`, the share of right answers; `mean score`, or a metric's name.
    #[schemars(extend("x-added-later" = true))]
    pub measure: Option<String>,
    pub rows: Option<u64>,
    /// The files of the rows; empty where the manifest's own test cases were scored.
    #[schemars(extend("x-added-later" = true))]
    pub test_set: Vec<TestFile>,
    pub base: Option<Score>,
    /// Null where the base alone was scored.
    pub adapter: Option<Score>,
    /// The adapter against the base on the same rows; null where one of them was scored alone.
    #[schemars(extend("x-added-later" = true))]
    pub comparison: Option<PairedComparison>,
    /// Of a classification.
    #[schemars(extend("x-added-later" = true))]
    pub classes: Option<Classes>,
    pub by_level: Vec<ScoreLine>,
    pub by_tag: Vec<ScoreLine>,
    /// Absent where no answers were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampledScores>,
    /// Absent without `--against`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstScores>,
    /// Questions that the adapter answers and the base does not; only in `evaluation.json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<Example>,
    /// Only in `evaluation.json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Example>,
}

/// Another model, or another adapter of the same base, on the same rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgainstScores {
    pub name: String,
    /// With the prompt that was chosen for a model, or the path of an adapter.
    pub score: Option<Score>,
    /// The adapter's scores less these, row by row; null where the base alone was scored.
    pub comparison: Option<PairedComparison>,
}

/// The scores of several sampled answers to each row: of the adapter, or of the base where it was scored alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SampledScores {
    pub per_row: u64,
    pub temperature: f64,
    /// For 1, 2, 4 and so on up to `per_row`.
    pub pass_at: Vec<PassAt>,
    /// The score of the answer that most samples of a row agree on, by what it returns when it is executed.
    pub vote: Option<Share>,
    pub by_level: Vec<SampledLine>,
    pub by_tag: Vec<SampledLine>,
}

/// The mean probability that one of `k` samples of a row has the full score: 1 - C(n-c, k) / C(n, k) for `c` of `n`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PassAt {
    pub k: u64,
    #[serde(flatten)]
    pub share: Share,
}

/// Of the rows with one level or tag.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SampledLine {
    pub name: String,
    pub pass_at: Vec<PassAt>,
    pub vote: Option<Share>,
}

/// A source of the rows that were scored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TestFile {
    pub name: Option<String>,
    /// SHA-256 of every byte that its rows are read from.
    pub sha256: Option<String>,
}

impl EvaluationResult {
    /// The scorer with the first digits of its file's digest and the grammar. Scores are compared only where this is the
    /// same.
    pub fn scored_by(&self) -> Option<String> {
        let name = self.scorer.clone()?;
        let digits = self.scorer_sha256.as_deref().and_then(|digest| digest.get(..8));
        let scorer = digits.map_or(name.clone(), |digits| format!("{name} ({digits})"));
        let grammar = self.grammar_sha256.as_deref().and_then(|digest| digest.get(..8));
        Some(
            grammar.map_or(scorer.clone(), |digits| {
                format!("{scorer}, answers constrained by grammar {digits}")
            }),
        )
    }
}

/// The mean of scores from 0 to 1, with a 95% interval. Of right and wrong answers it is the share of right ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Share {
    /// Answers with the full score.
    #[schemars(with = "u64")]
    pub correct: Option<u64>,
    #[schemars(with = "u64")]
    pub total: Option<u64>,
    #[schemars(with = "f64", range(min = 0.0, max = 1.0))]
    pub accuracy: Option<f64>,
    #[schemars(with = "f64", range(min = 0.0, max = 1.0))]
    pub low: Option<f64>,
    #[schemars(with = "f64", range(min = 0.0, max = 1.0))]
    pub high: Option<f64>,
}

/// The score of the base or of the adapter on all rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Score {
    #[serde(flatten)]
    pub share: Share,
    pub loss: Option<f64>,
    /// Answers that count as 0 because the scorer failed on them or gave no verdict.
    #[schemars(extend("x-added-later" = true))]
    pub unscored: u64,
    /// Wrong answers that do not parse: only these can be won by a grammar. Null where the scorer has no parser.
    #[schemars(extend("x-added-later" = true))]
    pub unparsed: Option<Unparsed>,
    /// The base's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PromptChoice>")]
    pub prompt: Option<Value>,
    /// The adapter's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Wrong answers that the scorer's parser refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Unparsed {
    pub answers: u64,
    /// How many of them end at `max_new_tokens`: a longer limit may win these, not a grammar.
    pub cut: u64,
}

/// The number of examples in the base's prompt, chosen by what scored best on validation rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PromptChoice {
    pub shots: u64,
    /// By the number of examples; empty where there were no rows to choose by.
    pub tried: BTreeMap<String, Share>,
}

/// What the system closed to the process that scored; null where nothing was in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Confinement {
    pub files: Option<String>,
    pub network: Option<String>,
    /// Why something was not in force.
    pub missing: Vec<String>,
}

/// A line of a table: base beside adapter, and what they are compared with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScoreLine {
    pub name: String,
    pub base: Option<Share>,
    pub adapter: Option<Share>,
    /// Of what `--against` names; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Share>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Example {
    pub prompt: String,
    pub expected: String,
    pub tags: Vec<String>,
    pub base: Option<Answer>,
    pub adapter: Option<Answer>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Answer {
    pub text: String,
    /// Whether it has the full score.
    pub correct: bool,
    pub reason: String,
    /// From 0 to 1; null in records of older versions.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-added-later" = true))]
    pub score: Option<f64>,
    /// It counts as 0 because the scorer failed on it or gave no verdict.
    #[schemars(extend("x-added-later" = true))]
    pub unscored: bool,
    /// It is wrong because the scorer's parser refuses it.
    #[schemars(extend("x-added-later" = true))]
    pub unparsed: bool,
    /// It ends at `max_new_tokens`, not by itself.
    #[schemars(extend("x-added-later" = true))]
    pub cut: bool,
}

/// The scores of a classification by label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Classes {
    pub labels: Vec<String>,
    pub base: Option<ClassScores>,
    pub adapter: Option<ClassScores>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClassScores {
    /// The mean F1 of the labels that occur in references or answers.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub macro_f1: f64,
    /// In the order of `labels`.
    pub by_label: Vec<LabelScore>,
    /// For each label the number of its rows by the label of the answer; last, answers that name none or several.
    pub confusion: Vec<Vec<u64>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LabelScore {
    pub label: String,
    /// Rows with this label as reference.
    pub rows: u64,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub precision: f64,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub recall: f64,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub f1: f64,
}

/// The adapter's scores less those of the base, or of what it is compared with, row by row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PairedComparison {
    /// The mean, with a 95% interval.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub difference: f64,
    #[schemars(range(min = -1.0, max = 1.0))]
    pub low: f64,
    #[schemars(range(min = -1.0, max = 1.0))]
    pub high: f64,
    /// Rows that the adapter answers better than the other, and worse.
    pub better: u64,
    pub worse: u64,
}

/// `search.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchRecord {
    pub expert: Option<String>,
    pub base: Option<String>,
    /// Number that the drawn trials follow from.
    pub seed: u64,
    /// Null where the budget is a time.
    pub trial_limit: Option<u64>,
    /// Validation rows that are scored at most; null for all.
    pub rows: Option<u64>,
    pub space: Vec<SearchRange>,
    /// What the manifest's own recipe is trained with.
    pub inputs: Option<Inputs>,
    /// The first one is the manifest's own recipe.
    pub trials: Vec<SearchTrial>,
    /// Spent until the last change of the record.
    pub seconds: f64,
    /// The number of a trial, from 0.
    pub winner: Option<u64>,
    /// At which it won: 0 is a ninth of the steps, 2 all of them.
    pub winner_rung: Option<u64>,
    /// The winner less the manifest's own recipe, row by row; null where they are one.
    pub comparison: Option<PairedComparison>,
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

/// `base`: fetches or converts the base model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BaseResult {
    pub ok: bool,
    pub folder: Option<String>,
}

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
    pub dropped_overlong: u64,
    pub dropped_unsupervised: u64,
    pub dropped_duplicate: u64,
    /// Near copies of training rows, where `deduplicate` is `near`.
    #[schemars(extend("x-added-later" = true))]
    pub dropped_near: u64,
    pub dropped_short: u64,
    pub dropped_long: u64,
    pub dropped_mixture: u64,
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
    pub tokens: u64,
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
    /// Empty where there is no copy.
    pub found: Vec<DuplicateRows>,
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

/// `bench`: one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchResult {
    pub ok: bool,
    /// Whether the longest batch fitted without being split.
    pub fits: Option<bool>,
    pub micro_batch: Option<u64>,
    pub ready_seconds: Option<f64>,
    pub loaded_bytes: Option<u64>,
    pub peak_bytes_of_longest: Option<u64>,
    pub peak_bytes: Option<u64>,
    pub gpu_utilization: Option<f64>,
    /// Null where a loss was not finite.
    pub losses: Option<Vec<Option<f64>>>,
    pub tokens: Option<u64>,
    pub seconds: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub first_step_seconds: Option<f64>,
    pub steps: Vec<BenchStep>,
    /// Settings as read back.
    pub applied: BTreeMap<String, Value>,
    /// By operation of the fast path; empty on the plain path.
    pub kernels: BTreeMap<String, KernelChoice>,
}

/// The kernel that computes an operation, and the others that run on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelChoice {
    pub chosen: String,
    pub others: Vec<String>,
}

/// Seconds of a measured step by what it spent them on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchStep {
    pub seconds: f64,
    pub tokens: u64,
    pub data_wait: f64,
    pub transfer: f64,
    pub host_launch: f64,
    pub device_compute: f64,
    pub update: f64,
}

/// `export`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExportResult {
    /// The new folder.
    pub target: String,
    pub merged: bool,
    pub bytes: u64,
    /// The largest difference between the logits of what was exported and of what was trained; null for GGUF.
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
}

/// `run.json`: what made an adapter, and why this step was chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunRecord {
    pub contract: Option<u32>,
    pub recipe_digest: Option<String>,
    /// As it was when the run ended; compared, never run.
    #[schemars(with = "Option<Recipe>")]
    pub recipe: Option<Value>,
    pub cache_key: Option<String>,
    pub best: Option<BestChoice>,
    /// The result of `train`.
    #[schemars(with = "Option<TrainResult>")]
    pub result: Option<Value>,
    /// Settings as read back.
    pub applied: BTreeMap<String, Value>,
    pub packages: BTreeMap<String, Option<String>>,
    pub machine: Option<RunMachine>,
    pub git_commit: Option<String>,
    pub inputs: Option<Inputs>,
    /// The files of `final/`, by which it is verified.
    #[serde(rename = "final")]
    pub adapter: BTreeMap<String, FileDigest>,
    /// A file that has gone meanwhile is null.
    pub data: BTreeMap<String, Option<FileDigest>>,
    pub base: BTreeMap<String, Option<FileDigest>>,
}

/// `expert.json` beside an adapter: what it is, what it was made of and how well it does. Nothing in it depends on the
/// machine or the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertRecord {
    /// Of this document.
    #[schemars(with = "u32")]
    pub format: Option<u32>,
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// The expert's own, from its manifest; the base has its own licence.
    pub license: Option<String>,
    #[schemars(with = "ExpertBase")]
    pub base: Option<ExpertBase>,
    /// The kind of adapter.
    #[schemars(with = "String")]
    pub adapter: Option<String>,
    /// The name of the template that rendered the training rows; its text is `chat_template.jinja`.
    #[schemars(with = "String")]
    pub template: Option<String>,
    #[schemars(with = "String")]
    pub recipe_digest: Option<String>,
    /// By the names in the manifest.
    pub data: BTreeMap<String, Option<FileDigest>>,
    /// The files beside this one; the model card is left out, because people edit it.
    pub files: BTreeMap<String, FileDigest>,
    /// What constrains its answers, where anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<ExpertGrammar>,
    /// Null until the adapter is evaluated.
    pub score: Option<ExpertScore>,
}

/// The file beside `expert.json` that constrains answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertGrammar {
    /// `grammar.gbnf`, or `grammar.json` for a JSON Schema.
    #[schemars(with = "String")]
    pub name: Option<String>,
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertBase {
    /// The Hub id; of a base in a folder the folder's name.
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// How its weights were held in training.
    #[schemars(with = "String")]
    pub quantization: Option<String>,
    /// Weights, configuration and tokenizer.
    pub files: BTreeMap<String, Option<FileDigest>>,
}

/// What `evaluate` measured on the expert's own test rows, with 95% intervals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExpertScore {
    pub scorer: Option<String>,
    #[serde(flatten)]
    pub main: SetScore,
    /// Of further test sets, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, SetScore>,
}

/// The score on one test set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SetScore {
    /// What the field `accuracy` holds.
    pub measure: Option<String>,
    pub rows: Option<u64>,
    pub base: Option<Share>,
    pub adapter: Option<Share>,
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

/// The machine that a run was computed on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunMachine {
    #[schemars(with = "Option<Device>")]
    pub device: Option<Value>,
    pub dtype: Option<String>,
    pub cpu_capability: Option<String>,
    pub threads: Option<u32>,
    pub cuda: Option<String>,
    pub os: Option<String>,
    pub architecture: Option<String>,
    pub python: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FileDigest {
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
    #[schemars(with = "u64")]
    pub bytes: Option<u64>,
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
    /// Digests of what the run was begun with.
    #[schemars(extend("x-added-later" = true))]
    pub inputs: Option<Inputs>,
    /// The number of compute threads affects rounding, so a resumed run keeps it.
    #[schemars(extend("x-added-later" = true))]
    pub threads: Option<u32>,
    /// Whether a 16-bit run on a CPU forms its products in fp32, which a resumed run keeps for the same reason; null
    /// where there is no choice.
    #[schemars(extend("x-added-later" = true))]
    pub fp32_products: Option<bool>,
    /// What computed the run: another one rounds differently.
    #[schemars(extend("x-added-later" = true))]
    pub processor: Option<String>,
    /// Of the steps of this attempt so far, the first one left out; null before the second.
    #[schemars(extend("x-added-later" = true))]
    pub tokens_per_second: Option<f64>,
    /// The most memory that the attempt has held so far: resident on a CPU, reserved on a GPU.
    #[schemars(extend("x-added-later" = true))]
    pub peak_memory_bytes: Option<u64>,
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
    pub sources: Vec<SourceCounts>,
    pub splits: BTreeMap<String, SplitStatistics>,
}

/// `plan.json` of a run, the keys that every version has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanRecord {
    pub contract: Option<u32>,
    pub recipe_digest: Option<String>,
    /// What the expert is for.
    pub description: Option<String>,
    #[schemars(with = "Option<Recipe>")]
    pub recipe: Option<Value>,
    #[schemars(with = "Option<Machine>")]
    pub machine: Option<Value>,
}

impl PlanRecord {
    pub fn expert(&self) -> Option<&str> {
        self.recipe.as_ref()?.get("expert")?.as_str()
    }

    /// The base as the manifest names it.
    pub fn base_name(&self) -> Option<&str> {
        base_name(self.recipe.as_ref()?)
    }

    /// The root of the expert's token caches.
    pub fn cache(&self) -> Option<&str> {
        self.path("cache")
    }

    /// The manifest that the run was planned from.
    pub fn manifest(&self) -> Option<&str> {
        self.path("manifest")
    }

    /// The base's folder.
    pub fn base_folder(&self) -> Option<&str> {
        self.path("base")
    }

    fn path(&self, name: &str) -> Option<&str> {
        self.machine.as_ref()?.get("paths")?.get(name)?.as_str()
    }
}

impl RunRecord {
    /// The base as the manifest names it.
    pub fn base_name(&self) -> Option<&str> {
        base_name(self.recipe.as_ref()?)
    }
}

fn base_name(recipe: &Value) -> Option<&str> {
    recipe.get("base")?.get("name")?.as_str()
}
