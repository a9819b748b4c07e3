//! A plan with the facts and notes that a person wants to see beside it.

use serde::Serialize;

use super::base::FoundBase;
use super::data::DataFacts;
use crate::manifest::Shown;
use crate::plan::Plan;

/// Something that follows from the machine or from how settings meet, which the manifest alone does not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
}

impl Note {
    pub(super) fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// A plan, and what a person wants to know about how it came to be.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub plan: Plan,
    pub base: FoundBase,
    pub facts: Vec<DataFacts>,
    pub notes: Vec<Note>,
    /// The most rows that fit at once, where the device's memory and the base's shape are known.
    pub largest_micro_batch: Option<u64>,
    /// Every setting of `training.config`, with its value and who decided it.
    pub settings: Vec<Shown>,
}
