//! One source of rows: a dataset of the Hub, or a file to put into the expert's folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use expert_contract::paths::{format_of_ending, hub_id, unknown_ending};

use crate::import::draft::{Fate, Import, KeyFate, is_pattern, is_remote, matches_files, shown};
use crate::import::tree::Entry;
use crate::sys::paths::portable;

pub(super) const DATASET: &str = "training.dataset";
pub(super) const FIELDS: &str = "training.dataset.field_mapping";
pub(super) const NOT_HERE: &str = "put the rows there as JSON Lines, or set training.dataset.path";

/// One source of rows, as it is named here.
#[derive(Clone, Default)]
pub(super) struct Source {
    pub(super) path: String,
    /// None for the Hub.
    pub(super) from: Option<String>,
    /// Why its rows are not read, and what to do.
    pub(super) unread: Option<(String, String)>,
    pub(super) format: Option<&'static str>,
    pub(super) mapping: BTreeMap<&'static str, String>,
    pub(super) train_on: Option<&'static str>,
    /// Whether rows are running text, which is learned as it is.
    pub(super) raw: bool,
    /// Whether the rows are trained on.
    pub(super) trains: bool,
    /// Whether the rows are rendered with Alpaca's headings.
    pub(super) alpaca: bool,
    /// The share of a mixture.
    pub(super) weight: Option<f64>,
}

/// The line of a key that is part of where a source is.
pub(super) fn said(import: &mut Import<'_>, entry: &Entry, source: &Source) {
    if let Some((why, instead)) = &source.unread {
        return import.left(entry, why, instead);
    }
    let (fate, instead) = match &source.from {
        Some(from) if is_remote(from) => (Fate::Changed, format!("download {from} to there")),
        Some(from) => (Fate::Changed, format!("copy {from} there")),
        None => (Fate::Carried, String::new()),
    };
    let why = if source.from.is_some() { "data is in the expert's folder" } else { "" };
    import.lines.push(KeyFate {
        key: entry.key.clone(),
        line: (entry.line > 0).then_some(entry.line),
        value: shown(&entry.key, &entry.value),
        fate,
        here: vec![source.path.clone()],
        why: why.to_owned(),
        instead,
    });
}

/// A dataset of the Hub with its split, or a file to put into the expert's folder. `target` is `path` or
/// `validation_path`.
pub(super) fn place(
    import: &mut Import<'_>,
    target: &str,
    raw: &str,
    split: Option<&str>,
    config: Option<&str>,
    kind: Option<&str>,
) -> Source {
    let name = raw.strip_prefix("hf://datasets/").unwrap_or(raw);
    let is_file = found(import, raw).is_some()
        || is_pattern(name)
        || format_of_ending(name).is_some()
        || unknown_ending(name, None).is_some()
        || is_remote(name)
        || raw.starts_with(['.', '/', '~']);
    let is_hub = !is_file && (hub_id(name).is_some() || !name.contains('/'));
    if !is_hub {
        return local(import, target, raw, kind);
    }
    let config = config.map_or_else(String::new, |config| format!("::{config}"));
    Source {
        path: format!("{name}::{}{config}", split.unwrap_or("train")),
        trains: target == "path",
        ..Source::default()
    }
}

/// What is there under this name: in the working directory, where other trainers look, or beside the configuration.
fn found(import: &Import<'_>, raw: &str) -> Option<String> {
    let places = [PathBuf::from(raw), import.beside.join(raw)];
    let is_there = |place: &PathBuf| !raw.is_empty() && (place.exists() || matches_files(place));
    places.into_iter().find(is_there).map(|place| portable(&place))
}

/// A file or folder to put into the expert's folder; the files of a pattern get a separate folder.
pub(super) fn local(import: &mut Import<'_>, target: &str, raw: &str, kind: Option<&str>) -> Source {
    let from = found(import, raw).unwrap_or_else(|| raw.to_owned());
    let mut source =
        Source { trains: target == "path", unread: unknown_ending(&from, None), ..Source::default() };
    if source.unread.is_some() {
        return source;
    }
    let file = from.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(&from);
    let folder = if target == "path" { "train" } else { "validation" };
    let name = if is_pattern(&from) { folder } else { file };
    source.path = format!("datasets/{}", free_name(import, target, &from, name));
    if format_of_ending(file).is_none() {
        source.format = match kind {
            Some("csv") => Some("csv"),
            Some("parquet") => Some("parquet"),
            Some("arrow") => Some("arrow"),
            Some("json") => Some("json"),
            _ => None,
        };
    }
    source.from = Some(from);
    source
}

/// A dataset of another hub, which is downloaded into the expert's folder.
pub(super) fn downloaded(import: &mut Import<'_>, target: &str, url: &str) -> Source {
    let name = url.rsplit('/').next().unwrap_or(url);
    Source {
        path: format!("datasets/{}", free_name(import, target, url, name)),
        from: Some(url.to_owned()),
        trains: target == "path",
        ..Source::default()
    }
}

/// The file's name, or one like it where another file has that.
fn free_name(import: &mut Import<'_>, target: &str, raw: &str, file: &str) -> String {
    let raw = raw.strip_prefix("./").unwrap_or(raw);
    // Without the endings, as of `rows.jsonl.gz`.
    let length = file.char_indices().find(|(at, it)| *at > 0 && *it == '.').map_or(file.len(), |(at, _)| at);
    let (stem, endings) = file.split_at(length);
    // Names of a split other than the folder's would make a folder several splits.
    let validation = (target != "path").then(|| format!("validation-{file}"));
    let numbered = (2..).map(|number: u32| format!("{stem}-{number}{endings}"));
    let mut names = std::iter::once(file.to_owned()).chain(validation).chain(numbered);
    let is_free = |name: &String| import.placed.get(&name.to_lowercase()).is_none_or(|other| other == raw);
    let name = names.find(is_free).unwrap_or_else(|| file.to_owned());
    import.placed.insert(name.to_lowercase(), raw.to_owned());
    name
}
