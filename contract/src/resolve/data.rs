//! Facts about the data before it is tokenized: whether it exists, its size and its number of rows.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::paths::packed_ending;
use crate::plan::{DataFormat, Source};

use super::text_tokens::Sample;

/// Bytes of a file behind one token, where its rows are not looked at.
const BYTES_PER_TOKEN: u64 = 4;

/// Bytes of rows behind one byte of a compressed file.
const PACKED: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataFacts {
    pub name: String,
    /// Null for a Hub dataset.
    pub path: Option<PathBuf>,
    pub bytes: Option<u64>,
    /// Null where counting would mean parsing the file: a row is not a line there.
    pub rows: Option<u64>,
    /// Of the first rows, where lines hold them.
    #[serde(skip)]
    sample: Sample,
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
        let counted = match (source.format, path, bytes) {
            (DataFormat::Jsonl, Some(path), Some(_)) if packed_ending(&source.name).is_none() => {
                count_lines(path)
            }
            _ => None,
        };
        let (rows, sample) = counted.unzip();
        Self {
            name: source.name.clone(),
            path: path.map(Path::to_owned),
            bytes,
            rows,
            sample: sample.unwrap_or_default(),
        }
    }

    pub fn is_here(&self) -> bool {
        self.path.is_none() || self.bytes.is_some()
    }

    /// Of the rows that were looked at, in tokens.
    pub fn sampled_lengths(&self) -> &[u32] {
        &self.sample.lengths
    }

    /// A rough count for the step estimate; the token cache has the exact one.
    pub fn tokens(&self) -> Option<u64> {
        let Sample { bytes, tokens, .. } = self.sample;
        if bytes > 0 {
            return self.bytes.map(|all| (all as f64 * tokens as f64 / bytes as f64).round() as u64);
        }
        let packed = if packed_ending(&self.name).is_some() { PACKED } else { 1 };
        self.bytes.map(|bytes| bytes * packed / BYTES_PER_TOKEN)
    }
}

/// Of the files of a folder that `save_to_disk` wrote; none where there are none.
fn bytes_below(folder: &Path) -> Option<u64> {
    let sizes = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
    Some(sizes.filter(std::fs::Metadata::is_file).map(|it| it.len()).sum()).filter(|bytes| *bytes > 0)
}

/// A longer line is not read for its row.
const LONGEST_LINE: u64 = 256 << 20;

/// The lines that are not blank, where lines hold the rows: in UTF-8, with an object in the first one. None of anything else, which the
/// worker reads as well: indented objects, a list, another encoding.
fn count_lines(path: &Path) -> Option<(u64, Sample)> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).ok()?);
    let mut line = Vec::new();
    let mut rows = 0;
    let mut sample = Sample::default();
    loop {
        line.clear();
        let read = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return (rows > 0).then_some((rows, sample));
        }
        if read as u64 == LONGEST_LINE {
            return None;
        }
        let text = std::str::from_utf8(&line).ok().filter(|text| !text.contains('\0'))?;
        let text = if rows == 0 { text.trim_start_matches('\u{feff}') } else { text };
        if text.trim_ascii().is_empty() {
            continue;
        }
        if rows == 0 {
            serde_json::from_str::<Map<String, Value>>(text).ok()?;
        }
        if sample.takes(rows, text.len()) {
            sample.add(text);
        }
        rows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(content: &[u8]) -> Option<u64> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, content).unwrap();
        count_lines(file.path()).map(|(rows, _)| rows)
    }

    #[test]
    fn blank_lines_are_not_rows() {
        assert_eq!(rows_of(b"{}\r\n\n  \n{}"), Some(2));
        assert_eq!(rows_of("\u{feff}\n {\"a\": {\"b\": [1]}}\n".as_bytes()), Some(1));
    }

    #[test]
    fn lines_that_are_not_rows_are_not_counted() {
        let row = "{\"a\": 1}\n";
        let indented = "{\n  \"a\": 1\n}\n".repeat(5);
        let list = format!("[{}]", ["{}"; 5].join(", "));
        for text in
            [&indented, &list, "[\n{},\n{}\n]\n", "{} {}\n", "", "\n \n", "{}\0\n", &format!("{row}\0")]
        {
            assert_eq!(rows_of(text.as_bytes()), None, "{text}");
        }
        let wide =
            |bytes: fn(u16) -> [u8; 2]| row.repeat(5).encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        for content in [wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
            assert_eq!(rows_of(&content), None);
            let marked: Vec<u8> = if content[0] == 0 { vec![0xfe, 0xff] } else { vec![0xff, 0xfe] };
            assert_eq!(rows_of(&[marked, content].concat()), None);
        }
        assert_eq!(rows_of(b"{\"a\": 1}\n{\"a\": \"\xe9\"}\n"), None, "Latin-1");
    }
}
