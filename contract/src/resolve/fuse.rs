//! Which experts can train in one pass through their base, and the memory that they need together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::fit::{USABLE, gibibytes};
use super::modules;
use super::outcome::Resolved;
use crate::budget::{self, Load};
use crate::plan::{AdapterKind, DeviceKind, Dtype, Machine, MemoryEstimate, Quantization, Tracker};

/// Why experts cannot be fused, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFused {
    pub message: String,
    pub hint: String,
}

/// The memory of the group: process and base once, and what each adapter adds.
pub fn fuse(experts: &[&Resolved]) -> Result<MemoryEstimate, NotFused> {
    let mut names = BTreeSet::new();
    for expert in experts {
        let name = &expert.recipe.expert;
        if !names.insert(name) {
            let hint = "name each expert once; a copied expert needs another `name` in its manifest";
            return Err(refused(format!("two of the experts have the name {name}"), hint));
        }
        if let Some(reason) = obstacle(expert) {
            return Err(refused(format!("{name} cannot be fused: {reason}"), "train it without --fuse"));
        }
    }
    if let Some((first, others)) = experts.split_first() {
        for other in others {
            if let Some(Difference { what, hint }) = difference(first, other) {
                let (one, two) = (&first.recipe.expert, &other.recipe.expert);
                return Err(refused(format!("{one} and {two} cannot be fused: {what}"), hint));
            }
        }
    }
    let estimate = together(experts);
    let memory = experts.first().and_then(|expert| expert.machine.device.memory_bytes);
    match memory {
        Some(memory) if estimate.total as f64 > memory as f64 * USABLE => {
            let (need, have) = (gibibytes(estimate.total), gibibytes(memory));
            let message = format!("{} experts fused need about {need} of {have}", experts.len());
            Err(refused(message, "fuse fewer experts, lower batch_size, or train them one after another"))
        }
        _ => Ok(estimate),
    }
}

fn refused(message: String, hint: &str) -> NotFused {
    NotFused { message, hint: hint.to_owned() }
}

/// What an expert has that no group computes.
fn obstacle(expert: &Resolved) -> Option<String> {
    let Resolved { recipe, machine, base, .. } = expert;
    let kind = recipe.adapter.kind;
    let plain = base.shape.as_ref().is_some_and(|shape| !shape.fast_path) || !machine.fast_path;
    let found = [
        (machine.device.kind == DeviceKind::Mps, format!("it would train on {}", machine.device.kind)),
        (machine.distributed.is_some(), "it trains in several processes".to_owned()),
        (!matches!(kind, AdapterKind::Lora | AdapterKind::Rslora), format!("its adapter is {kind}")),
        (
            recipe.base.quantization == Quantization::Int8,
            format!("its base is quantized to {}", recipe.base.quantization),
        ),
        (plain, "it takes the plain path".to_owned()),
        (machine.dtype == Dtype::Fp16, "it computes in fp16".to_owned()),
        (
            machine.compile.is_some() && machine.device.kind == DeviceKind::Cpu,
            "torch_compile is set".to_owned(),
        ),
        (recipe.optimizer.neftune.is_some(), "neftune is set".to_owned()),
        (
            machine.logging.trackers.contains(&Tracker::Wandb),
            "it reports to W&B, which follows one run per process".to_owned(),
        ),
    ];
    found.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
}

struct Difference {
    what: String,
    hint: &'static str,
}

impl Difference {
    fn of(what: String) -> Self {
        Self { what, hint: "fuse experts that have these in common" }
    }
}

/// The first thing in which two experts differ, and must not.
fn difference(one: &Resolved, two: &Resolved) -> Option<Difference> {
    other_base(one, two).or_else(|| other_setting(one, two).map(Difference::of))
}

fn other_base(one: &Resolved, two: &Resolved) -> Option<Difference> {
    let (ours, theirs) = (&one.recipe.base.name, &two.recipe.base.name);
    if ours != theirs {
        return Some(Difference::of(format!("their bases are {ours} and {theirs}")));
    }
    let (here, there) = (folder(&one.machine), folder(&two.machine));
    (here != there).then(|| Difference {
        what: format!("their bases, both named {ours}, are in {} and {}", shown(here), shown(there)),
        hint: "name one folder in both manifests",
    })
}

fn shown(folder: Option<PathBuf>) -> String {
    folder.map_or_else(|| "no folder yet".to_owned(), |it| it.display().to_string())
}

