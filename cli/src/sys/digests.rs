//! SHA-256 of files, cached for large ones: a base of several gigabytes is read once, not at every start.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use expert_contract::digest::hex;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::durable;

/// Smaller files are read each time.
const LARGE: u64 = 4 << 20;
/// A file written within the clock's resolution may change without a new time stamp.
const SETTLED: Duration = Duration::from_secs(2);
const FILE: &str = "digests.json";
/// In a folder that `save_to_disk` of Hugging Face's library wrote.
const SAVED: &str = "state.json";

pub struct Digests {
    file: PathBuf,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    known: BTreeMap<PathBuf, Known>,
    changed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    stamp: Stamp,
    sha256: String,
}

/// Metadata that changes with a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    /// Nanoseconds since the epoch.
    written: u64,
}

impl Digests {
    /// `home` is the folder of everything that can be made again.
    pub fn open(home: &Path) -> Self {
        let file = home.join(FILE);
        let known = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, memory: Mutex::new(Memory { known: known.unwrap_or_default(), changed: false }) }
    }

    pub fn of_file(&self, path: &Path) -> Option<String> {
        let path = std::path::absolute(path).ok()?;
        let stamp = stamp(&path)?;
        if stamp.bytes < LARGE {
            return read_digest(&path);
        }
        if let Some(known) = self.lock().known.get(&path).filter(|known| known.stamp == stamp) {
            return Some(known.sha256.clone());
        }
        let sha256 = read_digest(&path)?;
        let settled = UNIX_EPOCH + Duration::from_nanos(stamp.written) + SETTLED;
        if SystemTime::now() > settled {
            let mut memory = self.lock();
            memory.known.insert(path, Known { stamp, sha256: sha256.clone() });
            memory.changed = true;
        }
        Some(sha256)
    }

    /// Of the files' names and digests, in their order; None where there are none.
    pub fn of_files(&self, files: &[PathBuf]) -> Option<String> {
        if files.is_empty() {
            return None;
        }
        let mut all = Sha256::new();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            all.update(format!("{}  {name}\n", self.of_file(file)?));
        }
        Some(hex(&all.finalize()))
    }

    /// A data file, or a folder of them.
    pub fn of_source(&self, path: &Path) -> Option<String> {
        if path.is_dir() { self.of_files(&below(path)) } else { self.of_file(path) }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Digests {
    /// A digest that cannot be cached is computed again next time.
    fn drop(&mut self) {
        let memory = self.lock();
        if memory.changed
            && let Ok(text) = serde_json::to_vec(&memory.known)
        {
            let _ = durable::write(&self.file, &text);
        }
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let is_saved_data_set = folder.join(SAVED).is_file();
    let mut files = Vec::new();
    for child in super::files::children(folder) {
        let name = child.file_name().unwrap_or_default().to_string_lossy();
        let is_left = name.starts_with('.') || is_saved_data_set && is_library_cache(&child);
        if child.is_dir() {
            files.extend(below(&child));
        } else if !is_left {
            files.push(child);
        }
    }
    files.sort();
    files
}

/// `map`, `filter` and `sort` of Hugging Face's library leave their results beside the rows.
fn is_library_cache(file: &Path) -> bool {
    let is_named_so = |name: &OsStr| name.to_string_lossy().starts_with("cache-");
    file.file_name().is_some_and(is_named_so) && file.extension().is_some_and(|kind| kind == "arrow")
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    let written = changed_at(&data)?;
    Some(Stamp { bytes: data.len(), written })
}

/// The time that cannot be set back (ctime).
#[cfg(unix)]
fn changed_at(data: &std::fs::Metadata) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let nanoseconds = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
    u64::try_from(nanoseconds).ok()
}

#[cfg(not(unix))]
fn changed_at(data: &std::fs::Metadata) -> Option<u64> {
    u64::try_from(data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Reads the file, whatever is remembered of it.
pub fn read_digest(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let mut buffer = vec![0_u8; 1 << 20];
    let mut digest = Sha256::new();
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Some(hex(&digest.finalize())),
            Ok(read) => digest.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_remembered_and_noticed_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        std::fs::write(&file, vec![1; LARGE as usize]).unwrap();
        let stamp_now = stamp(&file).unwrap();
        let known = Known { stamp: stamp_now, sha256: "remembered".to_owned() };
        let digests = Digests::open(folder.path());
        let fresh = digests.of_file(&file).unwrap();
        assert!(!digests.lock().changed, "a file of this moment is not remembered");
        digests.lock().known.insert(file.clone(), known);
        digests.lock().changed = true;
        drop(digests);

        let digests = Digests::open(folder.path());
        assert_eq!(digests.of_file(&file).unwrap(), "remembered");
        std::fs::write(&file, vec![2; LARGE as usize + 1]).unwrap();
        let changed = digests.of_file(&file).unwrap();
        assert!(changed != "remembered" && changed != fresh);
    }

    #[test]
    fn a_folder_counts_by_the_names_and_contents_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let digests = Digests::open(folder.path());
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        assert_eq!(digests.of_source(&data), None);
        std::fs::write(data.join("a"), "1").unwrap();
        let one = digests.of_source(&data);
        std::fs::write(data.join(".hidden"), "x").unwrap();
        assert_eq!(digests.of_source(&data), one);
        std::fs::rename(data.join("a"), data.join("b")).unwrap();
        assert_ne!(digests.of_source(&data), one);
        assert_eq!(digests.of_source(&folder.path().join("nowhere")), None);
    }

    #[test]
    fn what_the_library_leaves_in_a_saved_data_set_does_not_change_it() {
        let folder = tempfile::tempdir().unwrap();
        let digests = Digests::open(folder.path());
        let write = |name: &str| std::fs::write(folder.path().join(name), name).unwrap();
        write("data-00000-of-00001.arrow");
        write("cache-1.arrow");
        let plain = digests.of_source(folder.path());
        write("cache-2.arrow");
        assert_ne!(digests.of_source(folder.path()), plain, "a user's own folder");
        write("state.json");
        let saved = digests.of_source(folder.path());
        write("cache-3.arrow");
        assert_eq!(digests.of_source(folder.path()), saved);
        write("data-00001-of-00001.arrow");
        assert_ne!(digests.of_source(folder.path()), saved);
    }
}
