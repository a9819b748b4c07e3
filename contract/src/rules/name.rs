//! The expert's name names folders on every system.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::Manifest;

/// As folders, whatever follows a point.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// Followed by a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];
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
    if is_reserved(name) {
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

fn is_reserved(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let stem = lower.split('.').next().unwrap_or_default();
    let is_numbered = |word: &str| {
        stem.strip_prefix(word).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    [".", ".."].contains(&name) || DEVICES.contains(&stem) || NUMBERED_DEVICES.into_iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_reserved_with_any_ending() {
        for bad in [".", "..", "CON", "nul.v2", "com1", "LPT9.x"] {
            assert!(unusable(bad).is_some_and(|reason| reason.contains("reserve")), "{bad}");
        }
        for good in ["com", "com10", "console", "lptx", "a.com1"] {
            assert_eq!(unusable(good), None, "{good}");
        }
    }
}
