//! A manifest's text with the parsed tree, and the conversion of problems into diagnostics.

use std::collections::HashSet;

use super::json::{self, Node, pointer};
use crate::diagnostic::{Diagnostic, Problem, Style, render};
use crate::source::{Source, Sources, Span};

/// Limit of reported problems; the worst are kept.
const MAX_DIAGNOSTICS: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub sources: Sources,
    /// Null where the text is not JSON.
    pub root: Option<Node>,
    /// The first values of keys that appear twice in one object.
    ambiguous: Vec<Span>,
}

impl Document {
    pub fn new(source: Source) -> Self {
        Self { sources: Sources::of(source), root: None, ambiguous: Vec::new() }
    }

    /// The tree of a text that `bytes::decode` gave, with what it found and what the parser found.
    pub fn parse(source: Source, before: Option<Problem>) -> (Self, Vec<Diagnostic>) {
        // The byte order mark becomes a blank, so that offsets match the file.
        let start = if before.is_some() { '\u{feff}'.len_utf8() } else { 0 };
        let readable = format!("{}{}", " ".repeat(start), &source.text[start..]);
        let mut parsed = json::parse(&readable, 0);
        let mut document = Self::new(source);
        document.root = parsed.root.take();
        document.ambiguous = parsed.ambiguous;
        let before = before.map(|problem| (problem, String::new()));
        let found = before.into_iter().chain(parsed.problems);
        let diagnostics = found.map(|(problem, pointer)| document.at(problem, pointer)).collect();
        (document, diagnostics)
    }

    /// Diagnostics as text.
    pub fn rendered(&self, diagnostics: &[Diagnostic], style: Style) -> String {
        let texts: Vec<_> = diagnostics.iter().map(|it| render(it, &self.sources, style)).collect();
        texts.join("\n")
    }

    /// Problems with their places and pointers: in order of the text, each once. Those of a value whose key appears twice
    /// are left out: the other value may be the one that is kept.
    pub fn locate(&self, problems: Vec<Problem>) -> Vec<Diagnostic> {
        let mut seen = HashSet::new();
        let mut problems: Vec<_> = problems
            .into_iter()
            .filter(|problem| !self.ambiguous.iter().any(|value| value.contains(problem.span)))
            .filter(|problem| seen.insert((problem.code, problem.span, problem.message.clone())))
            .collect();
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        problems.truncate(MAX_DIAGNOSTICS);
        problems.sort_by_key(|problem| (problem.span.source, problem.span.start, problem.code));
        problems.into_iter().map(|problem| self.diagnostic(problem)).collect()
    }

    fn diagnostic(&self, problem: Problem) -> Diagnostic {
        let pointer = self.root.as_ref().map(|root| pointer(root, problem.span)).unwrap_or_default();
        self.at(problem, pointer)
    }

    pub fn at(&self, problem: Problem, pointer: String) -> Diagnostic {
        let Problem { code, severity, span, message, hint } = problem;
        Diagnostic { code, severity, pointer, span, place: self.sources.place(span), message, hint }
    }
}
