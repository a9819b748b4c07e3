//! Runs a plan over its folder, for every command that trains.

use std::sync::{Mutex, PoisonError};

use expert_contract::manifest::EMBEDDED;
use expert_contract::plan::{Inputs, Machine, Plan, Recipe, Request, Resume};
use expert_contract::results::{BaseResult, TrainResult};
use serde_json::Value;

use super::decide::{Asked, Decision, Now, decide};
use super::refusal::report_to_ranks;
use crate::args::{Global, Supervision};
use crate::failure::Failure;
use crate::lock;
use crate::run::RunFolder;
use crate::sys::digests::Digests;
use crate::sys::launcher::Rank;
use crate::worker::{self, FusedGroup, Home, Notice, Start, Warm, carry_out_with};

/// How one expert's training ended.
pub enum Trained {
    Trained(Value),
    /// The same run was finished before.
    AlreadyDone {
        result: Value,
        /// Now: its scores are new.
        scored: bool,
    },
}

impl Trained {
    /// As the worker reported it.
    pub fn document(&self) -> &Value {
        match self {
            Self::Trained(result) | Self::AlreadyDone { result, .. } => result,
        }
    }

    pub fn result(&self) -> Result<TrainResult, Failure> {
        worker::result(self.document())
    }

    pub fn was_finished_before(&self) -> bool {
        !matches!(self, Self::Trained(_))
    }

    /// With scores that were made now.
    pub(super) fn scored(self, value: Value) -> Self {
        let mut with_scores = match self {
            Self::AlreadyDone { result, .. } => Self::AlreadyDone { result, scored: true },
            other @ Self::Trained(_) => other,
        };
        with_scores.add_evaluation(value);
        with_scores
    }

    pub(super) fn add_evaluation(&mut self, value: Value) {
        let (Self::Trained(result) | Self::AlreadyDone { result, .. }) = self;
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
    /// Which of a launcher's processes this one trains as.
    pub rank: Option<Rank>,
}

impl Runner<'_> {
    /// Carries out the plan's training, unless its folder says that there is nothing to do or that it must not be touched.
    /// Returns the plan as it was carried out, too. `group`: the experts that train in the same worker.
    pub fn train(
        &self,
        folder: &RunFolder,
        plan: Plan,
        inputs: &Inputs,
        asked: Asked,
        group: Option<&FusedGroup>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Trained, Plan), Failure> {
        let now = Now { recipe: &plan.recipe, paths: &plan.machine.paths, inputs, typed: &plan.typed };
        match self.or_report_to_ranks(decide(folder.path(), &now, asked))? {
            Decision::Done { result, remark } => {
                if let Some(remark) = &remark {
                    notify(Notice::Remark(remark));
                }
                Ok((Trained::AlreadyDone { result, scored: false }, plan))
            }
            decision => {
                let plan = Plan { inputs: Some(inputs.clone()), ..plan };
                let ready = made_ready(folder, plan, decision, asked.resume, notify);
                let plan = self.or_report_to_ranks(ready)?;
                let result = self.run(folder, &plan, group, notify)?;
                Ok((Trained::Trained(result), plan))
            }
        }
    }

    /// Before the worker joins the others: ranks that wait for this one learn why it does not come.
    pub fn or_report_to_ranks<T>(&self, ready: Result<T, Failure>) -> Result<T, Failure> {
        ready.inspect_err(|failure| {
            if let Some(rank) = self.rank {
                report_to_ranks(rank, failure, self.global);
            }
        })
    }

    pub fn inputs(&self, recipe: &Recipe, machine: &Machine) -> Inputs {
        lock::inputs::here(recipe, machine, self.global.python.as_deref(), self.digests)
    }

    /// Downloads the base and the Hub datasets that are not on this machine yet: they have no digest, and nothing could
    /// be compared with them. Returns the base's folder; None where nothing was fetched, or the base comes with the worker.
    pub fn fetch(
        &self,
        recipe: &Recipe,
        machine: &Machine,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Option<String>, Failure> {
        static FETCHING: Mutex<()> = Mutex::new(());
        let is_here = || {
            lock::inputs::base_is_here(&recipe.base.name, &machine.paths)
                && lock::inputs::hub_datasets_are_here(recipe)
        };
        if is_here() {
            return Ok(None);
        }
        let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        if is_here() {
            return Ok(None);
        }
        let fetching = Plan::new(recipe.clone(), machine.clone(), Request::Base);
        let result = self.carry_out(&fetching, Home::of(&fetching)?, notify)?;
        if recipe.base.name == EMBEDDED {
            return Ok(None);
        }
        Ok(worker::result::<BaseResult>(&result)?.folder)
    }

    /// A run that cannot start leaves the one before as it was; one that has made a step keeps it as `previous/`.
    fn run(
        &self,
        folder: &RunFolder,
        plan: &Plan,
        group: Option<&FusedGroup>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Value, Failure> {
        let start = Start { warm: self.warm.as_ref(), rank: self.rank, group };
        let home = Home::Run(folder.clone());
        let result = carry_out_with(plan, home, self.supervision, self.global, start, notify);
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
        let start = Start { warm: self.warm.as_ref(), rank: None, group: None };
        carry_out_with(plan, home, self.supervision, self.global, start, notify)
    }
}

/// The plan with the run's own settings, and from where it begins.
fn made_ready(
    folder: &RunFolder,
    plan: Plan,
    decision: Decision,
    resumes: bool,
    notify: &mut dyn FnMut(Notice),
) -> Result<Plan, Failure> {
    let Plan { machine, request, .. } = plan;
    let (remark, begun, machine) = match decision {
        Decision::Resume { arithmetic, remark } => (remark, true, arithmetic.restored(machine)),
        Decision::Replace { reason } => {
            folder.set_aside()?;
            (reason.map(|reason| format!("retraining: {reason}")), false, machine)
        }
        Decision::Begin | Decision::Done { .. } => (None, resumes, machine),
    };
    if let Some(remark) = &remark {
        notify(Notice::Remark(remark));
    }
    Ok(Plan { machine, request: from_where(request, begun), ..plan })
}

fn from_where(request: Request, begun: bool) -> Request {
    let Request::Train { resume, extend, evaluate, profile } = request else { return request };
    let resume = match (begun, resume) {
        (true, Resume::Nothing) => Resume::Newest,
        (false, _) => Resume::Nothing,
        (true, asked) => asked,
    };
    Request::Train { resume, extend, evaluate, profile }
}
