//! The variants of `ablate`: one change at a time, compared with the run as planned.

use std::collections::BTreeMap;

use expert_contract::plan::{CheckpointingMode, Compile, DeviceKind, Dtype, Graphs, Plan, Quantization};
use expert_contract::results::KernelChoice;
use serde::Serialize;

/// How the losses must compare with the plan's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The same computation: equal up to the order of summation.
    Same,
    /// The same in another number format.
    Near,
    /// The base is rounded differently: the difference of the losses is a result, not a fault.
    Rounded,
    /// Other rows in a step, so other losses.
    Other,
}

pub struct Variant {
    pub group: &'static str,
    pub name: String,
    pub expected: Expected,
    pub change: Change,
}

pub enum Change {
    To(Box<Plan>),
    /// The reason why it cannot be tried here.
    Impossible(String),
}

pub const KERNELS: &str = "kernels";

/// Groups whose changes are to the fast path alone.
pub const OF_FAST_PATH: [&str; 2] = ["path", "pieces"];

/// Names of the groups, for `--only`.
pub const GROUPS: [&str; 14] = [
    "packing",
    "cache",
    "attention",
    KERNELS,
    "path",
    "pieces",
    "precision",
    "tf32",
    "compile",
    "capture",
    "checkpointing",
    "loader",
    "batch",
    "quantization",
];

pub fn all(plan: &Plan) -> Vec<Variant> {
    let mut made = Series { plan, variants: Vec::new() };
    made.data();
    made.fast_path();
    made.flash_attention();
    made.numbers();
    made.compiling();
    made.capturing();
    made.checkpointing();
    made.loader();
    made.batches();
    made.quantization();
    made.variants
}

/// Every other kernel of each operation, as the worker reported them for the plan.
pub fn kernels(plan: &Plan, choices: &BTreeMap<String, KernelChoice>) -> Vec<Variant> {
    let mut made = Series { plan, variants: Vec::new() };
    for (operation, choice) in choices {
        for kernel in &choice.others {
            made.add(KERNELS, format!("{operation}: {kernel}"), Expected::Same, |plan| {
                plan.machine.kernels.insert(operation.clone(), kernel.clone());
            });
        }
    }
    made.variants
}

struct Series<'a> {
    plan: &'a Plan,
    variants: Vec<Variant>,
}

