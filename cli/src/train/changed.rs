//! Experts whose result would differ from that of a git revision.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expert_contract::adapters;
use expert_contract::manifest::{Manifest, Options};
use expert_contract::paths::{self, Several};
use expert_contract::plan::Source;
use expert_contract::read;
use expert_contract::resolve::{Resolved, resolve};
use fs_err as fs;

use crate::experts::{MANIFEST, folder_name};
use crate::failure::Failure;
use crate::lock::inputs::of_source;
use crate::lock::{self, code};
use crate::plan::on_cpu;
use crate::run::{EXPERT, Finished, is_search, names, read_plan};
use crate::sys::digests::Digests;
use crate::sys::git::{Refusal, Repository, Revision};
use crate::sys::host;
use crate::sys::paths::portable;
use crate::ui::Console;
use crate::worker::Search;

/// The worker's package, if the repository holds its sources, as this project does.
const WORKER: &str = "worker/python/expert_worker";
const NATIVE: [&str; 2] = ["worker/native/src", "worker/native/Cargo.toml"];

/// Folders of an expert for what is made from it.
const MADE: [&str; 4] = ["weights", "datasets_optimized", "results", "reports"];

/// Keeps the manifests of experts that changed since the revision; all of them, with a warning, if git has no answer.
pub fn keep_changed(
    manifests: &mut Vec<PathBuf>,
    shelf: &Path,
    reference: &str,
    python: Option<&Path>,
    console: &Console,
) {
    match changed(manifests, shelf, reference, python) {
        Ok(Changed { experts, unknown, unreadable }) => {
            manifests.retain(|manifest| experts.contains(manifest));
            for manifest in manifests.iter().filter(|manifest| here(manifest).is_none()) {
                console.warn(
                    &format!("{} has errors and counts as changed", portable(manifest)),
                    Some("`expert-cli validate` shows them"),
                );
            }
            for manifest in unknown {
                console.warn(
                    &format!(
                        "{} counts as changed: git does not track its manifest, data or base, and there is no {} to compare them with",
                        portable(&manifest),
                        lock::FILE
                    ),
                    Some("commit the lock that a training writes"),
                );
            }
            for (manifest, failure) in unreadable {
                console.warn(
                    &format!("{} counts as changed: {}", portable(&manifest), failure.message),
                    failure.hint.as_deref(),
                );
            }
        }
        Err(refusal) => console.warn(
            &format!("all experts are listed, because the changes since {reference} are unknown: {refusal}"),
            Some(match Repository::containing(shelf) {
                Ok(_) => "fetch the history (git fetch --unshallow, or fetch-depth: 0 in CI) and check the revision's name",
                Err(_) => "run it in the git repository of the experts",
            }),
        ),
    }
}

#[derive(Default)]
struct Changed {
    experts: BTreeSet<PathBuf>,
    /// Those of them whose data or base cannot be compared.
    unknown: Vec<PathBuf>,
    /// Those of them whose lock cannot be read.
    unreadable: Vec<(PathBuf, Failure)>,
}

fn changed(
    manifests: &[PathBuf],
    shelf: &Path,
    reference: &str,
    python: Option<&Path>,
) -> Result<Changed, Refusal> {
    let repository = Repository::containing(shelf)?;
    let revision = repository.resolve(reference)?;
    let (files, tracked) = (repository.changed(&revision)?, repository.tracked()?);
    let past = Past { repository, revision, files, tracked };
    let shelf = canonical(shelf)?;
    let shared = past.shared_code(&shelf, manifests)?;
    let digests = Digests::open(&host::home());
    let mut changed = Changed::default();
    for manifest in manifests {
        let home = manifest.parent().unwrap_or(Path::new("."));
        let lock = lock::read(&home.join(lock::FILE));
        let differs = shared || past.is_changed(manifest)?;
        let locked = match &lock {
            _ if differs => Locked::Other,
            Ok(entries) if past.is_locked_to_other_code(home, entries, python) => Locked::Other,
            Ok(entries) => past.untracked(manifest, entries, &digests),
            Err(_) => Locked::Unknown,
        };
        if locked == Locked::Same {
            continue;
        }
        changed.experts.insert(manifest.clone());
        match lock {
            Err(failure) => changed.unreadable.push((manifest.clone(), failure)),
            Ok(_) if locked == Locked::Unknown => changed.unknown.push(manifest.clone()),
            Ok(_) => {}
        }
    }
    Ok(changed)
}

