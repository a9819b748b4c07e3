//! Text broken between words, in the columns that a terminal has.

use std::borrow::Cow;

/// As `wrapped`, of a message in which a line may be, or end with, a command to type.
pub fn with_commands(
    text: &str,
    first: usize,
    indent: usize,
    columns: Option<usize>,
    width: impl Fn(&str) -> usize,
) -> String {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(command_as_word).collect();
    wrapped(&lines.join("\n"), first, indent, columns, width)
}

/// `first` columns are taken before the text; further lines begin below the `indent`th. `columns`: none where lines keep
/// their length. A word that is longer than a line has a separate line. Text between backticks is
/// one word. `width` counts the columns of a word.
pub fn wrapped(
    text: &str,
    first: usize,
    indent: usize,
    columns: Option<usize>,
    width: impl Fn(&str) -> usize,
) -> String {
    let Some(columns) = columns else { return text.replace(NO_BREAK, " ") };
    let text = quoted_as_words(text);
    let end = columns.max(indent + LEAST_ROOM);
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        let lead = line.len() - line.trim_start_matches(' ').len();
        let (lead, words) = line.split_at(lead);
        let (mut at, below) = if number == 0 { (first, indent) } else { (0, indent.max(lead.len())) };
        if number > 0 {
            out.push('\n');
        }
        out.push_str(lead);
        at += lead.len();
        for (place, word) in words.split(' ').enumerate() {
            let needed = width(word);
            if place > 0 && at + 1 + needed > end {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
                at = below;
            } else if place > 0 {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            at += needed;
        }
    }
    out.replace(NO_BREAK, " ")
}

/// Stands for a space at which a line does not break: only a command in one line can be copied.
const NO_BREAK: &str = "\u{a0}";

/// What is between backticks is one word each.
fn quoted_as_words(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let is_quoted = |place: usize| place % 2 == 1 && place + 1 < parts.len();
    let words = parts
        .iter()
        .enumerate()
        .map(|(place, part)| if is_quoted(place) { part.replace(' ', NO_BREAK) } else { (*part).to_owned() });
    words.collect::<Vec<_>>().join("`")
}

/// How the commands begin that a person may copy from a message.
const COMMANDS: [&str; 7] =
    ["expert-cli ", "mkdir -p ", "jq -", "python -c ", "python3 -c ", "bunzip2 ", "unxz "];

/// One at the line's beginning or after a colon, until the line's end.
fn command_as_word(line: &str) -> Cow<'_, str> {
    let is_command = |start: &usize| COMMANDS.iter().any(|it| line[*start..].trim_start().starts_with(it));
    let after_colons = line.match_indices(": ").map(|(colon, _)| colon + 1);
    let mut starts = std::iter::once(0).chain(after_colons);
    match starts.find(is_command) {
        Some(start) => format!("{}{}", &line[..start], line[start..].replace(' ', NO_BREAK)).into(),
        None => line.into(),
    }
}

/// Below this, breaking lines makes them harder to read.
const LEAST_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::{with_commands, wrapped};

    fn plain(text: &str, first: usize, indent: usize, columns: usize) -> String {
        wrapped(text, first, indent, Some(columns), |word| word.chars().count())
    }

    #[test]
    fn lines_break_between_words_below_the_text() {
        assert_eq!(plain("one two three four", 4, 4, 20), "one two three\n    four");
        assert_eq!(plain("one two three four", 9, 4, 20), "one two\n    three four");
        assert_eq!(
            plain("a /a/path/longer/than/the/line b", 2, 2, 18),
            "a\n  /a/path/longer/than/the/line\n  b"
        );
        assert_eq!(wrapped("one  two", 90, 4, None, str::len), "one  two");
    }

    #[test]
    fn lines_of_a_list_keep_their_place() {
        assert_eq!(
            plain("two files:\n  one\n  two is long and longer", 0, 2, 18),
            "two files:\n  one\n  two is long and\n  longer"
        );
    }
    #[test]
    fn a_command_is_not_broken() {
        let wrapped = |text: &str| with_commands(text, 2, 2, Some(22), |word| word.chars().count());
        for command in [
            "next: expert-cli plan a --model b",
            "expert-cli plan a --model b",
            "rows: mkdir -p a/b && cp 'my rows' a/b",
            "lines: jq -Rc '{text: .}' 'my notes.md'",
            "see: python -c \"import sys; print(sys)\"",
        ] {
            assert_eq!(wrapped(command), command);
        }
        assert_eq!(
            wrapped("train it first, on any machine: expert-cli train a --model b"),
            "train it first, on\n  any\n  machine: expert-cli train a --model b"
        );
        assert_eq!(wrapped("an expert-cli of the same version"), "an expert-cli of the\n  same version");
        assert_eq!(
            wrapped("run `uv pip install torch --x` or a` lone mark"),
            "run\n  `uv pip install torch --x`\n  or a` lone mark"
        );
    }
}
