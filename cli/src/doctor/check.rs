//! One thing that training needs or can use, and whether it is here.

use serde::Serialize;

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
    pub fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Good, found: found.into(), fix: None }
    }

    pub fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    pub fn missing(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, found: found.into(), fix: Some(fix.into()) }
    }
}
