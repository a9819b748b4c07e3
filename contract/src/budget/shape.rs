//! A decoder's dimensions: read from its `config.json`, or from a table for bases that are not downloaded yet.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::families::{self, Width};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shape {
    pub architecture: String,
    pub vocabulary: u64,
    pub hidden: u64,
    pub intermediate: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    /// Whether the head shares the embedding's weights.
    pub tied: bool,
    /// Whether queries and keys are normalised per head (Qwen3).
    pub qk_norm: bool,
    /// Longest text that the base was trained for.
    pub positions: u64,
    /// The positions before the base's own rope scaling, which a factor of the manifest counts from.
    #[serde(skip)]
    pub scaled_from: Option<u64>,
    /// Whether longer rows cannot be computed.
    #[serde(skip)]
    pub bounded_positions: bool,
    /// Pairs of a head's dimensions that positions rotate, where the configuration says how many.
    #[serde(skip)]
    pub rotated_pairs: Option<u64>,
    /// Whether the fast path computes it.
    pub fast_path: bool,
    /// Whether its attention is computed only with all scores at once, whatever the manifest asks for.
    #[serde(skip)]
    pub eager_attention: bool,
    /// Whether a tanh bounds the scores (Gemma 2).
    #[serde(skip)]
    pub capped_scores: bool,
    /// The linear layers by their full names: of every block, the head, and the embedding.
    #[serde(skip)]
    pub linears: Vec<Linear>,
    /// Whether `linears` are all of the base's own.
    #[serde(skip)]
    pub names_known: bool,
    /// Whether what is trained can be counted before the base is loaded.
    #[serde(skip)]
    pub exact: bool,
    /// Every parameter, where the weights are here to be counted.
    #[serde(skip)]
    counted: Option<u64>,
    /// Parameters of the experts of all blocks.
    #[serde(skip)]
    experts: u64,
}

/// A linear layer by its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    pub name: String,
    pub inputs: u64,
    pub outputs: u64,
    /// Whether it is in a block and part of `all-linear`; the head is not.
    pub adaptable: bool,
}

