//! Writes a file atomically, so that it survives a crash.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;

use super::{files, lease};
use crate::failure::Failure;

/// Temp file beside it, sync, rename, sync the folder.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    place(path, true, |file| file.write_all(contents))
}

/// The same for a file that must not be there yet.
pub fn create(path: &Path, contents: &[u8]) -> io::Result<()> {
    place(path, false, |file| file.write_all(contents))
}

/// The same for a file that `fill` writes; it is not there before `fill` has succeeded.
pub fn create_with(path: &Path, fill: impl FnOnce(&mut std::fs::File) -> io::Result<()>) -> io::Result<()> {
    place(path, false, fill)
}

/// The same for a file that may be there, and is kept until `fill` has succeeded.
pub fn replace_with(path: &Path, fill: impl FnOnce(&mut std::fs::File) -> io::Result<()>) -> io::Result<()> {
    place(path, true, fill)
}

/// Moves a finished folder to where nothing is yet. Both are on one file system.
pub fn place_folder(folder: &Path, target: &Path) -> io::Result<()> {
    let parent = parent(target);
    fs::create_dir_all(parent)?;
    sync_folder(folder)?;
    // Unix replaces an empty folder; a full one is an error everywhere.
    fs::rename(folder, target)?;
    sync_folder(parent)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn place(
    path: &Path,
    replace: bool,
    fill: impl FnOnce(&mut std::fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = parent(path);
    fs::create_dir_all(folder)?;
    let beside = lease::folder_for(path).unwrap_or(folder);
    let mut builder = tempfile::Builder::new();
    // As any new file: readable by all whom the umask allows.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temporary = lease::explained(builder.prefix(".writing-").tempfile_in(beside))?;
    fill(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    let placed = if replace { temporary.persist(path) } else { temporary.persist_noclobber(path) };
    lease::explained(placed.map_err(|error| error.error))?;
    sync_folder(folder)
}

/// Moves a file or folder of a run.
pub fn rename(path: &Path, target: &Path) -> io::Result<()> {
    match lease::folder_for(path) {
        None => fs::rename(path, target),
        Some(lease) => {
            let taken = taken(path, lease)?;
            lease::explained(fs::rename(taken, target))
        }
    }
}

/// Removes a file or folder of a run; nothing there is no error.
pub fn remove(path: &Path) -> io::Result<()> {
    match lease::folder_for(path) {
        Some(lease) if path.symlink_metadata().is_ok() => files::remove(&taken(path, lease)?),
        _ => files::remove(path),
    }
}

/// Out of the run into the lease's folder, which only its holder has.
fn taken(path: &Path, lease: &Path) -> io::Result<PathBuf> {
    let target = lease.join(path.file_name().unwrap_or_default());
    files::remove(&target)?;
    lease::explained(fs::rename(path, &target))?;
    Ok(target)
}

pub fn write_json(path: &Path, document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(document).map_err(|error| {
        Failure::bad_input("not-json", format!("cannot write {}: {error}", path.display()))
    })?;
    text.push(b'\n');
    write(path, &text).map_err(|error| Failure::writing("write", path, &error))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Windows offers no way to sync a folder; NTFS journals the rename.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/plan.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_permissions_that_any_new_file_has() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("plan.json"), folder.path().join("plain"));
        write(&ours, b"one").unwrap();
        std::fs::write(&plain, b"one").unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(ours), mode(plain));
    }
}
