//! The results of `doctor`: one line per check and one for its fix.

use super::check::{Check, Status};
use crate::ui::style::{ERROR, GOOD, HINT, WARNING};
use crate::ui::wrap::{columns, wrapped};

/// Columns for what was found.
const LEAST_ROOM: usize = 24;
const BELOW: usize = 4;

pub fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    checks.iter().map(|check| line(check, width)).collect()
}

fn line(check: &Check, width: usize) -> String {
    let (paint, mark) = match check.status {
        Status::Good => (GOOD, "ok     "),
        Status::Warning => (WARNING, "warning"),
        Status::Missing => (ERROR, "missing"),
    };
    let beside = 11 + width;
    // In a narrow terminal below the name, with room for words.
    let is_narrow = columns().is_some_and(|columns| columns < beside + LEAST_ROOM);
    let indent = if is_narrow { BELOW } else { beside };
    let wrapped = |text: &str| wrapped(text, indent, columns());
    let found = wrapped(&check.found);
    let mut text = if is_narrow {
        format!("{paint}{mark}{paint:#}  {}\n{:BELOW$}{found}\n", check.name, "")
    } else {
        format!("{paint}{mark}{paint:#}  {:<width$}  {found}\n", check.name)
    };
    if let Some(fix) = &check.fix {
        text += &format!("{:indent$}{}\n", "", wrapped(&format!("{HINT}fix{HINT:#}: {fix}")));
    }
    text
}
