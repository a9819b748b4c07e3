//! The expert's name names folders on every system.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::Manifest;

const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", ".", ".."];
const LONGEST: usize = 100;
/// `serve` offers the base and the choice of an expert by these names, and `route` answers `none`.
pub const TAKEN: [&str; 3] = ["base", "auto", "none"];
const HINT: &str = "use letters, digits, `.`, `_` and `-`, such as `expert-sql`";

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let name = &manifest.root.name;
    if !name.is_given() {
        return;
    }
    if name.trim().is_empty() {
        let problem = Problem::new(Code::EmptyValue, name.span, "the expert's name is empty");
        problems.push(problem.hint(HINT));
        return;
    }
    if let Some(reason) = unusable(name) {
        let problem = Problem::new(Code::InvalidName, name.span, format!("the expert's name {reason}"));
        problems.push(problem.hint(HINT));
    } else if TAKEN.contains(&name.as_str()) {
        let message =
            format!("an expert named {:?} cannot be served: the name means something else there", **name);
        let problem = Problem::new(Code::InvalidName, name.span, message).severity(Severity::Warning);
        problems.push(problem.hint("choose another name before training, such as `expert-sql`"));
    }
}

/// Why a name must not name a folder.
pub fn unusable(name: &str) -> Option<String> {
    if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        Some("is a name that operating systems reserve".to_owned())
    } else if name.len() > LONGEST {
        Some(format!("is longer than {LONGEST} characters"))
    } else if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
        Some(format!("holds {c:?}"))
    } else if name.starts_with(['.', '-']) || name.ends_with('.') {
        Some("begins or ends with a character that folders should not".to_owned())
    } else {
        None
    }
}
