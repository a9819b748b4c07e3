//! The columns of a terminal, and text that is broken to fit them.

use expert_contract::wrap;

use super::style::one_line;

/// Of standard output; nothing where it is not a terminal, and lines keep their length.
pub fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into())
}

/// Of standard error.
pub fn columns_of_messages() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0.into())
}

/// The text from the `indent`th column on; styles take no columns.
pub fn wrapped(text: &str, indent: usize, columns: Option<usize>) -> String {
    broken(text, indent, indent, columns)
}

/// A message for standard error: its first line begins at the left.
pub fn message(text: &str, indent: usize) -> String {
    broken(text, 0, indent, columns_of_messages())
}

/// A message in which a line may be, or end with, a command to type.
pub fn with_command(text: &str, indent: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(command_as_word).collect();
    message(&lines.join("\n"), indent)
}

fn broken(text: &str, first: usize, indent: usize, columns: Option<usize>) -> String {
    wrap::wrapped(&quoted_as_words(text), first, indent, columns, width).replace(NO_BREAK, " ")
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

/// One of this program at the line's beginning or after a colon, until the line's end.
fn command_as_word(line: &str) -> String {
    const COMMAND: &str = "expert-cli ";
    let after_colon = || line.find(&format!(": {COMMAND}")).map(|colon| colon + 1);
    match if line.starts_with(COMMAND) { Some(0) } else { after_colon() } {
        Some(start) => format!("{}{}", &line[..start], line[start..].replace(' ', NO_BREAK)),
        None => line.to_owned(),
    }
}

fn width(text: &str) -> usize {
    one_line(text).chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::style::DIM;
    use super::*;

    #[test]
    fn styles_take_no_columns() {
        let text = format!("{DIM}one{DIM:#} two three");
        assert_eq!(wrapped(&text, 2, Some(18)), format!("{DIM}one{DIM:#} two three"));
        assert_eq!(wrapped(&text, 2, Some(14)), text, "at least 16 columns");
        assert_eq!(wrapped("one two three four", 2, Some(18)), "one two three\n  four");
    }

    #[test]
    fn a_command_is_not_broken() {
        let wrapped = |text: &str| wrapped(&command_as_word(text), 2, Some(22));
        for command in ["next: expert-cli plan a --model b", "expert-cli plan a --model b"] {
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
