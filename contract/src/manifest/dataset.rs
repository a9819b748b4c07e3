//! `training.dataset`.

use std::collections::BTreeMap;

use super::json::{Node, Object, Value, is_comment};
use super::section::section;
use super::setting::Decode;
use super::vocabulary::{DatasetType, Deduplicate};
use crate::ledger::{COUNT, Class, Kind, NOT_NEGATIVE, PART, WHOLE};
use crate::plan::{BadRow, DataFormat, Overlong, StoppingStrategy, TextDialogue, TrainOn};

const PATH: Kind = Kind::OneOf(&[Kind::Text, Kind::Null]);
const FORMAT: Kind = Kind::OneOf(&[Kind::Word(DataFormat::WORDS), Kind::Null]);
const TASK_OBJECT: Kind = Kind::Object(&TASK);

section! {
    /// The training data.
    Dataset = DATASET at "training.dataset" {
        text_key: Some("path"),
        metadata_endings: &["_distribution"],
    }
    honoured {
        path ["path"]: Option<String> = None, PATH,
            "The training data: a file in the expert's folder, or `name::split::config` of a Hub dataset.";
        validation_path ["validation_path"]: Option<String> = None, PATH, "The data for evaluation during training.";
        test_path ["test_path"]: Option<String> = None, PATH, "The data that finished adapters are scored on.";
        validation_split ["validation_split"]: Option<f64> = None, Kind::OneOf(&[PART, Kind::Null]),
            "Share of the training rows held out for validation.";
        kind ["type"]: Option<DatasetType> = None, Kind::OneOf(&[Kind::Word(DatasetType::WORDS), Kind::Null]),
            "`single` file, `huggingface` dataset, or `multi_task` mixture; derived from `path` and `tasks` by default.";
        format ["format"]: Option<DataFormat> = None, FORMAT, "The files' format; derived from the file extension by default.";
        streaming ["streaming"]: bool = false, Kind::Bool, "Tokenize for this run only, and keep no token cache of it.";
        field_mapping ["field_mapping"]: BTreeMap<String, String> = BTreeMap::new(), Kind::Map(&Kind::Text),
            "Canonical field to the row's own field, dotted where it is nested: `{\"completion\": \"output.sql\"}`. docs/your-data.md lists the canonical ones.";
        text_field ["text_field"]: Option<String> = None, PATH, "The field that holds the whole text; as `field_mapping.text`.";
        use_pretokenized ["use_pretokenized"]: bool = true, Kind::Bool, "Train from the mapped token cache; false tokenizes on the fly.";
        tasks ["tasks"]: Tasks = Tasks::default(), Kind::OneOf(&[Kind::List(&TASK_OBJECT), Kind::Map(&TASK_OBJECT)]),
            "The tasks of a mixture: a list, or an object by name. Without weights all rows of all tasks are taken.";
        weights ["weights"]: Weights = Weights::default(), Kind::OneOf(&[Kind::List(&NOT_NEGATIVE), Kind::Map(&NOT_NEGATIVE)]),
            "Weights of the tasks, one for each, by name or in their order. All rows of the task that is scarcest for its weight are taken, and of each other task only as many as its share allows: the rest is left out (`stopping_strategy` repeats rows instead). Validation and test rows are all used. A task with weight 0 is left out, with its validation and test rows: to score an adapter on it, name its rows in `evaluation.test_sets`.";
        stopping_strategy ["stopping_strategy"]: StoppingStrategy = StoppingStrategy::FirstExhausted, Kind::Word(StoppingStrategy::WORDS),
            "How a mixture comes to its weights: `first_exhausted` leaves out rows of the tasks that are too large for their weight, `all_exhausted` uses every row and repeats those of the tasks that are too small for it.";
        validation ["validation"]: RowChecks = RowChecks::default(), Kind::OneOf(&[Kind::Object(&ROW_CHECKS), Kind::Null]),
            "Which rows are dropped before training.";
        train_on ["train_on"]: TrainOn = TrainOn::Completions, Kind::Word(TrainOn::WORDS),
            "Which tokens are supervised: the last answer, every assistant turn, or all.";
        on_bad_row ["on_bad_row"]: BadRow = BadRow::Error, Kind::Word(BadRow::WORDS), "What happens with a row that cannot be read, of training, validation or test data: an error that names it, or it is left out and counted.";
        overlong ["overlong"]: Overlong = Overlong::Truncate, Kind::Word(Overlong::WORDS), "What happens with rows longer than `max_seq_length`: `truncate` cuts their ends, `keep_end` their beginnings.";
        text_dialogue ["text_dialogue"]: TextDialogue = TextDialogue::Parse, Kind::Word(TextDialogue::WORDS),
            "Whether a `text` that is itself a rendered dialogue is parsed into messages.";
    }
    kept {
        ["augmentation"]: Kind::Any, Class::Advice {
            reason: "rows are used as they are in the file",
            instead: "write the augmented rows into the dataset, where they can be reviewed",
        }, "Asks for rows to be altered while training.";
        ["max_in_memory_samples"]: Kind::OneOf(&[COUNT, Kind::Null]), Class::Advice {
            reason: "rows are read from a mapped file, so their number takes no memory, and all of them are shuffled",
            instead: "remove the key",
        }, "Rows that a streamed source may hold to shuffle among.";
        ["error_injection_ratio"]: Kind::Any, Class::Advice {
            reason: "rows are used as they are in the file",
            instead: "write the damaged rows into the dataset, where they can be reviewed",
        }, "Asks for a share of the rows to be damaged.";
        ["source"]: Kind::Any, Class::Metadata, "Where the data came from.";
        ["sources"]: Kind::Any, Class::Metadata, "Where the data came from, in parts.";
        ["preprocessing"]: Kind::Any, Class::Metadata, "How the data was made.";
        ["splits"]: Kind::Any, Class::Metadata, "Row counts at the time of writing.";
    }
}

