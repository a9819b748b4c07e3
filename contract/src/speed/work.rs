//! Products, memory traffic and launches of training, as the fast path computes it on a GPU.

use serde::Serialize;

use crate::budget::{Linear, Load};
use crate::plan::{AdapterKind, CheckpointingMode, DeviceKind, Dtype, Quantization};

/// What is known of the data, or assumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Share of the tokens that loss is computed for.
    pub supervised: f64,
    /// Tokens of a document.
    pub document: f64,
    /// Tokens of a row: of many documents where rows are packed, else of one.
    pub row: f64,
}

/// Bytes and operations of a token, forward and backward, and what a micro-batch costs whatever its size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Of the base's products, the head's included.
    pub product_flops: f64,
    /// Their inputs, outputs and weights.
    pub product_bytes: f64,
    pub attention_flops: f64,
    /// Of norms, rotary positions, activations, residuals and the loss.
    pub elementwise_bytes: f64,
    pub low_rank_bytes: f64,
    /// Of a micro-batch: weights that are read in 4 or 8 bits and written in 16.
    pub dequantized_bytes: f64,
    /// Of a micro-batch.
    pub launches: f64,
    /// Whether a CUDA graph launches its forward and backward pass.
    pub captured: bool,
    /// Of a micro-batch.
    pub tokens: f64,
}

/// Bytes for each number of a layer, of one forward and one backward pass.
#[derive(Clone, Copy)]
struct Passes {
    forward: f64,
    backward: f64,
}

impl Passes {
    /// `again`: forward passes that are computed once more.
    fn bytes(self, again: bool) -> f64 {
        self.forward * if again { 2.0 } else { 1.0 } + self.backward
    }
}

/// Numbers of 16 bits, with sums in 32: each of torch's operations reads its inputs and writes its output.
struct Kernels {
    norm: Passes,
    rotary: Passes,
    swiglu: Passes,
    residual: Passes,
}

const PLAIN: Kernels = Kernels {
    norm: Passes { forward: 36.0, backward: 62.0 },
    rotary: Passes { forward: 10.0, backward: 10.0 },
    swiglu: Passes { forward: 10.0, backward: 30.0 },
    residual: Passes { forward: 6.0, backward: 6.0 },
};

/// The compiler's kernels read each input once; the norms of queries and keys are one with their positions, and a
/// residual sum is one with the norm that follows it.
const COMPILED: Kernels = Kernels {
    norm: Passes { forward: 4.0, backward: 6.0 },
    rotary: Passes { forward: 0.0, backward: 0.0 },
    swiglu: Passes { forward: 6.0, backward: 10.0 },
    residual: Passes { forward: 4.0, backward: 2.0 },
};

/// For each output of queries, keys and values, in the kernel that adds what LoRA adds, norms and rotates: each is read and
/// written in both passes. Norms read queries and keys once more in the backward pass.
const INSIDE_HEADS: Passes = Passes { forward: 4.0, backward: 4.0 };

/// For each logit of a supervised token, in 16 bits: read twice, and written once as its gradient.
const HEAD_BYTES: f64 = 6.0;
/// For each input of a layer with a magnitude and dropout: the dropped input and the rest are written, for a product each.
const DROPPED_BYTES: f64 = 14.0;
/// For each input and rank of a layer with dropout: sums over this many tokens are written and read in 32 bits. Masks are formed
/// where inputs are read anyway, for about 7 whole-number operations each, and are in no memory.
const PART_BYTES: f64 = 8.0;
const PART_TOKENS: f64 = 1024.0;
/// For each output of a layer with a magnitude.
const MAGNITUDE_BYTES: f64 = 26.0;
const BITS_16: f64 = 2.0;

