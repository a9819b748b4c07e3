//! What can be wrong with one row, and with the work as a whole.

use std::fmt;

/// A fault and the rows that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: &'static str,
    /// Of the first row that has it.
    pub message: String,
    /// What to write into the manifest, or to do.
    pub hint: Option<String>,
    pub total: u64,
    /// The first places: a file, and a line counted from 1; 0 means the file as a whole.
    pub places: Vec<(String, u64)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.places.first() {
            Some((file, 0)) => write!(out, "{file}: {}", self.message),
            Some((file, line)) => write!(out, "{file}:{line}: {}", self.message),
            None => out.write_str(&self.message),
        }
    }
}

/// A fault before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
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

/// Broken rows by what is wrong with them, and how many there were.
#[derive(Debug, Default)]
pub struct BadRows {
    pub problems: Vec<Problem>,
    pub total: u64,
}

impl BadRows {
    /// Kinds of problems that are kept; rows with others are counted only.
    pub const KINDS: usize = 50;
    /// Places that are kept of each kind.
    pub const PLACES: usize = 20;

    pub fn push(&mut self, fault: &Fault, file: &str, line: u64) {
        self.total += 1;
        if let Some(known) = self.problems.iter_mut().find(|problem| same_kind(problem, fault)) {
            known.total += 1;
            if known.places.len() < Self::PLACES {
                known.places.push((file.to_owned(), line));
            }
        } else if self.problems.len() < Self::KINDS {
            self.problems.push(Problem {
                code: fault.code,
                message: fault.message.clone(),
                hint: fault.hint.clone(),
                total: 1,
                places: vec![(file.to_owned(), line)],
            });
        }
    }
}

/// Whether one correction cures both: the same line to paste, or the same message up to its numbers.
fn same_kind(problem: &Problem, fault: &Fault) -> bool {
    if problem.code != fault.code || problem.hint != fault.hint {
        return false;
    }
    problem.hint.is_some() || without_digits(&problem.message).eq(without_digits(&fault.message))
}

fn without_digits(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character.is_ascii_digit()).filter(|part| !part.is_empty())
}

pub type Outcome<T> = Result<T, Failure>;
