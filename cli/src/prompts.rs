//! Prompts from standard input that is not a terminal: one per line, without blank lines.

use std::io::BufRead;
use std::path::Path;

use crate::failure::Failure;

/// Up to the first failure, which names the line.
pub fn of_lines(text: impl BufRead) -> impl Iterator<Item = Result<String, Failure>> {
    let lines = text.split(b'\n').zip(1_u64..).map(|(line, number)| {
        let mut line = line.map_err(|error| unreadable(&error))?;
        line.pop_if(|last| *last == b'\r');
        String::from_utf8(line).map_err(|_| not_utf8(number))
    });
    lines.filter(|line| !line.as_ref().is_ok_and(|text| text.trim().is_empty()))
}

pub fn unreadable(error: &std::io::Error) -> Failure {
    Failure::reading("read prompts from", Path::new("standard input"), error)
}

fn not_utf8(line: u64) -> Failure {
    let message = format!("line {line} of standard input is not UTF-8");
    Failure::bad_input("not-utf8", message).hint("convert it to UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_skipped_and_counted() {
        let found: Vec<_> = of_lines(&b"one\r\n\n \t\r\ntwo \n\n\xff\xfe\nlast"[..]).collect();
        let words: Vec<_> = found
            .iter()
            .map(|it| it.as_ref().map_or_else(|it| it.message.as_str(), String::as_str))
            .collect();
        assert_eq!(words, ["one", "two ", "line 6 of standard input is not UTF-8", "last"]);
    }
}
