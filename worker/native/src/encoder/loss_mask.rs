//! The loss mask: which parts of a text are learned, and the flag of ids that are.

/// Set in a spilled id where the token is supervised.
pub const SUPERVISED: u32 = 1 << 31;

/// A part of the rendered text that is learned, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// A part of a text, and where in it learning ends; nothing of it is learned where that is not after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: usize,
    pub end: usize,
    pub learned_end: usize,
}

impl Part {
    /// The number of its bytes that are learned.
    pub fn learned(&self) -> usize {
        self.learned_end.min(self.end).saturating_sub(self.start)
    }
}

/// The text cut where something learned follows something that is not. The parts are encoded apart, as in generation,
/// which reads the prompt and then writes: no token holds an end of the one and a beginning of the other.
pub fn parts(text: &str, spans: &[Span]) -> Vec<Part> {
    let holds = |span: &&Span| span.start < span.end.min(text.len()) && text.is_char_boundary(span.start);
    let mut spans: Vec<&Span> = spans.iter().filter(holds).collect();
    spans.sort_unstable_by_key(|span| span.start);
    let mut parts = Vec::with_capacity(spans.len() + 1);
    let mut part = Part { start: 0, end: text.len(), learned_end: 0 };
    for span in spans {
        if span.start > part.learned_end {
            parts.push(Part { end: span.start, ..part });
            part.start = span.start;
        }
        part.learned_end = part.learned_end.max(span.end);
    }
    parts.push(part);
    parts
}

pub fn flag(is_learned: bool) -> u32 {
    if is_learned { SUPERVISED } else { 0 }
}
