//! One expert's training, from the rules of its output folder to its lock.

use std::path::Path;

use expert_contract::plan::{Plan, Request, Resume};
use serde_json::Value;

use crate::adapter;
use crate::commands::train::{Args, absolute};
use crate::failure::Failure;
use crate::launch::{Home, carry_out_with};
use crate::lock::{self, Digests, Entry, Inputs, Outcome, Score};
use crate::output::{self, RunFolder, State, read_json};
use crate::prepare::Prepared;
use crate::usage::Global;
use crate::worker::{Notice, Warm};

/// How one expert's training ended.
pub enum Trained {
    Now(Value),
    /// The very same was finished before.
    Before(Value),
}

impl Trained {
    pub fn result(&self) -> &Value {
        match self {
            Self::Now(result) | Self::Before(result) => result,
        }
    }

    fn add(&mut self, key: &str, value: Value) {
        let (Self::Now(result) | Self::Before(result)) = self;
        if let Some(result) = result.as_object_mut() {
            result.insert(key.to_owned(), value);
        }
    }
}

/// What is the same for every expert of one command.
pub struct Trainer<'a> {
    pub args: &'a Args,
    pub global: &'a Global,
    pub digests: &'a Digests,
    pub warm: Option<Warm>,
}

impl Trainer<'_> {
    /// Trains the expert, unless the output folder says that there is nothing to do or that it must not be touched.
    pub fn train(&self, prepared: &Prepared, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        let mut plan = prepared.resolved.plan.clone();
        if let Some(mirror) = &mut plan.machine.mirror {
            mirror.background &= !self.args.no_background_upload;
        }
        let inputs = self.inputs(prepared);
        if self.args.locked {
            lock::check(&plan, &inputs)?;
        }
        if self.args.evaluate {
            refuse_without_test_set(&plan)?;
        }
        let folder = RunFolder::claim(Path::new(&plan.machine.paths.output))?;
        let mut trained = if let Some(result) = self.settle(&folder, &plan, &inputs, notify)? {
            drop(folder);
            Trained::Before(result)
        } else {
            keep_threads(&folder, &mut plan);
            plan.request = self.args.request(&plan);
            // What goes on keeps the word of what it was begun with.
            if folder.recipe_digest().is_none() || lock::begun_with(folder.path()).is_none() {
                lock::note_inputs(folder.path(), &inputs)?;
            }
            self.carry_out(&plan, Home::Run(folder), notify).map(Trained::Now)?
        };
        // A run that trained now has scored itself; one that was finished before may not have.
        if self.args.evaluates(&plan) && !trained.result()["evaluation"].is_object() {
            let score = match self.kept_score(&plan, &inputs) {
                Some(kept) => kept,
                None => self.score(&plan, notify)?,
            };
            trained.add("evaluation", score);
        }
        // A base that was fetched or converted meanwhile is known by now.
        self.enter(&plan, &self.inputs(prepared), trained.result(), notify)?;
        Ok(trained)
    }

    pub fn inputs(&self, prepared: &Prepared) -> Inputs {
        Inputs::here(prepared, self.global.python.as_deref(), self.digests)
    }

    /// Whether this very expert is finished, and scored where that is wanted. Holds no lock, so the answer may be old.
    pub fn is_done(&self, prepared: &Prepared) -> bool {
        let (plan, inputs) = (&prepared.resolved.plan, self.inputs(prepared));
        let run = Path::new(&plan.machine.paths.output);
        let finished = matches!(output::state(run, &plan.recipe_digest), State::Finished(_));
        let same = lock::begun_with(run).is_none_or(|begun| begun.differences(&inputs).is_empty());
        let scored = !self.args.evaluates(plan) || self.kept_score(plan, &inputs).is_some();
        !self.args.fresh && finished && same && scored
    }

    /// The rules of a used output folder. Some where the very same is finished in it.
    fn settle(
        &self,
        folder: &RunFolder,
        plan: &Plan,
        inputs: &Inputs,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Option<Value>, Failure> {
        if self.args.fresh {
            folder.clear()?;
            return Ok(None);
        }
        let state = folder.state(&plan.recipe_digest);
        if state == State::Unused {
            return Ok(None);
        }
        let changed = changes(folder, plan, inputs);
        match state {
            State::Finished(result) if changed.is_empty() => return Ok(Some(result)),
            _ if changed.is_empty() || self.args.extend => {}
            _ if self.args.all.is_some() => {
                notify(Notice::Remark(&format!("trains anew, for {} changed", changed.join(", "))));
                folder.start_over()?;
                return Ok(None);
            }
            _ => {}
        }
        if self.args.resumes() { Ok(None) } else { Err(used(folder.path(), &changed)) }
    }

    /// The evaluation that belongs to the adapter, if the lock says that it does.
    fn kept_score(&self, plan: &Plan, inputs: &Inputs) -> Option<Value> {
        let run = Path::new(&plan.machine.paths.output);
        let entry = lock::Place::of(plan)?.entry()?;
        let same = entry.inputs.differences(inputs).is_empty()
            && lock::adapter_digest(run, self.digests).as_ref() == Some(&entry.result.adapter);
        let kept = read_json(&run.join("evaluation.json")).filter(|_| same)?;
        (Score::of(&kept) == Some(entry.result.score?)).then(|| without_answers(kept))
    }

    /// Base and adapter on the test set; the answers themselves stay in the run's evaluation.json.
    fn score(&self, plan: &Plan, notify: &mut dyn FnMut(Notice)) -> Result<Value, Failure> {
        let adapter = adapter::of_run(plan).ok_or_else(|| adapter::not_trained(plan))?;
        let plan = adapter::asking(plan.clone(), Request::Evaluate { adapter: Some(adapter) });
        self.carry_out(&plan, Home::of(&plan)?, notify).map(without_answers)
    }

    fn carry_out(&self, plan: &Plan, home: Home, notify: &mut dyn FnMut(Notice)) -> Result<Value, Failure> {
        carry_out_with(plan, home, &self.args.supervision, self.global, self.warm.as_ref(), notify)
    }

    /// What was made of what, into the run's folder and into the expert's lock.
    fn enter(
        &self,
        plan: &Plan,
        inputs: &Inputs,
        result: &Value,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), Failure> {
        let run = Path::new(&plan.machine.paths.output);
        let Some(adapter) = lock::adapter_digest(run, self.digests) else { return Ok(()) };
        if lock::begun_with(run).as_ref() != Some(inputs) {
            lock::note_inputs(run, inputs)?;
        }
        let Some(place) = lock::Place::of(plan) else { return Ok(()) };
        let before = place.entry().filter(|entry| entry.inputs.differences(inputs).is_empty());
        if self.args.locked {
            if before.is_some_and(|entry| entry.result.adapter != adapter) {
                notify(Notice::Remark(
                    "made of what the lock says, with other last bits: another processor, thread count or torch",
                ));
            }
            return Ok(());
        }
        let score = Score::of(&result["evaluation"]);
        let same = before.filter(|entry| entry.result.adapter == adapter);
        let score = score.or_else(|| same.and_then(|entry| entry.result.score));
        let result = Outcome {
            adapter,
            steps: result["steps"].as_u64(),
            device: plan.machine.device.kind.as_str().to_owned(),
            threads: used_threads(run, plan),
            score,
        };
        place.write(&Entry { inputs: inputs.clone(), result })
    }
}

