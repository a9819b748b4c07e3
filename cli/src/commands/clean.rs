//! `clean`: removes token caches and copies of rows of another tool that no run refers to, and GGUF files of `serve` that
//! no expert needs. They can be built again; runs are never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use expert_contract::exit::Exit;
use expert_contract::manifest::{Manifest, Options};
use expert_contract::paths::DEFAULT_CACHE;
use expert_contract::read;
use expert_contract::resolve::resolve;
use expert_contract::results::{CheckpointRecord, RunRecord};
use fs_err as fs;
use serde::Serialize;
use serde_json::json;

use crate::experts;
use crate::failure::Failure;
use crate::plan::{leads_out, on_cpu};
use crate::run::{names, read_plan};
use crate::runs::{self, Run, State, gguf_cache};
use crate::search;
use crate::sys::files::{children, read_json, without_following};
use crate::sys::host::home;
use crate::sys::paths::{as_text, file_name, portable};
use crate::ui::Console;
use crate::ui::number::{bytes, counted};

/// A file that only the worker writes into a token cache.
const DESCRIPTION: &str = "cache.json";
const KEY_LENGTH: usize = 32;
/// In the home folder, the copies of rows that another tool tokenized, and how their keys begin
/// (worker/python/expert_worker/pretokenize/foreign.py).
const COPIES: &str = "foreign";
const COPY: &str = "foreign-";

#[derive(clap::Args)]
pub struct Args {
    /// An expert, or the folder that holds the experts (default: this expert, else experts/, else here)
    #[arg(default_value_os_t = experts::usual().to_owned(), hide_default_value = true, value_parser = experts::folder_argument())]
    folder: PathBuf,
    /// Another folder that may hold the token caches that a manifest names
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Leftover {
    #[serde(serialize_with = "as_text")]
    path: PathBuf,
    bytes: u64,
    /// That of the cache's builder, held until the folder is removed.
    #[serde(skip)]
    _lock: Option<Rc<File>>,
}

impl Leftover {
    fn of(path: PathBuf) -> Self {
        Self { bytes: size(&path), path, _lock: None }
    }
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let mut leftovers = leftovers(args, console)?;
    let caches = leftovers.len();
    let unused = gguf_cache::unused(&home()).into_iter();
    leftovers.extend(unused.map(Leftover::of));
    for (place, leftover) in leftovers.iter().enumerate() {
        if !args.dry_run {
            let path = &leftover.path;
            let removed = if place < caches { fs::remove_dir_all(path) } else { gguf_cache::remove(path) };
            removed.map_err(|error| Failure::changing("remove", path, &error))?;
        }
        if !console.json {
            console.data(&format!("{}  {}", bytes(leftover.bytes), portable(&leftover.path)));
        }
    }
    let total: u64 = leftovers.iter().map(|leftover| leftover.bytes).sum();
    if console.json {
        console.document(&json!({"ok": true, "dry_run": args.dry_run, "bytes": total, "removed": leftovers}));
    } else {
        let (models, size) = (leftovers.len() - caches, bytes(total));
        let (caches, models) = (counted(caches, "token cache"), counted(models, "GGUF file"));
        let verb = if args.dry_run { "would remove" } else { "removed" };
        console.say(&format!("{verb} {caches} and {models} ({size} in total)"));
    }
    Ok(Exit::Done)
}

/// A cache folder may serve several experts: what the runs of any of them use stays.
fn leftovers(args: &Args, console: &Console) -> Result<Vec<Leftover>, Failure> {
    let named = experts::below(&args.folder)?;
    let mut roots = BTreeSet::new();
    for manifest in &named {
        roots.extend(roots_of_expert(manifest, &args.allow_path, console));
    }
    let runs = runs_around(&named, &roots);
    let running: BTreeSet<PathBuf> = runs
        .iter()
        .filter(|run| run.state == State::Running)
        .filter_map(|run| cache_of_run(&run.path))
        .collect();
    let needed: BTreeSet<String> = runs.iter().flat_map(|run| keys_of_run(&run.path)).collect();
    let mut found = Vec::new();
    for root in roots {
        if running.contains(&root) {
            console.warn(
                &format!("{} is used by an expert that is being trained and is skipped", portable(&root)),
                None,
            );
            continue;
        }
        found.extend(unused_in(&root, &needed, console));
    }
    found.extend(unused_in(&home().join(COPIES), &needed, console));
    Ok(found)
}

fn unused_in(root: &Path, needed: &BTreeSet<String>, console: &Console) -> Vec<Leftover> {
    let unused =
        children(root).into_iter().filter(|cache| is_cache(cache) && !needed.contains(&file_name(cache)));
    let (read, unused): (Vec<_>, Vec<_>) = unused.partition(|cache| is_read(cache));
    for cache in read {
        console.warn(&format!("{} is used by a running training and is skipped", portable(&cache)), None);
    }
    unused.into_iter().map(Leftover::of).chain(unfinished(root)).collect()
}

/// What killed builds left beside the caches (worker/python/expert_worker/checkpoint/files.py). A builder holds the lock of its
/// cache; where the file system has no locks, nobody knows of it.
fn unfinished(root: &Path) -> Vec<Leftover> {
    let free = |key: &str| {
        let lock = without_following().write(true).open(root.join(format!(".{key}.lock"))).ok()?.into_file();
        lock.try_lock().ok().map(|()| Rc::new(lock))
    };
    let mut locks: BTreeMap<String, Option<Rc<File>>> = BTreeMap::new();
    let of_killed = |path: PathBuf| {
        let name = file_name(&path);
        let bare = [".partial", ".trash"].into_iter().find_map(|ending| name.strip_suffix(ending))?;
        // A task of a cluster has its token behind the key.
        let key = bare.split('.').next().filter(|key| is_key(key) && is_folder(&path))?;
        let lock = locks.entry(key.to_owned()).or_insert_with(|| free(key)).clone()?;
        Some(Leftover { _lock: Some(lock), ..Leftover::of(path) })
    };
    children(root).into_iter().filter_map(of_killed).collect()
}

fn roots_of_expert(path: &Path, allowed: &[PathBuf], console: &Console) -> BTreeSet<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if runs_of_expert(folder).iter().any(|run| run.state == State::Running) {
        console.warn(&format!("{} is being trained and is skipped", portable(folder)), None);
        return BTreeSet::new();
    }
    // Data may be anywhere, because no row is read.
    let loaded = read::load(path, &Options { anywhere: true, trains_nothing: true, ..Options::default() });
    let Some(manifest) = &loaded.manifest else {
        console.warn(&format!("{} has errors and is skipped", portable(path)), None);
        return BTreeSet::new();
    };
    let roots = cache_roots(manifest);
    let own: Vec<PathBuf> = [folder]
        .into_iter()
        .chain(allowed.iter().map(PathBuf::as_path))
        .filter_map(|it| it.canonicalize().ok())
        .collect();
    let (inside, elsewhere): (BTreeSet<_>, BTreeSet<_>) =
        roots.into_iter().partition(|root| own.iter().any(|own| root.starts_with(own)));
    for root in elsewhere {
        console.warn(
            &format!(
                "{} is outside the folder of {} and is skipped",
                portable(&root),
                manifest.root.name.value
            ),
            Some("allow it with --allow-path"),
        );
    }
    inside
}

