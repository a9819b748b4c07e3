//! A decoder's dimensions: read from its `config.json`, or from a table for bases that are not downloaded yet.

use serde::Serialize;
use serde_json::Value;

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
}

/// A linear layer of one decoder block, by the name that `target_modules` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    pub name: &'static str,
    pub inputs: u64,
    pub outputs: u64,
}

impl Shape {
    /// From a base's `config.json`. `None` where it is not a decoder of the usual form.
    pub fn from_config(config: &Value) -> Option<Self> {
        let text = config.get("text_config").unwrap_or(config);
        let number = |key: &str| text.get(key).and_then(Value::as_u64);
        let hidden = number("hidden_size")?;
        let heads = number("num_attention_heads")?;
        let architecture = text.get("model_type").and_then(Value::as_str)?.to_owned();
        Some(Self {
            vocabulary: number("vocab_size")?,
            intermediate: number("intermediate_size")?,
            layers: number("num_hidden_layers")?,
            kv_heads: number("num_key_value_heads").unwrap_or(heads),
            head_dim: number("head_dim").or_else(|| hidden.checked_div(heads))?,
            tied: text.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
            qk_norm: architecture.starts_with("qwen3"),
            positions: number("max_position_embeddings").unwrap_or(u64::MAX),
            architecture,
            hidden,
            heads,
        })
    }

    /// For a base that is not on this machine. The name is a Hub id or the embedded base's.
    pub fn known(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let short = lower.rsplit('/').next().unwrap_or(&lower);
        KNOWN.iter().find(|row| row.names.contains(&short)).map(Row::shape)
    }

    pub fn linears(&self) -> [Linear; 7] {
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let linear = |name, inputs, outputs| Linear { name, inputs, outputs };
        [
            linear("q_proj", self.hidden, query),
            linear("k_proj", self.hidden, key),
            linear("v_proj", self.hidden, key),
            linear("o_proj", query, self.hidden),
            linear("gate_proj", self.hidden, self.intermediate),
            linear("up_proj", self.hidden, self.intermediate),
            linear("down_proj", self.intermediate, self.hidden),
        ]
    }

    /// Parameters in the blocks' linear layers, which are what quantization shrinks.
    pub fn linear_parameters(&self) -> u64 {
        self.layers * self.linears().iter().map(|linear| linear.inputs * linear.outputs).sum::<u64>()
    }

    /// Parameters that stay in the compute type: embedding, untied head, norms.
    pub fn other_parameters(&self) -> u64 {
        let head = if self.tied { 1 } else { 2 };
        let norms = self.layers * (2 * self.hidden + if self.qk_norm { 2 * self.head_dim } else { 0 });
        head * self.vocabulary * self.hidden + norms + self.hidden
    }

    pub fn parameters(&self) -> u64 {
        self.linear_parameters() + self.other_parameters()
    }
}

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
        Shape {
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
        }
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
    row(&["qwen3-0.6b", "qwen3-0.6b-base"], "qwen3", [151_936, 1_024, 3_072, 28, 16, 8, 128, 40_960], true),
    row(&["qwen3-1.7b", "qwen3-1.7b-base"], "qwen3", [151_936, 2_048, 6_144, 28, 16, 8, 128, 40_960], true),
    row(&["qwen3-4b", "qwen3-4b-base"], "qwen3", [151_936, 2_560, 9_728, 36, 32, 8, 128, 40_960], true),
    row(&["qwen3-8b", "qwen3-8b-base"], "qwen3", [151_936, 4_096, 12_288, 36, 32, 8, 128, 40_960], false),
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
        &["llama-3.1-8b", "llama-3.1-8b-instruct", "meta-llama-3-8b", "meta-llama-3-8b-instruct"],
        "llama",
        [128_256, 4_096, 14_336, 32, 32, 8, 128, 131_072],
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
    fn an_unknown_base_is_not_guessed() {
        assert_eq!(Shape::known("someone/some-model"), None);
        assert_eq!(Shape::from_config(&serde_json::json!({"model_type": "bert"})), None);
    }
}
