//! Experts on disk: folders that hold a manifest.json.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use fs_err as fs;

use crate::failure::Failure;

pub const MANIFEST: &str = "manifest.json";

const SHELF: &str = "experts";

/// Where experts are looked for without a folder's name: the expert that the working directory is, else `experts`, else
/// the working directory.
pub fn usual() -> &'static Path {
    if Path::new(MANIFEST).is_file() { Path::new(".") } else { usual_parent() }
}

/// Where a new expert's folder is made without the name of another one.
pub fn usual_parent() -> &'static Path {
    Path::new(if Path::new(SHELF).is_dir() { SHELF } else { "." })
}

/// Reads an argument that names a folder: an expert's manifest stands for its folder.
pub fn folder_argument() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(folder_of)
}

/// The folder that a path means: a manifest stands for its own.
pub fn folder_of(path: PathBuf) -> PathBuf {
    if path.file_name().is_none_or(|name| name != MANIFEST) || !path.is_file() {
        return path;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// The manifests of `folder` itself or of the folders directly below it, in the order of their names. Hidden folders are
/// not looked into: backups, and the `.ipynb_checkpoints` of a notebook.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let own = folder.join(MANIFEST);
    if own.is_file() {
        return Ok(vec![own]);
    }
    let manifests = folders_in(folder)?.into_iter().map(|folder| folder.join(MANIFEST));
    Ok(manifests.filter(|manifest| may_be_manifest(manifest)).collect())
}

/// The same, where there is at least one.
pub fn some_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let manifests = below(folder)?;
    if manifests.is_empty() {
        return Err(Failure::bad_input("no-experts", format!("there is no expert in {}", folder.display()))
            .hint("name the folder that holds them; `expert-cli init NAME` makes one"));
    }
    Ok(manifests)
}

/// Also one that cannot be read, which whoever reads it reports: a link that leads nowhere, or a folder without permission.
fn may_be_manifest(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => !path.is_dir(),
        Err(error) => error.kind() == ErrorKind::PermissionDenied && !is_of_file_system(path),
    }
}

/// In `lost+found`, which file systems have at their root, and nobody but root may read.
fn is_of_file_system(manifest: &Path) -> bool {
    manifest.parent().is_some_and(|folder| folder.ends_with("lost+found"))
}

/// Where the experts of a shelf may be, in the order of their names.
pub fn folders_in(shelf: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(shelf).map_err(|error| {
        Failure::reading("list the experts in", shelf, &error)
            .hint("name the folder that holds the experts; each has a manifest.json")
    })?;
    let shown = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut folders: Vec<PathBuf> = shown.map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

/// An expert is named after its folder if its manifest cannot be read.
pub fn folder_name(manifest: &Path) -> String {
    let folder = manifest.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| std::env::current_dir().unwrap_or_default(), Path::to_owned);
    folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_folders_hold_no_experts_unless_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b", "a", ".backup"] {
            crate::sys::files::write_text(folder.path(), &format!("{name}/{MANIFEST}"), "{}");
        }
        let manifest = |name: &str| folder.path().join(name).join(MANIFEST);
        assert_eq!(below(folder.path()).unwrap(), [manifest("a"), manifest("b")]);
        assert_eq!(below(&folder.path().join(".backup")).unwrap(), [manifest(".backup")]);
    }

    /// Whoever may read everything, as root, sees no difference for the folder without permission.
    #[test]
    #[cfg(unix)]
    fn an_expert_whose_manifest_cannot_be_read_is_not_left_out() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let shelf = tempfile::tempdir().unwrap();
        let manifest = |name: &str| shelf.path().join(name).join(MANIFEST);
        for name in ["closed", "folder", "linked", "none", "lost+found"] {
            std::fs::create_dir(shelf.path().join(name)).unwrap();
        }
        std::fs::write(shelf.path().join("README.md"), "").unwrap();
        std::fs::write(manifest("closed"), "{}").unwrap();
        std::fs::create_dir(manifest("folder")).unwrap();
        symlink("nowhere", manifest("linked")).unwrap();
        let mode = |name: &str, mode| {
            let folder = shelf.path().join(name);
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("closed", 0o000);
        mode("lost+found", 0o000);
        let found = below(shelf.path());
        mode("closed", 0o755);
        mode("lost+found", 0o755);
        assert_eq!(found.unwrap(), [manifest("closed"), manifest("linked")]);
    }

    #[test]
    fn a_manifest_stands_for_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join(MANIFEST);
        // A folder may have this name, and a file that is not there is reported as it was given.
        assert_eq!(folder_of(manifest.clone()), manifest);
        std::fs::create_dir(&manifest).unwrap();
        assert_eq!(folder_of(manifest.clone()), manifest);
        std::fs::remove_dir(&manifest).unwrap();
        std::fs::write(&manifest, "{}").unwrap();
        assert_eq!(folder_of(manifest), folder.path());
        assert_eq!(folder_of(folder.path().join("data.json")), folder.path().join("data.json"));
    }
}
