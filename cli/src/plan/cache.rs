//! The token caches of earlier runs: copies among the rows, and how many rows there are. `plan` reads no rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expert_contract::manifest::EMBEDDED;
use expert_contract::plan::{Data, Source, Template};
use expert_contract::resolve::{CachedRows, Note, Place, Resolved, RowLengths, StepEstimate, estimate_steps};
use expert_contract::results::{CacheRecord, Duplicates, ReadFile};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sys::files::read_json;
use crate::ui::tokens;

/// The token caches whose data files are all as they were when their rows were read, by size, times and inode. They are
/// looked for once for a plan.
pub struct Caches {
    records: Vec<CacheRecord>,
    tokenizer: Vec<ReadFile>,
}

/// The steps of a training: exact where its rows are prepared.
pub fn steps(resolved: &Resolved) -> Option<StepEstimate> {
    Caches::of(resolved).steps(resolved)
}

impl Caches {
    pub fn of(resolved: &Resolved) -> Self {
        Self { records: records(resolved), tokenizer: tokenizer_files(resolved) }
    }

    pub fn copies(&self) -> Option<&Duplicates> {
        self.records.iter().find_map(|record| record.duplicates.as_ref())
    }

    pub fn steps(&self, resolved: &Resolved) -> Option<StepEstimate> {
        estimate_steps(&resolved.recipe, &resolved.facts, self.rows(resolved))
    }

    /// What the cache of this very plan counted: of the same data, settings and tokenizer.
    pub fn rows(&self, resolved: &Resolved) -> Option<CachedRows> {
        let found = self.of_tokenizer().find(|record| is_rendered_so(record, resolved))?;
        let train = found.splits.get("train")?;
        Some(CachedRows { rows: train.rows, tokens: train.tokens })
    }

    /// Lengths of the rows of this data under this template, by the cache with the longest ones.
    pub fn lengths(&self, resolved: &Resolved) -> Option<RowLengths> {
        let found = self.of_tokenizer().filter(|record| is_of_template(record, resolved));
        found.filter_map(RowLengths::of).max_by_key(RowLengths::limit)
    }

    fn of_tokenizer(&self) -> impl Iterator<Item = &CacheRecord> {
        let is_here = !self.tokenizer.is_empty();
        self.records.iter().filter(move |record| is_here && record.tokenizer_files == self.tokenizer)
    }
}

/// The caches of these files, read by these settings of the data.
fn records(resolved: &Resolved) -> Vec<CacheRecord> {
    let Some(files) = files(resolved) else { return Vec::new() };
    let folders = fs::read_dir(&resolved.machine.paths.cache).into_iter().flatten().flatten();
    let record = |folder: fs::DirEntry| {
        let record: CacheRecord = read_json(&folder.path().join("cache.json"))?;
        let holds = folder.file_name().to_str() == Some(record.key.as_str()) && record.read_files == files;
        let is_same = record.duplicates.as_ref().is_some_and(|found| is_of(found, &resolved.recipe.data));
        (holds && is_same).then_some(record)
    };
    folders.filter_map(record).collect()
}

fn is_rendered_so(record: &CacheRecord, resolved: &Resolved) -> bool {
    let (recipe, batch) = (&resolved.recipe, &resolved.recipe.batch);
    let has = |key: &str, value: Value| *record.inputs.get(key).unwrap_or(&Value::Bool(false)) == value;
    is_of_template(record, resolved)
        && has("seed", json!(recipe.seed))
        && has("max_seq_length", json!(batch.max_seq_length))
        && has("packing", json!(batch.packing))
        && has("share_prefixes", json!(batch.share_prefixes))
}

fn is_of_template(record: &CacheRecord, resolved: &Resolved) -> bool {
    let template = record.rendered_by.as_ref().and_then(|it| Template::deserialize(it).ok());
    template.as_ref() == Some(&resolved.recipe.template)
}

/// Those of the base that decide tokens and template, as the worker lists them; none where the base is not here.
fn tokenizer_files(resolved: &Resolved) -> Vec<ReadFile> {
    const NAMES: [&str; 6] = [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    let converted = || PathBuf::from(&resolved.machine.paths.home).join("bases").join(EMBEDDED);
    let folder = match &resolved.base.place {
        Place::Embedded => Some(converted()),
        _ => resolved.base.config_folder().map(Path::to_owned),
    };
    let Some(folder) = folder else { return Vec::new() };
    NAMES.iter().filter_map(|name| file("base", name, &folder.join(name))).collect()
}

/// Every data file as it is now, in the order in which the worker lists them.
fn files(resolved: &Resolved) -> Option<Vec<ReadFile>> {
    let (data, places) = (&resolved.recipe.data, &resolved.machine.paths.data);
    let of_search = resolved.recipe.evaluation.without_base;
    let test = data.test.iter().filter(|source| !(of_search && data.validation.contains(source)));
    let learned = data.train.iter().map(|it| ("train", it));
    let learned = learned.chain(data.validation.iter().map(|it| ("validation", it)));
    let further = resolved
        .test_sets
        .iter()
        .flat_map(|(name, set)| set.sources.iter().map(move |it| (name.as_str(), it, &set.files)));
    // Test rows may be elsewhere or not be made yet: nothing of the cache follows from them but copies.
    let tested = test.map(|it| ("test", it, places)).chain(further);
    let found = |part: &str, source: &Source, places: &BTreeMap<String, String>| {
        file(part, &source.name, Path::new(places.get(&source.name)?))
    };
    let mut files = learned.map(|(part, it)| found(part, it, places)).collect::<Option<Vec<_>>>()?;
    files.extend(tested.filter_map(|(part, it, places)| found(part, it, places)));
    Some(files)
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
        None => vec![format!("unknown until the rows are prepared: `{prepare}`")],
    }
}

/// The warnings that preparing the rows gave.
pub fn warnings(found: &Duplicates) -> impl Iterator<Item = Note> {
    let leaks = found.found.iter().filter_map(|one| Some(("data-leak", one.leak.as_ref()?)));
    let unread = found.unread.iter().map(|one| ("test-rows-unread", one));
    leaks.chain(unread).map(|(code, it)| Note { code, message: it.message.clone(), hint: it.hint.clone() })
}