/// How what git does not track compares with the lock.
#[derive(Clone, Copy, PartialEq)]
enum Locked {
    Same,
    Other,
    /// The lock has no digest of it.
    Unknown,
}

struct Past {
    repository: Repository,
    revision: Revision,
    /// The differences between the revision and the working tree.
    files: Vec<PathBuf>,
    tracked: BTreeSet<PathBuf>,
}

impl Past {
    fn is_changed(&self, manifest: &Path) -> Result<bool, Refusal> {
        let home = canonical(manifest.parent().unwrap_or(Path::new(".")))?;
        let own = self.files.iter().filter_map(|file| file.strip_prefix(&home).ok());
        let own = own.filter(|file| !is_made(&home, file));
        let own: Vec<&Path> = own.collect();
        let matters = own.iter().any(|file| *file != Path::new(MANIFEST) && decides(file));
        let edited = own.contains(&Path::new(MANIFEST));
        Ok(matters || (edited && self.recipe_differs(manifest)?) || self.reads_changed_files(manifest))
    }

    fn recipe_differs(&self, manifest: &Path) -> Result<bool, Refusal> {
        let Some(before) = self.repository.contents(&self.revision, manifest)? else { return Ok(true) };
        let now = fs::read(manifest).map_err(|error| error.to_string())?;
        let recipes = |bytes| {
            let plans = plans(&read(bytes, manifest)?, manifest)?;
            Some(plans.into_iter().map(|plan| (plan.recipe, plan.test_sets)).collect::<Vec<_>>())
        };
        let (before, now) = (recipes(before), recipes(now));
        // An invalid manifest is listed, so that its run reports the errors.
        Ok(before.is_none() || now.is_none() || before != now)
    }

    /// Files that the manifest names, in the expert's folder or outside of it, whatever their names are. They are unknown
    /// where the manifest has errors.
    fn reads_changed_files(&self, manifest: &Path) -> bool {
        let Some(now) = here(manifest) else { return true };
        let Named { files, several } = named_files(&now, manifest);
        let places: BTreeSet<PathBuf> = files.iter().flat_map(|file| places(file)).collect();
        let is_read = |file: &PathBuf| {
            // git reports a submodule, or a repository that it does not track, and not the files in it.
            places.iter().any(|place| file.starts_with(place) || place.starts_with(file))
                || several.iter().any(|it| {
                    it.folder.starts_with(file)
                        || file.strip_prefix(&it.folder).is_ok_and(|inside| it.takes(inside))
                })
        };
        self.files.iter().any(is_read)
    }

    /// Manifests, data, bases and scorers that are ignored, outside the repository, in another one, or of the Hub.
    fn untracked(
        &self,
        manifest: &Path,
        locked: &BTreeMap<String, lock::Entry>,
        digests: &Digests,
    ) -> Locked {
        let plans = here(manifest).and_then(|now| plans(&now, manifest)).unwrap_or_default();
        let entry =
            |plan: &Resolved| lock::Place::of(&plan.recipe.base.name, &plan.machine.paths)?.entry_of(locked);
        let entries: Vec<_> = plans.iter().map(entry).collect();
        let has_tracked_manifest = self.is_tracked(manifest);
        // Bases differ in no data that is read.
        let Some(plan) = plans.first() else { return Locked::Same };
        let digest = |(source, file): (&Source, Option<&Path>)| {
            let now = match file {
                Some(file) => (!self.is_tracked(file)).then(|| digests.of_source(file))?,
                None => Some(of_source(source, &BTreeMap::new(), digests)?),
            };
            Some((source.name.clone(), now))
        };
        let trained: Vec<_> = trained_on(plan).filter_map(digest).collect();
        let scored: Vec<_> = scored_on(plan).filter_map(digest).collect();
        if entries.iter().all(Option::is_none) {
            let files = [trained_on(plan).collect::<Vec<_>>(), scored_on(plan).collect()].concat();
            let files = files.into_iter().filter_map(|(_, file)| file);
            let bases = plans.iter().filter_map(|plan| plan.machine.paths.base.as_deref()).map(Path::new);
            let mut initial = plans.iter().filter_map(initial_adapter_of).flatten();
            let is_known = has_tracked_manifest
                && files.chain(bases).all(|file| self.is_tracked(file))
                && initial.all(|file| self.is_tracked(&file));
            return if is_known { Locked::Same } else { Locked::Unknown };
        }
        let home = manifest.parent().unwrap_or(Path::new("."));
        let is_same = |(plan, entry): (&Resolved, &lock::Entry)| {
            (has_tracked_manifest || entry.inputs.recipe == plan.recipe.digest())
                && trained.iter().all(|(name, now)| entry.has_read(name, now.as_deref()))
                && scored.iter().all(|(name, now)| entry.has_scored(name, now.as_deref()))
                && entry.inputs.data.keys().all(|name| is_read(plan, name) || self.had(&home.join(name)))
                && self.has_base(plan, entry, digests)
                && self.has_scorer(plan, entry, digests)
                && self.has_initial_adapter(plan, entry, digests)
                && lock::inputs::tokenized_rows(&plan.machine)
                    .is_none_or(|(name, rows)| entry.has_read(&name, digests.of_source(rows).as_deref()))
        };
        let mut locked = plans.iter().zip(&entries).filter_map(|(plan, entry)| Some((plan, (*entry)?)));
        if locked.all(is_same) { Locked::Same } else { Locked::Other }
    }