section! {
    /// Which rows are dropped before training.
    RowChecks = ROW_CHECKS at "training.dataset.validation" {}
    honoured {
        deduplicate ["deduplicate"]: Deduplicate = Deduplicate::No, Kind::OneOf(&[Kind::Bool, Kind::Word(&[Deduplicate::NEAR])]),
            "Drop rows that repeat an earlier one exactly; `near` also drops training rows with the same answer to nearly the same question as an earlier one.";
        min_length ["min_length"]: Option<u64> = None, Kind::OneOf(&[WHOLE, Kind::Null]), "Drop rows with fewer characters.";
        max_length ["max_length"]: Option<u64> = None, Kind::OneOf(&[COUNT, Kind::Null]), "Drop rows with more characters.";
    }
    kept {}
}

section! {
    /// One task of a mixture; a plain text is its path.
    Task = TASK at "training.dataset.tasks[]" {
        required: &["path"],
        text_key: Some("path"),
    }
    honoured {
        name ["name"]: Option<String> = None, PATH, "The task's name; its path by default.";
        path ["path"]: String = String::new(), Kind::Text, "The task's training data, as `training.dataset.path`.";
        validation_path ["validation_path"]: Option<String> = None, PATH, "The task's validation data.";
        test_path ["test_path"]: Option<String> = None, PATH, "The task's test data.";
        format ["format"]: Option<DataFormat> = None, FORMAT, "The task's format, if it differs from the dataset's.";
        weight ["weight"]: Option<f64> = None, Kind::OneOf(&[NOT_NEGATIVE, Kind::Null]), "The task's share relative to the others, as in `weights`; 1 by default where another task has one.";
    }
    kept {
        ["description"]: Kind::Any, Class::Metadata, "What the task is.";
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tasks(pub Vec<Task>);

impl Decode for Tasks {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::List(_) => Vec::decode(node).map(Self),
            Value::Object(object) => Some(Self(named_tasks(object))),
            _ => None,
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        self.0.is_empty().then(|| serde_json::Value::Array(Vec::new()))
    }
}

fn named_tasks(object: &Object) -> Vec<Task> {
    let members = object.members.iter().filter(|member| !is_comment(&member.key));
    members
        .filter_map(|member| {
            let mut task = Task::decode(&member.node)?;
            if task.name.is_none() {
                let name = Node { span: member.key_span, value: Value::Text(member.key.clone()) };
                task.name.value = Option::decode(&name)?;
            }
            Some(task)
        })
        .collect()
}

/// Weights by position or by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Weights {
    InOrder(Vec<f64>),
    ByName(BTreeMap<String, f64>),
}

