//! Runs a plan over its folder, for every command that trains.

use std::sync::{Mutex, PoisonError};

use expert_contract::manifest::EMBEDDED;
use expert_contract::plan::{Inputs, Plan, Request, Resume};
use expert_contract::results::{BaseResult, TrainResult};
use serde_json::Value;

use super::decide::{Asked, Decision, decide};
use crate::args::Global;
use crate::args::Supervision;
use crate::failure::Failure;
use crate::lock;
use crate::run::RunFolder;
use crate::run::adapter;
use crate::sys::digests::Digests;
use crate::worker::{self, Notice, Warm};
use crate::worker::{Home, carry_out_with};

/// How one expert's training ended.
pub enum Trained {
    Now(Value),
    /// The same run was finished before.
    Before(Value),
}

impl Trained {
    /// As the worker reported it.
    pub fn document(&self) -> &Value {
        match self {
            Self::Now(result) | Self::Before(result) => result,
        }
    }

    pub fn result(&self) -> Result<TrainResult, Failure> {
        worker::result(self.document())
    }

    pub(super) fn add_evaluation(&mut self, value: Value) {
        let (Self::Now(result) | Self::Before(result)) = self;
        if let Some(result) = result.as_object_mut() {
            result.insert("evaluation".to_owned(), value);
        }
    }
}

/// What every worker of one command shares.
pub struct Runner<'a> {
    pub supervision: &'a Supervision,
    pub global: &'a Global,
    pub digests: &'a Digests,
    pub warm: Option<Warm>,
}

impl Runner<'_> {
    /// Carries out the plan's training, unless its folder says that there is nothing to do or that it must not be touched.
    pub fn train(
        &self,
        folder: &RunFolder,
        plan: &mut Plan,
        inputs: &Inputs,
        asked: Asked,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure> {
        match decide(folder.path(), plan, inputs, asked)? {
            Decision::Done(result) => Ok(Trained::Before(result)),
            decision => {
                make_ready(folder, plan, decision, asked.resume, notify)?;
                plan.inputs = Some(inputs.clone());
                self.run(folder, plan, notify).map(Trained::Now)
            }
        }
    }

    pub fn inputs(&self, plan: &Plan) -> Inputs {
        lock::inputs::here(plan, self.global.python.as_deref(), self.digests)
    }

    /// A base that is not on this machine yet has no digest, and nothing could be compared with it.
    pub fn fetch_base(&self, plan: &mut Plan, notify: &mut dyn FnMut(Notice)) -> Result<(), Failure> {
        static FETCHING: Mutex<()> = Mutex::new(());
        if lock::inputs::base_is_here(plan) {
            return Ok(());
        }
        let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        if lock::inputs::base_is_here(plan) {
            return Ok(());
        }
        let fetching = adapter::asking(plan.clone(), Request::Base);
        let result = self.carry_out(&fetching, Home::of(&fetching)?, notify)?;
        if plan.recipe.base.name != EMBEDDED {
            plan.machine.paths.base = worker::result::<BaseResult>(&result)?.folder;
        }
        Ok(())
    }

    /// A run that cannot start leaves the one before as it was; one that has made a step keeps it as `previous/`.
    fn run(&self, folder: &RunFolder, plan: &Plan, notify: &mut dyn FnMut(Notice)) -> Result<Value, Failure> {
        let result = self.carry_out(plan, Home::Run(folder.clone()), notify);
        if result.is_ok() {
            folder.keep_as_previous()?;
        } else {
            folder.recover()?;
        }
        result
    }

    pub fn carry_out(
        &self,
        plan: &Plan,
        home: Home,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Value, Failure> {
        carry_out_with(plan, home, self.supervision, self.global, self.warm.as_ref(), notify)
    }
}

/// Sets the run's own settings, and from where it begins, into the plan.
fn make_ready(
    folder: &RunFolder,
    plan: &mut Plan,
    decision: Decision,
    resumes: bool,
    notify: &mut dyn FnMut(Notice),
) -> Result<(), Failure> {
    let (remark, begun) = match decision {
        Decision::Resume { arithmetic, remark } => {
            arithmetic.apply(&mut plan.machine);
            (remark, true)
        }
        Decision::Replace { remark } => {
            folder.set_aside()?;
            (remark, false)
        }
        Decision::Begin | Decision::Done(_) => (None, resumes),
    };
    if let Some(remark) = &remark {
        notify(Notice::Remark(remark));
    }
    if let Request::Train { resume, .. } = &mut plan.request {
        *resume = match (begun, resume.clone()) {
            (true, Resume::Nothing) => Resume::Newest,
            (false, _) => Resume::Nothing,
            (true, asked) => asked,
        };
    }
    Ok(())
}