    /// A base that is not here yet has nothing to compare.
    fn has_base(&self, plan: &Resolved, entry: &lock::Entry, digests: &Digests) -> bool {
        let paths = &plan.machine.paths;
        if paths.base.as_ref().is_some_and(|folder| self.is_tracked(Path::new(folder))) {
            return true;
        }
        let (base, tokenizer) = lock::inputs::base_and_tokenizer(&plan.recipe.base.name, paths, digests);
        let is_same = |before: &Option<String>, now: Option<String>| {
            now.is_none() || before.is_none() || *before == now
        };
        is_same(&entry.inputs.base, base) && is_same(&entry.inputs.tokenizer, tokenizer)
    }

    fn has_initial_adapter(&self, plan: &Resolved, entry: &lock::Entry, digests: &Digests) -> bool {
        let paths = &plan.machine.paths;
        if initial_adapter_of(plan).is_none_or(|files| files.iter().all(|file| self.is_tracked(file))) {
            return true;
        }
        lock::inputs::initial_adapter(&plan.recipe, paths, digests)
            .is_none_or(|(name, now)| entry.has_read(&name, Some(&now)))
    }

    fn has_scorer(&self, plan: &Resolved, entry: &lock::Entry, digests: &Digests) -> bool {
        let paths = &plan.machine.paths;
        if paths.scorer.as_ref().is_none_or(|file| self.is_tracked(Path::new(file))) {
            return true;
        }
        let now = lock::inputs::scorer(paths, digests);
        let chose_by = plan.recipe.chooses_by_score().then_some(&entry.inputs.scorer);
        let scored_by = entry.result.score.as_ref().map(|score| &score.scorer);
        chose_by.into_iter().chain(scored_by).all(|before| *before == now)
    }

    /// Whether git would report that the file is gone.
    fn had(&self, file: &Path) -> bool {
        self.repository.contents(&self.revision, file).is_ok_and(|found| found.is_some())
    }

    /// Data that is not here yet has nothing to compare: the code that makes it decides.
    fn is_tracked(&self, path: &Path) -> bool {
        let Some(at) = places(path).pop() else { return true };
        let is_absent = path.symlink_metadata().is_err();
        is_absent || self.tracks_some_of(&at)
    }

    /// Whether git tracks this file, or one in this folder.
    fn tracks_some_of(&self, place: &Path) -> bool {
        self.tracked.range(place.to_owned()..).next().is_some_and(|file| file.starts_with(place))
    }