/// Launches of a layer, as the stand-in driver counts them (`tests/cuda/ledger.json`).
struct Launches {
    layer: f64,
    query_key_norms: f64,
    /// Fewer, where a kernel adds what LoRA adds to queries, keys and values, besides those of their norms.
    inside_heads: f64,
    /// The same for the MLP.
    inside_mlp: f64,
    recomputed_attention: f64,
    recomputed_attention_inside: f64,
    recomputed_mlp: f64,
}

const PLAIN_LAUNCHES: Launches = Launches {
    layer: 113.0,
    query_key_norms: 37.0,
    inside_heads: 18.0,
    inside_mlp: 10.0,
    recomputed_attention: 41.0,
    recomputed_attention_inside: 16.0,
    recomputed_mlp: 14.0,
};
const COMPILED_LAUNCHES: Launches = Launches {
    layer: 55.0,
    query_key_norms: 4.0,
    inside_heads: 4.0,
    inside_mlp: 4.0,
    recomputed_attention: 14.0,
    recomputed_attention_inside: 11.0,
    recomputed_mlp: 6.0,
};
/// Compiled or not: they belong to the products.
const DEQUANTIZED_4_BITS: f64 = 14.0;
const DEQUANTIZED_8_BITS: f64 = 42.0;
const DROPOUT: f64 = 4.0;
const DROPOUT_WITH_MAGNITUDE: f64 = 51.0;
const MAGNITUDE: f64 = 250.0;
/// Of a micro-batch that is replayed: the replay, clipping, the optimizer's step and the copies of A and B.
const CAPTURED_LAUNCHES: f64 = 23.0;

const QUERY: [&str; 3] = ["q_proj", "k_proj", "v_proj"];
const GATE: [&str; 2] = ["gate_proj", "up_proj"];

impl Work {
    /// None where the fast path does not compute it on a GPU in 16 bits.
    pub fn of(load: &Load<'_>, compiled: bool, reading: Reading) -> Option<Self> {
        let shape = load.shape;
        let is_counted =
            matches!(load.adapter.kind, AdapterKind::Lora | AdapterKind::Rslora | AdapterKind::Dora);
        if !is_counted || !load.fast_path || load.device != DeviceKind::Cuda || load.dtype == Dtype::Fp32 {
            return None;
        }
        let layer = Layer {
            query: QUERY.iter().map(|name| shape.first(name)).collect::<Option<Vec<_>>>()?,
            output: shape.first("o_proj")?,
            gate: GATE.iter().map(|name| shape.first(name)).collect::<Option<Vec<_>>>()?,
            down: shape.first("down_proj")?,
        };
        let layers = shape.layers as f64;
        let (attention_again, mlp_again) = computed_again(load);
        let tokens = load.rows as f64 * reading.row;
        let weights = |linears: &[&Linear]| -> f64 {
            linears.iter().map(|it| it.inputs as f64 * it.outputs as f64).sum()
        };
        let (attending, rest) = (layer.attending(), layer.rest());
        let passes = |again: bool| if again { 3.0 } else { 2.0 };
        let products =
            layers * (passes(attention_again) * weights(&attending) + passes(mlp_again) * weights(&rest));
        let sides =
            |linears: &[&Linear]| -> f64 { linears.iter().map(|it| (it.inputs + it.outputs) as f64).sum() };
        let product_bytes = layers
            * BITS_16
            * (passes(attention_again) * sides(&attending) + passes(mlp_again) * sides(&rest));
        // The loss forms its gradient with its logits.
        let logits = reading.supervised * shape.vocabulary as f64;
        let head = 2.0 * logits * shape.hidden as f64;
        Some(Self {
            product_flops: 2.0 * (products + head),
            product_bytes: product_bytes
                + layers * BITS_16 * layer.added_to(load)
                + 2.0 * BITS_16 * logits
                + BITS_16 * products / tokens,
            attention_flops: attention_flops(load, reading),
            elementwise_bytes: layers * layer.elementwise(load, compiled) + logits * HEAD_BYTES,
            low_rank_bytes: layers * layer.low_rank(load),
            dequantized_bytes: products * dequantized_bytes(load.quantization),
            launches: layers * per_layer(load, compiled),
            captured: false,
            tokens,
        })
    }
}