fn other_setting(one: &Resolved, two: &Resolved) -> Option<String> {
    let (ours, theirs) = (&one.recipe.base, &two.recipe.base);
    let (here, there) = (&one.machine, &two.machine);
    if (here.device.kind, here.device.index) != (there.device.kind, there.device.index) {
        let (one, two) = (&here.device.name, &there.device.name);
        return Some(format!("they would train on {one} and {two}"));
    }
    if ours.quantization != theirs.quantization {
        return Some(format!(
            "the quantizations of their bases are {} and {}",
            ours.quantization, theirs.quantization
        ));
    }
    if here.dtype != there.dtype {
        return Some(format!("their number formats are {} and {}", here.dtype, there.dtype));
    }
    // The setting of a process; a CPU has no TF32.
    let tf32 = [one, two].map(|it| it.recipe.precision.tf32);
    if here.device.kind == DeviceKind::Cuda && tf32[0] != tf32[1] {
        return Some(format!("their use_tf32 is {} and {}", tf32[0], tf32[1]));
    }
    if ours.rope_scaling != theirs.rope_scaling {
        return Some("their rope_scaling differs".to_owned());
    }
    if here.checkpointing != there.checkpointing {
        return Some(format!(
            "their gradient_checkpointing is {} and {}",
            here.checkpointing, there.checkpointing
        ));
    }
    (here.sdpa != there.sdpa).then(|| "their use_sdpa differs".to_owned())
}

/// One folder may be written in several ways.
fn folder(machine: &Machine) -> Option<PathBuf> {
    let base = machine.paths.base.as_ref()?;
    Some(Path::new(base).canonicalize().unwrap_or_else(|_| PathBuf::from(base)))
}

fn together(experts: &[&Resolved]) -> MemoryEstimate {
    let each = || experts.iter().map(|expert| &expert.machine.estimate);
    let most = |part: fn(&MemoryEstimate) -> u64| each().map(part).max().unwrap_or(0);
    let all = |part: fn(&MemoryEstimate) -> u64| each().map(part).sum::<u64>();
    let (activations, logits) = of_batch(experts);
    let mut parts = MemoryEstimate {
        process: most(|it| it.process),
        weights: most(|it| it.weights),
        adapter: all(|it| it.adapter),
        // Those of the step, and those of the pass, which are added once all of it has succeeded.
        gradients: 2 * all(|it| it.gradients),
        optimizer: all(|it| it.optimizer),
        activations,
        logits,
        context: most(|it| it.context),
        total: 0,
    };
    parts.total = parts.process
        + parts.weights
        + parts.adapter
        + parts.gradients
        + parts.optimizer
        + parts.activations
        + parts.logits
        + parts.context;
    parts
}

/// Activations and logits of all rows that are computed at once.
fn of_batch(experts: &[&Resolved]) -> (u64, u64) {
    let each = || experts.iter().map(|expert| &expert.machine.estimate);
    let activations = |it: &MemoryEstimate| it.activations;
    if let Some(whole) = on_card(experts) {
        return whole;
    }
    // A batch is computed in pieces: an expert that fills them leaves no more to add.
    let is_full = experts.iter().any(|expert| fills_pieces(expert));
    let activations =
        if is_full { each().map(activations).max() } else { Some(each().map(activations).sum()) };
    (activations.unwrap_or(0), each().map(|it| it.logits).sum())
}

/// On a GPU, where all tokens are computed at once, by the kernels that add the LoRA of several experts.
fn on_card(experts: &[&Resolved]) -> Option<(u64, u64)> {
    let first = experts.iter().max_by_key(|it| it.machine.estimate.activations)?;
    let Resolved { recipe, machine, base, .. } = first;
    let shape = base.shape.as_ref()?;
    if machine.device.kind != DeviceKind::Cuda {
        return None;
    }
    let tokens = |it: &&Resolved| it.machine.micro_batch * u64::from(it.recipe.batch.max_seq_length);
    let load = Load {
        shape,
        quantization: recipe.base.quantization,
        adapter: &modules::named(&recipe.adapter, shape),
        optimizer: recipe.optimizer.name,
        dtype: machine.dtype,
        fp32_products: machine.fp32_products,
        device: machine.device.kind,
        checkpointing: machine.checkpointing,
        fast_path: true,
        eager_attention: false,
        sharded_over: 1,
        piece_tokens: None,
        rows: experts.iter().map(tokens).sum(),
        row_length: 1,
        fused: true,
    };
    let found = budget::estimate(&load);
    Some((found.activations, found.logits))
}

fn fills_pieces(expert: &Resolved) -> bool {
    let rows = expert.machine.micro_batch * u64::from(expert.recipe.batch.max_seq_length);
    expert.machine.piece_tokens.is_some_and(|piece| rows >= 2 * piece)
}
