//! Bytes by part for one micro-batch.

use super::activations::{activations, scores, working_set};
use super::load::{Load, MASTER_BYTES, dtype_bytes, targets};
use super::shape::{Linear, Shape};
use crate::adapters::Layer;
use crate::families::selects;
use crate::plan::{Adapter, DeviceKind, Dtype, MemoryEstimate, OptimizerName, Quantization};

/// Bytes of fp32 logits that the fast path's head and loss hold at a time; it sets the chunk's number of rows.
const HEAD_BYTES_CPU: u64 = 24 << 20;
const HEAD_BYTES_GPU: u64 = 512 << 20;
/// The same of logits in bf16, where the loss is formed in their place.
const HEAD_BYTES_CPU_IN_PLACE: u64 = 30 << 20;
const HEAD_ROWS: u64 = 32;
/// Memory of a CUDA context, cuBLAS workspaces and the allocator's rounding before the first tensor.
const CUDA_CONTEXT: u64 = 640 << 20;

/// Python, torch and the libraries of a training process, where they are in the memory that the device has: as measured with
/// the CPU build of torch 2.15.
const PROCESS: u64 = 900 << 20;

pub fn estimate(load: &Load<'_>) -> MemoryEstimate {
    let trained = adapter_parameters(load.shape, load.adapter);
    let tokens = tokens_at_once(load);
    let mut parts = MemoryEstimate {
        process: if load.device == DeviceKind::Cuda { 0 } else { PROCESS },
        weights: weights_here(load),
        adapter: trained * MASTER_BYTES,
        gradients: trained * MASTER_BYTES,
        optimizer: optimizer_bytes(load.optimizer, trained),
        activations: activations(load, tokens).saturating_add(scores(load)),
        // The head is done before the layers' backward pass begins: only memory beyond that working set counts.
        logits: logits(load, tokens).saturating_sub(working_set(load, tokens)),
        context: if load.device == DeviceKind::Cuda { CUDA_CONTEXT } else { 0 },
        total: 0,
    };
    let all = [
        parts.process,
        parts.weights,
        parts.adapter,
        parts.gradients,
        parts.optimizer,
        parts.activations,
        parts.logits,
        parts.context,
    ];
    parts.total = all.into_iter().fold(0, u64::saturating_add);
    parts
}

/// Tokens that a CPU takes through the layers at a time. A product reads the whole weight from memory: with twice the
/// tokens training is 8 to 10% faster (`benches/train`).
pub const SMALL_PIECE: u64 = 512;
const LARGE_PIECE: u64 = 2 * SMALL_PIECE;
/// Activations for which that is worth their memory.
const LARGE_PIECE_BYTES: u64 = 2 << 30;

/// Whatever memory the machine has: gradients are added up in the same order on every one.
pub fn piece_tokens(load: &Load<'_>) -> u64 {
    if activations(load, LANES * LARGE_PIECE) <= LARGE_PIECE_BYTES { LARGE_PIECE } else { SMALL_PIECE }
}

/// On a CPU this many chunks are processed in parallel, unless there is a single core.
const LANES: u64 = 2;

/// Documents are not split, so a chunk may be as long as a row; such a chunk uses all cores.
fn tokens_at_once(load: &Load<'_>) -> u64 {
    let all = load.rows * load.row_length;
    match load.piece_tokens {
        Some(piece) if load.fast_path => all.min((LANES * piece).max(load.row_length)),
        _ => all,
    }
}

