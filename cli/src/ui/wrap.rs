//! Text in the columns that a terminal has.

use super::style::one_line;

/// The columns of standard output; nothing where it is not a terminal, and lines keep their length.
pub fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into())
}

/// The columns that a text takes: its styles take none.
pub fn width(text: &str) -> usize {
    one_line(text).chars().count()
}

/// Breaks between words; further lines begin below the `indent`th column. A longer word takes a separate line.
pub fn wrapped(text: &str, indent: usize, columns: Option<usize>) -> String {
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(indent).max(MIN_ROOM));
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let needed = width(word);
        if used > 0 && used + 1 + needed > room {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += needed;
    }
    lines
}

/// Below this, breaking lines makes them harder to read.
const MIN_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::style::DIM;
    use super::*;

    #[test]
    fn lines_break_between_words_below_the_text() {
        assert_eq!(wrapped("one two three four", 4, Some(20)), "one two three\n    four");
        assert_eq!(wrapped("one two three", 4, None), "one two three");
        assert_eq!(
            wrapped("a /a/path/longer/than/the/line b", 2, Some(18)),
            "a\n  /a/path/longer/than/the/line\n  b"
        );
        assert_eq!(width(&format!("{DIM}manifest{DIM:#}")), 8);
    }
}