    /// Code that every expert depends on: the worker's, and files on the shelf beside the experts.
    fn shared_code(&self, folder: &Path, manifests: &[PathBuf]) -> Result<bool, Refusal> {
        let worker = self.repository.root().join(WORKER);
        let native = NATIVE.map(|part| self.repository.root().join(part));
        let of_the_worker = |file: &PathBuf| {
            file.strip_prefix(&worker).is_ok_and(code::decides)
                || native.iter().any(|part| file.starts_with(part))
        };
        if self.files.iter().any(of_the_worker) {
            return Ok(true);
        }
        if manifests
            .iter()
            .any(|manifest| manifest.parent().and_then(|it| canonical(it).ok()).as_deref() == Some(folder))
        {
            return Ok(false);
        }
        for file in &self.files {
            let Ok(inside) = file.strip_prefix(folder) else { continue };
            if decides(inside)
                && !is_made(folder, inside)
                && !self.is_left_behind(folder, inside)
                && !self.belongs_to_an_expert(folder, inside)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether runs of a renamed expert left it at the old place, where no .gitignore of the expert's hides it any more.
    fn is_left_behind(&self, folder: &Path, inside: &Path) -> bool {
        let mut parts = inside.components();
        let (Some(first), Some(second)) = (parts.next(), parts.next()) else { return false };
        let is_result = MADE.iter().any(|name| second.as_os_str() == *name) && parts.next().is_some();
        is_result && !self.tracks_some_of(&folder.join(first))
    }

    /// One that is there, or one that was there then and has been deleted.
    fn belongs_to_an_expert(&self, folder: &Path, inside: &Path) -> Result<bool, Refusal> {
        let mut parts = inside.components();
        let (Some(first), Some(_)) = (parts.next(), parts.next()) else { return Ok(false) };
        let manifest = folder.join(first).join(MANIFEST);
        Ok(manifest.is_file() || self.repository.contents(&self.revision, &manifest)?.is_some())
    }

    /// Git does not see a new version of the installed worker; the lock does. If git has its sources, git decides.
    fn is_locked_to_other_code(
        &self,
        home: &Path,
        locked: &BTreeMap<String, lock::Entry>,
        python: Option<&Path>,
    ) -> bool {
        if locked.is_empty() || self.repository.root().join(WORKER).is_dir() {
            return false;
        }
        let python = Search::here(python, Some(home)).find().ok().map(|found| found.python);
        let now = code::of(python.as_deref());
        locked.values().any(|entry| !lock::inputs::code_differences(&entry.inputs.code, &now).is_empty())
    }
}

fn canonical(path: &Path) -> Result<PathBuf, Refusal> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// What decides the result by its content: data, base, scorer, grammar, template and questions.
struct Named {
    /// Each file, and the base's folder.
    files: Vec<PathBuf>,
    /// Folders of data and patterns, by their canonical folders.
    several: Vec<Several>,
}

fn named_files(manifest: &Manifest, path: &Path) -> Named {
    let plans = plans(manifest, path).unwrap_or_default();
    let bases = plans.iter().filter_map(|plan| plan.machine.paths.base.as_ref());
    let mut files: Vec<PathBuf> =
        plans.iter().flat_map(data_of).map(PathBuf::from).chain(bases.map(PathBuf::from)).collect();
    let mut several = Vec::new();
    for written in paths::named_files(manifest) {
        match Several::of(&written) {
            Some(them) => several.extend(places(&them.folder).into_iter().map(|it| them.under(it))),
            None => files.push(written),
        }
    }
    Named { files, several }
}

/// Training and validation data, each with its file; a dataset of the Hub has none.
fn trained_on(plan: &Resolved) -> impl Iterator<Item = (&Source, Option<&Path>)> {
    let data = &plan.recipe.data;
    with_files(data.train.iter().chain(&data.validation), &plan.machine.paths.data)
}

/// All test data.
fn scored_on(plan: &Resolved) -> impl Iterator<Item = (&Source, Option<&Path>)> {
    let test = with_files(plan.recipe.data.test.iter(), &plan.machine.paths.data);
    test.chain(plan.test_sets.values().flat_map(|set| with_files(set.sources.iter(), &set.files)))
}

fn with_files<'a>(
    sources: impl Iterator<Item = &'a Source>,
    files: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a Source, Option<&'a Path>)> {
    sources.map(|source| (source, files.get(&source.name).map(Path::new)))
}

fn data_of(plan: &Resolved) -> impl Iterator<Item = &Path> {
    trained_on(plan).chain(scored_on(plan)).filter_map(|(_, file)| file)
}

/// The files of the adapter that training starts from.
fn initial_adapter_of(plan: &Resolved) -> Option<[PathBuf; 2]> {
    plan.machine.paths.initial_adapter.as_ref().map(|folder| adapters::files(Path::new(folder)))
}

/// Whether a run of now reads the source; one that is not here yet too.
fn is_read(plan: &Resolved, name: &str) -> bool {
    let data = &plan.recipe.data;
    data.train.iter().chain(&data.validation).chain(&data.test).any(|source| source.name == name)
        || plan.recipe.adapter.initial.as_deref() == Some(name)
        || lock::inputs::tokenized_rows(&plan.machine).is_some_and(|(rows, _)| rows == name)
}

/// Where git may report a change of this file: at its name, also where it was deleted, and at what its links lead to, the file
/// itself last.
fn places(path: &Path) -> Vec<PathBuf> {
    const LINKS: usize = 40;
    let mut found = Vec::new();
    let mut next = in_canonical_folder(path);
    while let Some(place) = next.filter(|_| found.len() < LINKS) {
        let target = place.read_link().ok();
        next = target.and_then(|target| in_canonical_folder(&place.parent()?.join(target)));
        found.push(place);
    }
    found
}

/// The path itself may be a link, or gone, and folders above it may be gone with it.
fn in_canonical_folder(path: &Path) -> Option<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return canonical(path).ok() };
    Some(canonical(folder).ok().or_else(|| in_canonical_folder(folder))?.join(name))
}