/// The most rows, up to `wanted`, whose estimate stays within `available` bytes; 0 where not even one does.
pub fn largest_micro_batch(load: &Load<'_>, wanted: u64, available: u64) -> u64 {
    let fits = |rows| estimate(&Load { rows, ..*load }).total <= available;
    let (mut low, mut high) = (0, wanted);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// For a sharded base: this process's shards, the gathered embedding and head, and the layer that computes
/// beside the one that is being fetched.
fn weights_here(load: &Load<'_>) -> u64 {
    let whole = weights(load.shape, load.quantization, load.dtype, load.fp32_products);
    if load.sharded_over <= 1 {
        return whole;
    }
    let together = load.shape.other_parameters() * dtype_bytes(load.dtype);
    let layers = whole.saturating_sub(together);
    whole.div_ceil(load.sharded_over) + together + 2 * layers.div_ceil(load.shape.layers.max(1))
}

/// Bytes of the base's weights in memory.
pub fn weights(shape: &Shape, quantization: Quantization, dtype: Dtype, fp32_products: bool) -> u64 {
    let full = if fp32_products { 4 } else { dtype_bytes(dtype) };
    let half = if fp32_products { 4 } else { 2 };
    let linear = shape.linear_parameters();
    let blocks = match quantization {
        // NF4 with double quantization: half a byte, one 8-bit scale for 64 values, one fp32 for 256 scales.
        Quantization::Int4 => linear / 2 + linear / 64 + linear / (64 * 64),
        Quantization::Int8 => linear + row_scales(shape),
        Quantization::Fp16 | Quantization::Bf16 => linear * half,
        Quantization::None => linear * full,
    };
    let rest = match quantization {
        Quantization::Fp16 | Quantization::Bf16 => half,
        _ => full,
    };
    blocks + shape.other_parameters() * rest
}

fn row_scales(shape: &Shape) -> u64 {
    shape.blocks().map(|linear| linear.outputs * 4).sum()
}

/// Parameters that are trained. The adapter names layers, not `all-linear`.
pub fn adapter_parameters(shape: &Shape, adapter: &Adapter) -> u64 {
    let of_layer = adapter.kind.traits().parameters;
    let targeted = shape.linears.iter().filter(|linear| targets(adapter, linear));
    let layers: u64 = targeted.map(|linear| of_layer(layer(adapter, linear))).sum();
    layers + adapter.virtual_tokens() * shape.hidden
}

fn layer(adapter: &Adapter, linear: &Linear) -> Layer {
    Layer {
        rank: u64::from(adapter.rank.unwrap_or(0)),
        inputs: linear.inputs,
        outputs: linear.outputs,
        feedforward: adapter.feedforward_modules.iter().any(|name| selects(name, &linear.name)),
    }
}

fn optimizer_bytes(name: OptimizerName, trained: u64) -> u64 {
    match name {
        OptimizerName::AdamwTorch | OptimizerName::AdamwTorchFused | OptimizerName::PagedAdamw32bit => {
            trained * 8
        }
        // Two one-byte moments and a scale for each 256 of them.
        OptimizerName::AdamwBnb8bit | OptimizerName::PagedAdamw8bit => trained * 2 + trained / 32,
        OptimizerName::Muon => trained * 4,
        // Row and column statistics: small beside everything else.
        OptimizerName::Adafactor => trained / 8,
        OptimizerName::Sgd => 0,
    }
}

/// Memory of the head and the loss.
fn logits(load: &Load<'_>, tokens: u64) -> u64 {
    let bytes = load.number_bytes();
    let vocabulary = load.shape.vocabulary;
    if !load.fast_path {
        // Logits, their fp32 copy, log-probabilities and the gradient.
        return tokens.saturating_mul(vocabulary).saturating_mul(2 * bytes + 2 * MASTER_BYTES);
    }
    // In 16 bits the product and the gradient are copies beside the fp32 logits.
    let beside = if bytes == MASTER_BYTES { 0 } else { bytes };
    let (budget, word_bytes, copies) = match load.device {
        DeviceKind::Cpu if load.takes_native_loss() => (HEAD_BYTES_CPU_IN_PLACE, bytes, 0),
        DeviceKind::Cpu => (HEAD_BYTES_CPU, MASTER_BYTES, beside),
        _ => (HEAD_BYTES_GPU, MASTER_BYTES, beside),
    };
    let chunk = (budget / (word_bytes * vocabulary * HEAD_ROWS)).max(1) * HEAD_ROWS;
    let rows = (chunk * heads_at_once(load)).min(tokens);
    rows * vocabulary * (word_bytes + copies)
}

fn heads_at_once(load: &Load<'_>) -> u64 {
    if load.device == DeviceKind::Cpu && load.rows > 1 { LANES } else { 1 }
}
