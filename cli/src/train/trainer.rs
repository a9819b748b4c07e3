//! One expert's training, from the check of its output folder to its lock.

use std::path::Path;

use expert_contract::event::Event;
use expert_contract::exit::Exit;
use expert_contract::plan::{Inputs, Machine, Paths, Plan, Recipe, Request};
use expert_contract::resolve::{Resolved, Share};
use expert_contract::results::{EvaluationResult, TrainResult};
use serde_json::{Map, Value};

use super::decide::{Decision, Now, decide, settings_since};
use super::options::{RunOptions, ShelfOptions, has_test_set};
use super::runner::{Runner, Trained};
use crate::failure::Failure;
use crate::lock::{self, Copied, Entry, Outcome, Score, Scoring};
use crate::plan::correct_forecasts;
use crate::run::speed::Speed;
use crate::run::{self, Begun, Finished, RunFolder, adapter, names, read_evaluation};
use crate::sys::digests::Digests;
use crate::sys::files::read_json;
use crate::worker::{self, FusedGroup, Home, Notice};

/// What is the same for every expert of one command.
pub struct Trainer<'a> {
    pub options: &'a RunOptions,
    /// None for one expert alone.
    pub shelf: Option<&'a ShelfOptions>,
    pub runner: Runner<'a>,
}

/// What is left to do for an expert.
#[derive(Debug, PartialEq)]
pub enum State {
    Finished,
    ToScore,
    /// From this step.
    ToResume(u64),
    /// For this reason.
    ToRetrain(String),
    ToTrain,
}

/// A training that has ended, before `Trainer::finish`.
pub struct Unscored {
    pub trained: Trained,
    plan: Plan,
    inputs: Inputs,
    /// Nobody else touches the folder until it is scored, and `stop` reaches it.
    held: RunFolder,
}

