//! The manifest's outermost objects.

use super::base::{
    ADAPTER, AdapterEntry, BASE_MODEL, BaseModel, DECODING, Decoding, SOFT_PROMPT, SoftPrompt,
};
use super::config::{CONFIG, Config};
use super::dataset::{DATASET, Dataset};
use super::json::{Node, Value};
use super::routing::{ROUTING, Routing};
use super::scorer::{SCORER, Scorer};
use super::section::section;
use super::setting::Decode;
use super::test_sets::TestSets;
use super::vocabulary::Limit;
use crate::ledger::{Class, Kind, Unknown};

const TEXT_OR_NULL: Kind = Kind::OneOf(&[Kind::Text, Kind::Null]);

section! {
    /// One expert.
    Root = ROOT at "" {
        unknown: Unknown::Keep,
        required: &["name"],
    }
    honoured {
        name ["name"]: String = String::new(), Kind::Text,
            "The expert's name: letters, digits, `.`, `_` and `-`. It names the expert's folders.";
        schema_version ["schema_version"]: Option<String> = None, TEXT_OR_NULL,
            "Version of the format, `1.0` or `2.0`; derived from the keys by default.";
        base_model ["base_model"]: Option<BaseModel> = None, Kind::OneOf(&[Kind::Object(&BASE_MODEL), Kind::Null]),
            "The base model, in version 1.0 of the format.";
        base_models ["base_models"]: Vec<BaseModel> = Vec::new(), Kind::List(&Kind::Object(&BASE_MODEL)),
            "The base models that the expert can be trained for; the first one is the default.";
        adapters ["adapters"]: Vec<AdapterEntry> = Vec::new(), Kind::List(&Kind::Object(&ADAPTER)),
            "The description of the adapter, in version 1.0 of the format.";
        soft_prompts ["soft_prompts"]: Vec<SoftPrompt> = Vec::new(), Kind::List(&Kind::Object(&SOFT_PROMPT)),
            "Virtual tokens to train, for `adapter_type: prompt`.";
        training ["training"]: Training = Training::default(), Kind::Object(&TRAINING), "Training data and settings.";
        evaluation ["evaluation"]: Evaluation = Evaluation::default(), Kind::OneOf(&[Kind::Object(&EVALUATION), Kind::Null]),
            "How finished adapters are scored.";
        routing ["routing"]: Option<Routing> = None, Kind::OneOf(&[Kind::Object(&ROUTING), Kind::Null]), "How a router chooses the expert.";
        license ["license"]: Option<String> = None, TEXT_OR_NULL,
            "The expert's licence, an SPDX identifier such as `Apache-2.0`; the model card and `expert.json` name it.";
        schema ["$schema"]: Option<String> = None, TEXT_OR_NULL, "The JSON Schema that an editor checks the manifest against.";
    }
    kept {
        ["version"]: Kind::Any, Class::Metadata, "The expert's version.";
        ["description"]: Kind::Any, Class::Metadata, "What the expert is for.";
        ["author"]: Kind::Any, Class::Metadata, "Who made it.";
        ["homepage"]: Kind::Any, Class::Metadata, "Where it lives.";
        ["repository"]: Kind::Any, Class::Metadata, "Where its source lives.";
        ["tags"]: Kind::Any, Class::Metadata, "Words to find it by.";
        ["capabilities"]: Kind::Any, Class::Metadata, "What it can do.";
        ["limitations"]: Kind::Any, Class::Metadata, "What it cannot do.";
        ["constraints"]: Kind::Any, Class::Metadata, "How a runtime may combine it.";
        ["perf"]: Kind::Any, Class::Metadata, "Its cost for a runtime.";
        ["runtime"]: Kind::Any, Class::Metadata, "Its requirements for a runtime.";
        ["quality_metrics"]: Kind::Any, Class::Metadata, "Results of past evaluations.";
        ["integrity"]: Kind::Any, Class::Metadata, "Digests and signatures of a package.";
        ["load_order"]: Kind::Any, Class::Metadata, "When a runtime loads it.";
        ["requires"]: Kind::Any, Class::Metadata, "Other experts that a runtime loads with it.";
    }
}