impl Work {
    /// Of micro-batches that are replayed.
    #[must_use]
    pub fn captured(self) -> Self {
        Self { launches: CAPTURED_LAUNCHES, captured: true, ..self }
    }
}

/// Whether the backward pass computes a layer's attention and its MLP once more.
fn computed_again(load: &Load<'_>) -> (bool, bool) {
    (load.checkpointing != CheckpointingMode::None, load.checkpointing == CheckpointingMode::Full)
}

struct Layer<'a> {
    query: Vec<&'a Linear>,
    output: &'a Linear,
    gate: Vec<&'a Linear>,
    down: &'a Linear,
}

impl<'a> Layer<'a> {
    fn attending(&self) -> Vec<&'a Linear> {
        self.query.iter().copied().chain([self.output]).collect()
    }

    fn rest(&self) -> Vec<&'a Linear> {
        self.gate.iter().copied().chain([self.down]).collect()
    }

    fn all(&self) -> impl Iterator<Item = &'a Linear> {
        self.attending().into_iter().chain(self.rest())
    }

    fn elementwise(&self, load: &Load<'_>, compiled: bool) -> f64 {
        let shape = load.shape;
        let kernels = if compiled { &COMPILED } else { &PLAIN };
        let (hidden, inner) = (shape.hidden as f64, shape.intermediate as f64);
        let rotated = ((shape.heads + shape.kv_heads) * shape.head_dim) as f64;
        let (attention_again, mlp_again) = computed_again(load);
        let heads = if load.adapts_inside_heads() {
            let outputs: f64 = self.query.iter().map(|it| it.outputs as f64).sum();
            let for_norms = if shape.qk_norm { rotated * BITS_16 } else { 0.0 };
            outputs * INSIDE_HEADS.bytes(attention_again) + for_norms
        } else {
            let normed = if shape.qk_norm { rotated } else { 0.0 };
            // A compiled base without these norms reads and writes queries and keys all the same.
            let rotary = if compiled && !shape.qk_norm {
                Passes { forward: 4.0, backward: 4.0 }
            } else {
                kernels.rotary
            };
            normed * kernels.norm.bytes(attention_again) + rotated * rotary.bytes(attention_again)
        };
        let swiglu = if load.adapts_inside_mlp() { COMPILED.swiglu } else { kernels.swiglu };
        let attention = hidden * kernels.norm.bytes(attention_again)
            + heads
            + hidden * kernels.residual.bytes(attention_again);
        let mlp = hidden * kernels.norm.bytes(mlp_again)
            + inner * swiglu.bytes(mlp_again)
            + hidden * kernels.residual.bytes(mlp_again);
        attention + mlp + self.beside(load)
    }

    /// What dropout and magnitudes add.
    fn beside(&self, load: &Load<'_>) -> f64 {
        let adapted = || self.all().filter(|it| load.targets(it));
        let has_magnitude = load.adapter.kind.traits().saves_outputs;
        let dropout = if has_magnitude && load.adapter.dropout > 0.0 { DROPPED_BYTES } else { 0.0 };
        let magnitude = if has_magnitude { MAGNITUDE_BYTES } else { 0.0 };
        adapted().map(|it| it.inputs as f64 * dropout + it.outputs as f64 * magnitude).sum()
    }

    /// The adapter's part of an output is written for the base's product to add to, and its gradient is read twice. An input is
    /// read in both passes, and the adapter's part of its gradient is written, once for the layers that share it; with dropout it
    /// is read and written after the base's product. Where kernels add what LoRA adds, nothing of it is written: of queries, keys
    /// and values the gradient is read once, of gate and up too, and their product's input costs nothing.
    fn low_rank(&self, load: &Load<'_>) -> f64 {
        let (attention_again, mlp_again) = computed_again(load);
        let shares = !load.adapter.kind.traits().saves_outputs;
        let drops = load.adapter.dropout > 0.0;
        let rank = f64::from(load.adapter.rank.unwrap_or(0));
        let sums = PART_BYTES * rank / PART_TOKENS;
        let parts = if shares && drops { sums } else { 0.0 };
        let written = Passes { forward: BITS_16, backward: 2.0 * BITS_16 };
        let added = Passes { forward: 2.0 * BITS_16, ..written };
        let once = Passes { forward: 0.0, backward: BITS_16 };
        let outputs = if shares { written } else { added };
        let changed = Passes { forward: BITS_16, backward: 3.0 * BITS_16 };
        let inputs = if shares && !drops { written } else { changed };
        let group = |linears: &[&Linear], outputs: Passes, inputs: Passes, again: bool| -> f64 {
            let adapted: Vec<_> = linears.iter().filter(|it| load.targets(it)).collect();
            let read = if shares { adapted.len().min(1) } else { adapted.len() };
            adapted
                .iter()
                .map(|it| it.outputs as f64 * outputs.bytes(again) + it.inputs as f64 * parts)
                .sum::<f64>()
                + adapted.iter().take(read).map(|it| it.inputs as f64 * inputs.bytes(again)).sum::<f64>()
        };
        let of_query = if load.adapts_inside_heads() { once } else { outputs };
        let attention = group(&self.query, of_query, inputs, attention_again)
            + group(&[self.output], outputs, inputs, attention_again);
        if !load.adapts_inside_mlp() {
            return attention
                + group(&self.gate, outputs, inputs, mlp_again)
                + group(&[self.down], outputs, inputs, mlp_again);
        }
        let nothing = Passes { forward: 0.0, backward: 0.0 };
        attention
            + group(&self.gate, once, inputs, mlp_again)
            + group(&[self.down], outputs, nothing, mlp_again)
            + 3.0 * self.down.inputs as f64 * sums
    }

    /// Numbers of a token that the base's products read besides, to add to them: the adapters' parts of outputs, and of gradients
    /// of inputs where there is no dropout.
    fn added_to(&self, load: &Load<'_>) -> f64 {
        if load.adapter.kind.traits().saves_outputs {
            return 0.0;
        }
        let group = |linears: &[&Linear], outputs: bool, inputs: bool| -> f64 {
            let adapted: Vec<_> = linears.iter().filter(|it| load.targets(it)).collect();
            let of_outputs: f64 = adapted.iter().filter(|_| outputs).map(|it| it.outputs as f64).sum();
            let read = usize::from(inputs && load.adapter.dropout == 0.0);
            of_outputs + adapted.iter().take(read).map(|it| it.inputs as f64).sum::<f64>()
        };
        group(&self.query, !load.adapts_inside_heads(), true)
            + group(&[self.output], true, true)
            + group(&self.gate, !load.adapts_inside_mlp(), true)
            + group(&[self.down], true, !load.adapts_inside_mlp())
    }
}

