//! What a row is understood as, and how rows are read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::value::Value;
use crate::problem::Fault;

/// What the loss sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrainOn {
    /// The last answer.
    #[default]
    Completions,
    /// Every assistant turn.
    Assistant,
    All,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<'a> {
    pub role: Cow<'a, str>,
    pub content: Cow<'a, str>,
    /// An answer that the row says is not to be learned.
    pub unlearned: bool,
}

impl<'a> Turn<'a> {
    pub fn new(role: impl Into<Cow<'a, str>>, content: impl Into<Cow<'a, str>>) -> Self {
        Self { role: role.into(), content: content.into(), unlearned: false }
    }

    /// An answer that may be learned.
    pub fn is_answer(&self) -> bool {
        self.role == "assistant" && !self.unlearned
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shaped<'a> {
    /// Learned as it stands.
    Text(Cow<'a, str>),
    /// Plain messages.
    Turns(Vec<Turn<'a>>),
    /// Messages with more than role and content, or with tools: rendered by the template from the values themselves.
    Rich {
        messages: Vec<Value<'a>>,
        tools: Option<Value<'a>>,
        /// Answers that the row says are not to be learned, by their places.
        unlearned: Vec<usize>,
    },
}

/// A row as it was understood.
#[derive(Debug)]
pub struct Row<'a> {
    pub shaped: Shaped<'a>,
    /// Whether it is a dialogue that was parsed out of a text.
    pub parsed: bool,
    /// Fields that hold something and that nothing was read from.
    pub unused: Vec<String>,
}

/// How rows are read.
#[derive(Debug, Clone, Default)]
pub struct Shaper {
    /// Canonical field -> dotted path in the row.
    pub mapping: BTreeMap<String, String>,
    /// Parse a text that is itself a rendered dialogue.
    pub parse_dialogue: bool,
    /// Every word of the chat template: keys that are not among them are not rendered.
    pub template_words: BTreeSet<String>,
    pub train_on: TrainOn,
    /// Whether the template may print a message with all its keys.
    pub whole_messages: bool,
}

pub(super) type Shape<'a> = Result<Shaped<'a>, Fault>;
