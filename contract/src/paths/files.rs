//! Which files a data path means: itself, a folder's files, or those that a pattern matches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::parse::format_of_ending;
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
}

impl NotData {
    /// What is wrong with `text`, and what to write instead of it; `key` is `path` or `--data`.
    pub fn words(&self, text: &str, key: &str) -> (String, String) {
        let line = |value: &str| match key {
            "--data" => format!("--data '{value}'"),
            _ => format!("\"{key}\": \"{value}\""),
        };
        match self {
            Self::Missing => match hub_id(text) {
                Some(id) => (
                    format!("`{text}` is not here, and a dataset of the Hugging Face Hub is named with its split"),
                    format!("write {}", line(&format!("{id}::train"))),
                ),
                None => (
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
        }
    }
}

/// `owner/name`, as the Hub names datasets; none for what looks like a file.
pub fn hub_id(text: &str) -> Option<&str> {
    let text = text.strip_prefix("hf://datasets/").unwrap_or(text);
    let (owner, name) = text.split_once('/')?;
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
    };
    let is_file = format_of_ending(name).is_some() || unknown_ending(name).is_some();
    (is_name(owner) && is_name(name) && !is_file).then_some(text)
}

/// What to do about a file that is known not to hold rows; none for endings that say nothing.
pub fn unknown_ending(path: &str) -> Option<(String, String)> {
    let name = path.rsplit(['/', '\\']).next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    let folder = &path[..path.len() - name.len()];
    let rows = format!("{folder}{stem}.jsonl");
    let hint = match ending.as_str() {
        "txt" | "md" | "rst" | "log" => {
            format!(
                "write a row per line of text: jq -Rc 'select(. != \"\") | {{text: .}}' '{path}' > '{rows}'"
            )
        }
        "yaml" | "yml" => format!(
            "write its list as JSON: python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' \
             < '{path}' > '{folder}{stem}.json'"
        ),
        "xlsx" | "xls" | "ods" | "numbers" => "save the sheet as CSV (UTF-8)".to_owned(),
        "bz2" => format!("unpack it: bunzip2 '{path}'"),
        "xz" => format!("unpack it: unxz '{path}'"),
        "7z" | "rar" | "tar" | "tgz" => "unpack it, and name the folder or a file of it".to_owned(),
        "toml" | "xml" | "html" | "pdf" | "doc" | "docx" | "pkl" | "pickle" | "npy" | "npz" | "pt"
        | "bin" | "safetensors" | "gguf" | "db" | "sqlite" | "sqlite3" | "h5" | "orc" | "avro" => {
            format!("write its rows as JSON Lines, one object per line, for example to '{rows}'")
        }
        _ => return None,
    };
    Some((format!("`{path}`: .{ending} is not a format of data"), hint))
}

/// The files, each as it is named in a plan and where it is. `text` is the path as it was written.
pub fn data_files(text: &str, path: &Path) -> Result<Vec<(String, PathBuf)>, NotData> {
    let text = text.trim_end_matches('/');
    let files = match fs::metadata(path) {
        Ok(found) if !found.is_dir() && !found.is_file() => return Err(NotData::Pipe),
        Ok(found) if found.is_file() => return Ok(vec![(text.to_owned(), path.to_owned())]),
        Ok(_) => {
            if let Some(splits) = splits_of_library(path) {
                return Err(NotData::Splits(
                    splits.into_iter().map(|split| format!("{text}/{split}")).collect(),
                ));
            }
            // A folder that `save_to_disk` wrote is one source.
            if path.join("state.json").is_file() && path.join("dataset_info.json").is_file() {
                return Ok(vec![(text.to_owned(), path.to_owned())]);
            }
            let mut files = Vec::new();
            collect(path, Path::new(""), &mut files)?;
            files
                .into_iter()
                .map(|inside| (format!("{text}/{}", slashed(&inside)), path.join(inside)))
                .collect()
        }
        Err(_) if is_pattern(text) => matching(text, path)?,
        Err(_) => return Err(NotData::Missing),
    };
    if files.is_empty() {
        return Err(NotData::NoFiles);
    }
    one_split(text, &files)?;
    one_format(text, &files)?;
    Ok(files)
}

pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// The data files below a folder, by name, as paths inside it.
fn collect(folder: &Path, inside: &Path, files: &mut Vec<PathBuf>) -> Result<(), NotData> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let inside = inside.join(&name);
        // A link to a folder may lead back here.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), &inside, files)?,
            Ok(_) if entry.path().is_file() && is_data(&name) => files.push(inside),
            _ => {}
        }
        if files.len() > MOST_FILES {
            return Err(NotData::TooMany);
        }
    }
    Ok(())
}

fn is_data(name: &str) -> bool {
    !BESIDE.contains(&name) && format_of_ending(name).is_some()
}

fn matching(text: &str, path: &Path) -> Result<Vec<(String, PathBuf)>, NotData> {
    let Some(pattern) = path.to_str() else { return Err(NotData::Missing) };
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let Ok(found) = glob::glob_with(pattern, options) else { return Err(NotData::Missing) };
    // What stands before the pattern in the text and in the path is of different length.
    let written = text.replace('\\', "/");
    let before = pattern.replace('\\', "/").strip_suffix(written.as_str()).map_or(0, str::len);
    let mut files = Vec::new();
    for path in found.flatten() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_file() && is_data(&name) {
            let whole = slashed(&path);
            files.push((whole.get(before..).unwrap_or(&whole).to_owned(), path));
        }
        if files.len() > MOST_FILES {
            return Err(NotData::TooMany);
        }
    }
    Ok(files)
}

/// The splits of a `DatasetDict` that `save_to_disk` wrote.
fn splits_of_library(folder: &Path) -> Option<Vec<String>> {
    let text = fs::read(folder.join("dataset_dict.json")).ok()?;
    let document: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let splits = document.get("splits")?.as_array()?;
    Some(splits.iter().filter_map(|split| split.as_str().map(str::to_owned)).collect())
}

/// Training on a test split beside the training split is a mistake that no score shows.
fn one_split(text: &str, files: &[(String, PathBuf)]) -> Result<(), NotData> {
    let root =
        text.split(['*', '?', '[']).next().unwrap_or(text).rsplit_once('/').map_or("", |(root, _)| root);
    let root = if is_pattern(text) { root } else { text };
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

fn one_format(text: &str, files: &[(String, PathBuf)]) -> Result<(), NotData> {
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
    let folder = if is_pattern(text) { text.rsplit_once('/').map_or("", |(folder, _)| folder) } else { text };
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
    }
}
