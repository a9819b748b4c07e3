//! The loss mask: which parts of a text are learned, and the flag of ids that are.

/// Set in a spilled id where the token is supervised.
pub const SUPERVISED: u32 = 1 << 31;

/// A part of the rendered text that is learned, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// The spans' parts inside `length` bytes from `offset`, counted from there.
pub fn within(spans: &[Span], offset: usize, length: usize) -> Vec<Span> {
    spans
        .iter()
        .map(|span| Span {
            start: span.start.saturating_sub(offset),
            end: span.end.saturating_sub(offset).min(length),
        })
        .filter(|span| span.start < span.end)
        .collect()
}

pub fn supervised(spans: &[Span], at: usize) -> u32 {
    if spans.iter().any(|span| span.start <= at && at < span.end) { SUPERVISED } else { 0 }
}
