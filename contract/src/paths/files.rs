//! Which files a data path means: itself, a folder's files, or those that a pattern matches.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf, is_separator};

use super::parse::{format_of_ending, packed_ending, unknown_ending};
use crate::plan::DataFormat;

/// A folder of more files is a mistake, not a data set.
const MOST_FILES: usize = 10_000;
/// What libraries write beside the data, and what is about the data.
const BESIDE: [&str; 6] = [
    "dataset_info.json",
    "dataset_infos.json",
    "state.json",
    "dataset_dict.json",
    "manifest.json",
    "package.json",
];
/// Endings of files that people keep rows in, and that are not read.
const OTHER_DATA: [&str; 21] = [
    "txt", "xml", "xlsx", "xls", "ods", "numbers", "bz2", "xz", "7z", "rar", "tar", "tgz", "pkl", "pickle",
    "npy", "npz", "db", "sqlite", "sqlite3", "orc", "avro",
];
/// Texts about the data.
const ABOUT: [&str; 4] = ["readme", "license", "licence", "notice"];
const MATCHING: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
/// In place of a key where a path alone is written.
pub const FILE: &str = "FILE";
/// Names of a split, and the split.
const SPLITS: [(&str, &str); 9] = [
    ("train", "train"),
    ("training", "train"),
    ("test", "test"),
    ("testing", "test"),
    ("validation", "validation"),
    ("valid", "validation"),
    ("val", "validation"),
    ("dev", "validation"),
    ("eval", "validation"),
];

/// Why a path does not mean data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotData {
    Missing,
    /// A pipe or a device: reading it may never end, and can be done once only.
    Pipe,
    /// A folder without a data file, or a pattern that matches none.
    NoFiles,
    /// What to write instead, for each split.
    Splits(Vec<String>),
    /// What to write instead, for each format.
    Formats(Vec<String>),
    TooMany,
    /// A folder or file in it, and why it cannot be read.
    Unreadable(String, String),
}

/// What a folder or a pattern means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataFiles {
    /// Each as it is named in a plan, and where it is.
    pub files: Vec<(String, PathBuf)>,
    /// Files that look like data and are not read, as a plan would name them.
    pub left_out: Vec<String>,
}

/// A path in which JSON took backslashes for the beginnings of escapes, such as a tab in `data\train`: as it was
/// written, and with slashes.
fn as_written(text: &str) -> Option<(String, String)> {
    const ESCAPES: [(char, char); 5] =
        [('\t', 't'), ('\n', 'n'), ('\r', 'r'), ('\u{8}', 'b'), ('\u{c}', 'f')];
    let letter = |c: char| ESCAPES.iter().find(|(control, _)| *control == c).map(|(_, letter)| *letter);
    text.contains(|c| letter(c).is_some()).then(|| {
        let with = |separator: &str| -> String {
            text.chars()
                .map(|c| letter(c).map_or_else(|| c.to_string(), |letter| format!("{separator}{letter}")))
                .collect()
        };
        (with("\\"), with("/").replace('\\', "/"))
    })
}

impl NotData {
    /// What is wrong with `text`, and what to write instead of it; `key` is `path`, `--data` or `FILE`.
    pub fn words(&self, text: &str, key: &str) -> (String, String) {
        let line = |value: &str| match key {
            "--data" => format!("--data '{value}'"),
            FILE => format!("'{value}'"),
            _ => format!("\"{key}\": \"{value}\""),
        };
        match self {
            Self::Missing => match (as_written(text), may_be_on_hub(text)) {
                (Some((written, slashed)), _) => (
                    format!("`{written}` is not here: JSON reads a backslash and the letter behind it as one character"),
                    format!("write {}: / works on every system", line(&slashed)),
                ),
                (None, Some(id)) => (
                    format!("`{text}` is not here, and a dataset of the Hugging Face Hub is named with its split"),
                    format!("check the path, or name the Hub's dataset: write {}", line(&format!("{id}::train"))),
                ),
                (None, None) => (
                    format!("`{text}` is not here"),
                    "make or download the data first; the path is relative to the manifest's folder".to_owned(),
                ),
            },
            Self::Pipe => {
                // The shell's own pipe of `<(command)` ends with the command.
                let command = if text.starts_with("/dev/") || text.starts_with("/proc/") { "COMMAND".to_owned() } else { format!("cat '{text}'") };
                (
                    format!("`{text}` is a pipe or a device, and data is read more than once"),
                    format!("save it to a file, `{command} > rows.jsonl`, and write {}", line("rows.jsonl")),
                )
            }
            Self::NoFiles => (
                format!("there are no data files in `{text}`"),
                "files that end in jsonl, json, csv, tsv, parquet or arrow are read, also with .gz, .zst or .zip".to_owned(),
            ),
            Self::Splits(paths) => (
                format!("`{text}` holds several splits"),
                format!("name the one to learn from: write {}", paths.iter().map(|path| line(path)).collect::<Vec<_>>().join(" or ")),
            ),
            Self::Formats(paths) => (
                format!("`{text}` holds files of several formats"),
                format!("name one kind: write {}", paths.iter().map(|path| line(path)).collect::<Vec<_>>().join(" or ")),
            ),
            Self::TooMany => (
                format!("`{text}` holds more than {MOST_FILES} files"),
                "name a folder or pattern with fewer files, or join them".to_owned(),
            ),
            Self::Unreadable(name, reason) => (
                format!("`{name}`, which `{text}` includes, cannot be read: {reason}"),
                "check its permissions and where its link leads, or remove it".to_owned(),
            ),
        }
    }
}

