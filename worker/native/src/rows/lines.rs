//! A mapped file of JSON rows, cut into parts that threads can read without asking one another.

use std::ops::Range;
use std::path::Path;

use fs_err::File;
use memchr::memchr;
use memmap2::Mmap;

use super::layout::{Layout, next_value, value_end};
use super::value::Value;
use crate::problem::Fault;

/// A row of text longer than this is a mistake, not a row.
pub const MAX_ROW_BYTES: usize = 16 << 20;
/// Part `i` holds the lines that begin in its stretch of this many bytes, wherever they end.
const PART_BYTES: usize = 1 << 19;
const BOM: &[u8] = b"\xef\xbb\xbf";
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

pub struct Lines {
    map: Option<Mmap>,
    /// Where each part's first line or value begins, and the end.
    starts: Vec<usize>,
    pub layout: Layout,
    /// As the user wrote it.
    pub name: String,
}

/// One row, and its number within its part, from 0: of its line, or among the values.
pub struct Line<'a> {
    pub number: u64,
    pub bytes: &'a [u8],
}

impl Lines {
    pub fn open(path: &Path, name: &str) -> std::io::Result<Self> {
        // Before it is opened: opening a pipe waits for whoever writes to it.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other(format!("{name} is not a regular file")));
        }
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self { map: None, starts: vec![0], layout: Layout::Lines, name: name.to_owned() });
        }
        // SAFETY: the mapping is read-only; a file that someone shortens meanwhile ends this process
        // with SIGBUS rather than reading anything else, as with every mapped file.
        let map = unsafe { Mmap::map(file.file())? };
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        let bytes = without_mark(&map);
        let layout = Layout::of(bytes);
        let starts = match &layout {
            Layout::Lines => part_starts(bytes),
            Layout::Values(range) | Layout::Object(range) => value_parts(bytes, range),
        };
        Ok(Self { map: Some(map), starts, layout, name: name.to_owned() })
    }

    fn bytes(&self) -> &[u8] {
        without_mark(self.map.as_deref().unwrap_or_default())
    }

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// A list or a last value that does not end, and the number of the row near which that is.
    pub fn cut_off(&self) -> Option<(u64, Fault)> {
        let Layout::Values(range) = &self.layout else { return None };
        let inside = &self.bytes()[..range.end];
        // A list that ends has its bracket behind the values.
        let listed = range.end < self.bytes().len();
        let (mut rows, mut last) = (0, None);
        let start = self.starts.iter().rev().nth(1).copied().unwrap_or(range.start);
        let mut at = if listed { range.end } else { start };
        while let Some(value) = next_value(inside, at) {
            at = value.end;
            rows += 1;
            last = Some(value.start);
        }
        let is_list = self.bytes()[..range.start].ends_with(b"[");
        let unfinished = last.is_some_and(|start| value_end(inside, start).is_none());
        if listed || !(is_list || unfinished) {
            return None;
        }
        let before = self.starts.len().saturating_sub(2);
        let rows = rows + (0..before).map(|part| self.each(part, |_| {})).sum::<u64>();
        let message =
            "the file ends before its last value does: it is not complete, or a quote or bracket is missing";
        Some((rows.max(1), Fault::new("cut_off", message)))
    }

    /// The first rows as they stand in the file, or why one cannot be read.
    pub fn first(&self, most: usize) -> Vec<Result<String, Fault>> {
        let mut rows = Vec::new();
        for part in 0..self.parts() {
            if rows.len() >= most {
                break;
            }
            self.each(part, |line| {
                if rows.len() < most {
                    rows.push(line.text().map(str::to_owned));
                }
            });
        }
        if rows.len() < most
            && let Some((_, fault)) = self.cut_off()
        {
            rows.pop();
            rows.push(Err(fault));
        }
        rows
    }

    /// A file that Git LFS has left in place of the data.
    pub fn lfs_pointer(&self) -> Option<Fault> {
        let bytes = self.bytes();
        if !bytes.starts_with(LFS) {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).into_owned();
        let size = text.lines().find_map(|line| line.strip_prefix("size ")).unwrap_or("unknown");
        let message = format!(
            "is a Git LFS pointer, not the data ({size} bytes are still on the server): run `git lfs install` and `git lfs pull`"
        );
        Some(Fault::new("lfs_pointer", message))
    }

    pub fn parts(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes of a part, whole lines only.
    pub fn extent(&self, part: usize) -> Range<usize> {
        self.starts[part]..self.starts[part + 1]
    }

    /// Calls `each` with every line that holds something, or every value; returns how many there were.
    pub fn each(&self, part: usize, mut each: impl FnMut(Line<'_>)) -> u64 {
        if self.layout != Layout::Lines {
            return self.each_value(part, each);
        }
        let mut rest = &self.bytes()[self.extent(part)];
        let mut number = 0;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let bytes = rest[..end].trim_ascii();
            if !bytes.is_empty() {
                each(Line { number, bytes });
            }
            rest = rest.get(end + 1..).unwrap_or_default();
            number += 1;
        }
        number
    }
}

