//! Activations that the forward pass saves for the backward pass, and the working set of one layer.
//!
//! The terms follow the worker's decoder, operation by operation; a change there needs a change here.

use super::load::{Load, MASTER_BYTES};
use super::shape::{Linear, Shape};
use crate::plan::{CheckpointingMode, Quantization};

pub(super) fn activations(load: &Load<'_>, tokens: u64) -> u64 {
    let shape = load.shape;
    let (attention, mlp) = if load.fast_path { fast(load) } else { eager(shape) };
    let elements = match load.checkpointing {
        CheckpointingMode::None => shape.layers * (attention + mlp),
        // A layer's attention is computed again once its MLP is done with.
        CheckpointingMode::Selective => shape.layers * (shape.hidden + mlp) + attention.saturating_sub(mlp),
        CheckpointingMode::Full => shape.layers * shape.hidden + attention + mlp,
    };
    // The numbers of rows and tokens that a manifest may name have a product beyond 64 bits.
    let kept = elements.saturating_mul(tokens).saturating_mul(load.number_bytes());
    kept.saturating_add(working_set(load, tokens)).saturating_add(dequantized(load))
}

/// Saved elements per token in one layer's attention and in its MLP.
fn fast(load: &Load<'_>) -> (u64, u64) {
    let shape = load.shape;
    let (query, key) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let kept = |names: &[&str]| names.iter().filter_map(|it| shape.first(it)).any(|it| load.targets(it));
    let own = |names: &[&str]| {
        names.iter().filter_map(|it| shape.first(it)).map(|it| beside(load, it)).sum::<u64>()
    };
    // The residual stream, the norm's output if an adapter reads it, q, k, v and the attention output.
    let normed = if kept(&["q_proj", "k_proj", "v_proj"]) { shape.hidden } else { 0 };
    let before_norm = if shape.qk_norm { query + key } else { 0 };
    let attention = shape.hidden
        + normed
        + before_norm
        + 2 * query
        + 2 * key
        + own(&["q_proj", "k_proj", "v_proj", "o_proj"]);
    let normed = if kept(&["gate_proj", "up_proj"]) { shape.hidden } else { 0 };
    let keeps_product = kept(&["down_proj"]) && !load.adapts_inside_mlp();
    let product = if keeps_product { shape.intermediate } else { 0 };
    let mlp = shape.hidden
        + normed
        + 2 * shape.intermediate
        + product
        + own(&["gate_proj", "up_proj", "down_proj"]);
    (attention, mlp)
}

/// An adapter saves, besides its input, the low-rank product, and for DoRA the direction's output.
fn beside(load: &Load<'_>, linear: &Linear) -> u64 {
    if !load.targets(linear) {
        return 0;
    }
    let rank = u64::from(load.adapter.rank.unwrap_or(0));
    rank + if load.adapter.kind.traits().saves_outputs { linear.outputs } else { 0 }
}

/// transformers with peft: norms keep fp32 copies, adapters their inputs, rotary embeddings both sides.
fn eager(shape: &Shape) -> (u64, u64) {
    let heads = 2 * (shape.heads + shape.kv_heads) * shape.head_dim;
    (5 * shape.hidden + 2 * heads, 5 * shape.hidden + 4 * shape.intermediate)
}

/// Eager attention keeps a layer's probabilities in fp32 and, where that is not the run's format, a copy in it for the
/// product with the values; with the scores' cap also its output. The backward pass through a layer has two fp32 gradients
/// of that size. A layer whose attention is recomputed keeps nothing.
pub(super) fn scores(load: &Load<'_>) -> u64 {
    if !load.eager_attention {
        return 0;
    }
    let bytes = load.number_bytes();
    let copy = if bytes == MASTER_BYTES { 0 } else { bytes };
    let kept = MASTER_BYTES + copy + if load.shape.capped_scores { bytes } else { 0 };
    let layers = if load.checkpointing == CheckpointingMode::None { load.shape.layers } else { 1 };
    let pairs = load.rows.saturating_mul(load.shape.heads).saturating_mul(load.row_length.pow(2));
    pairs.saturating_mul(layers * kept + 2 * MASTER_BYTES)
}

/// The backward pass through one MLP: gradients of their product, gate and up, and the residual stream's gradient. The product
/// itself is done with by then; torch's kernels have another buffer of its size.
pub(super) fn working_set(load: &Load<'_>, tokens: u64) -> u64 {
    let buffers = if load.takes_native_kernels() { 2 } else { 3 };
    let elements = buffers * load.shape.intermediate + 2 * load.shape.hidden;
    elements.saturating_mul(tokens).saturating_mul(load.number_bytes())
}

/// A quantized weight is read one matrix at a time.
fn dequantized(load: &Load<'_>) -> u64 {
    match load.quantization {
        Quantization::Int4 | Quantization::Int8 => {
            let largest = load.shape.blocks().map(|linear| linear.inputs * linear.outputs).max();
            largest.unwrap_or(0) * load.number_bytes()
        }
        _ => 0,
    }
}
