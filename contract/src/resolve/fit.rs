//! How the recipe is laid on the device: number format and micro-batch.

use std::fmt;

use crate::budget::{self, Load};
use crate::plan::{DeviceKind, Dtype, MemoryEstimate, PrecisionRequest, Quantization};

use super::note::Note;
use super::site::ProductsInFp32;

/// Share of the device's memory that a plan may fill; the rest is for fragmentation and for what the estimate misses.
pub(super) const USABLE: f64 = 0.92;
/// The search for free room ends at this many times the rows that are wanted.
pub const MOST_ROOM: u64 = 64;

/// The number format that the device will compute in: that of a base held in 16 bits, whatever is asked for. A GPU
/// without units for bf16 (V100, T4) computes in fp16 with a loss scale, several times faster than in fp32, and a note
/// says so.
pub fn dtype(
    request: PrecisionRequest,
    quantization: Quantization,
    device: DeviceKind,
    computes_bf16: bool,
    notes: &mut Vec<Note>,
) -> Dtype {
    if let Some(held) = held_in(quantization) {
        notes.extend(other_than_asked(request, held));
        return held;
    }
    match (request, device) {
        (PrecisionRequest::Fp32, DeviceKind::Cuda) if computes_bf16 => {
            notes.push(Note::new(
                "fp32-on-gpu",
                "this GPU has bf16, and the run computes in fp32 because `bf16` is false",
                "remove `bf16`, or pass --mixed-precision bf16, which is faster and takes less memory",
            ));
            Dtype::Fp32
        }
        (PrecisionRequest::Fp32, _) | (PrecisionRequest::Auto, DeviceKind::Cpu | DeviceKind::Mps) => {
            Dtype::Fp32
        }
        (PrecisionRequest::Auto, DeviceKind::Cuda) => {
            if computes_bf16 {
                Dtype::Bf16
            } else {
                without_bf16(notes)
            }
        }
        (PrecisionRequest::Bf16, DeviceKind::Cuda) if !computes_bf16 => without_bf16(notes),
        (PrecisionRequest::Bf16, _) => Dtype::Bf16,
        (PrecisionRequest::Fp16, _) => Dtype::Fp16,
    }
}

fn held_in(quantization: Quantization) -> Option<Dtype> {
    match quantization {
        Quantization::Bf16 => Some(Dtype::Bf16),
        Quantization::Fp16 => Some(Dtype::Fp16),
        Quantization::None | Quantization::Int8 | Quantization::Int4 => None,
    }
}

fn other_than_asked(request: PrecisionRequest, held: Dtype) -> Option<Note> {
    let asked = match request {
        PrecisionRequest::Auto => return None,
        PrecisionRequest::Fp32 => Dtype::Fp32,
        PrecisionRequest::Bf16 => Dtype::Bf16,
        PrecisionRequest::Fp16 => Dtype::Fp16,
    };
    let message = format!("the base is held as {held}, so the run computes in {held} and not in {asked}");
    let hint =
        "set `quantization` of the base to none, or `fp16` and `bf16` (--mixed-precision) to its format";
    (asked != held).then(|| Note::new("format-of-base", message, hint))
}

fn without_bf16(notes: &mut Vec<Note>) -> Dtype {
    notes.push(Note::new(
        "bf16-unsupported",
        "this GPU does not compute in bf16, so the run computes in fp16 with a loss scale; the adapter stays in fp32",
        "pass --mixed-precision no to compute in fp32, several times slower, if steps are skipped as not finite",
    ));
    Dtype::Fp16
}

/// Whether a 16-bit base is held and computed in fp32: a CPU without units for the format emulates it
/// (AVX2: about 8 times slower than fp32; AVX-512 without BF16: about 4 times).
pub fn fp32_products(dtype: Dtype, device: DeviceKind, products: ProductsInFp32) -> bool {
    device == DeviceKind::Cpu
        && match dtype {
            Dtype::Fp32 => false,
            Dtype::Bf16 => products.bf16,
            Dtype::Fp16 => products.fp16,
        }
}

/// What a process may have of its device's memory.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub device: u64,
    /// How many have the same memory: those of a CPU.
    pub processes: u64,
}

impl Room {
    fn bytes(self) -> u64 {
        self.device / self.processes
    }

    pub fn usable(self) -> u64 {
        (self.bytes() as f64 * USABLE) as u64
    }
}

impl fmt::Display for Room {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, device) = (gibibytes(self.bytes()), gibibytes(self.device));
        match self.processes {
            1 => out.write_str(&own),
            processes => write!(out, "{own} ({device} for {processes} processes)"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct MicroBatch {
    pub rows: u64,
    pub estimate: MemoryEstimate,
    /// The most rows that fit, if the device's memory is known: up to [`MOST_ROOM`] times those wanted, to show the free room.
    pub largest: Option<u64>,
}

/// The micro-batch that the manifest wants, or one that fits the device: the largest divisor of it, so that all have the same
/// rows. Where few numbers divide it, it is the most rows that fit, and the last micro-batch of a step has fewer. Where none
/// fits, it is one row.
pub fn micro_batch(load: &Load<'_>, wanted: u64, room: Option<Room>, notes: &mut Vec<Note>) -> MicroBatch {
    let sized = |rows| budget::estimate(&Load { rows, ..*load });
    let Some(room) = room else {
        return MicroBatch { rows: wanted, estimate: sized(wanted), largest: None };
    };
    let available = room.usable();
    let largest = budget::largest_micro_batch(load, wanted.saturating_mul(MOST_ROOM), available);
    if largest >= wanted {
        return MicroBatch { rows: wanted, estimate: sized(wanted), largest: Some(largest) };
    }
    let divisor = (1..=largest.max(1)).rev().find(|rows| wanted.is_multiple_of(*rows)).unwrap_or(1);
    let rows = if 2 * divisor > largest { divisor } else { wanted.div_ceil(wanted.div_ceil(largest)) };
    let need = gibibytes(sized(wanted).total);
    if largest > 0 {
        notes.push(Note::new(
            "micro-batch-lowered",
            format!(
                "batch_size {wanted} needs about {need} of {room}, so the micro-batch is {}; \
                 a step still has the same rows",
                if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
            ),
            if wanted.is_multiple_of(rows) {
                format!("set batch_size to {rows} and raise gradient_accumulation_steps to silence this")
            } else {
                format!(
                    "{rows} does not divide {wanted}: a batch_size of {} would make equal micro-batches",
                    wanted / rows * rows
                )
            },
        ));
    }
    MicroBatch { rows, estimate: sized(rows), largest: Some(largest) }
}

pub fn gibibytes(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib >= 10.0 { format!("{gib:.0} GiB") } else { format!("{gib:.2} GiB") }
}
