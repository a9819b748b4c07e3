//! `search.json`: what a search has found so far, replaced as a whole after each trial.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use expert_contract::diagnostic::Severity;
use expert_contract::plan::Inputs;
use expert_contract::resolve::Resolved;
use expert_contract::results::{
    SearchRecord, SearchScore, SearchScoring, SearchSetting, SearchTrial, SearchWritten, TrainResult,
};

use super::space::Space;
use super::{Budget, Search};
use crate::failure::Failure;
use crate::lock::{self, Scoring};
use crate::run::{Finished, SEARCH, is_search};
use crate::runs::{self, Run};
use crate::sys::durable;
use crate::sys::files::{children, read_json, remove};
use crate::sys::paths::file_name;
use crate::train::Runner;

/// The folders of the searches beside an expert's runs.
pub fn of_expert(expert: &Path) -> Vec<PathBuf> {
    directly_in(&expert.join("weights"))
}

pub fn directly_in(folder: &Path) -> Vec<PathBuf> {
    children(folder).into_iter().filter(|it| is_search(it)).collect()
}

/// The search that this run is a trial of.
pub fn of_trial(run: &Path) -> Option<PathBuf> {
    run.canonicalize().ok()?.ancestors().nth(2).filter(|it| is_search(it)).map(Path::to_owned)
}

/// The searches beside an expert's runs, and the runs of their trials. Between two trials only the search's folder is locked:
/// while it is, each trial counts as running.
pub fn runs_of(expert: &Path) -> Vec<Run> {
    let of_search = |folder: PathBuf| {
        let search = runs::look(&folder);
        let rungs = children(&folder).into_iter().flat_map(|trial| children(&trial));
        let mut found: Vec<Run> = rungs.filter(|it| runs::is_run(it)).map(|it| runs::look(&it)).collect();
        if search.state == runs::State::Running {
            for run in &mut found {
                run.state = runs::State::Running;
            }
        }
        found.push(search);
        found
    };
    of_expert(expert).into_iter().flat_map(of_search).collect()
}

/// What all scores of a search share: the inputs of the manifest's own recipe, and how answers are scored.
pub struct Shared {
    inputs: Inputs,
    scoring: SearchScoring,
}

impl Shared {
    /// As it is now. `own` is the manifest's recipe as a search trains and scores it, `base` the folder of its base.
    pub fn here(own: Resolved, base: Option<String>, runner: &Runner) -> Self {
        let (recipe, machine) = (own.recipe, own.machine.with_base(base));
        let scoring = Scoring::here(&recipe, &machine.paths, &BTreeMap::new(), runner.digests).of_search();
        Self { inputs: runner.inputs(&recipe, &machine), scoring }
    }

    /// What is not as the search had it. Records of older versions say nothing of the scoring.
    fn changed_since(&self, record: &SearchRecord) -> Vec<String> {
        let inputs = record.inputs.iter().flat_map(|before| lock::differences(before, &self.inputs));
        let mut changed: Vec<String> = inputs.map(|it| it.what).collect();
        if let Some(before) = &record.scoring {
            let now = &self.scoring;
            for (what, same) in [
                (
                    "how answers are made and scored (decoding, evaluation.scorer, scorer_settings)",
                    before.evaluation_digest == now.evaluation_digest,
                ),
                ("scorer", before.scorer_sha256 == now.scorer_sha256),
                ("grammar", before.grammar_sha256 == now.grammar_sha256),
            ] {
                if !same && !changed.iter().any(|it| it == what) {
                    changed.push(what.to_owned());
                }
            }
        }
        changed
    }

    /// Trials that are trained and scored by other files than those before them cannot be compared with them.
    pub fn refuse_changed(&self, record: &SearchRecord) -> Result<(), Failure> {
        let changed = self.changed_since(record);
        if changed.is_empty() {
            return Ok(());
        }
        let message = format!("the search has stopped; these changed since it began: {}", changed.join(", "));
        Err(Failure::bad_input("search-changed", message)
            .hint("restore what changed and repeat the command, or begin again with --fresh"))
    }
}

