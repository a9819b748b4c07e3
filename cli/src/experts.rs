//! Experts on disk: folders that hold a manifest.json.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::failure::Failure;

pub const MANIFEST: &str = "manifest.json";

/// Where experts are looked for without a folder's name: the expert that the working directory is, else `experts`, else
/// the working directory.
pub fn usual() -> PathBuf {
    let usual = Path::new("experts");
    let elsewhere = Path::new(MANIFEST).is_file() || !usual.is_dir();
    PathBuf::from(if elsewhere { Path::new(".") } else { usual })
}

/// The manifests of `folder` itself or of the folders directly below it, in the order of their names.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let own = folder.join(MANIFEST);
    if own.is_file() {
        return Ok(vec![own]);
    }
    let entries = fs::read_dir(folder).map_err(|error| {
        Failure::reading("list the experts in", folder, &error)
            .hint("name the folder that holds the experts; each has a manifest.json")
    })?;
    let mut manifests: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(MANIFEST))
        .filter(|manifest| manifest.is_file())
        .collect();
    manifests.sort();
    Ok(manifests)
}

/// An expert is named after its folder if its manifest cannot be read.
pub fn folder_name(manifest: &Path) -> String {
    let folder = manifest.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| std::env::current_dir().unwrap_or_default(), Path::to_owned);
    folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}