section! {
    /// Training data and settings.
    Training = TRAINING at "training" {
        unknown: Unknown::Keep,
        shorthand: Some(&CONFIG),
    }
    honoured {
        dataset ["dataset"]: Dataset = Dataset::default(), Kind::Object(&DATASET), "The training data; a plain string is its path.";
        config ["config"]: Config = Config::default(), Kind::Object(&CONFIG),
            "Training settings. Version 1.0 manifests may have these keys directly in `training`.";
        decoding ["decoding"]: Decoding = Decoding::default(), Kind::OneOf(&[Kind::Object(&DECODING), Kind::Null]), "How answers are generated.";
    }
    kept {
        ["trained_on"]: Kind::Any, Class::Metadata, "When it was trained.";
        ["checkpoint"]: Kind::Any, Class::Metadata, "The checkpoint that was chosen.";
        ["packaging_checkpoint"]: Kind::Any, Class::Metadata, "The checkpoint that is packaged.";
        ["base_model_version"]: Kind::Any, Class::Metadata, "The base that it was trained on.";
        ["alternative_checkpoints"]: Kind::Any, Class::Metadata, "Other checkpoints worth having.";
        ["quality_score"]: Kind::Any, Class::Metadata, "Result of a past evaluation.";
        ["test_scenarios"]: Kind::Any, Class::Metadata, "Manual tests.";
        ["dataset_generation"]: Kind::Any, Class::Metadata, "How the data was made.";
        ["script"]: Kind::Any, Class::Metadata, "A script that trained it earlier; never run.";
    }
}

section! {
    /// How finished adapters are scored.
    Evaluation = EVALUATION at "evaluation" {}
    honoured {
        scorer ["scorer"]: Option<Scorer> = None, Kind::OneOf(&[Kind::Text, Kind::Object(&SCORER), Kind::Null]),
            "What judges an answer, `exact` where none is named: `sql`, `json`, `cypher`, `typescript`, `exact`, `contains`, `regex`, `classification`, `rouge`, `chrf`, `package:name` for one that an installed package offers, or `{\"python\": \"score.py:score\"}` for your own function; an object may also hold `classification`, `rouge` or `judge` with their settings.";
        test_cases ["test_cases"]: TestCases = TestCases::default(), Kind::OneOf(&[Kind::List(&Kind::Object(&TEST_CASE)), Kind::Text, Kind::Null]),
            "Questions asked beside the test set: a list, or a file in the expert's folder with a JSON list or one JSON object per line. Not with `sql` and `cypher`, whose rows need more fields.";
        test_sets ["test_sets"]: TestSets = TestSets::default(), Kind::OneOf(&[Kind::Map(&Kind::Text), Kind::Null]),
            "Further test sets, name to path, as `{\"people\": \"datasets/people.jsonl\"}`: each is scored separately, by the same scorer. Nothing is trained or chosen by them: whatever decides by a score decides by `training.dataset.test_path`.";
        test_set_size ["test_set_size"]: Limit = Limit(None), Kind::OneOf(&[crate::ledger::WHOLE, Kind::Null]),
            "Rows of each test set that are scored: one drawn from each of as many equal parts, always the same ones; all where it is absent, null or 0.";
        max_new_tokens ["max_new_tokens"]: Option<u32> = None, Kind::OneOf(&[Kind::Integer { min: 1, max: 1_048_576 }, Kind::Null]),
            "Maximum tokens of an answer that is scored; that of `training.decoding` by default.";
    }
    kept {
        ["failure_modes"]: Kind::Any, Class::Metadata, "Known failures.";
        ["suite"]: Kind::Any, Class::Metadata, "What the tests are called where results of several experts are compared.";
        ["metrics"]: Kind::Any, Class::Metadata, "Names of metrics, or past results: a report has every metric of the scorer.";
    }
}

section! {
    /// A question with the expected answer.
    TestCase = TEST_CASE at "evaluation.test_cases[]" {
        required: &["prompt", "expected"],
    }
    honoured {
        prompt ["prompt", "input", "question"]: String = String::new(), Kind::Text, "The question.";
        expected ["expected", "output", "expected_output", "answer"]: String = String::new(), Kind::Text, "The expected answer.";
    }
    kept {
        ["name"]: Kind::Any, Class::Metadata, "The case's name.";
        ["id"]: Kind::Any, Class::Metadata, "The case's name.";
        ["category"]: Kind::Any, Class::Metadata, "What the case is about.";
        ["description"]: Kind::Any, Class::Metadata, "What the case is about.";
    }
}

/// Questions in the manifest itself, or the file that holds them.
#[derive(Debug, Clone, PartialEq)]
pub enum TestCases {
    Listed(Vec<TestCase>),
    File(String),
}

impl Default for TestCases {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl TestCases {
    pub fn file(&self) -> Option<&String> {
        if let Self::File(path) = self { Some(path) } else { None }
    }
}

impl Decode for TestCases {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Null => Some(Self::default()),
            Value::Text(path) => Some(Self::File(path.clone())),
            _ => Vec::decode(node).map(Self::Listed),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        match self {
            Self::Listed(cases) => cases.show(),
            Self::File(path) => Some(path.as_str().into()),
        }
    }
}
