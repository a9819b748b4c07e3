//! How fast runs of one shape were on this machine, kept in the home folder for the plans that follow.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use expert_contract::digest;
use expert_contract::event::Recorded;
use expert_contract::plan::{Duration, Machine, Recipe};
use expert_contract::resolve::StepEstimate;
use expert_contract::results::TrainResult;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::recorded;
use crate::sys::durable;
use crate::sys::files::read_json;
use crate::sys::host;
use crate::sys::paths::portable;

/// Between the first and the last step, without validation and saving.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    pub steps_per_second: f64,
    pub tokens_per_second: f64,
    /// Seconds since the epoch.
    pub measured_at: f64,
}

impl Speed {
    pub fn of(result: &TrainResult) -> Option<Self> {
        let (tokens, steps) = (result.tokens? as f64, result.steps? as f64);
        let tokens_per_second = result.tokens_per_second?;
        let steps_per_second = tokens_per_second * steps / tokens;
        let known = steps_per_second.is_finite() && steps_per_second > 0.0;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        known.then_some(Self { steps_per_second, tokens_per_second, measured_at: now })
    }

    /// The newest one of the same shape.
    pub fn find(recipe: &Recipe, machine: &Machine) -> Option<Self> {
        let found: Self = read_json(&place(recipe, machine))?;
        let is_speed = |value: f64| value.is_finite() && value > 0.0;
        (is_speed(found.steps_per_second) && is_speed(found.tokens_per_second)).then_some(found)
    }

    /// For later plans, which do without it where it cannot be written.
    pub fn keep(&self, recipe: &Recipe, machine: &Machine) {
        let _ = durable::write_json(&place(recipe, machine), self);
    }
}

/// One file per shape: what decides the time of a step.
fn place(recipe: &Recipe, machine: &Machine) -> PathBuf {
    let (adapter, batch) = (&recipe.adapter, &recipe.batch);
    let shape = digest::of(&json!({
        "base": base_key(recipe, machine),
        "adapter": [adapter.kind, adapter.rank, adapter.target_modules, adapter.dropout > 0.0],
        "batch": [batch.rows_per_step, batch.max_seq_length, batch.packing, batch.group_by_length],
        "optimizer": recipe.optimizer.name,
        "processor": host::processor(),
        "device": device_key(machine),
        "dtype": [machine.dtype, machine.fp32_products],
        "micro_batch": machine.micro_batch,
        "distributed": machine.distributed,
        "kernels": [machine.fast_path, machine.flash_attention, machine.sdpa, machine.kernels, machine.piece_tokens],
        "checkpointing": machine.checkpointing,
        "compile": [json!(machine.compile), json!(machine.cuda_graphs)],
        "threads": machine.threads,
        "loader": machine.loader.use_cache,
    }));
    Path::new(&machine.paths.home).join("speeds").join(format!("{}.json", &shape[..32]))
}

/// Which base was measured, and how it is loaded. A name says nothing of a base in a folder, and one folder may be written in
/// several ways.
pub fn base_key(recipe: &Recipe, machine: &Machine) -> Value {
    let base = &recipe.base;
    let whole = |path: &String| fs::canonicalize(path).map_or_else(|_| path.clone(), |it| portable(&it));
    let place = machine.paths.base.as_ref().map_or_else(|| base.name.clone(), whole);
    json!([place, base.quantization, base.rope_scaling])
}

/// Which device was measured. Another one of its name is as fast, however much of its memory is free.
pub fn device_key(machine: &Machine) -> Value {
    json!([machine.device.kind, machine.device.name])
}

/// What a plan's steps will take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Projection {
    /// Steps per second are those of the plan's own rows where they are known: packed rows are as long in every run, others
    /// take the time of their tokens.
    #[serde(flatten)]
    pub speed: Speed,
    /// Tokens of a row in the measured run, where those of the plan are not known.
    pub measured_row_tokens: Option<f64>,
    pub seconds_per_epoch: f64,
    pub seconds: f64,
    pub cost: Option<f64>,
}

