//! Temporary folders, each of one command. A killed command leaves its folder, and a later one removes it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use fs_err as fs;
use tempfile::TempDir;

use super::files::{children, remove, without_following};
use super::host;
use super::paths::file_name;
use crate::failure::Failure;

const PREFIX: &str = "expert-cli-";
/// Locked as long as its process lives. A process that gets the same id later does not hold it.
const LOCK: &str = "owner.lock";

/// Removed when this is dropped.
pub struct TemporaryFolder {
    lock: fs::File,
    folder: TempDir,
}

impl TemporaryFolder {
    pub fn new() -> Result<Self, Failure> {
        static TIDIED: Once = Once::new();
        TIDIED.call_once(|| remove_abandoned(&std::env::temp_dir()));
        Self::new_in(&std::env::temp_dir()).map_err(|error| Failure::temporary(&error))
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = without_following().write(true).create_new(true).open(folder.path().join(LOCK))?;
        // Where the file system has no locks, the file stays empty and no command removes another's folder.
        if lock.file().try_lock().is_ok() {
            write!(&lock, "{} {}", std::process::id(), host::name())?;
        }
        Ok(Self { lock, folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// It stays, also for later commands.
    pub fn keep(self) {
        let _ = self.lock.set_len(0);
        let path: PathBuf = self.folder.keep();
        drop(self.lock);
        let _ = fs::remove_file(path.join(LOCK));
    }
}

fn remove_abandoned(parent: &Path) {
    for folder in children(parent) {
        if file_name(&folder).starts_with(PREFIX) && is_own(&folder) && is_abandoned(&folder) {
            let _ = remove(&folder);
        }
    }
}

/// The owner writes into the file after it has taken the lock: an empty one is not locked yet, or never. A lock that was
/// taken on another machine may not be seen here.
fn is_abandoned(folder: &Path) -> bool {
    let open = without_following().read(true).write(true).open(folder.join(LOCK));
    open.is_ok_and(|lock| {
        let is_file = lock.metadata().is_ok_and(|data| data.is_file());
        // Read under the lock: the owner may have just left the folder to its user.
        is_file && lock.file().try_lock().is_ok() && is_of_this_machine(&lock)
    })
}

fn is_of_this_machine(lock: &fs::File) -> bool {
    let mut text = String::new();
    lock.take(1024).read_to_string(&mut text).is_ok()
        && text.split_once(' ').is_some_and(|(_, name)| name == host::name())
}

/// The parent may be everyone's: a link or another user's folder stays.
fn is_own(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|data| data.is_dir() && is_of_this_user(&data))
}

#[cfg(unix)]
fn is_of_this_user(data: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.uid() == rustix::process::geteuid().as_raw()
}

/// On Windows each user has a temporary folder.
#[cfg(not(unix))]
fn is_of_this_user(_data: &std::fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::super::files::write_text;
    use super::*;

    #[test]
    fn only_folders_of_ended_commands_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let running = TemporaryFolder::new_in(parent.path()).unwrap();
        let named = TemporaryFolder::new_in(parent.path()).unwrap();
        let kept = named.path().to_owned();
        named.keep();
        // The id of a process that lives, and that has not made the folder.
        let ours = format!("{} {}", std::process::id(), host::name());
        let lock = |name: &str| format!("{name}/{LOCK}");
        write_text(parent.path(), &lock("expert-cli-killed"), &ours);
        write_text(parent.path(), "expert-cli-killed/worker.log", "text");
        write_text(parent.path(), &lock("expert-cli-new"), "");
        write_text(parent.path(), &lock("expert-cli-elsewhere"), &format!("{ours}-2"));
        write_text(parent.path(), "expert-cli-1000/shelf/file", "of tasks of a cluster");
        write_text(parent.path(), &lock("another"), &ours);
        #[cfg(unix)]
        std::os::unix::fs::symlink(parent.path().join("another"), parent.path().join("expert-cli-link"))
            .unwrap();
        let mut expected = children(parent.path());
        expected.retain(|path| file_name(path) != "expert-cli-killed");

        remove_abandoned(parent.path());
        let mut left = children(parent.path());
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
        assert!(children(&kept).is_empty(), "nothing but what the command wrote");
        assert!(running.path().is_dir());
    }
}
