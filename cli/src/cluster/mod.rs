//! `plan --all --cluster`: how long a shelf takes on machines that are not here, and what it costs.

mod nodes;
mod simulate;
mod text;

use std::path::{Path, PathBuf};
use std::thread;

use expert_contract::exit::Exit;
use expert_contract::resolve::Resolved;
use serde::Serialize;
use serde_json::{Value, json};

use self::nodes::{Device, Kind};
use self::simulate::{Gain, Job, Outcome, Placed};
use crate::args::{DeviceChoice, PlanOptions};
use crate::experts;
use crate::failure::Failure;
use crate::next;
use crate::plan::{Here, Reads, prepare_here};
use crate::sys::host::cores;
use crate::train::{Slots, Timed, timed};
use crate::ui::Console;

/// An expert of the shelf, and what is known of it.
struct Expert {
    name: String,
    manifest: PathBuf,
    known: Result<Known, Failure>,
}

struct Known {
    resolved: Resolved,
    /// For each kind of node, the memory that the expert lacks there; None where it fits.
    lacks: Vec<Option<Lack>>,
    timed: Option<Timed>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[expect(clippy::struct_field_names, reason = "as --json has them")]
struct Lack {
    needed_bytes: u64,
    memory_bytes: u64,
    /// What the plan compares with.
    usable_bytes: u64,
}

/// What is shown.
struct Found<'a> {
    kinds: &'a [Kind],
    experts: &'a [Expert],
    /// Experts of known length that fit at least one kind: each job's expert.
    of_job: Vec<usize>,
    outcome: Outcome,
    gains: Vec<Gain>,
    best: Option<usize>,
    bound: Option<(usize, f64)>,
    /// Those that no run was measured for.
    unmeasured: Vec<usize>,
    /// Those that fit no kind.
    too_large: Vec<usize>,
}

