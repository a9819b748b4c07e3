//! The results of `doctor`: one line per check and one for its fix.

use super::check::{Check, Status};
use crate::ui::style::{ERROR, GOOD, HINT, WARNING};

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
    let mut text = format!("{paint}{mark}{paint:#}  {:<width$}  {}\n", check.name, check.found);
    if let Some(fix) = &check.fix {
        text += &format!("{:9}{:width$}  {HINT}fix{HINT:#}: {fix}\n", "", "");
    }
    text
}
