//! Text that people wrote, and where in it something stands.

use std::sync::OnceLock;

use crate::secret::covered;

/// A range of bytes in one of the [`Sources`]; source 0 is the manifest, the others are command line arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    pub source: u32,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(source: u32, start: usize, end: usize) -> Self {
        Self { source, start: narrow(start), end: narrow(end) }
    }

    pub fn contains(self, other: Self) -> bool {
        self.source == other.source && self.start <= other.start && other.end <= self.end
    }

    /// Whether the text came from the command line instead of the manifest.
    pub fn is_argument(self) -> bool {
        self.source > 0
    }
}

/// Files are limited to far below 4 GiB before anything is measured.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Line and column count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// How messages name it: the path as given, or the argument's option.
    pub name: String,
    pub text: String,
    line_starts: Vec<u32>,
    /// The text as it may be shown.
    covered: OnceLock<String>,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(breaks.map(|(at, _)| narrow(at + 1))).collect();
        Self { name: name.into(), text, line_starts, covered: OnceLock::new() }
    }

    pub fn place(&self, offset: u32) -> Place {
        let offset = offset.min(narrow(self.text.len()));
        let line = self.line_starts.partition_point(|start| *start <= offset).max(1);
        let start = self.line_starts[line - 1] as usize;
        let mut end = offset as usize;
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        Place { line, column: self.text[start..end].chars().count() + 1 }
    }

    /// The offset of a line's first byte; `line` counts from 1.
    pub fn line_start(&self, line: usize) -> usize {
        self.line_starts.get(line.wrapping_sub(1)).map_or(self.text.len(), |start| *start as usize)
    }

    /// A line as it may be shown, with secrets covered and without its line break; `line` counts from 1.
    pub fn line(&self, line: usize) -> &str {
        let shown = self.covered.get_or_init(|| covered(&self.text));
        let start = self.line_start(line);
        let end = self.line_starts.get(line).map_or(shown.len(), |next| *next as usize - 1);
        let text = &shown[start..end.max(start)];
        text.strip_suffix('\r').unwrap_or(text)
    }
}

/// Every text that a manifest's values came from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    pub fn of(manifest: Source) -> Self {
        Self(vec![manifest])
    }

    pub fn add(&mut self, source: Source) -> u32 {
        self.0.push(source);
        narrow(self.0.len() - 1)
    }

    pub fn get(&self, span: Span) -> Option<&Source> {
        self.0.get(span.source as usize)
    }

    pub fn place(&self, span: Span) -> Place {
        self.get(span).map_or(Place { line: 1, column: 1 }, |source| source.place(span.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_may_end_in_crlf() {
        let source = Source::new("m", "{\r\n \"é😂\": x\r\n}");
        assert_eq!(source.place(0), Place { line: 1, column: 1 });
        let x = source.text.find('x').unwrap();
        assert_eq!(source.place(narrow(x)), Place { line: 2, column: 8 });
        assert_eq!(source.line(2), " \"é😂\": x");
        assert_eq!(source.line(3), "}");
        assert_eq!(source.line(9), "");
    }

    #[test]
    fn an_offset_inside_a_character_or_past_the_end_is_pulled_back() {
        let source = Source::new("m", "é");
        assert_eq!(source.place(1), Place { line: 1, column: 1 });
        assert_eq!(source.place(99), Place { line: 1, column: 2 });
    }
}
