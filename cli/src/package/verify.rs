//! What a package is, whether its files are as they were made, and who signed it.

use std::path::Path;

use ed25519_dalek::VerifyingKey;
use expert_contract::shell::quoted;
use serde::Serialize;

use super::archive;
use super::check::{self, INTEGRITY, Label};
use super::contents::{Contents, Found, Problem, of_folder};
use super::keys::{self, Signed};
use super::layout::{MANIFEST, SIGNATURE};
use crate::failure::Failure;
use crate::sys::paths::portable;

#[derive(Debug, Serialize)]
pub struct Report {
    pub name: Option<String>,
    pub version: Option<String>,
    pub base: Option<String>,
    /// Of all files except the signature; the same for a signed package and an unsigned one.
    pub digest: String,
    pub bytes: u64,
    pub files: Vec<File>,
    pub problems: Vec<Problem>,
    pub signature: Signed,
}

#[derive(Debug, Serialize)]
pub struct File {
    pub name: &'static str,
    #[serde(flatten)]
    pub found: Found,
}

/// Reads everything of a `.expert` file or an unpacked package.
pub fn read(path: &Path, copy: Option<&Path>) -> Result<Contents, Failure> {
    if !path.is_dir() {
        return archive::read(path, copy);
    }
    if !check::is_of_package(&path.join(MANIFEST)) {
        let message = format!(
            "{} is an expert, not an unpacked package: {MANIFEST} has no {INTEGRITY}",
            path.display()
        );
        return Err(Failure::bad_input("not-a-package", message).hint(format!(
            "`expert-cli package {}` makes one of its finished run",
            quoted(&portable(path))
        )));
    }
    of_folder(path, copy)
}

pub fn report(path: &Path, trusted: Option<&VerifyingKey>) -> Result<Report, Failure> {
    Ok(Report::of(&read(path, None)?, trusted))
}

impl Report {
    pub fn of(contents: &Contents, trusted: Option<&VerifyingKey>) -> Self {
        let mut problems = check::of(contents);
        let label = check::label(&contents.manifest);
        if let (Err(problem), true) = (&label, problems.is_empty()) {
            problems.push(problem.clone());
        }
        let files = contents.files.iter().map(|(name, found)| File { name, found: found.clone() });
        let label = label.ok();
        let of_label = |part: fn(&Label) -> &String| label.as_ref().map(part).cloned();
        Self {
            name: of_label(|label| &label.name),
            version: of_label(|label| &label.version),
            base: of_label(|label| &label.base),
            digest: contents.digest(),
            bytes: contents.files.values().map(|found| found.bytes).sum(),
            files: files.collect(),
            problems,
            signature: keys::check(contents, trusted),
        }
    }

    /// Whether every file is as it was made and the signature is what the caller asked for.
    pub fn check(&self, path: &Path, trusted: bool) -> Result<(), Failure> {
        let shown = path.display();
        if let Some(first) = self.problems.first() {
            let lines = self.problems.iter().map(|it| format!("{} {}", it.file, it.problem));
            let message = match self.problems.len() {
                1 => format!("{shown} is damaged: {} {}", first.file, first.problem),
                count => {
                    format!("{shown} is damaged in {count} files: {}", lines.collect::<Vec<_>>().join("; "))
                }
            };
            return Err(Failure::bad_input("damaged-package", message)
                .hint("get the package again from where it came from"));
        }
        match &self.signature {
            Signed::Wrong { reason } => {
                let message = format!("the signature of {shown} is wrong: {reason}");
                Err(Failure::bad_input("wrong-signature", message)
                    .hint(format!("do not use it; {SIGNATURE} or the files are not those of the signer")))
            }
            Signed::Unsigned if trusted => {
                let message = format!("{shown} is not signed, and --key asks for a signature");
                Err(Failure::bad_input("not-signed", message)
                    .hint("ask for a signed package; without --key only the digests are checked"))
            }
            _ => Ok(()),
        }
    }

    /// One line for a person.
    pub fn signed(&self) -> String {
        match &self.signature {
            Signed::Valid { key } => format!("signed by the given key {key}"),
            Signed::UnknownKey { key } => {
                format!("signed by {key}; --key checks that this is the signer's key")
            }
            Signed::Unsigned => "not signed".to_owned(),
            Signed::Wrong { reason } => format!("wrong signature: {reason}"),
        }
    }
}
