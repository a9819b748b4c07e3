//! What `doctor` found, one line a check and one for how to mend it.

use super::style::{ERROR, GOOD, HINT, WARNING};
use crate::doctor::{Check, Status};

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
    if let Some(mend) = &check.mend {
        text += &format!("{:9}{:width$}  {HINT}mend{HINT:#}: {mend}\n", "", "");
    }
    text
}
