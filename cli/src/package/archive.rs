//! Reads and writes the archive: a gzipped tar of plain files side by side.
//!
//! An archive may be anyone's. Its names are compared with a list, its sizes are limited before anything is read, and
//! nothing in it is held in memory as a whole. Links, devices and tar's extended headers are refused, not interpreted.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use fs_err as fs;
use tar::{Archive, Builder, EntryType, Header};

use super::contents::Contents;
use super::layout::{self, MOST_ENTRIES};
use crate::failure::{Failure, reason};
use crate::ui::number::bytes;

/// Unpacked bytes for each packed one. Text packs to a tenth, weights hardly at all.
const RATIO: u64 = 100;
/// Any archive may unpack to this much.
const ALLOWANCE: u64 = 64 << 20;
/// Zeros behind the last entry; tar fills blocks of 10 KiB.
const PADDING: u64 = 64 << 10;

type Packed = GzDecoder<BufReader<fs::File>>;

/// Counts what a stream unpacks to and ends it at the limit.
struct Limited {
    stream: Packed,
    left: u64,
    limit: u64,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it unpacks to more than {}, as an archive bomb does",
                bytes(self.limit)
            ))
        })?;
        Ok(read)
    }
}

/// Every entry, read to the end of the file. With `copy` the files are written to that folder.
pub fn read(path: &Path, copy: Option<&Path>) -> Result<Contents, Failure> {
    let unreadable = |error: &io::Error| Failure::reading("read", path, error);
    // A pipe is not opened: that would wait for whoever writes into it.
    let data = path.metadata().ok().filter(std::fs::Metadata::is_file).ok_or_else(|| {
        let message = format!("{} is neither a file nor a folder here", path.display());
        Failure::bad_input("not-a-package", message)
            .hint("name a .expert file, or the folder of an installed expert")
    })?;
    let file = fs::File::open(path).map_err(|error| unreadable(&error))?;
    let limit = data.len().saturating_mul(RATIO).max(ALLOWANCE);
    let limited = Limited { stream: GzDecoder::new(BufReader::new(file)), left: limit, limit };
    let mut archive = Archive::new(limited);
    let mut contents = Contents::default();
    entries(&mut archive, path, copy, &mut contents)?;
    let end = rest(archive.into_inner())
        .map_err(|error| broken(path, &format!("it is damaged: {}", reason(&error))));
    // A wrong checksum of the whole says less than the file that is not as it should be: the caller names that.
    match end {
        Err(failure) if super::check::of(&contents).is_empty() => Err(failure),
        _ => Ok(contents),
    }
}

fn entries(
    archive: &mut Archive<Limited>,
    path: &Path,
    copy: Option<&Path>,
    contents: &mut Contents,
) -> Result<(), Failure> {
    let not_an_archive = |error: &io::Error| {
        broken(path, &format!("it is not a gzipped tar archive, or it is damaged: {}", reason(error)))
    };
    // Raw: the crate interprets no long names, sizes or sparse maps of extended headers.
    let all = archive.entries().map_err(|error| not_an_archive(&error))?.raw(true);
    for (index, entry) in all.enumerate() {
        let mut entry =
            entry.map_err(|error| first_damage(contents).unwrap_or_else(|| not_an_archive(&error)))?;
        let raw = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&raw).into_owned();
        let refuse = |problem: &str| broken(path, &format!("its entry {shown:?} {problem}"));
        if index >= MOST_ENTRIES {
            return Err(broken(path, &format!("it has more than {MOST_ENTRIES} entries")));
        }
        if let Some(problem) = unwanted(entry.header().entry_type()) {
            return Err(refuse(problem));
        }
        let name = std::str::from_utf8(&raw).map_err(|_| refuse("has a name that is not UTF-8"))?;
        let name = layout::known(name).map_err(|problem| refuse(&problem))?;
        if contents.files.contains_key(name) {
            return Err(refuse("is there twice"));
        }
        let size = entry.size();
        if size > layout::largest(name) {
            return Err(refuse(&format!("is said to have {}, too much for its kind", bytes(size))));
        }
        contents.take(name, size, &mut entry, copy).map_err(|error| {
            error.or_unread(|error| {
                first_damage(contents).unwrap_or_else(|| refuse(&format!("is damaged: {}", reason(error))))
            })
        })?;
    }
    Ok(())
}

/// A damaged entry may shift what follows: it is named, and not the entry where that was noticed.
fn first_damage(contents: &Contents) -> Option<Failure> {
    let changed =
        super::check::of(contents).into_iter().find(|it| contents.files.contains_key(it.file.as_str()));
    changed.map(|it| Failure::bad_input("damaged-package", format!("{} {}", it.file, it.problem)).hint(AGAIN))
}

fn unwanted(kind: EntryType) -> Option<&'static str> {
    match kind {
        EntryType::Regular => None,
        EntryType::Symlink => Some("is a symbolic link"),
        EntryType::Link => Some("is a hard link"),
        EntryType::Char | EntryType::Block => Some("is a device"),
        EntryType::Fifo => Some("is a pipe"),
        EntryType::Directory => Some("is a folder, and packages are flat"),
        _ => Some("is an extended header of tar, which packages do not have"),
    }
}

/// Nothing follows the last entry except zeros, the checksum is right, and nothing follows the compressed data.
fn rest(mut limited: Limited) -> io::Result<()> {
    let mut buffer = [0_u8; 4096];
    let mut seen = 0_u64;
    loop {
        let read = limited.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        seen += read as u64;
        if seen > PADDING || buffer[..read].iter().any(|byte| *byte != 0) {
            return Err(io::Error::other("there is more behind its last entry"));
        }
    }
    let mut behind = [0_u8; 1];
    match limited.stream.into_inner().read(&mut behind)? {
        0 => Ok(()),
        _ => Err(io::Error::other("there is more behind its end")),
    }
}

const AGAIN: &str = "get the package again from where it came from";

fn broken(path: &Path, problem: &str) -> Failure {
    Failure::bad_input("bad-package", format!("{} is not a sound package: {problem}", path.display()))
        .hint(AGAIN)
}

/// Where the bytes of a file come from.
pub enum Source<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
}

/// The same files give the same bytes: no time, no owner, one mode, the order given.
pub fn write(target: &mut impl Write, files: &[(&'static str, Source)]) -> io::Result<()> {
    let packed = GzBuilder::new().mtime(0).operating_system(255).write(target, Compression::new(6));
    let mut builder = Builder::new(packed);
    for (name, source) in files {
        match source {
            Source::Bytes(content) => builder.append(&header(name, content.len() as u64)?, *content)?,
            Source::File(path) => {
                let file = fs::File::open(path)?;
                let length = file.metadata()?.len();
                builder.append(&header(name, length)?, file.take(length))?;
            }
        }
    }
    builder.into_inner()?.finish()?.flush()
}

fn header(name: &str, length: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(length);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    Ok(header)
}
