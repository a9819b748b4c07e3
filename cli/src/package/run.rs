//! Which finished run a package is made of.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;

use crate::experts::MANIFEST;
use crate::failure::Failure;
use crate::run::{Finished, adapter};
use crate::runs::answers::{manifest_of, words};
use crate::runs::{self, Choice, State};
use crate::sys::paths::{file_name, near};

/// A run's folder and the manifest of its expert.
pub struct Chosen {
    pub run: PathBuf,
    pub manifest: PathBuf,
    /// The base as it was typed.
    pub model: Option<String>,
    pub record: Finished,
}

/// `named` is a run's folder, an expert's folder or a manifest; `manifest` the expert's as a flag; `model` the base of several.
pub fn chosen(named: Option<&Path>, manifest: Option<&Path>, model: Option<&str>) -> Result<Chosen, Failure> {
    if let Some(run) = named.filter(|path| runs::is_run(path) && !path.join(MANIFEST).is_file()) {
        let manifest = manifest.map(Path::to_owned).or_else(|| manifest_of(run)).ok_or_else(|| {
            let message = format!("the manifest of the run {} is not found", near(run));
            Failure::bad_input("no-manifest", message).hint("name it with -m")
        })?;
        return finished(run, file_in(&manifest), None);
    }
    if let (Some(named), Some(_)) = (named, manifest) {
        let message = format!("{} is not a run's folder", near(named));
        return Err(
            Failure::bad_input("no-run", message).hint("name a run's folder beside -m, or only one of them")
        );
    }
    let manifest = file_in(manifest.or(named).unwrap_or(Path::new(MANIFEST)));
    if !manifest.is_file() {
        let message = format!("there is no expert: {} is missing", near(&manifest));
        return Err(
            Failure::bad_input("no-manifest", message).hint("name the expert's folder or a run's folder")
        );
    }
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let all = runs::of_expert(folder);
    let bases: Vec<String> = all.iter().map(|run| file_name(&run.path)).collect();
    let wanted = match model {
        Some(model) => runs::on_base(all, model),
        None => all,
    };
    match runs::choose(wanted) {
        Choice::One(run) => finished(&run.path, manifest, model),
        Choice::Unfinished(runs) => {
            if let Some(run) = runs.first() {
                return finished(&run.path, manifest, model);
            }
            let shown = near(folder);
            let command = format!("expert-cli train {}", words(&manifest, model));
            let (message, hint) = match (model, &bases[..]) {
                (Some(model), [_, ..]) => {
                    let one = if bases.len() == 1 { "one" } else { "some" };
                    let others = bases.join(", ");
                    (
                        format!("{shown} has no run on {model}; it has {one} on {others}"),
                        "name the base of a run with --model, or train it on this one",
                    )
                }
                _ => (format!("there is no run of {shown} to package"), "train it, or name a run's folder"),
            };
            Err(Failure::bad_input("no-run", message).hint(format!("{hint}: {command}")))
        }
        Choice::Several(several) => {
            let runs: Vec<String> = several.iter().map(|run| near(&run.path)).collect();
            let message = format!("there are {} finished runs: {}", several.len(), runs.join(", "));
            Err(Failure::bad_input("several-runs", message)
                .hint("name the run's folder, or its base with --model"))
        }
    }
}

fn file_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(MANIFEST) } else { path.to_owned() }
}

fn finished(run: &Path, manifest: PathBuf, model: Option<&str>) -> Result<Chosen, Failure> {
    let shown = near(run);
    let found = runs::look(run);
    let state = found.state;
    if state == State::Running {
        return Err(Failure::new(Exit::Locked, "running", format!("{shown} is being trained"))
            .hint("package it when it is finished"));
    }
    let Some(record) = Finished::of(run) else {
        let message = format!("the run in {shown} is not finished: it is {}", state.as_str());
        let more = if state == State::Resumable { " --resume" } else { "" };
        let command = found.training(more);
        return Err(Failure::bad_input("unfinished-run", message).hint(format!("finish it first: {command}")));
    };
    adapter::demand_whole(&record, run)?;
    Ok(Chosen { run: run.to_owned(), manifest, model: model.map(str::to_owned), record })
}
