//! A problem as a check reports it, and as it is shown with file, line and pointer.

use serde::Serialize;

use super::code::{Code, Severity};
use crate::source::{Place, Span};

/// A problem as a check reports it: with its position, without line and pointer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), span, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

/// A problem with file, line and pointer: the unit of every report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// JSON pointer (RFC 6901) of the value, or of the nearest thing around it that exists.
    pub pointer: String,
    pub span: Span,
    pub place: Place,
    pub message: String,
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Duplicate keys first, because they explain other errors; then by position.
    pub fn order(&self) -> (bool, u32, u32) {
        (self.code != Code::DuplicateKey, self.span.source, self.span.start)
    }

    /// The place in `base_models` of the base that this is about, where it is about one.
    pub fn base(&self) -> Option<usize> {
        let rest = self.pointer.strip_prefix("/base_models/")?;
        rest.split('/').next()?.parse().ok()
    }
}

#[derive(Serialize)]
struct Shape<'a> {
    code: &'static str,
    severity: Severity,
    pointer: &'a str,
    line: usize,
    column: usize,
    message: &'a str,
    hint: Option<&'a str>,
}

/// The shape of `validate --json`.
impl Serialize for Diagnostic {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        Shape {
            code: self.code.as_str(),
            severity: self.severity,
            pointer: &self.pointer,
            line: self.place.line,
            column: self.place.column,
            message: &self.message,
            hint: self.hint.as_deref(),
        }
        .serialize(out)
    }
}