impl Default for Weights {
    fn default() -> Self {
        Self::InOrder(Vec::new())
    }
}

impl Decode for Weights {
    fn decode(node: &Node) -> Option<Self> {
        Vec::decode(node).map(Self::InOrder).or_else(|| BTreeMap::decode(node).map(Self::ByName))
    }

    fn show(&self) -> Option<serde_json::Value> {
        match self {
            Self::InOrder(weights) => weights.show(),
            Self::ByName(weights) => weights.show(),
        }
    }
}

impl Dataset {
    /// The kind that is declared, or that follows from `path` and `tasks`.
    pub fn resolved_kind(&self) -> DatasetType {
        let huggingface = self.path.as_deref().is_some_and(|path| path.contains("::"))
            || *self.format == Some(DataFormat::Huggingface);
        match *self.kind {
            Some(kind) => kind,
            None if !self.tasks.0.is_empty() => DatasetType::MultiTask,
            None if huggingface => DatasetType::Huggingface,
            None => DatasetType::Single,
        }
    }

    /// Each task with its name and its share. The shares add up to 1; without any weight each is 1, which takes all rows.
    pub fn weighted_tasks(&self) -> Vec<(String, f64, &Task)> {
        let tasks = &self.tasks.0;
        let name = |task: &Task| task.name.value.clone().unwrap_or_else(|| task.path.value.clone());
        let weight = |(index, task): (usize, &Task)| match (*task.weight, &*self.weights) {
            (Some(own), _) => own,
            (None, Weights::InOrder(weights)) => weights.get(index).copied().unwrap_or(1.0),
            (None, Weights::ByName(weights)) => weights.get(&name(task)).copied().unwrap_or(1.0),
        };
        let weights: Vec<f64> = tasks.iter().enumerate().map(weight).collect();
        let total: f64 = if self.is_weighted() { weights.iter().sum() } else { 1.0 };
        let share = |weight: f64| if total > 0.0 { weight / total } else { 0.0 };
        tasks.iter().zip(weights).map(|(task, weight)| (name(task), share(weight), task)).collect()
    }

    /// The same without tasks of weight 0, of which no row is used.
    pub fn used_tasks(&self) -> impl Iterator<Item = (String, f64, &Task)> {
        self.weighted_tasks().into_iter().filter(|(_, share, _)| *share > 0.0)
    }

    /// Whether tasks have shares; without any weight all rows of all of them are taken.
    pub fn is_weighted(&self) -> bool {
        let has_list = match &*self.weights {
            Weights::InOrder(weights) => !weights.is_empty(),
            Weights::ByName(weights) => !weights.is_empty(),
        };
        has_list || self.tasks.0.iter().any(|task| task.weight.is_some())
    }

    /// Canonical field to the row's field, with `text_field` in its place.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = self.field_mapping.value.clone();
        if let Some(text) = &*self.text_field {
            fields.entry("text".to_owned()).or_insert_with(|| text.clone());
        }
        fields
    }

    /// Whether there is any validation data.
    pub fn has_validation(&self) -> bool {
        self.has_validation_files() || self.validation_split.is_some()
    }

    /// Whether validation rows come from their own file, so that answers to them can be scored.
    pub fn has_validation_files(&self) -> bool {
        self.validation_path.is_some() || self.used_tasks().any(|(.., task)| task.validation_path.is_some())
    }
}
