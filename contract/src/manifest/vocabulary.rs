//! Enum values that only the manifest uses; the others are in the plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{Node, Value};
use super::setting::Decode;
use crate::plan::{
    AdapterKind, BadRow, CheckpointingMode, DataFormat, Objective, OptimizerName, Overlong, Quantization,
    RopeKind, RougeVariant, ScheduleKind, SoftPromptInit, StoppingStrategy, Strategy, TemplateKind,
    TextDialogue, Tracker, TrainOn, word,
};
use crate::words::Word;

word! { DatasetType { Single = "single", Huggingface = "huggingface", MultiTask = "multi_task" } }

word! { ActivationCheckpointing { None = "none", AttentionOnly = "attention_only", Full = "full" } }

word! {
    CompileMode {
        Default = "default", ReduceOverhead = "reduce-overhead", MaxAutotune = "max-autotune",
        MaxAutotuneNoCudagraphs = "max-autotune-no-cudagraphs",
    }
}

word! {
    /// How processes share the work; `deepspeed` is known so that its refusal can say why.
    Together { Ddp = "ddp", Fsdp2 = "fsdp2", Deepspeed = "deepspeed" }
}

/// A count; null, 0 and -1 stand for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit(pub Option<u64>);

impl Decode for Limit {
    fn decode(node: &Node) -> Option<Self> {
        match node.value {
            Value::Null => Some(Self(None)),
            Value::Number(number) if number <= 0.0 => Some(Self(None)),
            _ => u64::decode(node).map(|count| Self(Some(count))),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        self.0.show()
    }
}

/// Micro-batches per step: a number, or as many as suit the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulation {
    Steps(u64),
    Auto,
}

impl Accumulation {
    pub const AUTO: &str = "auto";
}

impl Decode for Accumulation {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Text(text) => (text == Self::AUTO).then_some(Self::Auto),
            _ => u64::decode(node).map(Self::Steps),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Steps(steps) => (*steps).into(),
            Self::Auto => Self::AUTO.into(),
        })
    }
}

/// `true`, `false`, `"selective"` or `"full"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GradientCheckpointing {
    Off,
    /// On, with the extent left to `activation_checkpointing`.
    On,
    Selective,
    Full,
}

impl GradientCheckpointing {
    pub const WORDS: &[&str] = &[CheckpointingMode::WORDS[1], CheckpointingMode::WORDS[2]];
}

impl Decode for GradientCheckpointing {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Bool(on) => Some(if *on { Self::On } else { Self::Off }),
            Value::Text(text) => match CheckpointingMode::parse(text)? {
                CheckpointingMode::None => None,
                CheckpointingMode::Selective => Some(Self::Selective),
                CheckpointingMode::Full => Some(Self::Full),
            },
            _ => None,
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Off => false.into(),
            Self::On => true.into(),
            Self::Selective => CheckpointingMode::Selective.as_str().into(),
            Self::Full => CheckpointingMode::Full.as_str().into(),
        })
    }
}

/// Which repeated rows are dropped: `false`, `true` or `"near"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduplicate {
    No,
    Exact,
    /// Exact copies, and near ones among the training rows.
    Near,
}

impl Deduplicate {
    pub const NEAR: &str = "near";
}

impl Decode for Deduplicate {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Bool(on) => Some(if *on { Self::Exact } else { Self::No }),
            Value::Text(text) => (text == Self::NEAR).then_some(Self::Near),
            _ => None,
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::No => false.into(),
            Self::Exact => true.into(),
            Self::Near => Self::NEAR.into(),
        })
    }
}

/// How a manifest names a kind of rope scaling: the plan's names, and other common names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeWord {
    /// The base's own setting.
    Default,
    Kind(RopeKind),
    /// `YaRN` without its attention temperature.
    NtkByParts,
}

impl RopeWord {
    pub const WORDS: &[&str] =
        &["none", "default", "linear", "dynamic", "yarn", "longrope", "llama3", "ntk-by-parts", "yarn-128k"];
}

impl Decode for RopeWord {
    fn decode(node: &Node) -> Option<Self> {
        match node.as_text()? {
            "none" | "default" => Some(Self::Default),
            "ntk-by-parts" => Some(Self::NtkByParts),
            // A model card's label; as with every plain word, the base's own setting stays.
            "yarn-128k" => Some(Self::Kind(RopeKind::Yarn)),
            word => RopeKind::parse(word).map(Self::Kind),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Default => "default".into(),
            Self::NtkByParts => "ntk-by-parts".into(),
            Self::Kind(kind) => kind.as_str().into(),
        })
    }
}

/// The modules an adapter is put on: a list, or the word `all-linear`, which is an empty list here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modules(pub Vec<String>);

impl Modules {
    pub const ALL_LINEAR: &str = "all-linear";
}

impl Decode for Modules {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text == Self::ALL_LINEAR => Some(Self::default()),
            Value::List(_) => Vec::decode(node).map(Self),
            _ => None,
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        if self.0.is_empty() { Some(Self::ALL_LINEAR.into()) } else { self.0.show() }
    }
}

/// Trackers to report to: a list, one word, or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trackers(pub Vec<Tracker>);

impl Decode for Trackers {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text == "none" => Some(Self(Vec::new())),
            Value::Text(_) => Decode::decode(node).map(|tracker| Self(vec![tracker])),
            _ => Vec::decode(node).map(Self),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        self.0.show()
    }
}

/// Makes vocabularies decodable; a blanket implementation would claim every type.
macro_rules! decode_words {
    ($($name:ty),+ $(,)?) => { $(
        impl Decode for $name {
            fn decode(node: &Node) -> Option<Self> {
                node.as_text().and_then(<Self as Word>::from_word)
            }

            fn show(&self) -> Option<serde_json::Value> {
                Some(Word::word(*self).into())
            }
        }
    )+ };
}

decode_words! {
    RougeVariant,
    ActivationCheckpointing, AdapterKind, BadRow, CompileMode, DataFormat, DatasetType, Objective, OptimizerName, Overlong,
    Quantization, ScheduleKind, SoftPromptInit, StoppingStrategy, Strategy, TemplateKind, TextDialogue, Together, Tracker, TrainOn,
}
