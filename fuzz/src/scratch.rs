//! Files for readers that map a file: in memory where the system has a folder for that.

use std::path::Path;

use tempfile::TempDir;

/// A folder that is gone when it is dropped.
pub fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }.expect("a folder")
}
