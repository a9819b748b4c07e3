//! How the rows of a text file follow one another: one per line, or as JSON values that may span lines.

use std::ops::Range;

use memchr::{memchr, memchr2};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// One row per line.
    Lines,
    /// The values of a list, or values one after the other, in this stretch of the file.
    Values(Range<usize>),
    /// One object is the whole file: a row, or an object that holds the rows.
    Object(Range<usize>),
}

impl Layout {
    pub fn of(bytes: &[u8]) -> Self {
        let start = skip(bytes, 0, &[]);
        match bytes.get(start) {
            Some(b'[') => list(bytes, start),
            Some(b'{') => objects(bytes, start),
            _ => Self::Lines,
        }
    }
}

/// A list of objects that is the whole file.
fn list(bytes: &[u8], start: usize) -> Layout {
    let first = skip(bytes, start + 1, &[]);
    if !matches!(bytes.get(first), Some(b'{' | b']') | None) {
        return Layout::Lines;
    }
    match value_end(bytes, start) {
        Some(end) if skip(bytes, end, &[]) == bytes.len() => Layout::Values(start + 1..end - 1),
        Some(_) => Layout::Lines,
        None => Layout::Values(start + 1..bytes.len()),
    }
}

fn objects(bytes: &[u8], start: usize) -> Layout {
    let line_end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |step| start + step);
    let end = value_end_before(bytes, start, line_end);
    if let Some(end) = end {
        return if skip(bytes, end, &[]) == bytes.len() { Layout::Object(start..end) } else { Layout::Lines };
    }
    // The next line begins a row: the first one is broken, and the others are rows by line.
    if bytes.get(skip(bytes, line_end, &[])) == Some(&b'{') {
        return Layout::Lines;
    }
    match value_end(bytes, start) {
        Some(end) if skip(bytes, end, &[]) == bytes.len() => Layout::Object(start..end),
        _ => Layout::Values(start..bytes.len()),
    }
}

/// The stretches of the values from `at` on; an unfinished one reaches to the end.
pub fn next_value(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = skip(bytes, at, b",");
    if start >= bytes.len() {
        return None;
    }
    Some(start..value_end(bytes, start).unwrap_or(bytes.len()))
}

fn skip(bytes: &[u8], at: usize, also: &[u8]) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().position(|byte| !byte.is_ascii_whitespace() && !also.contains(byte));
    at + length.unwrap_or(rest.len())
}

/// One past the value that begins at `start`; none where it does not end.
pub fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    value_end_before(bytes, start, bytes.len())
}

fn value_end_before(bytes: &[u8], start: usize, limit: usize) -> Option<usize> {
    let bytes = &bytes[..limit];
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // Anything else ends where the next one may begin, so that it is read as one broken row.
            _ if depth == 0 => {
                let rest = &bytes[at..];
                let length =
                    rest.iter().position(|byte| b",{[]}\"".contains(byte) || byte.is_ascii_whitespace());
                return Some(at + length.unwrap_or(rest.len()));
            }
            _ => continue,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// One past the closing quote of a string whose first character is at `at`.
pub fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let step = memchr2(b'"', b'\\', bytes.get(at..)?)?;
        at += step + 1;
        if bytes[at - 1] == b'"' {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<&str> {
        let bytes = text.as_bytes();
        let (Layout::Values(range) | Layout::Object(range)) = Layout::of(bytes) else { return vec!["lines"] };
        let inside = &text[range];
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(value) = next_value(inside.as_bytes(), at) {
            at = value.end;
            found.push(&inside[value]);
        }
        found
    }

    #[test]
    fn values_are_found_wherever_their_lines_end() {
        assert_eq!(
            values("[\n {\"a\": \"]\\\"\"},\n {\"b\": [1, {}]}\n]\n"),
            ["{\"a\": \"]\\\"\"}", "{\"b\": [1, {}]}"]
        );
        assert_eq!(values("{\n\"a\": 1\n}\n{\n\"b\": 2\n}\n"), ["{\n\"a\": 1\n}", "{\n\"b\": 2\n}"]);
        assert_eq!(values("{\n\"a\": 1\n}\n"), ["{\n\"a\": 1\n}"]);
        assert_eq!(values("[]"), Vec::<&str>::new());
        assert_eq!(values("[{\"a\": 1}, nonsense, {\"b\": 2}"), ["{\"a\": 1}", "nonsense", "{\"b\": 2}"]);
        assert_eq!(values("[{\"a\": \"cut"), ["{\"a\": \"cut"]);
    }

    #[test]
    fn rows_by_line_stay_rows_by_line() {
        for text in
            ["{\"a\": 1}\n{\"b\": 2}\n", "{\"a\": 1\n{\"b\": 2}\n", "[1, 2]\n{}\n", "[{}]\n[{}]\n", "", "x"]
        {
            assert_eq!(values(text), ["lines"], "{text}");
        }
    }
}
