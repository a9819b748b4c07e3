//! Notes that a person sees beside the decisions.

use serde::Serialize;

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
