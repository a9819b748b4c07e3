//! The results of `doctor`: one line per check and one for its fix.

use super::check::{Check, Status};
use crate::ui::style::{ERROR, GOOD, HINT, WARNING};
use crate::ui::wrap::{columns, wrapped};

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
    let indent = 11 + width;
    let wrapped = |text: &str| wrapped(text, indent, columns());
    let mut text = format!("{paint}{mark}{paint:#}  {:<width$}  {}\n", check.name, wrapped(&check.found));
    if let Some(fix) = &check.fix {
        text += &format!("{:indent$}{}\n", "", wrapped(&format!("{HINT}fix{HINT:#}: {fix}")));
    }
    text
}
