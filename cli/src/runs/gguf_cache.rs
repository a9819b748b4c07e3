//! GGUF files that `serve` made for llama.cpp and keeps in the home folder, and who they were made for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expert_contract::results::{ExpertRecord, FileDigest};
use serde::Deserialize;

use crate::run::EXPERT;
use crate::sys::files::{children, read_json};
use crate::sys::paths::file_name;

const FOLDER: &str = "gguf";
const KEY_LENGTH: usize = 32;
/// A conversion writes all the time: what it left behind is older than this.
const ABANDONED: Duration = Duration::from_hours(1);

/// Beside a file: what the worker made it of, and the folders of the experts that it was made for.
#[derive(Deserialize)]
struct Users {
    experts: Vec<PathBuf>,
    base: BTreeMap<String, String>,
    #[serde(default)]
    adapter: BTreeMap<String, String>,
}

/// The files that no expert needs and no server holds. Only names that the worker gives are looked at.
pub fn unused(home: &Path) -> Vec<PathBuf> {
    let found = children(&home.join(FOLDER)).into_iter();
    found.filter(|path| path.symlink_metadata().is_ok_and(|data| data.is_file()) && is_unused(path)).collect()
}

/// With the note beside it.
pub fn remove(path: &Path) -> std::io::Result<()> {
    fs_err::remove_file(path)?;
    match fs_err::remove_file(path.with_extension("json")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_unused(path: &Path) -> bool {
    let name = file_name(path);
    match name.split_once(".gguf") {
        Some((stem, "")) if is_key(stem) => !is_held(path) && !is_needed(path),
        Some((stem, rest)) if is_key(stem) && rest.ends_with(".partial") => is_abandoned(path),
        _ => false,
    }
}

fn is_key(stem: &str) -> bool {
    let key = stem.strip_prefix("base-").or_else(|| stem.strip_prefix("adapter-"));
    key.is_some_and(|key| key.len() == KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A server that runs has a shared lock on its files.
fn is_held(path: &Path) -> bool {
    fs_err::File::open(path).is_ok_and(|file| file.file().try_lock().is_err())
}

fn is_needed(path: &Path) -> bool {
    let users: Option<Users> = read_json(&path.with_extension("json"));
    users.is_some_and(|users| users.experts.iter().any(|folder| needs(folder, &users)))
}

/// Whether the folder has the adapter, and the adapter the base, that the file was made of.
fn needs(folder: &Path, users: &Users) -> bool {
    let Some(record) = read_json::<ExpertRecord>(&folder.join(EXPERT)) else { return false };
    let same = |known: Option<&FileDigest>, sha256: &String| {
        known.and_then(|it| it.sha256.as_ref()).is_none_or(|found| found == sha256)
    };
    let bases = record.base.map(|base| base.files).unwrap_or_default();
    users.base.iter().all(|(name, sha256)| same(bases.get(name).and_then(Option::as_ref), sha256))
        && users.adapter.iter().all(|(name, sha256)| same(record.files.get(name), sha256))
}

fn is_abandoned(path: &Path) -> bool {
    let changed = path.metadata().and_then(|data| data.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}