pub struct State {
    pub record: SearchRecord,
    path: PathBuf,
    since: Instant,
    seconds_before: f64,
}

impl State {
    /// The one that is there, if it is of this very search; `--fresh` removes it with its trials.
    pub fn open(
        folder: &Path,
        search: &Search,
        space: &Space,
        own: &Resolved,
        shared: &Shared,
    ) -> Result<Self, Failure> {
        let path = folder.join(SEARCH);
        let asked = SearchRecord {
            expert: Some(own.recipe.expert.clone()),
            base: Some(own.recipe.base.name.clone()),
            seed: search.seed,
            trial_limit: match search.budget {
                Budget::Trials(count) => Some(count as u64),
                Budget::Seconds(_) => None,
            },
            rows: search.rows,
            space: space.ranges(),
            inputs: Some(shared.inputs.clone()),
            scoring: Some(shared.scoring.clone()),
            trials: vec![SearchTrial::default()],
            ..SearchRecord::default()
        };
        if search.fresh {
            remove_all(folder, &path)?;
        }
        let before: Option<SearchRecord> = read_json(&path);
        let record = match before {
            Some(mut before) => {
                // The user may have taken the settings out again.
                before.written = before.written.filter(|it| is_same_manifest(it, shared));
                refuse_other(&before, &asked, shared, &path)?;
                continued(before, asked.scoring)
            }
            None if path.exists() => {
                return Err(Failure::bad_input(
                    "search-unreadable",
                    format!("{} cannot be read", path.display()),
                )
                .hint("restore it, or begin again with --fresh"));
            }
            None => asked,
        };
        let state = Self { seconds_before: record.seconds, record, path, since: Instant::now() };
        state.save()?;
        Ok(state)
    }

    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.since.elapsed().as_secs_f64()
    }

    pub fn change(&mut self, change: impl FnOnce(&mut SearchRecord)) -> Result<(), Failure> {
        change(&mut self.record);
        self.record.seconds = self.seconds();
        self.save()
    }

    fn save(&self) -> Result<(), Failure> {
        durable::write_json(&self.path, &self.record)
    }
}

/// Without the manifest's own recipe nothing is drawn, and no winner is compared: where it failed, it is trained again.
fn continued(mut record: SearchRecord, scoring: Option<SearchScoring>) -> SearchRecord {
    let is_over = record.written.is_some();
    if let Some(own) = record.trials.first_mut().filter(|_| !is_over) {
        own.scores.retain(|score| score.failure.is_none());
    }
    record.scoring = record.scoring.or(scoring);
    record
}

fn refuse_other(
    before: &SearchRecord,
    asked: &SearchRecord,
    shared: &Shared,
    path: &Path,
) -> Result<(), Failure> {
    // After `--write` the manifest is not as the search found it.
    let mut before = before.clone();
    if let Some(written) = before.written.clone() {
        before.inputs = Some(written.inputs);
        before.space = written.space;
    }
    let mut changed: Vec<String> = Vec::new();
    let mut compare = |what: &str, same: bool| changed.extend((!same).then(|| what.to_owned()));
    compare("--space or the range around the manifest's values", before.space == asked.space);
    compare("--search-seed", before.seed == asked.seed);
    compare("--rows", before.rows == asked.rows);
    compare("the number of trials", before.trial_limit == asked.trial_limit);
    compare("the base", before.base == asked.base);
    changed.extend(shared.changed_since(&before));
    if changed.is_empty() && !before.trials.is_empty() {
        return Ok(());
    }
    let message =
        format!("{} holds another search; since then changed: {}", path.display(), changed.join(", "));
    Err(Failure::bad_input("search-changed", message)
        .hint("restore what changed, begin again with --fresh, or name another folder with -o"))
}

fn is_same_manifest(written: &SearchWritten, shared: &Shared) -> bool {
    lock::differences(&written.inputs, &shared.inputs).is_empty()
}