/// `owner/name`, as the Hub names datasets; none for what looks like a file.
pub fn hub_id(text: &str) -> Option<&str> {
    let is_file = |name: &str| format_of_ending(name).is_some() || unknown_ending(name, None).is_some();
    hub_name(text).filter(|id| !id.split_once('/').is_some_and(|(_, name)| is_file(name)))
}

/// `owner/name`, as a data set's page has it, also from an `hf:` URL.
pub fn hub_name(text: &str) -> Option<&str> {
    let text = text.strip_prefix("hf://datasets/").unwrap_or(text);
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
    };
    let (owner, name) = text.split_once('/')?;
    (is_name(owner) && is_name(name)).then_some(text)
}

/// A Hub id that is not rather a path of the expert's own data.
pub fn may_be_on_hub(text: &str) -> Option<&str> {
    let is_local = |id: &str| matches!(id.split('/').next(), Some("datasets" | "data"));
    hub_id(text).filter(|id| !is_local(id))
}

impl DataFiles {
    /// What is not read of `text`, and what to do about it.
    pub fn left_out_words(&self, text: &str) -> Option<(String, String)> {
        let names: Vec<String> = self.left_out.iter().take(4).map(|name| format!("`{name}`")).collect();
        let count = self.left_out.len();
        let more =
            if count > names.len() { format!(" and {} more", count - names.len()) } else { String::new() };
        let files = if count == 1 {
            "1 file that looks like data and is"
        } else {
            "files that look like data and are"
        };
        let number = if count == 1 { String::new() } else { format!("{count} ") };
        let message = format!("`{text}` holds {number}{files} not read: {}{more}", names.join(", "));
        let begins = |name: &String| name.rsplit('/').any(|part| part.starts_with('_'));
        let mut hints = Vec::new();
        if self.left_out.iter().any(begins) {
            hints.push("a folder's names with `_` in front are left out: rename them, or use a pattern");
        }
        if !self.left_out.iter().all(begins) {
            hints.push("convert or unpack files of other formats, or move them away");
        }
        (count > 0).then(|| (message, hints.join("; ")))
    }
}

/// The files, each as it is named in a plan and where it is. `text` is the path as it was written.
pub fn data_files(text: &str, path: &Path) -> Result<Vec<(String, PathBuf)>, NotData> {
    find_data(text, path).map(|found| found.files)
}

/// The same, and what is left out.
pub fn find_data(text: &str, path: &Path) -> Result<DataFiles, NotData> {
    let text = text.trim_end_matches('/');
    let one = || Ok(DataFiles { files: vec![(text.to_owned(), path.to_owned())], left_out: Vec::new() });
    // The folder in which all files are, as it was written.
    let (root, found) = match fs::metadata(path) {
        Ok(found) if !found.is_dir() && !found.is_file() => return Err(NotData::Pipe),
        Ok(found) if found.is_file() => return one(),
        Ok(_) => {
            if let Some(splits) = splits_of_library(path) {
                return Err(NotData::Splits(
                    splits.into_iter().map(|split| format!("{text}/{split}")).collect(),
                ));
            }
            // A folder that `save_to_disk` wrote is one source.
            if path.join("state.json").is_file() && path.join("dataset_info.json").is_file() {
                return one();
            }
            (text.to_owned(), in_folder(text, path)?)
        }
        Err(_) if is_pattern(text) => matching(text, path)?,
        Err(_) => return Err(NotData::Missing),
    };
    if found.files.is_empty() {
        return Err(NotData::NoFiles);
    }
    one_split(&root, &found.files)?;
    let named = if root == text { text } else { text.rsplit_once('/').map_or("", |(folder, _)| folder) };
    one_format(named, &found.files)?;
    Ok(found)
}

pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// The data files of a folder and of those below it, in the order of their paths.
fn in_folder(text: &str, path: &Path) -> Result<DataFiles, NotData> {
    let every = glob::Pattern::new("*").map_err(|_| NotData::Missing)?;
    let below = format!("{text}/");
    let mut walk = Walk::new(path, &below, vec![Part::Folders, Part::Matching(every)], false);
    walk.all()?;
    Ok(walk.found())
}

/// A part of a pattern.
enum Part {
    /// `**`: any folders, one in the other, or none.
    Folders,
    Matching(glob::Pattern),
    Named(String),
}

/// Links to folders are followed, each folder once: a link may lead back.
struct Walk<'a> {
    root: &'a Path,
    /// The root as it was written, with a slash behind.
    below: &'a str,
    parts: Vec<Part>,
    /// Whether names with `_` in front are taken.
    with_underscores: bool,
    /// Paths are those inside the root.
    files: Vec<PathBuf>,
    left_out: Vec<PathBuf>,
    /// Folders with links resolved, and the part that was looked for there.
    seen: HashSet<(PathBuf, usize)>,
    links: Vec<(PathBuf, usize)>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, below: &'a str, parts: Vec<Part>, with_underscores: bool) -> Self {
        let (files, left_out, seen, links) = (Vec::new(), Vec::new(), HashSet::new(), Vec::new());
        Self { root, below, parts, with_underscores, files, left_out, seen, links }
    }

    fn found(self) -> DataFiles {
        let name = |inside: &Path| format!("{}{}", self.below, slashed(inside));
        DataFiles {
            files: self.files.iter().map(|inside| (name(inside), self.root.join(inside))).collect(),
            left_out: self.left_out.iter().map(|inside| name(inside)).collect(),
        }
    }

    fn all(&mut self) -> Result<(), NotData> {
        self.folder(Path::new(""), 0)?;
        // After all others: a folder has its own name before that of a link to it.
        while let Some((link, at)) = self.links.pop() {
            self.folder(&link, at)?;
        }
        self.files.sort();
        self.left_out.sort();
        Ok(())
    }

    fn unreadable(&self, inside: &Path, error: &io::Error) -> NotData {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
        NotData::Unreadable(format!("{}{}", self.below, slashed(inside)), reason)
    }

    /// What of the parts from `at` on is in this folder.
    fn folder(&mut self, inside: &Path, at: usize) -> Result<(), NotData> {
        let folder = self.root.join(inside);
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let real = folder.canonicalize().map_err(|error| self.unreadable(inside, &error))?;
        if !self.seen.insert((real, at)) {
            return Ok(());
        }
        if let Part::Named(name) = &self.parts[at] {
            let inside = inside.join(name);
            return if self.root.join(&inside).exists() { self.entry(inside, at) } else { Ok(()) };
        }
        if matches!(self.parts[at], Part::Folders) {
            self.folder(inside, at + 1)?;
        }
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| self.unreadable(inside, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let fits = match &self.parts[at] {
                Part::Matching(pattern) => pattern.matches_with(&name, MATCHING),
                _ => !name.starts_with('.') && entry.path().is_dir(),
            };
            if fits {
                self.entry(inside.join(name), at)?;
            }
        }
        Ok(())
    }

    /// A file or folder that fits the part.
    fn entry(&mut self, inside: PathBuf, at: usize) -> Result<(), NotData> {
        let path = self.root.join(&inside);
        let name = inside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = fs::metadata(&path);
        let is_folder = found.as_ref().is_ok_and(fs::Metadata::is_dir);
        let is_last = at + 1 == self.parts.len();
        if !self.with_underscores && name.starts_with('_') {
            let holds_data = || {
                let names = fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.file_name());
                names.into_iter().any(|name| is_data(&name.to_string_lossy()))
            };
            if is_folder && !is_last && holds_data() || is_last && !is_folder && looks_like_data(&name) {
                self.left_out.push(inside);
            }
            return Ok(());
        }
        if !is_last {
            let next = if matches!(self.parts[at], Part::Folders) { at } else { at + 1 };
            if is_folder && path.is_symlink() {
                self.links.push((inside, next));
            } else if is_folder {
                self.folder(&inside, next)?;
            }
            return Ok(());
        }
        // A file whose name is written out is meant, whatever the name is.
        let is_named = matches!(self.parts[at], Part::Named(_)) && format_of_ending(&name).is_some();
        match found {
            Ok(found) if !found.is_file() => {}
            Ok(_) if is_named || is_data(&name) => self.files.push(inside),
            Ok(_) if looks_like_data(&name) => self.left_out.push(inside),
            Err(error) if is_named || is_data(&name) => return Err(self.unreadable(&inside, &error)),
            _ => {}
        }
        if self.files.len() > MOST_FILES {
            return Err(NotData::TooMany);
        }
        Ok(())
    }
}

