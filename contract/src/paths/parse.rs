//! From a path as a manifest spells it to one of this system.

use std::env;
use std::path::{Path, PathBuf};

use crate::manifest::model_slug;
use crate::plan::DataFormat;

/// Where token caches go that the manifest names no folder for.
pub const DEFAULT_CACHE: &str = "datasets_optimized/{expert-name}/tokenized";

const PLACEHOLDERS: [&str; 2] = ["expert-name", "model-slug"];

pub fn unknown_placeholder(text: &str) -> Option<&str> {
    let names = text.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name));
    names.into_iter().find(|name| !PLACEHOLDERS.contains(name))
}

/// `{expert-name}` and `{model-slug}` filled in.
pub fn fill_placeholders(text: &str, expert: &str, base: &str) -> String {
    text.replace("{expert-name}", expert).replace("{model-slug}", &model_slug(base))
}

/// A path that may be anywhere: beside the manifest, absolute, or under the home folder. None if it is a path of
/// another operating system.
pub fn anywhere(text: &str, folder: &Path) -> Option<PathBuf> {
    if is_foreign(text) {
        return None;
    }
    match text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(['/', '\\'])) {
        Some(rest) => Some(home()?.join(rest.trim_start_matches(['/', '\\']))),
        None => Some(folder.join(text)),
    }
}

fn home() -> Option<PathBuf> {
    let variable = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Whether a path begins with a drive letter or a network share, where this system has neither.
pub fn is_foreign(text: &str) -> bool {
    !cfg!(windows) && is_windows_absolute(text)
}

pub fn is_windows_absolute(text: &str) -> bool {
    let bytes = text.as_bytes();
    let drive = bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    drive || text.starts_with("\\\\")
}

/// What a file's ending says; none where it says nothing.
pub fn format_of_ending(path: &str) -> Option<DataFormat> {
    let name = path.rsplit(['/', '\\']).next()?;
    if let Some(inside) = packed_ending(name) {
        // Of an archive, the name inside decides.
        return format_of_ending(inside)
            .or(name.to_ascii_lowercase().ends_with(".zip").then_some(DataFormat::Jsonl));
    }
    let (_, ending) = name.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" => Some(DataFormat::Jsonl),
        "json" => Some(DataFormat::Json),
        "csv" | "tsv" | "tab" => Some(DataFormat::Csv),
        "parquet" => Some(DataFormat::Parquet),
        "arrow" => Some(DataFormat::Arrow),
        _ => None,
    }
}

/// The name without the ending of a compressed file that is read.
pub fn packed_ending(name: &str) -> Option<&str> {
    let (before, ending) = name.rsplit_once('.')?;
    matches!(ending.to_ascii_lowercase().as_str(), "gz" | "zst" | "zip").then_some(before)
}

/// What to do about a file that is known not to hold rows; none for endings that say nothing. `format`: the one that
/// the manifest names for the file, which decides between kinds of text.
pub fn unknown_ending(path: &str, format: Option<DataFormat>) -> Option<(String, String)> {
    let name = path.rsplit(['/', '\\']).next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    let is_text = |ending: &str| {
        matches!(ending, "txt" | "md" | "rst" | "log" | "yaml" | "yml" | "toml" | "xml" | "html")
    };
    if matches!(format, Some(DataFormat::Jsonl | DataFormat::Json | DataFormat::Csv)) && is_text(&ending) {
        return None;
    }
    let folder = &path[..path.len() - name.len()];
    let rows = format!("{folder}{stem}.jsonl");
    let hint = match ending.as_str() {
        "txt" | "md" | "rst" | "log" => {
            format!(
                "if it holds rows, end its name with .csv, .jsonl or .json, or name their `format` in the manifest; of running text write a row per line: jq -Rc 'select(. != \"\") | {{text: .}}' '{path}' > '{rows}'"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_others_found() {
        let text = "cache/{expert-name}/{model-slug}";
        assert_eq!(fill_placeholders(text, "expert-sql", "Qwen/Qwen3-0.6B"), "cache/expert-sql/qwen3-0.6b");
        assert_eq!(unknown_placeholder(text), None);
        assert_eq!(unknown_placeholder("a/{name}/b"), Some("name"));
    }

    #[test]
    #[cfg(not(windows))]
    fn paths_of_another_system_lead_nowhere() {
        for text in ["F:/models/x", "c:\\x", "\\\\server\\share"] {
            assert_eq!(anywhere(text, Path::new("/expert")), None, "{text}");
        }
        assert_eq!(anywhere("a b/ü", Path::new("/expert")), Some(PathBuf::from("/expert/a b/ü")));
        assert_eq!(anywhere("/abs", Path::new("/expert")), Some(PathBuf::from("/abs")));
        assert_eq!(anywhere("~x", Path::new("/expert")), Some(PathBuf::from("/expert/~x")));
    }

    #[test]
    fn formats_follow_from_file_endings() {
        assert_eq!(format_of_ending("a.b/train.JSONL"), Some(DataFormat::Jsonl));
        assert_eq!(format_of_ending("a.csv/train"), None);
        assert_eq!(format_of_ending(""), None);
        assert_eq!(format_of_ending("a.csv.gz"), Some(DataFormat::Csv));
        assert_eq!(format_of_ending("a.zip"), Some(DataFormat::Jsonl));
        assert_eq!(format_of_ending("a.txt.gz"), None);
    }
}