impl Unscored {
    /// To be scored on this part of the machine: another expert may train on the one that it was trained on.
    #[must_use]
    pub fn on(mut self, share: &Share) -> Self {
        if let Some(device) = &share.device {
            self.plan.machine.device = device.clone();
        }
        self
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl Unscored {
    pub fn of(trained: Trained, plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { trained, plan, inputs: Inputs::default(), held: RunFolder::claim(folder.path()).unwrap() }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Trainer<'_> {
    /// Trains the expert, unless its folder says that there is nothing to do or that it must not be touched.
    pub fn train(&self, resolved: &Resolved, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        self.train_in(None, resolved, notify)
    }

    /// The same, with the experts of `group` in one worker.
    pub(super) fn train_in(
        &self,
        group: Option<&FusedGroup>,
        resolved: &Resolved,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure> {
        let evaluates = self.evaluates(&resolved.recipe);
        let unscored = self.train_unscored(group, resolved, evaluates, notify)?;
        self.finish(unscored, notify)
    }

    /// What is left is for `finish`. `scores_at_once`: the worker that trains scores, too.
    pub(super) fn train_unscored(
        &self,
        group: Option<&FusedGroup>,
        resolved: &Resolved,
        scores_at_once: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Unscored, Failure> {
        if self.options.evaluate {
            self.runner.or_report_to_ranks(refuse_without_test_set(&resolved.recipe))?;
        }
        let claimed = self.claim(resolved, scores_at_once, notify);
        let (folder, plan, inputs) = self.runner.or_report_to_ranks(claimed)?;
        let asked = self.options.asked(self.shelf.is_some());
        let (trained, plan) = self.runner.train(&folder, plan, &inputs, asked, group, notify)?;
        // A step of a group takes the time of all its experts.
        let is_alone = group.is_none();
        if let (Trained::Trained(_), true, Some(speed)) = (&trained, is_alone, Speed::of(&trained.result()?))
        {
            speed.keep(&plan.recipe, &plan.machine);
            correct_forecasts(resolved, speed);
        }
        // Scores may never come: the lock of the training does not wait for them.
        if !self.options.locked {
            self.enter(&plan, &trained.result()?, notify)?;
        }
        Ok(Unscored { trained, plan, inputs, held: folder })
    }

    /// Scores the training where it has no scores yet, and writes them into its lock. A failure has the training's result.
    pub(super) fn finish(
        &self,
        unscored: Unscored,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure> {
        let Unscored { mut trained, plan, inputs, held } = unscored;
        let recipe = &plan.recipe;
        // A run that was scored as it trained has scores; one that was finished before may have none, or those of another
        // scorer or of other test sets.
        let now = Scoring::here(recipe, &plan.machine.paths, &plan.test_sets, self.runner.digests);
        let is_scored = |result: &TrainResult| {
            let Some(evaluation) = &result.evaluation else { return false };
            if recipe.evaluation.without_base {
                return now.is_of_adapter(evaluation);
            }
            Score::of(evaluation).is_some_and(|score| score.is_of(&now))
        };
        if self.evaluates(recipe) && !is_scored(&trained.result()?) {
            if let Some(kept) = cached_score(recipe, &plan.machine.paths, &inputs, &now) {
                trained.add_evaluation(kept);
            } else {
                let score = self
                    .score(&plan, &held, notify)
                    .map_err(|failure| failure.with_result(trained.document().clone()))?;
                trained = trained.scored(score);
            }
        }
        self.enter(&plan, &trained.result()?, notify)?;
        Ok(trained)
    }

    fn claim(
        &self,
        resolved: &Resolved,
        scores_at_once: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(RunFolder, Plan, Inputs), Failure> {
        let recipe = &resolved.recipe;
        let base = self.runner.fetch(recipe, &resolved.machine, notify)?;
        let machine = resolved.machine.clone().with_base(base);
        let inputs = self.runner.inputs(recipe, &machine);
        if self.options.locked {
            let settings = |digest: &str| settings_since(Path::new(&machine.paths.output), recipe, digest);
            lock::check(recipe, &machine.paths, &inputs, &settings)?;
        }
        let folder = RunFolder::claim(Path::new(&machine.paths.output))?;
        let plan = Plan { machine, ..resolved.plan(self.options.request(scores_at_once)) };
        Ok((folder, plan, inputs))
    }

    /// Whether this expert is finished, and scored if requested. Takes no lock, so the answer may be outdated.
    pub fn is_done(&self, resolved: &Resolved) -> bool {
        matches!(self.state(resolved), Ok(State::Finished))
    }

    /// The same in more words, or why it would be refused.
    pub fn state(&self, resolved: &Resolved) -> Result<State, Failure> {
        let (recipe, paths) = (&resolved.recipe, &resolved.machine.paths);
        let (run, inputs) = (Path::new(&paths.output), self.runner.inputs(recipe, &resolved.machine));
        let asked = self.options.asked(self.shelf.is_some());
        let has_score = || {
            let now = Scoring::here(recipe, paths, &resolved.test_sets, self.runner.digests);
            !self.evaluates(recipe) || cached_score(recipe, paths, &inputs, &now).is_some()
        };
        Ok(match decide(run, &Now { recipe, paths, inputs: &inputs, typed: &resolved.typed }, asked)? {
            Decision::Done { .. } if has_score() => State::Finished,
            Decision::Done { .. } => State::ToScore,
            Decision::Resume { .. } => {
                let step = run::newest_checkpoint(run).and_then(|it| run::checkpoint_step(&it));
                step.map_or(State::ToTrain, State::ToResume)
            }
            Decision::Replace { reason: Some(reason) } => State::ToRetrain(reason),
            Decision::Begin | Decision::Replace { reason: None } => State::ToTrain,
        })
    }

    /// Whether the queue may train it with others in one pass, which gives other bytes: not where a lock of the same inputs has
    /// those that it has alone, nor where its run was begun alone.
    pub fn may_fuse(&self, resolved: &Resolved) -> bool {
        let (recipe, paths) = (&resolved.recipe, &resolved.machine.paths);
        let inputs = self.runner.inputs(recipe, &resolved.machine);
        let entry = lock::Place::of(&recipe.base.name, paths).and_then(|place| place.entry());
        let promised =
            |it: lock::Entry| !it.result.fused && lock::differences(&it.inputs, &inputs).is_empty();
        if entry.is_some_and(promised) {
            return false;
        }
        let asked = self.options.asked(self.shelf.is_some());
        match decide(
            Path::new(&paths.output),
            &Now { recipe, paths, inputs: &inputs, typed: &resolved.typed },
            asked,
        ) {
            Ok(Decision::Begin | Decision::Replace { .. }) => true,
            Ok(Decision::Resume { arithmetic, .. }) => arithmetic.fused != Some(false),
            Ok(Decision::Done { .. }) | Err(_) => false,
        }
    }

    /// A shelf is scored where there are test sets.
    fn evaluates(&self, recipe: &Recipe) -> bool {
        let wanted = |shelf: &ShelfOptions| !shelf.no_evaluate && has_test_set(recipe);
        self.options.evaluate || self.shelf.is_some_and(wanted)
    }

    /// In a search each score decides what is trained next, and a budget may end before those that were put off.
    pub(super) fn scores_apart(&self, recipe: &Recipe) -> bool {
        self.shelf.is_some() && self.evaluates(recipe)
    }

    /// Base and adapter on the test set; the answers themselves stay in the run's evaluation.json.
    fn score(&self, plan: &Plan, held: &RunFolder, notify: &mut dyn FnMut(Notice)) -> Result<Value, Failure> {
        if held.is_asked_to_stop() {
            return Err(Failure::new(Exit::Interrupted, "interrupted", "stopped before it was scored"));
        }
        let paths = &plan.machine.paths;
        let adapter = adapter::of_run(paths).ok_or_else(|| adapter::not_trained(paths))?;
        let plan = plan.asking(Request::Evaluate {
            adapter: Some(adapter),
            samples: None,
            against: None,
            other_rows: None,
        });
        self.runner.carry_out(&plan, Home::scored(held)?, notify).map(without_answers)
    }

    /// What was made of what, as the run has recorded it, into the expert's lock.
    fn enter(
        &self,
        plan: &Plan,
        result: &TrainResult,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), Failure> {
        let run = Path::new(&plan.machine.paths.output);
        let Some(record) = Finished::of(run) else { return Ok(()) };
        let (Some(inputs), Some(adapter)) = (record.inputs(), record.adapter()) else { return Ok(()) };
        let Some(place) = lock::Place::of(&plan.recipe.base.name, &plan.machine.paths) else { return Ok(()) };
        let before = place.entry().filter(|entry| lock::differences(&entry.inputs, inputs).is_empty());
        if self.options.locked {
            if before.is_some_and(|entry| entry.result.adapter != adapter) {
                notify(Notice::Remark(
                    "inputs match expert.lock, but the adapter's bytes differ: expected on a different CPU, thread \
                     count or torch version, or where experts train fused",
                ));
            }
            return Ok(());
        }
        let score = result.evaluation.as_ref().and_then(Score::of);
        let same = before.filter(|entry| entry.result.adapter == adapter);
        let now = Scoring::here(&plan.recipe, &plan.machine.paths, &plan.test_sets, self.runner.digests);
        let is_current = |score: &Score| score.is_of(&now);
        let known = same.as_ref().and_then(|entry| entry.result.score.clone());
        let score = score.or(known).filter(is_current);
        let (device, threads, fused) = made_by(run, &record, same.as_ref(), &plan.machine);
        let duplicates = result.duplicates.iter().map(Copied::from).collect();
        let result = Outcome {
            adapter: adapter.to_owned(),
            steps: result.steps,
            device,
            threads,
            fused,
            score,
            duplicates,
        };
        if let Some(body) = place.write(&Entry { inputs: inputs.clone(), result })? {
            notify(Notice::Event(&Event { time: 0.0, attempt: 0, body }));
        }
        Ok(())
    }
}

/// The kind of device and the threads that reproduce the run's bytes, and whether it was trained fused. A run that was
/// finished before was not made by today's plan. `same`: the lock's entry of the same adapter.
fn made_by(
    run: &Path,
    record: &Finished,
    same: Option<&Entry>,
    today: &Machine,
) -> (String, Option<u32>, bool) {
    if let Some(Entry { result, .. }) = same {
        return (result.device.clone(), result.threads, result.fused);
    }
    let begun = Begun::of_run(run).map(|begun| begun.arithmetic).unwrap_or_default();
    let planned = || (today.device.kind.as_str().to_owned(), today.threads.compute);
    let (device, threads) = record.computed_on().unwrap_or_else(planned);
    (device, begun.threads.or(threads), begun.fused == Some(true))
}

/// The evaluation that belongs to the adapter, the scorer and the test sets, if the lock says that it does.
fn cached_score(recipe: &Recipe, paths: &Paths, inputs: &Inputs, now: &Scoring) -> Option<Value> {
    let run = Path::new(&paths.output);
    let entry = lock::Place::of(&recipe.base.name, paths)?.entry()?;
    let cached: Value = read_json(&run.join(names::SCORES)).filter(|_| is_of_run(&entry, run, inputs))?;
    let score = worker::result(&cached).ok().as_ref().and_then(Score::of);
    let locked = entry.result.score.filter(|score| score.is_of(now))?;
    (score == Some(locked)).then(|| without_answers(cached))
}

/// Scores of `evaluate` for the adapter of the run's own lock entry, on the manifest's rows: `train --all` need not repeat them.
pub fn lock_score(
    plan: &Plan,
    python: Option<&Path>,
    evaluation: &EvaluationResult,
    digests: &Digests,
) -> Result<(), Failure> {
    let (recipe, paths) = (&plan.recipe, &plan.machine.paths);
    if evaluation.other_rows.is_some() || evaluation.other_adapter.is_some() {
        return Ok(());
    }
    let run = Path::new(&paths.output);
    // Not left where `final/` was replaced meanwhile.
    let left = read_evaluation(run).as_ref().and_then(Score::of);
    let now = Scoring::here(recipe, paths, &plan.test_sets, digests);
    let Some(score) = left.filter(|left| Score::of(evaluation).as_ref() == Some(left) && left.is_of(&now))
    else {
        return Ok(());
    };
    let Some(place) = lock::Place::of(&recipe.base.name, paths) else { return Ok(()) };
    let inputs = lock::inputs::here(recipe, &plan.machine, python, digests);
    let Some(entry) = place.entry().filter(|entry| is_of_run(entry, run, &inputs)) else { return Ok(()) };
    let result = Outcome { score: Some(score), ..entry.result };
    // It was read just now: there is nothing to warn of.
    place.write(&Entry { result, ..entry }).map(|_| ())
}

/// Whether the lock's entry is of the run's adapter and of these inputs.
fn is_of_run(entry: &Entry, run: &Path, inputs: &Inputs) -> bool {
    lock::differences(&entry.inputs, inputs).is_empty()
        && Finished::of(run).is_some_and(|it| it.adapter() == Some(entry.result.adapter.as_str()))
}

fn without_answers(mut evaluation: Value) -> Value {
    if let Some(report) = evaluation.as_object_mut() {
        without_examples(report);
        let sets = report.get_mut("test_sets").and_then(Value::as_object_mut);
        sets.into_iter().flatten().filter_map(|(_, set)| set.as_object_mut()).for_each(without_examples);
    }
    evaluation
}

fn without_examples(scores: &mut Map<String, Value>) {
    scores.remove("failures");
    scores.remove("gains");
}

/// Refuses an expert that differs from its lock in what is known before a download.
pub fn refuse_unlike_lock(resolved: &Resolved, inputs: &Inputs) -> Result<(), Failure> {
    let Resolved { recipe, machine, .. } = resolved;
    let settings = |digest: &str| settings_since(Path::new(&machine.paths.output), recipe, digest);
    lock::check_before_download(recipe, &machine.paths, inputs, &settings)
}

/// Checked before hours of training, not after.
pub fn refuse_without_test_set(recipe: &Recipe) -> Result<(), Failure> {
    if has_test_set(recipe) {
        return Ok(());
    }
    Err(Failure::bad_input("no-test-set", "there are no test rows: the manifest names no test set")
        .hint("set training.dataset.test_path or evaluation.test_cases, or leave --evaluate out"))
}
