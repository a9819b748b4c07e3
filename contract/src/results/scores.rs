//! `evaluate`: scores with their intervals, answers, and comparisons.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::OtherRows;

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
    /// The plan's `evaluation_digest`.
    #[schemars(extend("x-added-later" = true))]
    pub evaluation_digest: Option<String>,
    /// What replaced the manifest's test rows: such scores are shown and never ranked. Absent where nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_rows: Option<OtherRows>,
    /// The name of an adapter that is not the run's `final/`, with the same consequence. Absent for `final/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_adapter: Option<String>,
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
    /// The commit of a Hub dataset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
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

/// The digests of the settings and of the test files.
pub type ScoredWith = (Option<String>, Vec<Option<String>>);

impl EvaluationResult {
    /// Scores are compared only where this is the same, besides `scored_by`.
    pub fn scored_with(&self) -> ScoredWith {
        let mut files: Vec<_> = self.main.test_set.iter().map(|file| file.sha256.clone()).collect();
        files.sort();
        (self.evaluation_digest.clone(), files)
    }

    /// The adapter and the rows, where they are not those of the run: `checkpoint-50, 1 row`.
    pub fn scores_of(&self) -> Option<String> {
        let rows = self.other_rows.map(|other| match (other, self.main.rows) {
            (OtherRows::Few, Some(1)) => "1 row".to_owned(),
            (OtherRows::Few, Some(rows)) => format!("{rows} rows"),
            (OtherRows::Few, None) => "fewer rows".to_owned(),
            (OtherRows::File, _) => "other rows".to_owned(),
            (OtherRows::Settings, _) => "other settings".to_owned(),
        });
        let parts: Vec<String> = self.other_adapter.iter().cloned().chain(rows).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
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