impl Series<'_> {
    fn add(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        expected: Expected,
        change: impl FnOnce(&mut Plan),
    ) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        let change = Change::To(Box::new(plan));
        self.variants.push(Variant { group, name: name.into(), expected, change });
    }

    fn cannot(&mut self, group: &'static str, name: impl Into<String>, why: impl Into<String>) {
        let change = Change::Impossible(why.into());
        self.variants.push(Variant { group, name: name.into(), expected: Expected::Same, change });
    }

    fn on_cuda(&self) -> bool {
        self.plan.machine.device.kind == DeviceKind::Cuda
    }

    fn data(&mut self) {
        let packing = self.plan.recipe.batch.packing;
        self.add("packing", format!("packing {}", switch(!packing)), Expected::Other, |plan| {
            plan.recipe.batch.packing = !packing;
        });
        let cached = self.plan.machine.loader.use_cache;
        self.add("cache", format!("token cache {}", switch(!cached)), Expected::Same, |plan| {
            plan.machine.loader.use_cache = !cached;
        });
    }

    fn fast_path(&mut self) {
        if !self.plan.machine.fast_path {
            let why = "the fast path supports neither this adapter nor a sharded base";
            return self.cannot("path", "fast path", why);
        }
        self.add("path", "plain transformers + peft", Expected::Same, |plan| {
            plan.machine.fast_path = false;
        });
        match self.plan.machine.piece_tokens {
            Some(tokens) => {
                let name = format!("chunks of {tokens} tokens off");
                self.add("pieces", name, Expected::Same, |plan| plan.machine.piece_tokens = None);
            }
            None => {
                self.cannot("pieces", "pieces", "only a CPU splits a batch into chunks that fit its cache");
            }
        }
    }

    fn flash_attention(&mut self) {
        let flash = self.plan.machine.flash_attention;
        if self.on_cuda() {
            self.add("attention", format!("flash-attn {}", switch(!flash)), Expected::Same, |plan| {
                plan.machine.flash_attention = !flash;
            });
        } else {
            self.cannot("attention", "flash-attn", "flash-attn is a CUDA library");
        }
    }

    fn numbers(&mut self) {
        let held = format_of_base(self.plan);
        for dtype in [Dtype::Fp32, Dtype::Bf16, Dtype::Fp16] {
            if dtype == self.plan.machine.dtype {
                continue;
            }
            if let Some(why) = &held {
                self.cannot("precision", dtype.as_str(), why);
                continue;
            }
            if dtype == Dtype::Fp16 && !self.on_cuda() {
                self.cannot("precision", "fp16", "fp16 on a CPU is emulated; bf16 is its 16-bit format");
                continue;
            }
            self.add("precision", dtype.as_str(), Expected::Near, |plan| plan.machine.dtype = dtype);
        }
        let tf32 = self.plan.recipe.precision.tf32;
        if !self.on_cuda() {
            self.cannot("tf32", format!("TF32 {}", switch(!tf32)), "TF32 is a format of CUDA's tensor cores");
        } else if self.plan.machine.dtype != Dtype::Fp32 {
            let why = format!("products are in {} here, not in fp32", self.plan.machine.dtype.as_str());
            self.cannot("tf32", format!("TF32 {}", switch(!tf32)), why);
        } else {
            self.add("tf32", format!("TF32 {}", switch(!tf32)), Expected::Near, |plan| {
                plan.recipe.precision.tf32 = !tf32;
            });
        }
    }

    fn compiling(&mut self) {
        if self.plan.machine.compile.is_some() {
            self.add("compile", "compile off", Expected::Same, |plan| plan.machine.compile = None);
            return;
        }
        let compile = Compile { backend: "inductor".to_owned(), mode: "default".to_owned(), asked: true };
        self.add("compile", "compile on", Expected::Same, |plan| plan.machine.compile = Some(compile));
    }

    fn capturing(&mut self) {
        let name = format!("CUDA graphs {}", switch(self.plan.machine.cuda_graphs.is_none()));
        if self.on_cuda() {
            let other = self.plan.machine.cuda_graphs.is_none().then_some(Graphs { asked: true });
            self.add("capture", name, Expected::Same, |plan| plan.machine.cuda_graphs = other);
        } else {
            self.cannot("capture", name, "this machine has no CUDA");
        }
    }

    fn checkpointing(&mut self) {
        for mode in [CheckpointingMode::None, CheckpointingMode::Selective, CheckpointingMode::Full] {
            if mode != self.plan.machine.checkpointing {
                let name = format!("checkpointing {}", mode.as_str());
                self.add("checkpointing", name, Expected::Same, |plan| plan.machine.checkpointing = mode);
            }
        }
    }

    /// Without the cache: its mapped rows need no loader.
    fn loader(&mut self) {
        for (workers, prefetch) in [(0, None), (2, Some(2)), (2, Some(8))] {
            let ahead = prefetch.map_or(String::new(), |rows| format!(", prefetch {rows}"));
            let name = format!("no cache, {workers} workers{ahead}");
            self.add("loader", name, Expected::Same, |plan| {
                plan.machine.loader.use_cache = false;
                plan.machine.loader.workers = workers;
                plan.machine.loader.prefetch_factor = prefetch;
            });
        }
        let pinned = self.plan.machine.loader.pin_memory;
        let name = format!("no cache, pinning {}", switch(!pinned));
        if self.on_cuda() {
            self.add("loader", name, Expected::Same, |plan| {
                plan.machine.loader.use_cache = false;
                plan.machine.loader.pin_memory = !pinned;
            });
        } else {
            self.cannot("loader", name, "pinned memory is for copies to a GPU");
        }
    }

    /// The same rows per step in other micro-batches, and other rows per step.
    fn batches(&mut self) {
        let (rows, micro) = (self.plan.recipe.batch.rows_per_step, self.plan.machine.micro_batch);
        let mut sizes = vec![1, rows];
        sizes.dedup();
        for size in sizes.into_iter().filter(|size| *size != micro) {
            let name = format!("{size} of {rows} rows at once");
            self.add("batch", name, Expected::Same, |plan| set_micro_batch(plan, size));
        }
        for rows in [rows * 2, rows * 4] {
            self.add("batch", format!("{rows} rows per step"), Expected::Other, |plan| {
                plan.recipe.batch.rows_per_step = rows;
                set_micro_batch(plan, rows);
            });
        }
    }

    fn quantization(&mut self) {
        for kind in [Quantization::None, Quantization::Int8, Quantization::Int4] {
            let plain = |kind| !matches!(kind, Quantization::Int8 | Quantization::Int4);
            let planned = self.plan.recipe.base.quantization;
            if kind == planned || (plain(kind) && plain(planned)) {
                continue;
            }
            let name = if plain(kind) {
                "base not quantized".to_owned()
            } else {
                format!("base in {}", kind.as_str())
            };
            self.add("quantization", name, Expected::Rounded, |plan| plan.recipe.base.quantization = kind);
        }
    }
}

/// Why the run computes in one number format only.
pub fn format_of_base(plan: &Plan) -> Option<String> {
    let held = plan.recipe.base.quantization;
    matches!(held, Quantization::Bf16 | Quantization::Fp16)
        .then(|| format!("the base is held as {held}, so the run computes in {held}"))
}

pub fn set_micro_batch(plan: &mut Plan, rows: u64) {
    plan.machine.micro_batch = rows;
    plan.machine.accumulation = plan.recipe.batch.rows_per_step.div_ceil(rows);
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
