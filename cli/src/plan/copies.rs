//! Copies among the rows, as they were counted when these very files were prepared: `plan` reads no rows.

use std::fs;
use std::path::Path;

use expert_contract::plan::Data;
use expert_contract::resolve::{Note, Resolved};
use expert_contract::results::{CacheRecord, Duplicates, ReadFile};
use serde::Deserialize;

use crate::ui::tokens;

/// The counts of a token cache whose data files are all as they were when its rows were read, by their size, times and
/// inode; None where there is no such cache.
pub fn copies(resolved: &Resolved) -> Option<Duplicates> {
    let files = files(resolved)?;
    fs::read_dir(&resolved.machine.paths.cache).ok()?.flatten().find_map(|folder| {
        let text = fs::read(folder.path().join("cache.json")).ok()?;
        let record: CacheRecord = serde_json::from_slice(&text).ok()?;
        let holds = folder.file_name().to_str() == Some(record.key.as_str()) && record.read_files == files;
        record.duplicates.filter(|found| holds && is_of(found, &resolved.recipe.data))
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

fn is_of(found: &Duplicates, data: &Data) -> bool {
    let recorded = found.data.as_ref().and_then(|it| Data::deserialize(it).ok());
    recorded.is_some_and(|recorded| recorded == *data)
}

/// For the plan: the counts, or how to have them.
pub fn lines(found: Option<&Duplicates>, prepare: &str) -> Vec<String> {
    match found {
        Some(found) => tokens::copies_or_none(found),
        None => vec![format!("unknown until the rows are prepared: {prepare}")],
    }
}

/// The warnings that preparing the rows gave.
pub fn leaks(found: &Duplicates) -> impl Iterator<Item = Note> {
    let leaks = found.found.iter().filter_map(|one| one.leak.as_ref());
    leaks.map(|leak| Note { code: "data-leak", message: leak.message.clone(), hint: leak.hint.clone() })
}
