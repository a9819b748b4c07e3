//! A package's files as they are found: their digests, and the few that are read as documents.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use expert_contract::digest::hex;
use fs_err as fs;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::layout::{self, EXPERT, MANIFEST, SIGNATURE, WEIGHTS};
use super::safetensors;
use crate::failure::Failure;
use crate::sys::files::{children, without_following};
use crate::sys::paths::file_name;

const CHUNK: usize = 128 << 10;
/// The option of `install`, which alone copies files, for the folder.
const FOLDER: &str = "--registry";
/// Enough to recognise a pickle or an archive.
const START: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    pub sha256: String,
    pub bytes: u64,
}

/// A file that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub file: String,
    /// Reads after the file's name.
    pub problem: String,
}

impl Problem {
    pub fn new(file: &str, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), problem: problem.into() }
    }
}

#[derive(Debug, Default)]
pub struct Contents {
    pub files: BTreeMap<&'static str, Found>,
    pub manifest: Vec<u8>,
    /// `expert.json`.
    pub record: Option<Vec<u8>>,
    pub signature: Option<Vec<u8>>,
    pub problems: Vec<Problem>,
}

impl Contents {
    /// The files that a signature covers, as sorted lines `name:sha256`: all except the signature.
    pub fn listing(&self) -> String {
        let covered = self.files.iter().filter(|(name, _)| **name != SIGNATURE);
        covered.fold(String::new(), |listing, (name, found)| listing + &format!("{name}:{}\n", found.sha256))
    }

    /// Names the package, whoever signed it.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.listing()))
    }

    /// Reads one file, and writes it to the folder `copy` on the way. `bytes` is the size that its header or folder gives.
    pub fn take(
        &mut self,
        name: &'static str,
        bytes: u64,
        source: &mut impl Read,
        copy: Option<&Path>,
    ) -> Result<(), TakeError> {
        let mut target = copy.map(|folder| Target::create(folder, name)).transpose()?;
        let mut digest = Sha256::new();
        let mut start = Vec::new();
        let mut length = 0_u64;
        let mut buffer = vec![0_u8; CHUNK];
        loop {
            let read = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(TakeError::Read(error)),
            };
            digest.update(read);
            length += read.len() as u64;
            keep(name, &mut start, read);
            if let Some(target) = &mut target {
                target.write(read)?;
            }
        }
        if length != bytes {
            return Err(TakeError::Read(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("it ends after {length} of {bytes} bytes"),
            )));
        }
        if let Some(target) = &target {
            target.sync()?;
        }
        if let Some(problem) = wrong(name, &start, length) {
            self.problems.push(Problem::new(name, problem));
        }
        self.files.insert(name, Found { sha256: hex(&digest.finalize()), bytes: length });
        match name {
            MANIFEST => self.manifest = start,
            EXPERT => self.record = Some(start),
            SIGNATURE => self.signature = Some(start),
            _ => {}
        }
        Ok(())
    }
}

/// Why [`Contents::take`] stopped.
pub enum TakeError {
    /// The file could not be read; the caller knows where it is from.
    Read(io::Error),
    /// Its copy could not be written.
    Write(Failure),
}

impl TakeError {
    /// A file that could not be read becomes what `unread` makes of it.
    pub fn or_unread(self, unread: impl FnOnce(&io::Error) -> Failure) -> Failure {
        match self {
            Self::Read(error) => unread(&error),
            Self::Write(failure) => failure,
        }
    }
}

impl From<Failure> for TakeError {
    fn from(failure: Failure) -> Self {
        Self::Write(failure)
    }
}

/// The copy of a file in a folder.
struct Target<'a> {
    folder: &'a Path,
    file: fs::File,
}

impl<'a> Target<'a> {
    /// A file that is there already is an error.
    fn create(folder: &'a Path, name: &'static str) -> Result<Self, Failure> {
        let path = folder.join(name);
        let file = fs::File::create_new(&path)
            .map_err(|error| Failure::storing("write", &path, &error, Some(FOLDER)))?;
        Ok(Self { folder, file })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file
            .write_all(bytes)
            .map_err(|error| Failure::storing("write to", self.folder, &error, Some(FOLDER)))
    }

    fn sync(&self) -> Result<(), Failure> {
        self.file
            .sync_all()
            .map_err(|error| Failure::storing("write", self.file.path(), &error, Some(FOLDER)))
    }
}

/// Of documents everything, of weights the header, of others enough to recognise them.
fn keep(name: &str, start: &mut Vec<u8>, read: &[u8]) {
    let wanted = |start: &[u8]| match name {
        MANIFEST | EXPERT | SIGNATURE => usize::MAX,
        WEIGHTS => {
            let header = safetensors::header_length(start).filter(|it| *it <= safetensors::LARGEST_HEADER);
            safetensors::PREFIX + header.unwrap_or_default() as usize
        }
        _ => START,
    };
    let mut rest = read;
    // Twice for weights: their first bytes say how long the header is.
    while !rest.is_empty() && start.len() < wanted(start) {
        let (now, later) = rest.split_at(rest.len().min(wanted(start) - start.len()));
        start.extend_from_slice(now);
        rest = later;
    }
}

fn wrong(name: &str, start: &[u8], bytes: u64) -> Option<String> {
    if name == WEIGHTS {
        safetensors::check(start, bytes).err()
    } else {
        layout::foreign_content(start).map(str::to_owned)
    }
}

/// An unpacked package. Files that do not belong to one are problems; links and devices are not opened. With `copy` its files
/// are written to that folder.
pub fn of_folder(folder: &Path, copy: Option<&Path>) -> Result<Contents, Failure> {
    if !folder.join(MANIFEST).is_file() {
        let message = format!("{} is not an unpacked package: it has no {MANIFEST}", folder.display());
        return Err(Failure::bad_input("not-a-package", message).hint(
            "name a .expert file, or a folder that `install` made; `package` makes one of a finished run",
        ));
    }
    let mut contents = Contents::default();
    let mut paths = children(folder);
    paths.sort();
    for path in paths {
        let shown = file_name(&path);
        let name = match layout::known(&shown) {
            Ok(name) => name,
            Err(problem) => {
                contents.problems.push(Problem::new(&shown, problem));
                continue;
            }
        };
        let data = path.symlink_metadata().map_err(|error| Failure::reading("read", &path, &error))?;
        if !data.is_file() {
            contents.problems.push(Problem::new(name, "is not a plain file"));
            continue;
        }
        if data.len() > layout::largest(name) {
            contents.problems.push(Problem::new(name, "is too large for its kind"));
            continue;
        }
        let opened = without_following().read(true).open(&path);
        let mut file = opened.map_err(|error| Failure::reading("read", &path, &error))?;
        contents
            .take(name, data.len(), &mut file, copy)
            .map_err(|error| error.or_unread(|error| Failure::reading("read", &path, error)))?;
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_cannot_be_written_is_for_another_registry() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("README.md"), "there").unwrap();
        let taken = Contents::default().take("README.md", 1, &mut &b"x"[..], Some(folder.path()));
        let Err(TakeError::Write(failure)) = taken else { panic!("it is written over") };
        assert_eq!(failure.hint.unwrap(), "make the folder writable, or choose another with --registry");
    }
}