/// What differs between the run in the folder and this plan, in a few words each.
fn changes(folder: &RunFolder, plan: &Plan, inputs: &Inputs) -> Vec<String> {
    let begun = lock::begun_with(folder.path());
    let mut changed: Vec<String> =
        begun.iter().flat_map(|begun| begun.differences(inputs)).map(|it| it.what).collect();
    let other_recipe = folder.recipe_digest().is_some_and(|recipe| recipe != plan.recipe_digest);
    if other_recipe && !changed.iter().any(|what| what == lock::RECIPE) {
        changed.push(lock::RECIPE.to_owned());
    }
    changed
}

/// Another number of threads rounds otherwise: a run that goes on keeps its own.
fn keep_threads(folder: &RunFolder, plan: &mut Plan) {
    if folder.recipe_digest().is_some() {
        plan.machine.threads.compute = used_threads(folder.path(), plan);
    }
}

fn used_threads(run: &Path, plan: &Plan) -> Option<u32> {
    let before = read_json(&run.join("plan.json"));
    let before = before.and_then(|before| before["machine"]["threads"]["compute"].as_u64());
    before.and_then(|threads| u32::try_from(threads).ok()).or(plan.machine.threads.compute)
}

fn without_answers(mut evaluation: Value) -> Value {
    if let Some(report) = evaluation.as_object_mut() {
        report.remove("failures");
        report.remove("gains");
    }
    evaluation
}

/// Told before hours of training, not after.
fn refuse_without_test_set(plan: &Plan) -> Result<(), Failure> {
    if has_test_set(plan) {
        return Ok(());
    }
    Err(Failure::bad_input("no-test-set", "there is nothing to score on: the manifest names no test set")
        .hint("set training.dataset.test_path or evaluation.test_cases, or leave --evaluate out"))
}

pub fn has_test_set(plan: &Plan) -> bool {
    !plan.recipe.data.test.is_empty() || !plan.recipe.evaluation.test_cases.is_empty()
}

fn used(path: &Path, changed: &[String]) -> Failure {
    let since = if changed.is_empty() {
        String::new()
    } else {
        format!(", and since then {} changed", changed.join(", "))
    };
    Failure::bad_input("output-used", format!("{} holds an earlier run{since}", path.display()))
        .hint("--resume goes on with it, --fresh removes it, -o names another folder")
}

impl Args {
    pub fn resumes(&self) -> bool {
        self.resume.is_some() || self.extend
    }

    /// A shelf is scored as far as there are test sets.
    pub fn evaluates(&self, plan: &Plan) -> bool {
        self.evaluate || (self.all.is_some() && !self.no_evaluate && has_test_set(plan))
    }

    pub fn request(&self, plan: &Plan) -> Request {
        let resume = match &self.resume {
            Some(path) if path != Path::new("auto") => Resume::Checkpoint { path: absolute(path) },
            Some(_) => Resume::Newest,
            None if self.extend => Resume::Newest,
            None => Resume::Nothing,
        };
        let evaluate = self.evaluates(plan);
        Request::Train { resume, extend: self.extend, evaluate, profile: self.profile }
    }
}