/// Whether a file that the manifest does not name affects the result, by its place in an expert's folder. Code that makes the data
/// does; prose, results and run folders do not.
fn decides(file: &Path) -> bool {
    const RECORDS: [&str; 8] = [
        names::REPORT,
        names::RECORD,
        names::EVENTS,
        names::PLAN,
        names::SCORES,
        names::ANSWERS,
        lock::FILE,
        lock::UNREADABLE,
    ];
    let mut folders = file.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let first = folders.next().unwrap_or_default();
    let is_at_the_top = folders.next().is_none();
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let end = Path::new(&name).extension().unwrap_or_default().to_string_lossy().into_owned();
    let titled = ["readme", "license", "changelog", "notice"].iter().any(|word| name.starts_with(word));
    let prose =
        ["md", "rst", "adoc"].contains(&end.as_str()) || (titled && ["", "txt"].contains(&end.as_str()));
    let record = is_at_the_top && RECORDS.contains(&name.as_str());
    let package = name.ends_with(".expert") || name.ends_with(".expert.sha256");
    !(prose || package || name.starts_with('.') || MADE.contains(&first.as_str()) || record)
}

/// Whether the file is of a run, a search, an adapter, a merged model or a GGUF file that was written to a folder here.
fn is_made(folder: &Path, inside: &Path) -> bool {
    let first = inside.components().next().map(|first| folder.join(first));
    let is_run = |it: &Path| Finished::of(it).is_some() || read_plan(it).recipe_digest.is_some();
    first.is_some_and(|it| {
        (it.join(EXPERT).is_file() || is_search(&it) || is_run(&it)) && !it.join(MANIFEST).is_file()
    })
}

/// For every base: the recipe, without comments, metadata and machine settings.
fn plans(manifest: &Manifest, path: &Path) -> Option<Vec<Resolved>> {
    // Recipes are the same on every machine, so the host does not matter.
    let site = on_cpu(path);
    manifest.all_effective().map(|expert| resolve(&expert, &site).ok()).collect()
}

/// The manifest in the working tree.
fn here(path: &Path) -> Option<Manifest> {
    read(fs::read(path).ok()?, path)
}

/// An expert's name in its manifest, or its folder's where the manifest has errors.
pub fn name(manifest: &Path) -> String {
    here(manifest).map_or_else(|| folder_name(manifest), |it| it.root.name.value.clone())
}

/// Its data may be anywhere: no row of it is read, and `train` asks for --allow-path.
fn read(bytes: Vec<u8>, path: &Path) -> Option<Manifest> {
    read::from_bytes(bytes, path, &Options { anywhere: true, ..Options::default() }).manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_decides_and_prose_and_results_do_not() {
        for file in [
            "datasets/train.jsonl",
            "generate.py",
            "generator/a.py",
            "schema/x.sql",
            "datasets/readings.csv",
            "datasets/notices.jsonl",
            "datasets/changelog.csv",
            "datasets/events.jsonl",
            "licenses.py",
        ] {
            assert!(decides(Path::new(file)), "{file}");
        }
        for file in [
            "README.md",
            "docs/notes.MD",
            "LICENSE",
            "LICENSE-MIT",
            "notice.TXT",
            "weights/a/final/x.safetensors",
            "datasets_optimized/a/b.arrow",
            "run.json",
            "evaluation.json",
            "answers.jsonl",
            "expert.lock",
            "expert.lock.unreadable",
            "report.html",
            ".gitignore",
            "datasets/README",
        ] {
            assert!(!decides(Path::new(file)), "{file}");
        }
    }
}
