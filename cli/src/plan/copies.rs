//! Copies among the rows, as they were counted when these very files were prepared: `plan` reads no rows.

use std::fs;
use std::path::Path;

use expert_contract::plan::{Data, Source};
use expert_contract::resolve::{Note, Resolved};
use expert_contract::results::{CacheRecord, DuplicateRows, Duplicates, ReadFile};
use serde_json::{Value, json};

use crate::ui::number::grouped;
use crate::ui::tokens;

/// A warning from this share of a part's rows on, as the worker gives it.
const LEAK: f64 = 0.01;
/// What decides which rows are compared, besides the files.
const SETTINGS: [&str; 7] = [
    "validation_split",
    "field_mapping",
    "train_on",
    "on_bad_row",
    "text_dialogue",
    "min_length",
    "max_length",
];

/// The counts of a token cache whose data files are all as they were when its rows were read, by their size, times and
/// inode; None where there is no such cache.
pub fn copies(resolved: &Resolved) -> Option<Duplicates> {
    let files = files(resolved)?;
    fs::read_dir(&resolved.machine.paths.cache).ok()?.flatten().find_map(|folder| {
        let text = fs::read(folder.path().join("cache.json")).ok()?;
        let record: CacheRecord = serde_json::from_slice(&text).ok()?;
        let holds = folder.file_name().to_str() == Some(record.key.as_str())
            && record.read_files == files
            && is_of(&record, &resolved.recipe.data);
        record.duplicates.filter(|_| holds)
    })
}

/// Every data file as it is now, in the order in which the worker lists them.
fn files(resolved: &Resolved) -> Option<Vec<ReadFile>> {
    let (data, places) = (&resolved.recipe.data, &resolved.machine.paths.data);
    let test = data.test.iter().filter(|source| !data.validation.contains(source));
    let own = data.train.iter().map(|it| ("train", it));
    let own = own.chain(data.validation.iter().map(|it| ("validation", it)));
    let own = own.chain(test.map(|it| ("test", it))).map(|(part, it)| (part, it, places));
    let further = resolved
        .test_sets
        .iter()
        .flat_map(|(name, set)| set.sources.iter().map(move |it| (name.as_str(), it, &set.files)));
    own.chain(further)
        .map(|(part, source, places)| file(part, &source.name, Path::new(places.get(&source.name)?)))
        .collect()
}

#[cfg(unix)]
fn file(part: &str, name: &str, path: &Path) -> Option<ReadFile> {
    use std::os::unix::fs::MetadataExt;

    let found = fs::metadata(path).ok()?;
    let nanoseconds = |seconds: i64, rest: i64| {
        u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(rest).ok()?)
    };
    Some(ReadFile {
        part: part.to_owned(),
        name: name.to_owned(),
        bytes: found.size(),
        modified: nanoseconds(found.mtime(), found.mtime_nsec())?,
        changed: nanoseconds(found.ctime(), found.ctime_nsec())?,
        inode: found.ino(),
    })
}

/// Elsewhere a file can be replaced without a trace in its times.
#[cfg(not(unix))]
fn file(_: &str, _: &str, _: &Path) -> Option<ReadFile> {
    None
}

fn is_of(record: &CacheRecord, data: &Data) -> bool {
    let Ok(now) = serde_json::to_value(data) else { return false };
    let deduplicate = if data.drop_near_copies { json!("near") } else { json!(data.deduplicate) };
    let same = |key: &str, value: &Value| record.inputs.get(key).unwrap_or(&Value::Null) == value;
    SETTINGS.iter().all(|key| same(key, now.get(key).unwrap_or(&Value::Null)))
        && same("deduplicate", &deduplicate)
        && [("train", &data.train), ("validation", &data.validation)]
            .iter()
            .all(|(key, sources)| are_of(record.inputs.get(*key), sources))
}

fn are_of(recorded: Option<&Value>, sources: &[Source]) -> bool {
    let recorded = recorded.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    recorded.len() == sources.len()
        && recorded.iter().zip(sources).all(|(one, source)| {
            one.get("name") == Some(&json!(source.name))
                && one.get("format") == Some(&json!(source.format))
                && one.get("weight") == Some(&json!(source.weight))
        })
}

/// For the plan: the counts, or how to have them.
pub fn lines(found: Option<&Duplicates>, prepare: &str) -> Vec<String> {
    match found {
        Some(found) => tokens::copies_or_none(found),
        None => vec![format!("unknown until the rows are prepared: {prepare}")],
    }
}

/// The warnings that preparing the rows gave.
pub fn leaks(found: &Duplicates, data: &Data) -> Vec<Note> {
    found.found.iter().filter_map(|one| leak(one, data)).collect()
}

fn leak(one: &DuplicateRows, data: &Data) -> Option<Note> {
    let count = one.exact + one.near;
    if count == 0 || (count as f64) < LEAK * one.rows as f64 {
        return None;
    }
    let percent = 100.0 * count as f64 / one.rows as f64;
    let counts = format!(
        "{} of {} rows ({percent:.1}%; {} exact, {} near)",
        grouped(count),
        grouped(one.rows),
        grouped(one.exact),
        grouped(one.near)
    );
    let pairs: Vec<_> =
        one.examples.iter().map(|(copy, original)| format!("{copy} copies {original}")).collect();
    let pairs = pairs.join("; ");
    let (message, hint) = if !one.is_within() {
        let part = match one.part.as_str() {
            "train" | "validation" => format!("{} data", one.part),
            "test" => "test set".to_owned(),
            name => format!("test set {name}"),
        };
        (
            format!("{counts} of the {part} are copies of {} rows: {pairs}", one.of),
            "Remove them from one of the two: a score on learned rows says nothing about new ones.",
        )
    } else if data.validation_split.is_some_and(|share| share > 0.0) && !data.drop_near_copies {
        (
            format!(
                "{counts} of the training data repeat earlier ones, and validation_split may hold out one of two copies: {pairs}"
            ),
            "Set training.dataset.validation.deduplicate to \"near\", or name a validation file.",
        )
    } else {
        return None;
    };
    Some(Note { code: "data-leak", message, hint: hint.to_owned() })
}