impl Lines {
    fn each_value(&self, part: usize, mut each: impl FnMut(Line<'_>)) -> u64 {
        let bytes = &self.bytes()[self.extent(part)];
        let (mut at, mut number) = (0, 0);
        while let Some(value) = next_value(bytes, at) {
            at = value.end;
            each(Line { number, bytes: &bytes[value] });
            number += 1;
        }
        number
    }
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// One pass, in which no stretch is looked at twice: a line of many parts is searched for its end once.
fn part_starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    let mut next = 0;
    for part in 1..bytes.len().div_ceil(PART_BYTES) {
        let at = part * PART_BYTES;
        if next < at {
            next = memchr(b'\n', &bytes[at - 1..]).map_or(bytes.len(), |step| at + step);
        }
        starts.push(next);
    }
    starts.push(bytes.len());
    starts
}

/// The values are read once; a part begins where one does.
fn value_parts(bytes: &[u8], range: &Range<usize>) -> Vec<usize> {
    let inside = &bytes[..range.end];
    let (mut starts, mut at) = (vec![range.start], range.start);
    while let Some(value) = next_value(inside, at) {
        if starts.last().is_some_and(|start| value.start - start >= PART_BYTES) {
            starts.push(value.start);
        }
        at = value.end;
    }
    starts.push(range.end);
    starts
}

impl Line<'_> {
    pub fn parse(&self) -> Result<Value<'_>, Fault> {
        check_length(self.bytes.len())?;
        let text = self.text()?;
        Value::parse(text).map_err(|error| not_json(&error, text))
    }

    fn text(&self) -> Result<&str, Fault> {
        std::str::from_utf8(self.bytes).map_err(|error| {
            Fault::new("not_utf8", format!("byte {} of the row is not UTF-8", error.valid_up_to() + 1))
        })
    }
}

/// A row of any format is at most so long.
pub fn check_length(bytes: usize) -> Result<(), Fault> {
    if bytes <= MAX_ROW_BYTES {
        return Ok(());
    }
    let megabytes = bytes as f64 / 1e6;
    Err(Fault::new("row_too_long", format!("the row is {megabytes:.1} MB long; 16 MiB is the most")))
}

pub fn not_json(error: &serde_json::Error, row: &str) -> Fault {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    let message = match error.column() {
        0 => format!("not valid JSON: {reason}"),
        column => format!("not valid JSON: {reason} (column {column})"),
    };
    let fault = Fault::new("not_json", message);
    match cure(row, error.column()) {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// What helps a row that another program wrote almost as JSON; `column` is where reading it stopped, from 1.
fn cure(row: &str, column: usize) -> Option<&'static str> {
    let rest = row.get(column.checked_sub(1)?..)?;
    let begins = |words: &[&str]| words.iter().any(|word| rest.starts_with(word));
    if rest.trim() == "," {
        return Some(
            "remove the comma at the end of each line, or write the rows as a list into a .json file",
        );
    }
    if begins(&["NaN", "Infinity", "-Infinity"]) {
        return Some("NaN and Infinity are not JSON: write null, or leave the row out");
    }
    if begins(&["'", "None", "True", "False"]) {
        return Some("such rows are Python's, not JSON: write them with json.dumps");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(content: &[u8], most: usize) -> Vec<Result<String, &'static str>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        fs_err::write(&path, content).unwrap();
        let rows = Lines::open(&path, "rows.json").unwrap().first(most);
        rows.into_iter().map(|row| row.map_err(|fault| fault.code)).collect()
    }

    fn row(text: &str) -> Result<String, &'static str> {
        Ok(text.to_owned())
    }

    #[test]
    fn the_first_rows_have_no_characters_in_place_of_bytes_that_are_not_utf8() {
        let listed = first(b"[{\"a\": \"\xfc\"}, {\"a\": 1}]", 9);
        assert_eq!(listed, [Err("not_utf8"), row("{\"a\": 1}")]);
        let by_line = first(b"{\"a\": 1}\n{\"a\": \"\xfc\"}\n{\"a\": 2}\n", 2);
        assert_eq!(by_line, [row("{\"a\": 1}"), Err("not_utf8")]);
    }

    #[test]
    fn the_end_of_the_first_rows_says_where_a_list_is_cut_off() {
        for ending in [", {\"a\": 2}", ", {\"a\": 2},", ", {\"a\": "] {
            let listed = format!("[{{\"a\": 1}}{ending}");
            assert_eq!(first(listed.as_bytes(), 9), [row("{\"a\": 1}"), Err("cut_off")], "{listed}");
            assert_eq!(first(listed.as_bytes(), 1), [row("{\"a\": 1}")]);
        }
        assert_eq!(first(b"[", 9), [Err("cut_off")]);
        assert_eq!(first(b"[{\"a\": 1}]", 9), [row("{\"a\": 1}")]);
    }
}