fn is_data(name: &str) -> bool {
    !BESIDE.contains(&name) && format_of_ending(name).is_some()
}

/// Whether it is a pity not to read it.
fn looks_like_data(name: &str) -> bool {
    let (stem, ending) = packed_ending(name).unwrap_or(name).rsplit_once('.').unwrap_or((name, ""));
    let is_other = OTHER_DATA.contains(&ending.to_ascii_lowercase().as_str());
    is_data(name) || is_other && !ABOUT.contains(&stem.to_ascii_lowercase().as_str())
}

/// Where the pattern of a path begins: behind the folders that are here, whose names may have brackets.
fn end_of_folders(whole: &str) -> usize {
    let is_there = |end: &usize| *end == 0 || Path::new(&whole[..*end]).is_dir();
    let ends = whole.match_indices(is_separator).map(|(end, _)| end);
    ends.take_while(is_there).last().map_or(0, |end| end + 1)
}

/// The files that a folder or a pattern means, also those that are gone.
#[derive(Debug, Clone)]
pub struct Several {
    pub folder: PathBuf,
    below: glob::Pattern,
}

impl Several {
    /// None where the path means one file.
    pub fn of(path: &Path) -> Option<Self> {
        if path.is_dir() {
            return Some(Self { folder: path.to_owned(), below: glob::Pattern::new("**/*").ok()? });
        }
        let whole = path.to_str().filter(|whole| is_pattern(whole) && !path.exists())?;
        let (folder, below) = whole.split_at(end_of_folders(whole));
        Some(Self { folder: PathBuf::from(folder), below: glob::Pattern::new(below).ok()? })
    }

    /// The same under another name of the folder.
    #[must_use]
    pub fn under(&self, folder: PathBuf) -> Self {
        Self { folder, below: self.below.clone() }
    }

    /// Whether a file of this name below the folder is, or was, one of them.
    pub fn takes(&self, inside: &Path) -> bool {
        format_of_ending(&inside.to_string_lossy()).is_some()
            && self.below.matches_path_with(inside, MATCHING)
    }
}

/// The files that match, and the folder of the text in which all of them are.
fn matching(text: &str, path: &Path) -> Result<(String, DataFiles), NotData> {
    let Some(whole) = path.to_str() else { return Err(NotData::Missing) };
    let literal = end_of_folders(whole);
    let mut parts = Vec::new();
    for part in whole[literal..].split(is_separator).filter(|part| !part.is_empty()) {
        parts.push(match part {
            "**" => Part::Folders,
            _ if is_pattern(part) => Part::Matching(glob::Pattern::new(part).map_err(|_| NotData::Missing)?),
            _ => Part::Named(part.to_owned()),
        });
    }
    if matches!(parts.last(), Some(Part::Folders)) {
        parts.push(Part::Matching(glob::Pattern::new("*").map_err(|_| NotData::Missing)?));
    }
    // What stands before the pattern in the text and in the path is of different length.
    let written = text.replace('\\', "/");
    let slashed = whole.replace('\\', "/");
    let before = slashed.strip_suffix(written.as_str()).map_or(0, str::len);
    let below = slashed.get(before..literal).unwrap_or_default();
    let mut walk = Walk::new(Path::new(&whole[..literal]), below, parts, true);
    walk.all()?;
    Ok((below.trim_end_matches('/').to_owned(), walk.found()))
}

