//! What the driver of a shelf and a task on one of the cluster's nodes say to each other.

use std::path::{Path, PathBuf};

use expert_contract::event::Event;
use expert_contract::exit::Exit;
use expert_contract::manifest::Options;
use expert_contract::paths;
use expert_contract::plan::{Code, DeviceKind, Machine, Paths};
use expert_contract::read::load;
use expert_contract::resolve::{Place, Resolved};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::lock::inputs::tokenized_rows;
use crate::sys::paths::{absolute, file_name, portable};
use crate::train::options::RunOptions;
use crate::worker::Quiet;

/// The one line on a task's standard input.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// The code that the shelf is trained by: a node with other code is refused.
    pub code: Code,
    /// None only compares the code.
    pub training: Option<Training>,
}

/// One expert of the shelf, as `train --all` would train it on the driver's machine.
#[derive(Serialize, Deserialize)]
pub struct Training {
    pub options: PlanOptions,
    pub run: RunOptions,
    pub no_evaluate: bool,
    /// As on the driver's machine, where their number is part of rounding.
    pub threads: Option<u32>,
    pub stall_seconds: Option<f64>,
    /// The lease of a task that was lost, which may be taken over at once. The driver writes it.
    pub succeeds: Option<u64>,
}

/// The paths of an expert whose data goes to a store and whose run comes back from it.
#[derive(Debug, PartialEq, Serialize)]
pub struct StoredPaths {
    /// The run's name in the store.
    expert: String,
    expert_dir: String,
    manifest: String,
    run: String,
    cache: String,
    /// Files and folders: data, further test sets, a base's folder, an adapter to start from, rows of another tool, and every
    /// file that a key of the manifest names.
    inputs: Vec<String>,
}

impl StoredPaths {
    pub fn of(resolved: &Resolved, folder: &Path) -> Self {
        let Paths { manifest, expert_dir, output, cache, base, data, initial_adapter, .. } =
            resolved.machine.paths.clone();
        let place = Path::new(&expert_dir);
        let shelf = PathBuf::from(absolute(folder));
        let name = place.strip_prefix(&shelf).map_or_else(|_| file_name(place), portable);
        let tokenized =
            tokenized_rows(&resolved.machine).map(|(_, rows)| rows.to_string_lossy().into_owned());
        // A node reads a base of the Hub from its own cache.
        let base = base.filter(|_| !matches!(resolved.base.place, Place::Hub { .. }));
        let test_sets = resolved.test_sets.values().flat_map(|set| set.files.values().cloned());
        let inputs = data
            .into_values()
            .chain(test_sets)
            .chain(base)
            .chain(initial_adapter)
            .chain(tokenized)
            .chain(named(Path::new(&manifest)));
        let expert = format!("{name}/{}", file_name(Path::new(&output)));
        Self { expert, expert_dir, manifest, run: output, cache, inputs: inputs.collect() }
    }
}

/// A node reads the manifest again, and what the plan has as a text: templates, grammars, test cases, the scorer.
fn named(manifest: &Path) -> Vec<String> {
    let read_as = Options { anywhere: true, ..Options::default() };
    let loaded = load(manifest, &read_as).manifest;
    let files = loaded.iter().flat_map(paths::named_files).filter(|file| file.is_file());
    files.map(|file| absolute(&file)).collect()
}

/// One line of a task's standard output. The last one is `Trained`, `Failed` or `SameCode`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Event(Box<Event>),
    Unparsed(String),
    Remark(String),
    Quiet(Quiet),
    /// The token of the lease that the task has taken.
    Lease(u64),
    /// The token of the lease by which the task has left its whole run in the store. What follows is the way back.
    Stored(u64),
    /// From the driver: the expert trains again elsewhere.
    Lost(String),
    Trained {
        before: bool,
        /// It was finished before, and has new scores.
        #[serde(default)]
        scored: bool,
        result: Value,
    },
    Failed(Failed),
    SameCode,
}

#[derive(Serialize, Deserialize)]
pub struct Failed {
    exit: u8,
    code: String,
    message: String,
    hint: Option<String>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        let Failure { exit, code, message, hint, .. } = failure;
        Self { exit: exit.code(), code, message, hint }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        let Failed { exit, code, message, hint } = failed;
        Self { hint, ..Self::new(Exit::from_code(exit.into()), code, message) }
    }
}

/// What one task takes of a node.
#[derive(Debug, PartialEq, Serialize)]
pub struct Resources {
    cpus: u32,
    gpus: f64,
    /// Of main memory, in bytes; 0 where the plan does not estimate it.
    memory: u64,
}

impl Resources {
    /// By the plan's threads, processes and memory estimate.
    pub fn of(machine: &Machine) -> Self {
        let cpus = machine.threads.compute.unwrap_or(1);
        let on_cpu = machine.device.kind == DeviceKind::Cpu;
        let gpus = match &machine.distributed {
            _ if machine.device.kind != DeviceKind::Cuda => 0.0,
            Some(distributed) => f64::from(distributed.processes),
            None => fraction(machine.estimate.total, machine.device.memory_bytes),
        };
        Self { cpus, gpus, memory: if on_cpu { machine.estimate.total } else { 0 } }
    }
}

/// Of a GPU, in hundredths. The estimate may be short by a tenth.
fn fraction(needed: u64, memory: Option<u64>) -> f64 {
    const MARGIN: f64 = 1.1;
    match memory {
        Some(memory @ 1..) => {
            let share = MARGIN * needed as f64 / memory as f64;
            ((share * 100.0).ceil() / 100.0).clamp(0.01, 1.0)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use expert_contract::plan::{Device, Distributed, DistributedStrategy, Plan};

    use super::*;

    #[test]
    fn a_task_takes_what_the_plan_estimates() {
        const GIB: u64 = 1 << 30;
        let text = include_str!("../../../../tests/examples/plan.json");
        let mut machine = serde_json::from_str::<Plan>(text).unwrap().machine;
        machine.estimate.total = 3 * GIB;
        machine.threads.compute = Some(2);
        assert_eq!(Resources::of(&machine), Resources { cpus: 2, gpus: 0.0, memory: 3 * GIB });
        let card = |memory| Device { kind: DeviceKind::Cuda, memory_bytes: memory, ..machine.device.clone() };
        let mut on_gpu = machine.clone();
        on_gpu.threads.compute = None;
        for (memory, gpus) in [(Some(24 * GIB), 0.14), (Some(2 * GIB), 1.0), (None, 1.0)] {
            on_gpu.device = card(memory);
            assert_eq!(Resources::of(&on_gpu), Resources { cpus: 1, gpus, memory: 0 });
        }
        on_gpu.distributed = Some(Distributed { strategy: DistributedStrategy::Ddp, processes: 4 });
        assert_eq!(Resources::of(&on_gpu), Resources { cpus: 1, gpus: 4.0, memory: 0 });
    }
}