impl Shape {
    /// From a base's `config.json`. `None` where it is not a decoder of a known form. The linear layers of an architecture
    /// outside the table of families are not known before its weights are read: there are none.
    pub fn from_config(config: &Value) -> Option<Self> {
        let text = config.get("text_config").unwrap_or(config);
        let number = |keys: &[&str]| keys.iter().find_map(|key| text.get(*key).and_then(Value::as_u64));
        let flag = |key: &str| text.get(key).and_then(Value::as_bool);
        let architecture = text.get("model_type").and_then(Value::as_str)?.to_owned();
        let family = families::family(&architecture);
        let hidden = number(&["hidden_size", "n_embd", "n_embed", "d_model"])?;
        let heads = number(&["num_attention_heads", "n_head", "n_heads", "num_heads"])?;
        let intermediate = number(&["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"]);
        let one_key = flag("multi_query") == Some(true) && flag("new_decoder_architecture") != Some(true);
        let mut shape = Self {
            vocabulary: number(&["vocab_size"])?,
            // Families before Llama leave it out: four times the hidden size.
            intermediate: intermediate.or_else(|| family.is_some().then_some(hidden.checked_mul(4)?))?,
            layers: number(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])?,
            kv_heads: if one_key {
                1
            } else {
                number(&["num_key_value_heads", "num_kv_heads"]).unwrap_or(heads)
            },
            head_dim: number(&["head_dim"]).or_else(|| hidden.checked_div(heads))?,
            tied: flag("tie_word_embeddings")
                .unwrap_or_else(|| family.is_some_and(|it| it.tied.contains(&architecture))),
            qk_norm: architecture.starts_with("qwen3"),
            positions: number(&["max_position_embeddings", "n_positions", "max_seq_len", "seq_length"])
                .map_or(u64::MAX, |positions| positions.max(scaled_positions(text).unwrap_or(0))),
            scaled_from: unscaled_positions(text),
            bounded_positions: family.is_some_and(|it| it.bounded_positions.contains(&architecture)),
            rotated_pairs: None,
            fast_path: family.is_some_and(|it| it.fast_path.is_some())
                && (architecture != "mistral" || number(&["sliding_window"]).is_none()),
            eager_attention: family.is_some_and(|it| it.eager_attention.contains(&architecture)),
            capped_scores: architecture == "gemma2"
                && text.get("attn_logit_softcapping").is_none_or(|it| !it.is_null()),
            // Some blocks of a base with experts may have a usual MLP: its weights say so.
            names_known: family.is_some_and(|it| !it.experts),
            exact: family.is_some_and(|it| !it.experts),
            linears: Vec::new(),
            counted: None,
            experts: 0,
            architecture,
            hidden,
            heads,
        };
        if family.is_some_and(|it| it.experts) {
            let each = number(&["moe_intermediate_size"]).unwrap_or(shape.intermediate);
            let count = number(&["num_local_experts", "num_experts"]).unwrap_or(0);
            let experts = [shape.layers, count, 3, hidden, each].into_iter().try_fold(1, u64::checked_mul);
            shape.experts = experts.filter(|it| *it <= MOST_EXPERT_PARAMETERS)?;
        }
        // Others may rotate a part of each head without saying so.
        let rotates_whole_heads =
            shape.architecture == "phi3" || family.is_some_and(|it| it.fast_path.is_some());
        let rotated = rotated_share(text).or_else(|| rotates_whole_heads.then_some(1.0));
        shape.rotated_pairs = rotated.map(|part| ((shape.head_dim as f64 * part) as u64).div_ceil(2));
        shape.place(number(&["shared_expert_intermediate_size"]).unwrap_or(0))?;
        Some(shape)
    }

    /// For a base that is not on this machine. The name is a Hub id or the embedded base's.
    pub fn known(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let short = lower.rsplit('/').next().unwrap_or(&lower);
        KNOWN.iter().find(|row| row.names.contains(&short)).map(Row::shape)
    }

    /// The same base with the layers of its weights: names and shapes of the tensors in its files.
    #[must_use]
    pub fn with_tensors(mut self, tensors: &BTreeMap<String, Vec<u64>>) -> Self {
        let family = families::family(&self.architecture);
        let transposed = family.is_some_and(|it| it.transposed.contains(&self.architecture));
        let mut linears = Vec::new();
        for (tensor, shape) in tensors {
            let (Some(name), [rows, columns]) = (tensor.strip_suffix(".weight"), shape.as_slice()) else {
                continue;
            };
            if families::is_adaptable(name) {
                let (outputs, inputs) = if transposed { (*columns, *rows) } else { (*rows, *columns) };
                linears.push(Linear { name: name.to_owned(), inputs, outputs, adaptable: true });
            }
        }
        if linears.is_empty() {
            return self;
        }
        let head = family.map_or("lm_head", |it| it.head.as_str());
        self.tied &= !tensors.contains_key(&format!("{head}.weight"));
        linears.extend(self.outside(head, families::embedding(&self.architecture)));
        self.linears = linears;
        self.names_known = true;
        self.exact = family.is_some();
        // Larger ones are masks that old files carry along.
        let counted = tensors.values().filter(|shape| shape.len() < 4);
        self.counted =
            counted.map(|shape| shape.iter().try_fold(1, |all: u64, it| all.checked_mul(*it))).sum();
        self
    }

    /// The linear layers that the family's table and the dimensions give. None where their number is absurd.
    fn place(&mut self, shared: u64) -> Option<()> {
        let widths = [
            self.vocabulary,
            self.hidden,
            self.intermediate,
            self.heads,
            self.kv_heads,
            self.head_dim,
            shared,
        ];
        if self.layers > MOST_LAYERS || self.vocabulary == 0 || widths.iter().any(|it| *it > MOST_WIDTH) {
            return None;
        }
        let Some(family) = families::family(&self.architecture) else { return Some(()) };
        let heads = |heads: u64| heads.checked_mul(self.head_dim).filter(|it| *it <= MOST_WIDTH);
        let (query, key) = (heads(self.heads)?, heads(self.kv_heads)?);
        let width = |width: Width| match width {
            Width::Hidden => Some(self.hidden),
            Width::Query => Some(query),
            Width::Key => Some(key),
            Width::QueryKeyValue => key.checked_mul(2)?.checked_add(query),
            Width::Intermediate => Some(self.intermediate),
            Width::GateUp => self.intermediate.checked_mul(2),
            Width::Shared => Some(shared),
        };
        let mut linears = Vec::new();
        for layer in 0..self.layers {
            for (name, inputs, outputs) in &family.linears {
                let name = format!("{}.{layer}.{name}", family.blocks);
                linears.push(Linear {
                    name,
                    inputs: width(*inputs)?,
                    outputs: width(*outputs)?,
                    adaptable: true,
                });
            }
        }
        linears.extend(self.outside(&family.head, &family.embedding));
        self.linears = linears;
        Some(())
    }

    /// The head and the embedding, for manifests that name them.
    fn outside(&self, head: &str, embedding: &str) -> [Linear; 2] {
        let linear =
            |name: &str, inputs, outputs| Linear { name: name.to_owned(), inputs, outputs, adaptable: false };
        [linear(head, self.hidden, self.vocabulary), linear(embedding, self.vocabulary, self.hidden)]
    }

    /// The linear layers in blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &Linear> {
        self.linears.iter().filter(|linear| linear.adaptable)
    }

    /// Whether FSDP2 finds the blocks: those of the worker's `train/distributed.py`.
    pub fn can_be_sharded(&self) -> bool {
        families::family(&self.architecture).is_some_and(|it| it.blocks == "model.layers")
    }

    /// The first block's layer of this name.
    pub fn first(&self, name: &str) -> Option<&Linear> {
        self.blocks().find(|linear| families::selects(name, &linear.name))
    }

    /// Parameters in the blocks' linear layers, which are what quantization shrinks.
    pub fn linear_parameters(&self) -> u64 {
        self.blocks().map(|linear| linear.inputs.saturating_mul(linear.outputs)).sum()
    }

    /// Parameters that stay in the compute type: embedding, untied head, norms, biases, experts.
    pub fn other_parameters(&self) -> u64 {
        if let Some(all) = self.counted {
            return all.saturating_sub(self.linear_parameters());
        }
        let head = if self.tied { 1 } else { 2 };
        let norms = self.layers * (2 * self.hidden + if self.qk_norm { 2 * self.head_dim } else { 0 });
        let has_biases = self.architecture == "qwen2";
        let biases =
            if has_biases { self.layers * (self.heads + 2 * self.kv_heads) * self.head_dim } else { 0 };
        head * self.vocabulary * self.hidden + norms + biases + self.hidden + self.experts
    }

    pub fn parameters(&self) -> u64 {
        self.linear_parameters() + self.other_parameters()
    }
}

