//! Valid names of experts.

use expert_contract::rules::TAKEN_NAMES;

use crate::failure::Failure;

/// A name that is a folder's on every system.
pub fn check(name: &str) -> Result<(), Failure> {
    const LONGEST: usize = 64;
    let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let stem = name.split('.').next().unwrap_or_default();
    let numbered = |word: &str| {
        stem.strip_prefix(word).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    let device = ["con", "prn", "aux", "nul"].contains(&stem) || numbered("com") || numbered("lpt");
    let taken = TAKEN_NAMES.contains(&name);
    if letters && ends && name.len() <= LONGEST && !device && !taken {
        return Ok(());
    }
    let why = if device {
        "is a device's name on Windows"
    } else if taken {
        "means something else where experts are served"
    } else {
        "is not a valid name for an expert"
    };
    let hint = if taken {
        format!(
            "serve and route need {} for themselves: choose another name, such as expert-sql",
            TAKEN_NAMES.join(", ")
        )
    } else {
        "use at most 64 of a-z, 0-9, - _ and . between two letters or digits, such as expert-sql".to_owned()
    };
    Err(Failure::bad_input("bad-name", format!("{name:?} {why}")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folders_everywhere() {
        for good in ["expert-sql", "a", "sql2", "my_expert.v2", "console"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "", ".", "..", "a/b", "a\\b", "Ärger", "Upper", "-x", "x-", ".x", "x.", "con", "nul.x", "com1",
            "a b", "a\0", "base", "auto", "none",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(&"a".repeat(65)).is_err());
    }
}
