//! Reading and removing files in folders that may be anyone's.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::de::DeserializeOwned;

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read_file(path)?).ok()
}

/// A pipe with the name of a record is not opened: that would wait for whoever writes into it.
pub fn open_file(path: &Path) -> Option<fs::File> {
    path.metadata().is_ok_and(|data| data.is_file()).then(|| fs::File::open(path).ok()).flatten()
}

pub fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    open_file(path)?.read_to_end(&mut content).ok()?;
    Some(content)
}

pub fn children(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

/// A file, a link or a whole folder; nothing there is no error.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// For files in folders that may have been downloaded: a symbolic link there is an error, wherever it leads.
pub fn without_following() -> fs::OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    options
}

/// For tests: a file, with the folders that it needs.
#[cfg(test)]
pub fn write_text(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
