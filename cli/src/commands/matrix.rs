//! `matrix`: the experts to train, as a CI matrix; with `--changed-since`, those whose result would differ.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::{self, Manifest, Options};
use expert_contract::plan::{Recipe, Request, Resume};
use expert_contract::resolve::resolve;
use fs_err as fs;
use serde::Serialize;

use crate::experts;
use crate::failure::Failure;
use crate::git::{Refusal, Repository, Revision};
use crate::render::Console;
use crate::site;

#[derive(clap::Args)]
pub struct Args {
    /// The folder that holds the experts
    #[arg(default_value = "experts")]
    folder: PathBuf,
    /// Only experts whose recipe or files differ between this git revision and the working tree
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    changed_since: Option<String>,
}

#[derive(Serialize)]
struct Matrix {
    include: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    expert: String,
    manifest: String,
    path: String,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let mut manifests = experts::below(&args.folder)?;
    if let Some(reference) = &args.changed_since {
        match changed(&manifests, &args.folder, reference) {
            Ok(changed) => manifests.retain(|manifest| changed.contains(manifest)),
            Err(refusal) => console.warn(
                &format!("every expert is listed, for what changed since {reference} cannot be told: {refusal}"),
                Some("fetch the history (git fetch --unshallow, or fetch-depth: 0 in CI) and check the revision's name"),
            ),
        }
    }
    console.document(&Matrix { include: manifests.iter().map(|manifest| entry(manifest)).collect() });
    Ok(Exit::Done)
}

fn entry(manifest: &Path) -> Entry {
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let named =
        fs::read(manifest).ok().and_then(|bytes| read(bytes, manifest)).map(|it| it.root.name.value.clone());
    let folder_name = || folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    Entry {
        expert: named.unwrap_or_else(folder_name),
        manifest: experts::portable(manifest),
        path: experts::portable(folder),
    }
}

/// The manifests of the experts that would come out differently.
fn changed(manifests: &[PathBuf], folder: &Path, reference: &str) -> Result<BTreeSet<PathBuf>, Refusal> {
    let repository = Repository::containing(folder)?;
    let revision = repository.resolve(reference)?;
    let files = repository.changed(&revision, folder)?;
    let mut changed = BTreeSet::new();
    for manifest in manifests {
        let home = manifest.parent().unwrap_or(folder);
        let home = home.canonicalize().map_err(|error| format!("{}: {error}", home.display()))?;
        let own: Vec<&Path> = files.iter().filter_map(|file| file.strip_prefix(&home).ok()).collect();
        let matters = own.iter().any(|file| *file != Path::new(experts::MANIFEST) && decides(file));
        let edited = own.contains(&Path::new(experts::MANIFEST));
        if matters || (edited && recipe_differs(&repository, &revision, manifest)?) {
            changed.insert(manifest.clone());
        }
    }
    Ok(changed)
}

/// Whether a file of an expert's folder decides what comes out. Data and the code that makes it do;
/// prose, results and everything that a run leaves behind do not.
fn decides(file: &Path) -> bool {
    const MADE: [&str; 4] = ["weights", "datasets_optimized", "results", "reports"];
    const RECORDS: [&str; 4] = ["report.html", "run.json", "events.jsonl", "plan.json"];
    let first = file.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let prose = ["md", "rst", "adoc"]
        .iter()
        .any(|end| file.extension().is_some_and(|it| it.eq_ignore_ascii_case(end)))
        || ["readme", "license", "changelog", "notice"].iter().any(|word| name.starts_with(word));
    let hidden = name.starts_with('.');
    let made = first.is_some_and(|first| MADE.contains(&first.as_str()));
    !(prose || hidden || made || RECORDS.contains(&name.as_str()))
}

fn recipe_differs(repository: &Repository, revision: &Revision, manifest: &Path) -> Result<bool, Refusal> {
    let Some(before) = repository.contents(revision, manifest)? else { return Ok(true) };
    let now = fs::read(manifest).map_err(|error| error.to_string())?;
    let (before, now) = (recipes(before, manifest), recipes(now, manifest));
    // A manifest that does not hold is listed, so that its run says why.
    Ok(before.is_none() || now.is_none() || before != now)
}

/// Every base's recipe: what the manifest decides, without comments, metadata and settings of the machine.
fn recipes(bytes: Vec<u8>, path: &Path) -> Option<Vec<Recipe>> {
    let manifest = read(bytes, path)?;
    // Recipes are the same on every machine, so any site will do.
    let site = site::on_cpu(path);
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    manifest
        .all_effective()
        .map(|expert| resolve(&expert, &site, request.clone()).ok().map(|resolved| resolved.plan.recipe))
        .collect()
}

fn read(bytes: Vec<u8>, path: &Path) -> Option<Manifest> {
    manifest::from_bytes(bytes, path, &Options::default()).manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_its_code_decide_and_prose_and_results_do_not() {
        for file in
            ["datasets/train.jsonl", "generate.py", "generator/a.py", "schema/x.sql", "datasets/readings.csv"]
        {
            assert!(decides(Path::new(file)), "{file}");
        }
        for file in [
            "README.md",
            "docs/notes.MD",
            "LICENSE",
            "weights/a/final/x.safetensors",
            "datasets_optimized/a/b.arrow",
            "run.json",
            "report.html",
            ".gitignore",
            "datasets/README",
        ] {
            assert!(!decides(Path::new(file)), "{file}");
        }
    }
}
