//! The datasets of a list, of which each may be a reader of files: `path: json` with `data_files`.

use super::source::{Source, place};
use crate::import::draft::{Fate, Import, is_remote};
use crate::import::tree::{Entry, Value};

/// The files that are named; of a map those of the split.
pub(super) fn files_of(item: &Value) -> Vec<String> {
    let Some(files) = item.get("data_files") else { return Vec::new() };
    // Of a part such as `train[:10%]`, the split.
    let split = item.get("split").and_then(Value::text).unwrap_or("train");
    let split = split.split(['[', '+']).next().unwrap_or(split);
    let of_split = if let Value::Map(_) = files { files.get(split) } else { Some(files) };
    of_split.and_then(Value::texts).unwrap_or_default()
}

/// The files of `data_files`, each as a separate source, where a builder as `path: json` reads them all.
pub(super) fn with_further_files(
    import: &mut Import<'_>,
    entry: &Entry,
    target: &str,
    (index, item): (usize, &Value),
    first: Source,
) -> Vec<Source> {
    let Some(builder) = builder(item) else { return vec![first] };
    let files = files_of(item);
    let mut sources = vec![first];
    let key = format!("{}[{index}].data_files", entry.key);
    for file in files.iter().skip(1) {
        let kind = item.get("ds_type").and_then(Value::text).unwrap_or(builder);
        let Source { path, from, unread, format, .. } = place(import, target, file, None, None, Some(kind));
        for line in import.lines.iter_mut().filter(|line| line.key == key) {
            if let Some((why, instead)) = &unread {
                line.fate = Fate::Left;
                line.why = format!("{file}: {why}");
                line.instead.clone_from(instead);
            } else {
                line.here.push(path.clone());
                if let Some(from) = &from {
                    let verb = if is_remote(from) { "download" } else { "copy" };
                    line.instead = format!("{}; {verb} {from} there", line.instead);
                }
            }
        }
        if unread.is_none() {
            sources.push(Source { path, from, format, ..sources[0].clone() });
        }
    }
    sources
}

/// A reader of the `datasets` library in place of a dataset: `data_files` has the files.
pub(super) fn builder(item: &Value) -> Option<&str> {
    let path = item.get("path").and_then(Value::text);
    path.filter(|path| ["json", "csv", "parquet", "arrow", "text"].contains(path))
}

/// A builder without a file: its name is not a dataset's.
pub(super) fn no_file(import: &mut Import<'_>, listed: &Entry, reader: &str) {
    let why = format!("`{reader}` reads files, and none is named for this split");
    import.left(listed, &why, "name the file in training.dataset.path");
}

/// A key inside of `datasets[0]`.
pub(super) fn within(entry: &Entry, index: usize, inner: &Entry) -> Entry {
    Entry {
        key: format!("{}[{index}].{}", entry.key, inner.key),
        line: inner.line,
        value: inner.value.clone(),
    }
}

/// A dataset that is only named, as `datasets[0]`.
pub(super) fn listed(entry: &Entry, index: usize, item: &Value) -> Entry {
    Entry { key: format!("{}[{index}]", entry.key), line: entry.line, value: item.clone() }
}