/// The splits of a `DatasetDict` that `save_to_disk` wrote.
fn splits_of_library(folder: &Path) -> Option<Vec<String>> {
    let text = fs::read(folder.join("dataset_dict.json")).ok()?;
    let document: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let splits = document.get("splits")?.as_array()?;
    Some(splits.iter().filter_map(|split| split.as_str().map(str::to_owned)).collect())
}

/// Training on a test split beside the training split is a mistake that no score shows.
fn one_split(root: &str, files: &[(String, PathBuf)]) -> Result<(), NotData> {
    let inside = |name: &str| name.strip_prefix(root).unwrap_or(name).trim_start_matches('/').to_owned();
    let found: Vec<_> =
        files.iter().filter_map(|(name, _)| split_of(&inside(name)).map(|it| (inside(name), it))).collect();
    let splits: BTreeSet<_> = found.iter().map(|(_, (_, split))| *split).collect();
    if splits.len() < 2 {
        return Ok(());
    }
    let paths = found.iter().map(|(name, (word, _))| {
        let below = if root.is_empty() { String::new() } else { format!("{root}/") };
        match name.split_once('/') {
            // The folder is the split.
            Some((folder, _)) if folder.eq_ignore_ascii_case(word) => format!("{below}{folder}"),
            _ => {
                let folder = name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
                format!("{below}{folder}*{word}*")
            }
        }
    });
    let mut paths: Vec<_> = paths.collect::<BTreeSet<_>>().into_iter().collect();
    // The one to learn from first.
    paths.sort_by_key(|path| !path.to_lowercase().contains("train"));
    paths.truncate(4);
    Err(NotData::Splits(paths))
}

/// What in the path names a split, and the split.
fn split_of(name: &str) -> Option<(String, &'static str)> {
    let mut words = name.split(|it: char| !it.is_ascii_alphanumeric());
    words.find_map(|word| {
        let lower = word.to_ascii_lowercase();
        SPLITS.into_iter().find(|(known, _)| *known == lower).map(|(_, split)| (word.to_owned(), split))
    })
}

