//! What a row is understood as, and how rows are read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::value::Value;
use crate::problem::Fault;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<'a> {
    pub role: Cow<'a, str>,
    pub content: Cow<'a, str>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shaped<'a> {
    /// Learned as it stands.
    Text(Cow<'a, str>),
    /// Plain messages.
    Turns(Vec<Turn<'a>>),
    /// Messages with more than role and content, or with tools: rendered by the template from the values themselves.
    Rich { messages: Vec<Value<'a>>, tools: Option<Value<'a>> },
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
    /// Whether every answer is learned, not only the last one.
    pub every_answer: bool,
    /// Whether the template may print a message with all its keys.
    pub whole_messages: bool,
}

pub(super) type Shape<'a> = Result<Shaped<'a>, Fault>;