fn own_scaling(config: &Value) -> Option<&serde_json::Map<String, Value>> {
    let own = ["rope_parameters", "rope_scaling"].iter().find_map(|key| config.get(*key)?.as_object())?;
    // Where each kind of layer has its own settings, as in Gemma 3, these are the ones that a scaling is written into.
    Some(own.get("full_attention").and_then(Value::as_object).unwrap_or(own))
}

/// The share of a head's dimensions that positions rotate, where it is written.
fn rotated_share(config: &Value) -> Option<f64> {
    let key = "partial_rotary_factor";
    config.get(key).or_else(|| own_scaling(config)?.get(key))?.as_f64()
}

/// The positions that the base's own rope scaling reaches: some name beside it those from before the scaling.
fn scaled_positions(config: &Value) -> Option<u64> {
    let factor = own_scaling(config)?.get("factor")?.as_f64()?;
    Some((unscaled_positions(config)? as f64 * factor).round() as u64)
}

fn unscaled_positions(config: &Value) -> Option<u64> {
    let scaling = own_scaling(config)?;
    // Phi-3 has it beside the scaling.
    let key = "original_max_position_embeddings";
    let original = scaling.get(key).or_else(|| config.get(key))?.as_f64()?;
    Some(original.round() as u64)
}

/// More blocks than any model has; each is a list of names.
const MOST_LAYERS: u64 = 10_000;
/// More than any model has of words, of hidden or intermediate numbers, of heads or of experts. With these bounds the numbers of
/// parameters and bytes stay below 2^64.
const MOST_WIDTH: u64 = 1 << 20;
const MOST_EXPERT_PARAMETERS: u64 = 1 << 60;

struct Row {
    names: &'static [&'static str],
    architecture: &'static str,
    /// vocabulary, hidden, intermediate, layers, heads, kv heads, head dimension, positions
    numbers: [u64; 8],
    tied: bool,
}

