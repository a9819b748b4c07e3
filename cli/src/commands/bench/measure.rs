//! Trains a few steps of a plan in a separate worker, as a measurement.

use std::collections::BTreeMap;

use expert_contract::event::Body;
use expert_contract::plan::{self, DistributedStrategy, Plan, Request, Strategy};
use expert_contract::resolve::Resolved;
use expert_contract::results::{BenchResult, BenchStep, KernelChoice};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Global, Supervision, whole};
use crate::failure::Failure;
use crate::plan::steps;
use crate::ui::Console;
use crate::ui::number::seconds;
use crate::worker::{self, Home, Notice, Start, carry_out_with, interrupted};

/// Codes of the worker's warnings that it computes otherwise than the plan asks.
const NOT_APPLIED: [&str; 4] = ["not-compiled", "not-captured", "no-flash-attention", "eager-attention"];

/// How long measurements are.
#[derive(clap::Args, Debug, Clone)]
pub struct Extent {
    /// Steps of one measurement; the first warms up and is not counted
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<u64>(2..=1000))]
    pub steps: u64,
    /// Seconds after which one measurement is given up, without downloads and tokenizing
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole::<u64>(1..=86_400))]
    pub limit: u64,
}

/// The result of one measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    pub tokens_per_second: f64,
    /// None where the worker reports no single steps.
    pub steps_per_second: Option<f64>,
    pub peak_bytes: u64,
    pub ready_seconds: f64,
    pub first_step_seconds: f64,
    pub losses: Vec<f64>,
    /// Whether the longest batch fitted without being split.
    pub fits: bool,
    pub gpu_utilization: Option<f64>,
    /// By operation of the fast path; part of the details.
    #[serde(skip)]
    pub kernels: BTreeMap<String, KernelChoice>,
    /// What the plan asks for and the worker did not do: messages by code.
    #[serde(skip)]
    pub not_applied: BTreeMap<String, String>,
    /// The worker's whole document.
    pub details: Value,
}

impl Measured {
    /// The worker's reason, where a change to the `planned` run was not applied.
    pub fn without_the_change(&self, planned: &Self) -> Option<&str> {
        let mut own = self.not_applied.iter().filter(|(code, _)| !planned.not_applied.contains_key(*code));
        own.next().map(|(_, message)| message.as_str())
    }

    pub fn is_on_plain_path(&self) -> bool {
        self.details["applied"]["path"] == "plain"
    }
}

/// The plan as a measurement: a few steps, without saving, evaluation and tracking.
pub fn shortened(resolved: &Resolved, extent: &Extent) -> Plan {
    let mut recipe = resolved.recipe.clone();
    recipe.schedule.duration = plan::Duration::Steps(extent.steps);
    recipe.evaluation.strategy = Strategy::No;
    recipe.evaluation.best = None;
    recipe.saving.strategy = Strategy::No;
    let mut machine = resolved.machine.clone();
    machine.logging.trackers.clear();
    machine.mirror = None;
    Plan::new(recipe, machine, Request::Bench { limit_seconds: extent.limit as f64 })
}

/// One process makes a measurement: it holds no shards of a base, and takes all rows of a step.
pub fn check_processes(resolved: &Resolved, console: &Console) -> Result<(), Failure> {
    let Some(together) = resolved.machine.distributed else { return Ok(()) };
    if together.strategy == DistributedStrategy::Fsdp2 {
        let message = "the base is sharded (`distributed`: fsdp2), and a measurement is made by one process";
        return Err(Failure::bad_input("bench-sharded", message).hint(
            "where the base fits one device, measure with --set training.config.distributed=null; else compare runs with `bench compare`",
        ));
    }
    console.warn(
        &format!("measured in one process; {} will train", together.processes),
        Some("the time of the whole training is not shown: `plan` estimates it"),
    );
    Ok(())
}

pub fn measure(plan: &Plan, supervision: &Supervision, global: &Global) -> Result<Measured, Failure> {
    // Changes to the recipe were made after its digest was taken.
    let plan = Plan::new(plan.recipe.clone(), plan.machine.clone(), plan.request.clone());
    let mut not_applied = BTreeMap::new();
    let mut notify = |notice: Notice| {
        if let Notice::Event(event) = notice
            && let Body::Warning { code, message, .. } = &event.body
            && NOT_APPLIED.contains(&code.as_str())
        {
            not_applied.insert(code.clone(), message.clone());
        }
    };
    let result = carry_out_with(&plan, Home::of(&plan)?, supervision, global, Start::default(), &mut notify)?;
    measured(result)
        .map(|found| Measured { not_applied, ..found })
        .ok_or_else(|| Failure::bad_input("bench-result", "the worker's measurement has no speed"))
}

fn measured(details: Value) -> Option<Measured> {
    let result: BenchResult = worker::result(&details).ok()?;
    Some(Measured {
        tokens_per_second: result.tokens_per_second?,
        steps_per_second: steps_per_second(&result.steps),
        peak_bytes: result.peak_bytes?,
        ready_seconds: result.ready_seconds?,
        first_step_seconds: result.first_step_seconds?,
        losses: result.losses?.into_iter().flatten().collect(),
        fits: result.fits?,
        gpu_utilization: result.gpu_utilization,
        kernels: result.kernels,
        not_applied: BTreeMap::new(),
        details,
    })
}

/// Without the first step, which warms up, unless it is the only one.
fn steps_per_second(steps: &[BenchStep]) -> Option<f64> {
    let timed = steps.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(steps);
    let seconds: f64 = timed.iter().map(|step| step.seconds).sum();
    (seconds > 0.0).then_some(timed.len() as f64 / seconds)
}

/// The time that all steps of a plan take at a measured speed; none where several processes share a step.
#[derive(Debug, Clone, Copy)]
pub struct WholeTraining(Option<u64>);

impl WholeTraining {
    pub fn of(resolved: &Resolved) -> Self {
        let is_alone = resolved.machine.distributed.is_none();
        Self(steps(resolved).filter(|_| is_alone).map(|it| it.steps))
    }

    pub fn seconds(self, measured: &Measured) -> Option<f64> {
        Some(self.0? as f64 / measured.steps_per_second?)
    }

    pub fn text(self, measured: &Measured) -> String {
        self.seconds(measured).map_or_else(|| "-".to_owned(), seconds)
    }
}

/// Ctrl-C ends the whole series; any other failure ends only one measurement.
pub fn ends_all(failure: &Failure) -> bool {
    interrupted().is_some() || failure.code == "worker-missing" || failure.code == "worker-not-started"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_that_warms_up_does_not_count() {
        let steps = |seconds: &[f64]| -> Vec<BenchStep> {
            seconds.iter().map(|&seconds| BenchStep { seconds, ..BenchStep::default() }).collect()
        };
        assert_eq!(steps_per_second(&steps(&[30.0, 2.0, 2.0])), Some(0.5));
        assert_eq!(steps_per_second(&steps(&[4.0])), Some(0.25));
        assert_eq!(steps_per_second(&[]), None);
    }
}
