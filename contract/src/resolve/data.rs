//! Facts about the data before it is tokenized: whether it exists, its size and its number of rows.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::paths::packed_ending;
use crate::plan::{DataFormat, Source};

/// Bytes of JSON behind one token of text, over the kinds of rows that experts are made of. Only used until a cache is built.
const BYTES_PER_TOKEN: u64 = 4;

/// Bytes of rows behind one byte of a compressed file.
const PACKED: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataFacts {
    pub name: String,
    /// Null for a Hub dataset.
    pub path: Option<PathBuf>,
    pub bytes: Option<u64>,
    /// Null where counting would mean parsing the file.
    pub rows: Option<u64>,
}

impl DataFacts {
    pub fn of(source: &Source, path: Option<&Path>) -> Self {
        // Of a pipe or a device nothing is known, and reading it may never end.
        let facts = path.and_then(|path| std::fs::metadata(path).ok());
        let is_folder = facts.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let bytes = match path {
            Some(folder) if is_folder => bytes_below(folder),
            _ => facts.filter(std::fs::Metadata::is_file).map(|it| it.len()),
        };
        let rows = match (source.format, path, bytes) {
            (DataFormat::Jsonl, Some(path), Some(_)) if packed_ending(&source.name).is_none() => {
                count_lines(path).ok()
            }
            _ => None,
        };
        Self { name: source.name.clone(), path: path.map(Path::to_owned), bytes, rows }
    }

    pub fn is_here(&self) -> bool {
        self.path.is_none() || self.bytes.is_some()
    }

    /// A rough count for the step estimate; the token cache has the exact one.
    pub fn tokens(&self) -> Option<u64> {
        let packed = if packed_ending(&self.name).is_some() { PACKED } else { 1 };
        self.bytes.map(|bytes| bytes * packed / BYTES_PER_TOKEN)
    }
}

/// Of the files of a folder that `save_to_disk` wrote; none where there are none.
fn bytes_below(folder: &Path) -> Option<u64> {
    let sizes = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
    Some(sizes.filter(std::fs::Metadata::is_file).map(|it| it.len()).sum()).filter(|bytes| *bytes > 0)
}

/// Non-empty lines, so that a trailing line feed or blank lines do not count as rows.
fn count_lines(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0_u8; 1 << 20];
    let (mut lines, mut blank) = (0, true);
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                lines += u64::from(!blank);
                blank = true;
            } else if !byte.is_ascii_whitespace() {
                blank = false;
            }
        }
    }
    Ok(lines + u64::from(!blank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_not_rows() {
        let file = std::env::temp_dir().join(format!("expert-contract-lines-{}", std::process::id()));
        std::fs::write(&file, "{}\r\n\n  \n{}").unwrap();
        let rows = count_lines(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(rows, 2);
    }
}