impl Projection {
    pub fn of(speed: Speed, recipe: &Recipe, steps: &StepEstimate, price_per_hour: Option<f64>) -> Self {
        let batch = &recipe.batch;
        let epoch = steps.rows.div_ceil(batch.rows_per_step).max(1) as f64;
        let rows_per_second = speed.steps_per_second * batch.rows_per_step as f64;
        let (speed, measured_row_tokens) = match steps.tokens.filter(|tokens| steps.counted && *tokens > 0) {
            _ if batch.packing => (speed, None),
            None => (speed, Some(speed.tokens_per_second / rows_per_second)),
            Some(tokens) => {
                let tokens_per_step = tokens as f64 / steps.rows.max(1) as f64 * batch.rows_per_step as f64;
                (Speed { steps_per_second: speed.tokens_per_second / tokens_per_step, ..speed }, None)
            }
        };
        let seconds = steps.steps as f64 / speed.steps_per_second;
        Self {
            speed,
            measured_row_tokens,
            seconds_per_epoch: epoch / speed.steps_per_second,
            seconds,
            cost: price_per_hour.map(|price| cost(seconds, price)),
        }
    }
}

pub fn cost(seconds: f64, price_per_hour: f64) -> f64 {
    seconds / 3600.0 * price_per_hour
}

/// Two decimals, or more where the amount is small.
pub fn amount(cost: f64) -> String {
    if cost < 0.1 { format!("{cost:.4}") } else { format!("{cost:.2}") }
}

/// Of the finished run in this folder, where its length is given in epochs. One that stopped early has made fewer of them.
pub fn seconds_per_epoch(result: &TrainResult, recipe: &Recipe, run: &Path) -> Option<f64> {
    let in_epochs = matches!(recipe.schedule.duration, Duration::Epochs(_));
    if !in_epochs || result.resumed_from.is_some() {
        return None;
    }
    let made = recorded(run).filter(Recorded::is_step).filter_map(|event| event.body.epoch).last()?;
    (made > 0.0).then_some(result.seconds? / made)
}

#[cfg(test)]
mod tests {
    use expert_contract::plan::Plan;

    use super::*;

    #[test]
    fn a_speed_is_that_of_every_device_of_its_name() {
        let example = include_str!("../../../tests/examples/plan.json");
        let Plan { recipe, machine, .. } = serde_json::from_str(example).unwrap();
        let measured = place(&recipe, &machine);
        let mut other = machine;
        other.device.index += 1;
        other.device.memory_bytes = Some(1);
        assert_eq!(place(&recipe, &other), measured);
        other.device.name.push('x');
        assert_ne!(place(&recipe, &other), measured);
    }

    /// Rows of 25 tokens were measured.
    #[test]
    fn rows_that_are_counted_take_the_time_of_their_tokens() {
        let example = include_str!("../../../tests/examples/plan.json");
        let mut recipe = serde_json::from_str::<Plan>(example).unwrap().recipe;
        let mut projected = |packing: bool, counted: bool| {
            recipe.batch.packing = packing;
            recipe.batch.rows_per_step = 8;
            let speed = Speed { steps_per_second: 0.5, tokens_per_second: 100.0, measured_at: 0.0 };
            let steps = StepEstimate { steps: 60, rows: 80, tokens: Some(80 * 100), exact: counted, counted };
            let found = Projection::of(speed, &recipe, &steps, Some(3600.0));
            (found.seconds, found.seconds_per_epoch, found.cost.unwrap(), found.measured_row_tokens)
        };
        let as_measured = |row_tokens| (120.0, 20.0, 120.0, row_tokens);
        assert_eq!(projected(false, true), (480.0, 80.0, 480.0, None));
        assert_eq!(projected(false, false), as_measured(Some(25.0)));
        // Every run packs as many tokens into a row.
        assert_eq!([true, false].map(|counted| projected(true, counted)), [as_measured(None); 2]);
    }
}
