//! Valid names of experts.

use expert_contract::rules::{TAKEN_NAMES, unusable_name};

use crate::failure::Failure;

/// A name that is a folder's on every system, also where letters of both cases are one.
pub fn check(name: &str) -> Result<(), Failure> {
    const LONGEST: usize = 64;
    if TAKEN_NAMES.contains(&name) {
        let message = format!("{name:?} means something else where experts are served");
        return Err(Failure::bad_input("bad-name", message).hint(format!(
            "serve and route need {} for themselves: choose another name, such as expert-sql",
            TAKEN_NAMES.join(", ")
        )));
    }
    let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let plain = letters && ends && name.len() <= LONGEST;
    let Some(why) =
        unusable_name(name).or_else(|| (!plain).then(|| "is not a valid name for an expert".to_owned()))
    else {
        return Ok(());
    };
    Err(Failure::bad_input("bad-name", format!("{name:?} {why}"))
        .hint("use at most 64 of a-z, 0-9, - _ and . between two letters or digits, such as expert-sql"))
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