pub fn run(folder: &Path, file: &Path, options: &PlanOptions, console: &Console) -> Result<Exit, Failure> {
    let kinds = nodes::load(file, console)?;
    let manifests = experts::some_below(folder)?;
    let mut experts = read(&manifests, &kinds, options, console);
    for expert in &experts {
        if let Err(failure) = &expert.known {
            console.trouble(&expert.name, failure);
        }
    }
    let machines: Vec<_> =
        experts.iter().filter_map(|it| Some(&it.known.as_ref().ok()?.resolved.machine)).collect();
    let share = Slots::of(&machines, None).share(0);
    for known in experts.iter_mut().filter_map(|it| it.known.as_mut().ok()) {
        known.timed = timed(&known.resolved, &share);
    }
    let found = plan(&kinds, &experts);
    refuse_where_none_fits(&found)?;
    if console.json {
        console.document(&document(&found, options));
    } else {
        text::show(&found, folder, options, console);
    }
    let failed = experts.iter().any(|it| it.known.is_err());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Manifests and data are read side by side: a shelf may have thousands.
fn read(manifests: &[PathBuf], kinds: &[Kind], options: &PlanOptions, console: &Console) -> Vec<Expert> {
    let part = manifests.len().div_ceil(cores().max(1) as usize).max(1);
    let read_one = |manifest: &PathBuf| Expert {
        name: experts::folder_name(manifest),
        manifest: manifest.clone(),
        known: known(manifest, kinds, options, console),
    };
    let read_part = |part: &[PathBuf]| part.iter().map(read_one).collect::<Vec<_>>();
    thread::scope(|scope| {
        let parts: Vec<_> = manifests.chunks(part).map(|part| scope.spawn(move || read_part(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

fn known(
    manifest: &Path,
    kinds: &[Kind],
    options: &PlanOptions,
    console: &Console,
) -> Result<Known, Failure> {
    let muted = Console { warns: false, quiet: true, ..*console };
    let own = PlanOptions { manifest: Some(manifest.to_owned()), expert: None, ..options.clone() };
    let here = prepare_here(&own, Reads::TrainingData, Here::default(), &muted)?.resolved;
    let mut lacks: Vec<Option<Lack>> = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let same = |it: &Kind| it.device == kind.device && it.memory == kind.memory;
        let before = kinds[..index].iter().position(same).map(|it| lacks[it]);
        let lack = match before {
            Some(lack) => lack,
            None if kind.device == Device::Here && kind.memory.is_none() => lack(&here),
            None => lack(&on(kind, &own, &muted)?),
        };
        lacks.push(lack);
    }
    Ok(Known { resolved: here, lacks, timed: None })
}

/// The plan as it would be made on a node of this kind.
fn on(kind: &Kind, options: &PlanOptions, console: &Console) -> Result<Resolved, Failure> {
    let mut options = options.clone();
    match &kind.device {
        Device::Here => {}
        Device::Cpu => options.device = DeviceChoice::Cpu,
        Device::Card(card) => options.card = Some(card.clone()),
    }
    let here = Here { memory: kind.memory, ..Here::default() };
    Ok(prepare_here(&options, Reads::Nothing, here, console)?.resolved)
}

/// Even one row at a time has no room.
fn lack(resolved: &Resolved) -> Option<Lack> {
    let machine = &resolved.machine;
    (resolved.largest_micro_batch == Some(0)).then(|| Lack {
        needed_bytes: machine.estimate.total,
        memory_bytes: machine.device.memory_bytes.unwrap_or_default(),
        usable_bytes: resolved.usable_memory.unwrap_or_default(),
    })
}

fn plan<'a>(kinds: &'a [Kind], experts: &'a [Expert]) -> Found<'a> {
    let nodes: Vec<_> = kinds.iter().map(|kind| kind.nodes.clone()).collect();
    let (mut jobs, mut of_job, mut unmeasured, mut too_large) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, expert) in experts.iter().enumerate() {
        let Ok(known) = &expert.known else { continue };
        let fits: Vec<bool> = known.lacks.iter().map(Option::is_none).collect();
        match &known.timed {
            _ if !fits.contains(&true) => too_large.push(index),
            None => unmeasured.push(index),
            Some(timed) => {
                jobs.push(Job { seconds: timed.seconds, save_seconds: timed.save_seconds, fits });
                of_job.push(index);
            }
        }
    }
    let outcome = simulate::simulate(&jobs, &nodes);
    let gains = simulate::one_more(&jobs, &nodes, &outcome);
    let best = simulate::best(&gains, outcome.makespan);
    let bound = simulate::bound(&jobs, &nodes);
    Found { kinds, experts, of_job, outcome, gains, best, bound, unmeasured, too_large }
}

/// Not one expert of the shelf has room on any kind of node.
fn refuse_where_none_fits(found: &Found) -> Result<(), Failure> {
    let readable = found.experts.iter().filter(|it| it.known.is_ok()).count();
    if readable == 0 || found.too_large.len() < readable {
        return Ok(());
    }
    let lacks = |it: &Expert| it.known.as_ref().ok()?.lacks.iter().flatten().map(|it| it.needed_bytes).min();
    let least = found.experts.iter().filter_map(lacks).min().unwrap_or_default();
    let message = "no expert fits the memory of any node, not even with one row at a time";
    Err(Failure::bad_input("no-node-fits", message).hint(format!(
        "the smallest needs {}: add a kind of node with more memory, or lower max_seq_length or quantize the base",
        crate::ui::number::bytes(least)
    )))
}

impl Found<'_> {
    fn expert(&self, placed: &Placed) -> &Expert {
        self.expert_of(placed.job)
    }

    fn expert_of(&self, job: usize) -> &Expert {
        &self.experts[self.of_job[job]]
    }

    fn timed(&self, placed: &Placed) -> Option<Timed> {
        self.expert(placed).known.as_ref().ok()?.timed
    }

    /// In words, why no node trains an expert of known length: it fits some kind, and never gets to its end there.
    fn unplaced(&self) -> impl Iterator<Item = (&Expert, &'static str)> {
        let reason =
            "it fits only nodes that do not train: with count 0, or interrupted before each checkpoint";
        self.outcome.unplaced.iter().map(move |job| (self.expert_of(*job), reason))
    }
}

/// The command after which the expert's time is known.
fn measuring(expert: &Expert, options: &PlanOptions) -> String {
    let own = PlanOptions { manifest: Some(expert.manifest.clone()), expert: None, ..options.clone() };
    next::command("train", &own, "--max-steps 10 -o DIR")
}

fn document(found: &Found, options: &PlanOptions) -> Value {
    let Outcome { makespan, cost, .. } = &found.outcome;
    let nodes = found.kinds.iter().enumerate().map(|(index, kind)| {
        json!({
            "name": kind.name,
            "count": kind.nodes.count,
            "speed": kind.nodes.speed,
            "experts_at_once": kind.nodes.experts_at_once,
            "used": found.outcome.used[index],
            "busy": found.outcome.busy[index],
            "one_more": {
                "experts_added": found.gains[index].experts,
                "seconds_saved": found.gains[index].seconds,
                "cost_added": found.gains[index].cost,
            },
        })
    });
    let experts = found.outcome.placed.iter().map(|placed| {
        let timed = found.timed(placed);
        json!({
            "expert": found.expert(placed).name,
            "node": found.kinds[placed.kind].name,
            "number": placed.node,
            "begin": placed.begin,
            "end": placed.end,
            "preemptions": placed.preemptions,
            "steps": timed.map(|it| it.steps),
            "seconds_here": timed.map(|it| it.seconds),
            "measured_at": timed.map(|it| it.measured_at),
        })
    });
    let unmeasured = found.unmeasured.iter().map(|index| {
        let expert = &found.experts[*index];
        json!({"expert": expert.name, "measure": measuring(expert, options)})
    });
    let lacks = |expert: &Expert| -> Vec<Value> {
        let lacks = expert.known.as_ref().map(|it| it.lacks.clone()).unwrap_or_default();
        let named = found.kinds.iter().zip(lacks);
        named.filter_map(|(kind, lack)| Some(json!({"node": kind.name, "memory": lack?}))).collect()
    };
    let too_large = found.too_large.iter().map(|index| &found.experts[*index]);
    let unplaced = too_large
        .map(|it| json!({"expert": it.name, "reason": "it fits no node"}))
        .chain(found.unplaced().map(|(expert, reason)| json!({"expert": expert.name, "reason": reason})));
    let does_not_fit = found.experts.iter().filter_map(|it| {
        let lacks = lacks(it);
        (!lacks.is_empty()).then(|| json!({"expert": it.name, "lacks": lacks}))
    });
    let failed = found.experts.iter().filter_map(|it| {
        let failure = it.known.as_ref().err()?;
        Some(json!({"expert": it.name, "error": {"code": failure.cause(), "message": failure.message, "hint": failure.hint}}))
    });
    json!({
        "ok": found.experts.iter().all(|it| it.known.is_ok()),
        "makespan_seconds": makespan,
        "cost": cost,
        "last": found.outcome.last().map(|it| &found.expert(it).name),
        "nodes": nodes.collect::<Vec<_>>(),
        "buy": found.best.map(|kind| &found.kinds[kind].name),
        "longest": found.bound.map(|(job, seconds)| json!({"expert": found.expert_of(job).name, "seconds": seconds})),
        "experts": experts.collect::<Vec<_>>(),
        "not_measured": unmeasured.collect::<Vec<_>>(),
        "not_placed": unplaced.collect::<Vec<_>>(),
        "does_not_fit": does_not_fit.collect::<Vec<_>>(),
        "failed": failed.collect::<Vec<_>>(),
    })
}
