//! `init NAME`: an expert to start from, which validates and can be trained as it is.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use fs_err as fs;
use serde_json::json;

use crate::durable;
use crate::experts::{MANIFEST, portable};
use crate::failure::Failure;
use crate::render::Console;
use crate::scaffold::{self, Split};

#[derive(clap::Args)]
pub struct Args {
    /// Its name and folder: lower-case letters, digits, - _ and .
    name: String,
    /// Where the folder is made (experts/ if there is one, else here)
    #[arg(long, value_name = "DIR")]
    parent: Option<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    check_name(&args.name)?;
    let folder = parent(args).join(&args.name);
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::bad_input("exists", format!("{} is there already", folder.display()))
            .hint("choose another name, or remove it first"));
    }
    let path = portable(&folder);
    let files = [
        (PathBuf::from(MANIFEST), scaffold::manifest(&args.name)),
        (PathBuf::from("README.md"), scaffold::readme(&args.name, &path)),
    ];
    let data = Split::ALL.map(|split| (Path::new("datasets").join(split.file()), scaffold::rows(split)));
    let mut written = Vec::new();
    for (file, text) in files.into_iter().chain(data) {
        let file = folder.join(file);
        durable::write(&file, text.as_bytes()).map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            Failure::writing("write", &file, &error)
        })?;
        written.push(portable(&file));
    }
    if console.json {
        console.document(&json!({"ok": true, "expert": args.name, "path": path, "files": written}));
    } else {
        console.data(&format!("{path}\n"));
        console.say(&format!("next: expert-cli plan -m {path}, then expert-cli train -m {path} --evaluate"));
    }
    Ok(Exit::Done)
}

fn parent(args: &Args) -> PathBuf {
    let usual = Path::new("experts");
    match &args.parent {
        Some(parent) => parent.clone(),
        None if usual.is_dir() => usual.to_owned(),
        None => PathBuf::from("."),
    }
}

/// A name that is a folder's on every system.
fn check_name(name: &str) -> Result<(), Failure> {
    const LONGEST: usize = 64;
    let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let stem = name.split('.').next().unwrap_or_default();
    let numbered = |word: &str| {
        stem.strip_prefix(word).is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    let device = ["con", "prn", "aux", "nul"].contains(&stem) || numbered("com") || numbered("lpt");
    if letters && ends && name.len() <= LONGEST && !device {
        return Ok(());
    }
    let why = if device { "is a device's name on Windows" } else { "is no name for an expert" };
    Err(Failure::bad_input("bad-name", format!("{name:?} {why}"))
        .hint("use at most 64 of a-z, 0-9, - _ and . between two letters or digits, such as expert-sql"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folders_everywhere() {
        for good in ["expert-sql", "a", "sql2", "my_expert.v2", "console"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "", ".", "..", "a/b", "a\\b", "Ärger", "Upper", "-x", "x-", ".x", "x.", "con", "nul.x", "com1",
            "a b", "a\0",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name(&"a".repeat(65)).is_err());
    }
}