impl Row {
    fn shape(&self) -> Shape {
        let [vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim, positions] = self.numbers;
        let mut shape = Shape {
            architecture: self.architecture.to_owned(),
            vocabulary,
            hidden,
            intermediate,
            layers,
            heads,
            kv_heads,
            head_dim,
            tied: self.tied,
            qk_norm: self.architecture == "qwen3",
            positions,
            scaled_from: None,
            bounded_positions: false,
            rotated_pairs: Some(head_dim / 2),
            fast_path: true,
            eager_attention: false,
            capped_scores: false,
            names_known: true,
            exact: true,
            linears: Vec::new(),
            counted: None,
            experts: 0,
        };
        // The dimensions of this table are small enough for the number of names.
        let _ = shape.place(0);
        shape
    }
}

const fn row(
    names: &'static [&'static str],
    architecture: &'static str,
    numbers: [u64; 8],
    tied: bool,
) -> Row {
    Row { names, architecture, numbers, tied }
}

/// From the bases' published `config.json` files.
const KNOWN: &[Row] = &[
    row(&["smollm2-135m-instruct", "smollm2-135m"], "llama", [49_152, 576, 1_536, 30, 9, 3, 64, 8_192], true),
    row(
        &["smollm2-360m-instruct", "smollm2-360m"],
        "llama",
        [49_152, 960, 2_560, 32, 15, 5, 64, 8_192],
        true,
    ),
    row(
        &["smollm2-1.7b-instruct", "smollm2-1.7b"],
        "llama",
        [49_152, 2_048, 8_192, 24, 32, 32, 64, 8_192],
        true,
    ),
    row(&["qwen3-0.6b"], "qwen3", [151_936, 1_024, 3_072, 28, 16, 8, 128, 40_960], true),
    row(&["qwen3-0.6b-base"], "qwen3", [151_936, 1_024, 3_072, 28, 16, 8, 128, 32_768], true),
    row(&["qwen3-1.7b"], "qwen3", [151_936, 2_048, 6_144, 28, 16, 8, 128, 40_960], true),
    row(&["qwen3-1.7b-base"], "qwen3", [151_936, 2_048, 6_144, 28, 16, 8, 128, 32_768], true),
    row(&["qwen3-4b"], "qwen3", [151_936, 2_560, 9_728, 36, 32, 8, 128, 40_960], true),
    row(&["qwen3-4b-base"], "qwen3", [151_936, 2_560, 9_728, 36, 32, 8, 128, 32_768], true),
    row(&["qwen3-8b"], "qwen3", [151_936, 4_096, 12_288, 36, 32, 8, 128, 40_960], false),
    row(&["qwen3-8b-base"], "qwen3", [151_936, 4_096, 12_288, 36, 32, 8, 128, 32_768], false),
    row(
        &["qwen3-4b-instruct-2507", "qwen3-4b-thinking-2507"],
        "qwen3",
        [151_936, 2_560, 9_728, 36, 32, 8, 128, 262_144],
        true,
    ),
    row(&["qwen3-14b"], "qwen3", [151_936, 5_120, 17_408, 40, 40, 8, 128, 40_960], false),
    row(&["qwen3-14b-base"], "qwen3", [151_936, 5_120, 17_408, 40, 40, 8, 128, 32_768], false),
    row(&["qwen3-32b"], "qwen3", [151_936, 5_120, 25_600, 64, 64, 8, 128, 40_960], false),
    row(
        &["qwen2.5-0.5b", "qwen2.5-0.5b-instruct", "qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct"],
        "qwen2",
        [151_936, 896, 4_864, 24, 14, 2, 64, 32_768],
        true,
    ),
    row(
        &["qwen2.5-1.5b", "qwen2.5-1.5b-instruct", "qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-instruct"],
        "qwen2",
        [151_936, 1_536, 8_960, 28, 12, 2, 128, 32_768],
        true,
    ),
    row(
        &["qwen2.5-3b", "qwen2.5-3b-instruct", "qwen2.5-coder-3b", "qwen2.5-coder-3b-instruct"],
        "qwen2",
        [151_936, 2_048, 11_008, 36, 16, 2, 128, 32_768],
        true,
    ),
    row(
        &["qwen2.5-7b-instruct", "qwen2.5-coder-7b", "qwen2.5-coder-7b-instruct"],
        "qwen2",
        [152_064, 3_584, 18_944, 28, 28, 4, 128, 32_768],
        false,
    ),
    row(
        &["qwen2.5-14b-instruct", "qwen2.5-coder-14b", "qwen2.5-coder-14b-instruct"],
        "qwen2",
        [152_064, 5_120, 13_824, 48, 40, 8, 128, 32_768],
        false,
    ),
    row(
        &["qwen2.5-32b-instruct", "qwen2.5-coder-32b", "qwen2.5-coder-32b-instruct"],
        "qwen2",
        [152_064, 5_120, 27_648, 64, 40, 8, 128, 32_768],
        false,
    ),
    row(
        &["llama-3.2-1b", "llama-3.2-1b-instruct"],
        "llama",
        [128_256, 2_048, 8_192, 16, 32, 8, 64, 131_072],
        true,
    ),
    row(
        &["llama-3.2-3b", "llama-3.2-3b-instruct"],
        "llama",
        [128_256, 3_072, 8_192, 28, 24, 8, 128, 131_072],
        true,
    ),
    row(
        &["llama-3.1-8b", "llama-3.1-8b-instruct"],
        "llama",
        [128_256, 4_096, 14_336, 32, 32, 8, 128, 131_072],
        false,
    ),
    row(
        &["meta-llama-3-8b", "meta-llama-3-8b-instruct"],
        "llama",
        [128_256, 4_096, 14_336, 32, 32, 8, 128, 8_192],
        false,
    ),
    row(
        &["llama-3.1-70b", "llama-3.1-70b-instruct", "llama-3.3-70b-instruct"],
        "llama",
        [128_256, 8_192, 28_672, 80, 64, 8, 128, 131_072],
        false,
    ),
    row(
        &["mistral-7b-v0.3", "mistral-7b-instruct-v0.3"],
        "mistral",
        [32_768, 4_096, 14_336, 32, 32, 8, 128, 32_768],
        false,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_counts_are_the_published_ones() {
        for (name, published) in [
            ("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008),
            ("Qwen/Qwen3-0.6B", 596_049_920),
            ("meta-llama/Llama-3.1-8B", 8_030_261_248),
            ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
            ("Qwen/Qwen3-14B", 14_768_307_200),
            ("Qwen/Qwen3-32B", 32_762_123_264),
            ("Qwen/Qwen2.5-3B", 3_085_938_688),
            ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
            ("Qwen/Qwen2.5-Coder-14B-Instruct", 14_770_033_664),
            ("Qwen/Qwen2.5-Coder-32B-Instruct", 32_763_876_352),
        ] {
            let shape = Shape::known(name).unwrap();
            assert_eq!(shape.parameters(), published, "{name}");
        }
    }

    #[test]
    fn a_config_says_the_same_as_the_table() {
        let config = serde_json::json!({
            "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
            "tie_word_embeddings": true, "max_position_embeddings": 40_960,
        });
        assert_eq!(Shape::from_config(&config), Shape::known("Qwen/Qwen3-0.6B"));
    }

    #[test]
    fn positions_are_the_published_ones() {
        let positions = |name| Shape::known(name).unwrap().positions;
        assert_eq!(positions("meta-llama/Meta-Llama-3-8B"), 8_192);
        assert_eq!(positions("meta-llama/Llama-3.1-8B"), 131_072);
        assert_eq!(positions("Qwen/Qwen3-8B-Base"), 32_768);
        assert_eq!(positions("Qwen/Qwen3-8B"), 40_960);
    }

    #[test]
    fn absurd_dimensions_give_no_shape() {
        let with = |key: &str, value: u64| {
            let mut config = serde_json::json!({
                "model_type": "mixtral", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128,
                "num_hidden_layers": 2, "num_attention_heads": 4, "num_local_experts": 8,
            });
            config[key] = value.into();
            Shape::from_config(&config)
        };
        assert!(with("vocab_size", 1 << 20).is_some());
        let keys = [
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "num_local_experts",
        ];
        for key in keys {
            assert_eq!(with(key, 1 << 62), None, "{key}");
        }
        assert_eq!(with("vocab_size", 0), None, "there is nothing to predict");
    }

    #[test]
    fn an_unknown_base_is_not_guessed() {
        assert_eq!(Shape::known("someone/some-model"), None);
        assert_eq!(Shape::from_config(&serde_json::json!({"model_type": "bert"})), None);
        let config = serde_json::json!({
            "model_type": "deepseek_v2", "vocab_size": 102_400, "hidden_size": 2048, "intermediate_size": 10_944,
            "num_hidden_layers": 27, "num_attention_heads": 16, "n_routed_experts": 64,
        });
        assert_eq!(Shape::from_config(&config).unwrap().blocks().count(), 0);
    }
}