/// The runs of these experts, of those beside them, and of those beside the cache folders or whose folder holds one.
fn runs_around(named: &[PathBuf], roots: &BTreeSet<PathBuf>) -> Vec<Run> {
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folders = named.iter().filter_map(|manifest| absolute(manifest).parent().map(Path::to_owned));
    let mut experts: BTreeSet<PathBuf> = folders.collect();
    let shelves: BTreeSet<PathBuf> = experts
        .iter()
        .chain(roots)
        .flat_map(|path| path.ancestors().skip(1).take(2))
        .map(Path::to_owned)
        .collect();
    for shelf in shelves {
        let beside = children(&shelf).into_iter().chain([shelf]);
        experts.extend(beside.filter(|folder| folder.join(experts::MANIFEST).is_file()));
    }
    experts.iter().flat_map(|expert| runs_of_expert(expert)).collect()
}

/// With the trials of its searches.
fn runs_of_expert(expert: &Path) -> Vec<Run> {
    let mut runs = runs::of_expert(expert);
    runs.extend(search::runs_of(expert));
    runs
}

/// The cache folder that the run's plan names.
fn cache_of_run(run: &Path) -> Option<PathBuf> {
    Path::new(read_plan(run).cache()?).canonicalize().ok()
}

/// The cache folders of the manifest's bases, and the usual ones under names that the expert had before.
fn cache_roots(manifest: &Manifest) -> BTreeSet<PathBuf> {
    let site = on_cpu(&manifest.path);
    let caches = DEFAULT_CACHE.split('/').next().unwrap_or_default();
    let folder = manifest.folder.canonicalize().unwrap_or_else(|_| manifest.folder.clone());
    let named = children(&folder.join(caches)).into_iter();
    let earlier = named.filter_map(|name| name.join("tokenized").canonicalize().ok());
    manifest
        .all_effective()
        .filter_map(|expert| resolve(&expert, &site).ok())
        .map(|resolved| resolved.machine.paths)
        .filter(|paths| !leads_out(Path::new(&paths.expert_dir), Path::new(&paths.cache)))
        .filter_map(|paths| Path::new(&paths.cache).canonicalize().ok())
        .chain(earlier.filter(|cache| cache.starts_with(&folder)))
        .collect()
}

/// Only folders that the worker made: other data sets have another layout.
fn is_cache(path: &Path) -> bool {
    is_key(&file_name(path)) && is_folder(path) && path.join(DESCRIPTION).is_file()
}

fn is_key(name: &str) -> bool {
    let digits = name.strip_prefix(COPY).unwrap_or(name);
    name.len() == KEY_LENGTH && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// And no link to one.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_dir())
}

/// A worker shares the lock of the cache that it reads, wherever its run is.
fn is_read(cache: &Path) -> bool {
    let locked = File::open(cache).map(|folder| folder.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

/// The caches that a run uses, finished or to be resumed.
fn keys_of_run(run: &Path) -> Vec<String> {
    let states = children(run).into_iter().map(|child| child.join("state.json"));
    let kept = states.filter_map(|file| read_json::<CheckpointRecord>(&file)?.facts.cache_key);
    let finished: Option<RunRecord> = read_json(&run.join(names::RECORD));
    kept.chain(finished.and_then(|record| record.cache_key)).collect()
}

fn size(path: &Path) -> u64 {
    match path.symlink_metadata() {
        Ok(data) if data.is_dir() => children(path).iter().map(|child| size(child)).sum(),
        Ok(data) => data.len(),
        Err(_) => 0,
    }
}
