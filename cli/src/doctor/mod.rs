//! What this machine has for training, and how to fix what is missing. It works without Python, too.

mod machine;
mod probe;
mod worker;

use serde::Serialize;

use crate::usage::Global;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Good,
    /// Training works without it, possibly slower.
    Warning,
    /// Training is impossible until it is fixed.
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    pub found: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Good, found: found.into(), fix: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    fn missing(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, found: found.into(), fix: Some(fix.into()) }
    }
}

pub fn checks(global: &Global) -> Vec<Check> {
    let (worker, report) = worker::checks(global);
    let mut all = vec![machine::this_program()];
    all.extend(worker);
    all.push(machine::device(report.as_ref()));
    all.extend([machine::memory(), machine::disk(), machine::hub_cache(), machine::git_itself()]);
    all
}