/// `shared` and `space` are of the manifest with the winner's settings in it.
pub fn note_written(
    folder: &Path,
    record: &SearchRecord,
    space: &Space,
    shared: &Shared,
) -> Result<(), Failure> {
    let written = SearchWritten { inputs: shared.inputs.clone(), space: space.ranges() };
    let record = SearchRecord { written: Some(written), ..record.clone() };
    durable::write_json(&folder.join(SEARCH), &record)
}

/// The trials and the state of the search before, and nothing else.
fn remove_all(folder: &Path, state: &Path) -> Result<(), Failure> {
    let is_numbered = |path: &Path, word: &str| {
        file_name(path).strip_prefix(word).is_some_and(|number| number.parse::<usize>().is_ok())
    };
    // Also where the state is gone. A folder of such a name without a rung is not a search's.
    let is_trial = |path: &PathBuf| {
        is_numbered(path, "trial-") && children(path).iter().any(|rung| is_numbered(rung, "rung-"))
    };
    for path in children(folder).into_iter().filter(is_trial).chain([state.to_owned()]) {
        remove(&path).map_err(|error| Failure::writing("remove", &path, &error))?;
    }
    Ok(())
}

pub fn drawn(settings: Vec<SearchSetting>) -> SearchTrial {
    SearchTrial { settings, scores: Vec::new() }
}

/// `run` is the folder of the trial's run.
pub fn scored(rung: usize, result: &TrainResult, run: &Path) -> SearchScore {
    let evaluation = result.evaluation.as_ref();
    let share = evaluation.and_then(|it| it.main.adapter.as_ref()).map(|score| score.share.clone());
    let failure = share.as_ref().and_then(|share| share.accuracy).is_none();
    let scoring = evaluation.and_then(|it| it.seconds).unwrap_or_default();
    SearchScore {
        rung: rung as u64,
        share: share.filter(|_| !failure),
        validation_loss: Finished::of(run).and_then(|it| it.best_loss()).or(result.eval_loss),
        steps: result.steps,
        seconds: result.seconds.map(|seconds| seconds + scoring),
        training_seconds: result.seconds.or(Some(0.0)),
        failure: failure.then(|| "it was trained and has no score".to_owned()),
    }
}

/// The reason is one line, with the list that the line introduces; a manifest's is its first error, which the failure's
/// own message only counts.
pub fn failed(rung: usize, failure: &Failure) -> SearchScore {
    let error = failure.diagnostics.iter().find(|it| it.severity == Severity::Error);
    let message = error.map_or(&failure.message, |error| &error.message);
    let mut lines = message.lines().map(str::trim);
    let mut reason = lines.next().unwrap_or_default().to_owned();
    if reason.ends_with(':') {
        let listed: Vec<&str> = lines.collect();
        reason = format!("{reason} {}", listed.join(", "));
    }
    SearchScore { rung: rung as u64, failure: Some(reason), ..SearchScore::default() }
}

#[cfg(test)]
mod tests {
    use expert_contract::manifest::Options;
    use expert_contract::read;

    use super::*;

    #[test]
    fn a_refused_trial_is_recorded_with_the_rule_that_refused_it() {
        let file = Path::new("manifest.json");
        let diagnostics = read::from_bytes(b"{}".to_vec(), file, &Options::default()).diagnostics;
        let first = diagnostics[0].message.clone();
        let score = failed(0, &Failure::manifest(file, diagnostics));
        assert_eq!(score.failure, Some(first));
        let score = failed(0, &Failure::bad_input("any", "one line\nand another"));
        assert_eq!(score.failure.as_deref(), Some("one line"));
        let score =
            failed(0, &Failure::bad_input("any", "the recipe is another one:\n  a: 1 -> 2\n  b: 3 -> 4"));
        assert_eq!(score.failure.as_deref(), Some("the recipe is another one: a: 1 -> 2, b: 3 -> 4"));
    }
}
