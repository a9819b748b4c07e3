//! The folder of installed experts: `<name>/<version>/<base>/`, each an unpacked package.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ed25519_dalek::VerifyingKey;
use expert_contract::manifest::model_slug;
use fs_err as fs;
use serde::Serialize;

use super::check::{self, Label};
use super::contents::of_folder;
use super::keys::Signed;
use super::layout::{MANIFEST, SIGNATURE};
use super::verify::{Report, read};
use crate::failure::Failure;
use crate::sys::durable;
use crate::sys::files::{children, remove};
use crate::sys::paths::{absolute, file_name, near};

/// Folders that are being written begin so, and are not listed.
const UNFINISHED: &str = ".installing-";
const ABANDONED: Duration = Duration::from_hours(24);

/// In the user's data folder.
pub fn usual() -> PathBuf {
    dirs::data_dir().unwrap_or_else(|| PathBuf::from(".")).join("expert-cli").join("registry")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Installed,
    AlreadyInstalled,
    /// Installed already from the unsigned package; now with the signature.
    SignatureAdded,
}

#[derive(Debug, Serialize)]
pub struct Installed {
    pub folder: String,
    pub outcome: Outcome,
    /// The package's other signer, where the expert is installed already with a signature.
    #[serde(skip)]
    pub not_taken: Option<String>,
    /// Of what is installed now.
    #[serde(flatten)]
    pub report: Report,
}

/// A package that passes every check is placed as a whole; nothing is left of any other.
pub fn install(source: &Path, registry: &Path, trusted: Option<&VerifyingKey>) -> Result<Installed, Failure> {
    let unwritten =
        |error: &std::io::Error| Failure::storing("write to", registry, error, Some("--registry"));
    fs::create_dir_all(registry).map_err(|error| unwritten(&error))?;
    remove_unfinished(registry);
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let draft = builder.prefix(UNFINISHED).tempdir_in(registry).map_err(|error| unwritten(&error))?;
    let contents = read(source, Some(draft.path()))?;
    let mut report = Report::of(&contents, trusted);
    report.check(source, trusted.is_some())?;
    let label = check::label(&contents.manifest).map_err(|problem| {
        Failure::bad_input("bad-package", format!("{} {}", problem.file, problem.problem))
    })?;
    let target = registry.join(&label.name).join(&label.version).join(model_slug(&label.base));
    let mut not_taken = None;
    let outcome = if target.symlink_metadata().is_ok() {
        let found = same(&target, &report, &label, trusted)?;
        match (&found.signature, &contents.signature) {
            (Signed::Unsigned, Some(signature)) => {
                durable::create(&target.join(SIGNATURE), signature).map_err(|error| unwritten(&error))?;
                Outcome::SignatureAdded
            }
            (there, _) => {
                not_taken = report.signature.key().filter(|key| there.key() != Some(key)).cloned();
                report.signature = there.clone();
                Outcome::AlreadyInstalled
            }
        }
    } else {
        durable::place_folder(draft.path(), &target).map_err(|error| unwritten(&error))?;
        Outcome::Installed
    };
    Ok(Installed { folder: absolute(&target), outcome, not_taken, report })
}

/// What an install that was killed has left; one that still runs is younger.
fn remove_unfinished(registry: &Path) {
    let is_old = |path: &PathBuf| {
        let written = path.symlink_metadata().and_then(|data| data.modified());
        written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    let left = children(registry).into_iter().filter(|path| file_name(path).starts_with(UNFINISHED));
    for path in left.filter(is_old) {
        // Tried again at the next install.
        let _ = remove(&path);
    }
}

/// What is installed, if it has the same files and they are as they were. The signature is not one of them.
fn same(
    target: &Path,
    wanted: &Report,
    label: &Label,
    trusted: Option<&VerifyingKey>,
) -> Result<Report, Failure> {
    let shown = near(target);
    let found = Report::of(&of_folder(target, None)?, trusted);
    if let Some(problem) = found.problems.first() {
        let message = format!("{shown} is damaged: {} {}", problem.file, problem.problem);
        // Older versions exported an installed expert below its folder.
        let first = if target.join("weights").is_dir() { "move its weights/ elsewhere, " } else { "" };
        let hint = format!("{first}remove that folder and install again");
        return Err(Failure::bad_input("damaged-install", message).hint(hint));
    }
    if found.digest == wanted.digest {
        if let Signed::Wrong { reason } = &found.signature {
            let message = format!("the signature in {shown} is wrong: {reason}");
            return Err(Failure::bad_input("damaged-install", message)
                .hint(format!("remove {SIGNATURE} in that folder and install again")));
        }
        return Ok(found);
    }
    let Label { name, version, base } = label;
    let message = format!("{name} {version} for {base} is installed already, with other files, in {shown}");
    Err(Failure::bad_input("other-version", message)
        .hint("install a package of another version, or remove that folder first"))
}

/// One line of `install --list`.
#[derive(Debug, Serialize)]
pub struct Entry {
    pub name: String,
    pub version: String,
    pub base: String,
    pub signed: bool,
    pub folder: String,
}

/// Whatever is installed, by name, version and base. Digests are left to `verify`.
pub fn installed(registry: &Path) -> Vec<Entry> {
    let visible = |folder: &Path| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            children(folder).into_iter().filter(|path| !file_name(path).starts_with('.')).collect();
        found.sort();
        found
    };
    let versions = visible(registry).into_iter().flat_map(|name| visible(&name));
    let folders = versions.flat_map(|version| visible(&version));
    folders.filter_map(|folder| entry(&folder)).collect()
}

fn entry(folder: &Path) -> Option<Entry> {
    let Label { name, version, base } = check::label(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    let signed = folder.join(SIGNATURE).is_file();
    Some(Entry { name, version, base, signed, folder: absolute(folder) })
}