/// Half of a document is before a token, on average; the backward pass has five products where the forward pass has two.
fn attention_flops(load: &Load<'_>, reading: Reading) -> f64 {
    let (again, _) = computed_again(load);
    let width = (load.shape.heads * load.shape.head_dim) as f64;
    let forward = 2.0 * reading.document * width;
    load.shape.layers as f64 * forward * if again { 4.5 } else { 3.5 }
}

/// For each weight, in each pass that reads it.
fn dequantized_bytes(quantization: Quantization) -> f64 {
    match quantization {
        Quantization::Int4 => 0.5 + BITS_16,
        Quantization::Int8 => 1.0 + BITS_16,
        Quantization::None | Quantization::Bf16 | Quantization::Fp16 => 0.0,
    }
}

fn per_layer(load: &Load<'_>, compiled: bool) -> f64 {
    let when = |is: bool, launches: f64| if is { launches } else { 0.0 };
    let counts = if compiled { &COMPILED_LAUNCHES } else { &PLAIN_LAUNCHES };
    let dequantized = match load.quantization {
        Quantization::Int4 => DEQUANTIZED_4_BITS,
        Quantization::Int8 => DEQUANTIZED_8_BITS,
        Quantization::None | Quantization::Bf16 | Quantization::Fp16 => 0.0,
    };
    let has_magnitude = load.adapter.kind.traits().saves_outputs;
    let dropout = if has_magnitude { DROPOUT_WITH_MAGNITUDE } else { DROPOUT };
    let (in_heads, in_mlp) = (load.adapts_inside_heads(), load.adapts_inside_mlp());
    let (attention_again, mlp_again) = computed_again(load);
    let attention = if in_heads { counts.recomputed_attention_inside } else { counts.recomputed_attention };
    counts.layer - when(in_heads, counts.inside_heads) - when(in_mlp, counts.inside_mlp)
        + when(attention_again, attention)
        + when(mlp_again, counts.recomputed_mlp)
        + when(load.shape.qk_norm && !in_heads, counts.query_key_norms)
        + dequantized
        + when(load.adapter.dropout > 0.0, dropout)
        + when(has_magnitude, MAGNITUDE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Shape;
    use crate::plan::{Adapter, OptimizerName};
    use crate::speed::{Bound, Forecast, Limits};
    use AdapterKind::{Dora, Lora};
    use CheckpointingMode::{Full, None as Kept, Selective};

    const RTX_4090: Limits = Limits { tera_flops: 165.2, gigabytes: 1008.0, reached: 0.9 };
    const H100: Limits = Limits { tera_flops: 989.0, gigabytes: 3350.0, reached: 0.64 };
    const READING: Reading = Reading { supervised: 0.3, document: 500.0, row: 2048.0 };

    fn adapter(kind: AdapterKind, dropout: f64) -> Adapter {
        let names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
        Adapter {
            kind,
            rank: Some(16),
            alpha: Some(32.0),
            dropout,
            target_modules: names.map(str::to_owned).to_vec(),
            feedforward_modules: Vec::new(),
            soft_prompts: Vec::new(),
            initial: None,
        }
    }

    fn load<'a>(shape: &'a Shape, adapter: &'a Adapter) -> Load<'a> {
        Load {
            shape,
            quantization: Quantization::None,
            adapter,
            optimizer: OptimizerName::AdamwTorchFused,
            dtype: Dtype::Bf16,
            fp32_products: false,
            device: DeviceKind::Cuda,
            checkpointing: CheckpointingMode::None,
            fast_path: true,
            eager_attention: false,
            sharded_over: 1,
            piece_tokens: None,
            rows: 4,
            row_length: 2048,
            fused: false,
        }
    }

    #[test]
    fn compiled_layers_reach_three_fifths_of_the_floor() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let lora = adapter(AdapterKind::Lora, 0.0);
        let work = Work::of(&Load { rows: 16, ..load(&shape, &lora) }, true, READING).unwrap();
        for limits in [RTX_4090, H100, Limits { gigabytes: 4800.0, ..H100 }] {
            let found = Forecast::of(work, limits, 1, None);
            assert!(found.expected > 0.6 * found.floor, "{found:?}");
        }
        // Not where kernels do not add what LoRA adds.
        let more = Adapter { rank: Some(64), ..lora };
        let work = Work::of(&Load { rows: 16, ..load(&shape, &more) }, true, READING).unwrap();
        let found = Forecast::of(work, H100, 1, None);
        assert!(found.expected < 0.6 * found.floor, "{found:?}");
    }

    /// A trace of a step without kernels that add what LoRA adds, and the limits of the cards, gave 22k and 74k tokens/s, and
    /// floors of 69k and 268k.
    #[test]
    fn speeds_are_those_of_a_trace_and_above() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let lora = adapter(AdapterKind::Lora, 0.0);
        let load = Load { rows: 16, ..load(&shape, &lora) };
        for (limits, before, floor) in [(RTX_4090, 22.0, 69.0), (H100, 74.0, 268.0)] {
            let found = Forecast::of(Work::of(&load, false, READING).unwrap(), limits, 1, None);
            assert!((1.4..1.9).contains(&(found.expected / 1e3 / before)), "{found:?}");
            assert!((found.floor / 1e3 / floor - 1.0).abs() < 0.1, "{found:?}");
            assert!(found.slow < found.expected && found.expected < found.fast);
            // In fp16 the kernels are not counted on.
            let fp16 = Load { dtype: Dtype::Fp16, ..load };
            let found = Forecast::of(Work::of(&fp16, false, READING).unwrap(), limits, 1, None);
            assert!((1.0..1.2).contains(&(found.expected / 1e3 / before)), "{found:?}");
            assert_eq!(found.bound, Bound::Memory);
        }
    }

    #[test]
    fn what_is_added_costs_time_and_what_is_compiled_saves_it() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let speed = |kind, dropout, checkpointing, quantization, compiled| {
            let adapter = adapter(kind, dropout);
            let load = Load { quantization, checkpointing, ..load(&shape, &adapter) };
            Forecast::of(Work::of(&load, compiled, READING).unwrap(), RTX_4090, 1, None).expected
        };
        let plain = speed(Lora, 0.0, Kept, Quantization::None, false);
        for slower in [
            speed(Lora, 0.1, Kept, Quantization::None, false),
            speed(Dora, 0.0, Kept, Quantization::None, false),
            speed(Lora, 0.0, Selective, Quantization::None, false),
            speed(Lora, 0.0, Full, Quantization::None, false),
            speed(Lora, 0.0, Kept, Quantization::Int4, false),
        ] {
            assert!(slower < plain, "{slower} {plain}");
        }
        let compiled = speed(Lora, 0.0, Kept, Quantization::None, true);
        assert!((1.2..2.0).contains(&(compiled / plain)), "{compiled} {plain}");
    }

    #[test]
    fn few_tokens_at_a_time_are_bound_by_launches_and_two_cards_are_twice_as_fast() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let lora = adapter(AdapterKind::Lora, 0.0);
        let small = Load { rows: 1, ..load(&shape, &lora) };
        // Rows are short, or what they are packed with.
        let work = Work::of(&small, false, Reading { row: 512.0, ..READING }).unwrap();
        let found = Forecast::of(work, H100, 1, None);
        assert_eq!(found.bound, Bound::Launches);
        let replayed = Forecast::of(work.captured(), H100, 1, None);
        assert!(replayed.expected > 4.0 * found.expected && work.captured().launches < 100.0);
        let two = Forecast::of(work, H100, 2, None).expected;
        assert!((two / found.expected - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_on_the_card_moves_and_narrows_the_range() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let lora = adapter(AdapterKind::Lora, 0.0);
        let work = Work::of(&load(&shape, &lora), false, READING).unwrap();
        let (before, after) =
            (Forecast::of(work, RTX_4090, 1, None), Forecast::of(work, RTX_4090, 1, Some(0.3)));
        assert!(after.fast < before.slow);
        assert!(after.fast / after.slow < before.fast / before.slow);
    }

    #[test]
    fn what_is_not_counted_has_no_forecast() {
        let shape = Shape::known("Qwen/Qwen3-0.6B").unwrap();
        let (lora, ia3) = (adapter(AdapterKind::Lora, 0.0), adapter(AdapterKind::Ia3, 0.0));
        let on_card = load(&shape, &lora);
        for other in [
            Load { fast_path: false, ..on_card },
            Load { device: DeviceKind::Cpu, ..on_card },
            Load { dtype: Dtype::Fp32, ..on_card },
            Load { adapter: &ia3, ..on_card },
        ] {
            assert_eq!(Work::of(&other, false, READING), None);
        }
    }
}
