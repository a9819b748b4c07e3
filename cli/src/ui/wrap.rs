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
    wrap::wrapped(text, indent, indent, columns, width)
}

/// A message for standard error: its first line begins at the left.
pub fn message(text: &str, indent: usize) -> String {
    wrap::wrapped(text, 0, indent, columns_of_messages(), width)
}

/// A message in which a line may be, or end with, a command to type.
pub fn with_command(text: &str, indent: usize) -> String {
    wrap::with_commands(text, 0, indent, columns_of_messages(), width)
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
}