fn one_format(folder: &str, files: &[(String, PathBuf)]) -> Result<(), NotData> {
    let family = |name: &str| match format_of_ending(name) {
        // Both are read by their content.
        Some(DataFormat::Json) => Some(DataFormat::Jsonl),
        other => other,
    };
    let formats: BTreeSet<_> =
        files.iter().filter_map(|(name, _)| family(name).map(DataFormat::as_str)).collect();
    if formats.len() < 2 {
        return Ok(());
    }
    let ending = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let endings: BTreeSet<_> = files.iter().map(|(name, _)| ending(name)).collect();
    let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let deep =
        if files.iter().any(|(name, _)| name.strip_prefix(&below).is_some_and(|name| name.contains('/'))) {
            "**/"
        } else {
            ""
        };
    Err(NotData::Formats(
        endings.into_iter().take(4).map(|ending| format!("{below}{deep}*.{ending}")).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "{}").unwrap();
        }
        folder
    }

    fn names(folder: &tempfile::TempDir, text: &str) -> Result<Vec<String>, NotData> {
        let files = data_files(text, &folder.path().join(text))?;
        assert!(files.iter().all(|(name, path)| *path == folder.path().join(name)), "{files:?}");
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn folders_and_patterns_are_their_files_in_order() {
        let folder = folder(&[
            "d/b.jsonl",
            "d/a.jsonl.gz",
            "d/.hidden.jsonl",
            "d/README.md",
            "d/in/c.json",
            "d/dataset_infos.json",
        ]);
        assert_eq!(names(&folder, "d").unwrap(), ["d/a.jsonl.gz", "d/b.jsonl", "d/in/c.json"]);
        assert_eq!(names(&folder, "d/").unwrap(), ["d/a.jsonl.gz", "d/b.jsonl", "d/in/c.json"]);
        assert_eq!(names(&folder, "d/*.jsonl").unwrap(), ["d/b.jsonl"]);
        assert_eq!(names(&folder, "d/**/*.json").unwrap(), ["d/in/c.json"]);
        assert_eq!(names(&folder, "d/b.jsonl").unwrap(), ["d/b.jsonl"]);
        assert_eq!(names(&folder, "d/*.csv"), Err(NotData::NoFiles));
        assert_eq!(names(&folder, "e"), Err(NotData::Missing));
    }

    #[test]
    fn backslashes_that_json_read_as_escapes_are_shown_as_written() {
        let (message, hint) = NotData::Missing.words("datasets\train\\new.jsonl", "path");
        assert_eq!(
            message,
            r"`datasets\train\new.jsonl` is not here: JSON reads a backslash and the letter behind it as one character"
        );
        assert_eq!(hint, r#"write "path": "datasets/train/new.jsonl": / works on every system"#);
    }

    #[test]
    fn files_that_are_not_read_are_named() {
        let folder = folder(&[
            "d/a.jsonl",
            "d/sub/g.jsonl",
            "d/_c.jsonl",
            "d/b.jsonl.bz2",
            "d/e.txt",
            "d/f.txt.gz",
            "d/README.txt",
            "d/.hidden.jsonl",
            "d/_old/h.jsonl",
            "d/__pycache__/x.pyc",
            "d/state.json",
        ]);
        let found = find_data("d", &folder.path().join("d")).unwrap();
        let files: Vec<_> = found.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(files, ["d/a.jsonl", "d/sub/g.jsonl"]);
        assert_eq!(found.left_out, ["d/_c.jsonl", "d/_old", "d/b.jsonl.bz2", "d/e.txt", "d/f.txt.gz"]);
        let (message, hint) = found.left_out_words("d").unwrap();
        assert!(message.contains("5 files") && message.ends_with("`d/e.txt` and 1 more"), "{message}");
        assert!(hint.contains('_') && hint.contains("unpack"), "{hint}");

        let found = find_data("d/*", &folder.path().join("d/*")).unwrap();
        let files: Vec<_> = found.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(files, ["d/_c.jsonl", "d/a.jsonl"]);
        assert_eq!(found.left_out, ["d/b.jsonl.bz2", "d/e.txt", "d/f.txt.gz"]);
        // Whatever a pattern names to the end is meant.
        assert_eq!(names(&folder, "*/state.json").unwrap(), ["d/state.json"]);
        assert_eq!(names(&folder, "*/_c.jsonl").unwrap(), ["d/_c.jsonl"]);
        assert_eq!(
            find_data("d/a.jsonl", &folder.path().join("d/a.jsonl")).unwrap().left_out_words("d"),
            None
        );
    }

    #[test]
    fn a_file_that_is_gone_fits_its_folder_or_pattern() {
        let folder = folder(&["d [1]/x/a.jsonl", "d [1]/README.md"]);
        let takes = |path: &str, inside: &str| {
            let several = Several::of(&folder.path().join(path)).unwrap();
            folder.path().join(inside).strip_prefix(&several.folder).is_ok_and(|it| several.takes(it))
        };
        for path in ["d [1]", "d [1]/", "d [1]/**", "d [1]/**/*.jsonl", "d [1]/x/*.jsonl", "d*/x/b.*"] {
            assert!(takes(path, "d [1]/x/b.jsonl"), "{path}");
            assert!(!takes(path, "d [1]/README.md") && !takes(path, "d [1]/x/.b.jsonl"), "{path}");
        }
        assert!(takes("gone/*.jsonl", "gone/b.jsonl") && !takes("gone/*.jsonl", "gone/x/b.jsonl"));
        assert!(!takes("d [1]/*.jsonl", "d [1]/x/b.jsonl") && !takes("d [1]/*.jsonl", "d [1]/b.csv"));
        for path in ["d [1]/x/a.jsonl", "gone.jsonl"] {
            assert!(Several::of(&folder.path().join(path)).is_none(), "{path}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_to_folders_are_followed_once() {
        use std::os::unix::fs::symlink;
        let folder = folder(&["real/x.jsonl", "d/a.jsonl", "d/z/y.jsonl"]);
        symlink("../real", folder.path().join("d/link")).unwrap();
        symlink("z", folder.path().join("d/again")).unwrap();
        symlink("..", folder.path().join("d/z/back")).unwrap();
        for path in ["d", "d/**/*.jsonl"] {
            assert_eq!(
                names(&folder, path).unwrap(),
                ["d/a.jsonl", "d/link/x.jsonl", "d/z/y.jsonl"],
                "{path}"
            );
        }
        symlink("nowhere", folder.path().join("d/lost.jsonl")).unwrap();
        for path in ["d", "d/*.jsonl"] {
            let Err(NotData::Unreadable(name, _)) = names(&folder, path) else { panic!("{path}") };
            assert_eq!(name, "d/lost.jsonl");
        }
    }

    /// Whoever may read everything, as root, sees no difference.
    #[test]
    #[cfg(unix)]
    fn a_folder_that_cannot_be_read_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder(&["d/a.jsonl", "d/closed/b.jsonl"]);
        let closed = folder.path().join("d/closed");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let may_read = fs::read_dir(&closed).is_ok();
        let found = names(&folder, "d");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
        match found {
            Ok(_) => assert!(may_read),
            found => assert!(matches!(found, Err(NotData::Unreadable(name, _)) if name == "d/closed")),
        }
    }

    #[test]
    fn brackets_in_the_names_of_folders_stand_for_themselves() {
        let folder =
            folder(&["br [x]/tr-1.jsonl", "br [x]/tr-2.jsonl", "br [x]/d [1]/a.csv", "br [x]/d [1]/b.jsonl"]);
        let here = folder.path().join("br [x]");
        let names = |text: &str| {
            data_files(text, &here.join(text))
                .map(|files| files.into_iter().map(|it| it.0).collect::<Vec<_>>())
        };
        assert_eq!(names("tr-*.jsonl").unwrap(), ["tr-1.jsonl", "tr-2.jsonl"]);
        assert_eq!(names("tr-[1].jsonl").unwrap(), ["tr-1.jsonl"]);
        assert_eq!(names("d [1]/*.csv").unwrap(), ["d [1]/a.csv"]);
        let Err(NotData::Formats(paths)) = names("d [1]") else { panic!("formats") };
        assert_eq!(names(&paths[0]).unwrap(), ["d [1]/a.csv"]);
    }

    #[test]
    fn several_splits_or_formats_are_asked_for_and_the_answer_works() {
        let folder = folder(&[
            "d/train-0.parquet",
            "d/train-1.parquet",
            "d/test-0.parquet",
            "e/train/a.csv",
            "e/validation/a.csv",
            "f/a.csv",
            "f/x/b.jsonl",
        ]);
        let Err(NotData::Splits(paths)) = names(&folder, "d") else { panic!("splits") };
        assert_eq!(paths, ["d/*train*", "d/*test*"]);
        assert_eq!(names(&folder, &paths[0]).unwrap(), ["d/train-0.parquet", "d/train-1.parquet"]);
        let Err(NotData::Splits(paths)) = names(&folder, "e") else { panic!("splits") };
        assert_eq!(names(&folder, &paths[0]).unwrap(), ["e/train/a.csv"]);
        let Err(NotData::Splits(paths)) = names(&folder, "d/*") else { panic!("splits") };
        assert_eq!(paths[0], "d/*train*");
        let Err(NotData::Formats(paths)) = names(&folder, "f") else { panic!("formats") };
        assert_eq!(names(&folder, &paths[0]).unwrap(), ["f/a.csv"]);
    }

    #[test]
    fn a_saved_dataset_is_one_source_and_several_ask_for_the_split() {
        let folder = folder(&["s/state.json", "s/dataset_info.json", "s/data-00000-of-00001.arrow"]);
        assert_eq!(names(&folder, "s").unwrap(), ["s"]);
        fs::create_dir(folder.path().join("h")).unwrap();
        fs::write(folder.path().join("h/dataset_dict.json"), r#"{"splits": ["train", "test"]}"#).unwrap();
        assert_eq!(names(&folder, "h"), Err(NotData::Splits(vec!["h/train".into(), "h/test".into()])));
    }

    #[test]
    fn names_of_the_hub_are_not_names_of_files() {
        assert_eq!(hub_id("tatsu-lab/alpaca"), Some("tatsu-lab/alpaca"));
        assert_eq!(hub_id("hf://datasets/a/b"), Some("a/b"));
        for text in ["datasets/train.jsonl", "datasets/notes.txt", "a/b/c", "../x", "train", "a/b c"] {
            assert_eq!(hub_id(text), None, "{text}");
        }
        let (message, hint) = NotData::Missing.words("tatsu-lab/alpaca", "path");
        assert!(message.contains("Hub") && hint.contains("\"path\": \"tatsu-lab/alpaca::train\""), "{hint}");
        for text in ["datasets/shards", "data/shards"] {
            let (message, hint) = NotData::Missing.words(text, "path");
            assert!(!message.contains("Hub") && hint.starts_with("make or download the data"), "{hint}");
        }
    }
}
