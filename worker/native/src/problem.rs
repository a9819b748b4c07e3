//! What can be wrong with one row, and with the work as a whole.

use std::fmt;

/// One fault in the data, where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: &'static str,
    pub file: String,
    /// Counted from 1; 0 means the file as a whole.
    pub line: u64,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(out, "{}: {}", self.file, self.message);
        }
        write!(out, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// A fault before it knows its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn at(self, file: &str, line: u64) -> Problem {
        Problem { code: self.code, file: file.to_owned(), line, message: self.message }
    }
}

/// Why the work ended without a cache.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{} broken rows", .0.total)]
    BadRows(BadRows),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A tokenizer, template or file that this module cannot work with.
    #[error("{0}")]
    Unsupported(String),
    /// The template compiled into pieces rendered a row otherwise than the interpreter did.
    #[error("the compiled template disagreed with its interpreter")]
    TemplateDrift,
    /// The template computes on and on.
    #[error("{0}")]
    TemplateEndless(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Every broken row up to a cap, and how many there were.
#[derive(Debug, Default)]
pub struct BadRows {
    pub problems: Vec<Problem>,
    pub total: u64,
}

impl BadRows {
    pub const CAP: usize = 1000;

    pub fn push(&mut self, problem: Problem) {
        self.total += 1;
        if self.problems.len() < Self::CAP {
            self.problems.push(problem);
        }
    }
}

pub type Outcome<T> = Result<T, Failure>;
