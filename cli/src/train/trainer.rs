//! One expert's training, from the check of its output folder to its lock.

use std::path::Path;

use expert_contract::plan::{Inputs, Plan, Request};
use expert_contract::results::TrainResult;
use serde_json::Value;

use super::decide::{Decision, decide};
use super::options::{RunOptions, ShelfOptions, has_test_set};
use super::runner::{Runner, Trained};
use crate::failure::Failure;
use crate::lock::{self, Entry, Outcome, Score};
use crate::plan::Prepared;
use crate::run::adapter;
use crate::run::{Begun, Finished, RunFolder};
use crate::sys::files::read_json;
use crate::worker::Home;
use crate::worker::{self, Notice};

/// What is the same for every expert of one command.
pub struct Trainer<'a> {
    pub options: &'a RunOptions,
    /// None for one expert alone.
    pub shelf: Option<&'a ShelfOptions>,
    pub runner: Runner<'a>,
}

impl Trainer<'_> {
    /// Trains the expert, unless its folder says that there is nothing to do or that it must not be touched.
    pub fn train(&self, prepared: &Prepared, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        let mut plan = prepared.resolved.plan.clone();
        if let Some(mirror) = &mut plan.machine.mirror {
            mirror.background &= !self.options.no_background_upload;
        }
        if self.options.evaluate {
            refuse_without_test_set(&plan)?;
        }
        self.runner.fetch_base(&mut plan, notify)?;
        let inputs = self.runner.inputs(&plan);
        if self.options.locked {
            lock::check(&plan, &inputs)?;
        }
        plan.request = self.options.request(self.evaluates(&plan));
        let folder = RunFolder::claim(Path::new(&plan.machine.paths.output))?;
        let mut trained = self.runner.train(
            &folder,
            &mut plan,
            &inputs,
            self.options.asked(self.shelf.is_some()),
            notify,
        )?;
        let _held = matches!(trained, Trained::Now(_)).then_some(folder);
        // A run that trained now has scores; one that was finished before may not have.
        if self.evaluates(&plan) && trained.result()?.evaluation.is_none() {
            let score = match self.kept_score(&plan, &inputs) {
                Some(kept) => kept,
                None => self.score(&plan, notify)?,
            };
            trained.add_evaluation(score);
        }
        self.enter(&plan, &trained.result()?, notify)?;
        Ok(trained)
    }

    /// Whether this expert is finished, and scored if requested. Takes no lock, so the answer may be outdated.
    pub fn is_done(&self, prepared: &Prepared) -> bool {
        let plan = &prepared.resolved.plan;
        let inputs = self.runner.inputs(plan);
        let run = Path::new(&plan.machine.paths.output);
        let decision = decide(run, plan, &inputs, self.options.asked(self.shelf.is_some()));
        let scored = !self.evaluates(plan) || self.kept_score(plan, &inputs).is_some();
        matches!(decision, Ok(Decision::Done(_))) && scored
    }

    /// A shelf is scored where there are test sets.
    fn evaluates(&self, plan: &Plan) -> bool {
        let wanted = |shelf: &ShelfOptions| !shelf.no_evaluate && has_test_set(plan);
        self.options.evaluate || self.shelf.is_some_and(wanted)
    }

    /// The evaluation that belongs to the adapter, if the lock says that it does.
    fn kept_score(&self, plan: &Plan, inputs: &Inputs) -> Option<Value> {
        let run = Path::new(&plan.machine.paths.output);
        let entry = lock::Place::of(plan)?.entry()?;
        let same = lock::differences(&entry.inputs, inputs).is_empty()
            && Finished::of(run)?.adapter() == Some(entry.result.adapter.as_str());
        let kept: Value = read_json(&run.join("evaluation.json")).filter(|_| same)?;
        let score = worker::result(&kept).ok().as_ref().and_then(Score::of);
        (score == Some(entry.result.score?)).then(|| without_answers(kept))
    }

    /// Base and adapter on the test set; the answers themselves stay in the run's evaluation.json.
    fn score(&self, plan: &Plan, notify: &mut dyn FnMut(Notice)) -> Result<Value, Failure> {
        let adapter = adapter::of_run(plan).ok_or_else(|| adapter::not_trained(plan))?;
        let plan = adapter::asking(plan.clone(), Request::Evaluate { adapter: Some(adapter) });
        self.runner.carry_out(&plan, Home::of(&plan)?, notify).map(without_answers)
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
        let Some(place) = lock::Place::of(plan) else { return Ok(()) };
        let before = place.entry().filter(|entry| lock::differences(&entry.inputs, inputs).is_empty());
        if self.options.locked {
            if before.is_some_and(|entry| entry.result.adapter != adapter) {
                notify(Notice::Remark(
                    "inputs match expert.lock, but the adapter's bytes differ: expected on a different CPU, thread \
                     count or torch version",
                ));
            }
            return Ok(());
        }
        let score = result.evaluation.as_ref().and_then(Score::of);
        let same = before.filter(|entry| entry.result.adapter == adapter);
        let score = score.or_else(|| same.and_then(|entry| entry.result.score));
        let result = Outcome {
            adapter: adapter.to_owned(),
            steps: result.steps,
            device: plan.machine.device.kind.as_str().to_owned(),
            threads: Begun::of_run(run)
                .and_then(|begun| begun.arithmetic.threads)
                .or(plan.machine.threads.compute),
            score,
        };
        place.write(&Entry { inputs: inputs.clone(), result })
    }
}

fn without_answers(mut evaluation: Value) -> Value {
    if let Some(report) = evaluation.as_object_mut() {
        report.remove("failures");
        report.remove("gains");
    }
    evaluation
}

/// Checked before hours of training, not after.
fn refuse_without_test_set(plan: &Plan) -> Result<(), Failure> {
    if has_test_set(plan) {
        return Ok(());
    }
    Err(Failure::bad_input("no-test-set", "there are no test rows: the manifest names no test set")
        .hint("set training.dataset.test_path or evaluation.test_cases, or leave --evaluate out"))
}
