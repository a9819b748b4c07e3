//! Activations that the forward pass saves for the backward pass, and the working set of one layer.
//!
//! The terms follow the worker's decoder, operation by operation; a change there needs a change here.

use super::load::{Load, MASTER_BYTES};
use super::shape::Linear;
use crate::plan::{CheckpointingMode, Quantization};

pub(super) fn activations(load: &Load<'_>, tokens: u64) -> u64 {
    let shape = load.shape;
    let (attention, mlp) = if load.fast_path { fast(load) } else { plain(load) };
    let elements = match load.checkpointing {
        CheckpointingMode::None => shape.layers * (attention + mlp),
        // A layer's attention is computed again once its MLP is done with.
        CheckpointingMode::Selective => shape.layers * (shape.hidden + mlp) + attention.saturating_sub(mlp),
        CheckpointingMode::Full => shape.layers * shape.hidden + attention + mlp,
    };
    // The numbers of rows and tokens that a manifest may name have a product beyond 64 bits.
    let kept = elements.saturating_mul(tokens).saturating_mul(load.number_bytes());
    let work = working_set(load, tokens).max(norms_of_dora(load));
    kept.saturating_add(work).saturating_add(dequantized(load)).saturating_add(copied_weights(load))
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

/// transformers with peft. In 16 bits norms keep fp32 copies of their inputs, and every adapter another copy.
fn plain(load: &Load<'_>) -> (u64, u64) {
    let (shape, bytes) = (load.shape, load.number_bytes());
    let wide = MASTER_BYTES / bytes;
    let heads = (shape.heads + shape.kv_heads) * shape.head_dim;
    // Of other families it is not known how many norms a layer has: those of Gemma 3 are the most.
    let (norms, head_norms) = if shape.fast_path { (2, shape.qk_norm) } else { (4, true) };
    let normed_heads = if head_norms { heads * wide } else { 0 };
    let attention = norms * shape.hidden * wide + 2 * heads + normed_heads;
    let targeted = || shape.blocks().filter(|it| load.targets(it));
    let own = targeted().map(|it| kept_by_peft(load, it)).sum::<u64>() / shape.layers.max(1);
    // What several adapters read is kept once: without dropout it is nobody's copy.
    let read = if bytes == MASTER_BYTES && load.adapter.dropout == 0.0 && targeted().next().is_some() {
        2 * shape.hidden + shape.intermediate
    } else {
        0
    };
    (attention, 3 * shape.intermediate + own + read)
}

/// Elements per token that the adapter of one layer keeps for itself.
fn kept_by_peft(load: &Load<'_>, linear: &Linear) -> u64 {
    let bytes = load.number_bytes();
    let wide = MASTER_BYTES / bytes;
    let drops = load.adapter.dropout > 0.0;
    let mut kept = wide * u64::from(load.adapter.rank.unwrap_or(0));
    if drops || bytes < MASTER_BYTES {
        kept += wide * linear.inputs;
    }
    if drops {
        // One byte for each element says whether it was dropped.
        kept += linear.inputs / bytes;
    }
    if load.adapter.kind.traits().saves_outputs {
        // What the direction adds, and what the base gives, which is computed once more from the dropped input.
        kept += (wide + if drops { wide } else { 1 }) * linear.outputs;
    }
    kept
}

/// peft forms the norms of a layer's rows from four matrices of its size.
fn norms_of_dora(load: &Load<'_>) -> u64 {
    if load.fast_path || !load.adapter.kind.traits().saves_outputs {
        return 0;
    }
    4 * MASTER_BYTES * weights_of(load).max().unwrap_or(0)
}

/// With dropout peft multiplies by an fp32 copy of a layer's weight, kept until its backward pass.
fn copied_weights(load: &Load<'_>) -> u64 {
    let is_copy = load.number_bytes() < MASTER_BYTES || is_quantized(load);
    let of_dora = load.adapter.kind.traits().saves_outputs;
    if load.fast_path || !of_dora || load.adapter.dropout == 0.0 || !is_copy {
        return 0;
    }
    let all = MASTER_BYTES * weights_of(load).sum::<u64>();
    if load.checkpointing == CheckpointingMode::None { all } else { all / load.shape.layers.max(1) }
}

/// Numbers in the weight of each layer with an adapter.
fn weights_of(load: &Load<'_>) -> impl Iterator<Item = u64> {
    load.shape.blocks().filter(|it| load.targets(it)).map(|it| it.inputs.saturating_mul(it.outputs))
}

fn is_quantized(load: &Load<'_>) -> bool {
    matches!(load.quantization, Quantization::Int4 | Quantization::Int8)
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
    if !is_quantized(load) {
        return 0;
    }
    let largest = load.shape.blocks().map(|linear| linear.inputs * linear.outputs).max();
    largest.unwrap_or(0) * load.number_bytes()
}
