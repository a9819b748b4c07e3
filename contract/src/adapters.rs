//! The kinds of adapters and what sets them apart: everything else asks this table.

use std::path::{Path, PathBuf};

use crate::plan::{Adapter, AdapterKind, Quantization};

/// The files of an adapter's folder, as peft names them.
pub const CONFIG: &str = "adapter_config.json";
pub const WEIGHTS: &str = "adapter_model.safetensors";

/// Their places in an adapter's folder.
pub fn files(folder: &Path) -> [PathBuf; 2] {
    [CONFIG, WEIGHTS].map(|name| folder.join(name))
}

/// The first of them that is not in the folder.
pub fn missing_file(folder: &Path) -> Option<&'static str> {
    [CONFIG, WEIGHTS].into_iter().find(|name| !folder.join(name).is_file())
}

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trained {
    /// Matrices beside the base's linear layers.
    Matrices,
    /// Vectors, alone or beside matrices: an optimizer for matrices cannot train them.
    Vectors,
    /// Virtual tokens before the text; no layer changes.
    SoftPrompts,
}

/// When the worker's own decoder computes the adapter; otherwise transformers and peft do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPath {
    Always,
    /// Its dropout draws from torch's own generator.
    WithoutDropout,
    Never,
}

/// What the size of one layer's adapter depends on.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    pub rank: u64,
    pub inputs: u64,
    pub outputs: u64,
    /// IA3 scales the input of these layers, and the output of all others.
    pub feedforward: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// Whether it has a rank, an alpha and dropout.
    pub has_rank: bool,
    pub trained: Trained,
    /// Trained parameters of one layer.
    pub parameters: fn(Layer) -> u64,
    /// Whether the backward pass needs the output of each adapted layer beside its input.
    pub saves_outputs: bool,
    pub fast_path: FastPath,
    /// Whether peft can put it on weights of 4 bits.
    pub on_int4: bool,
    /// Whether peft can put it on the embedding.
    pub on_embedding: bool,
    /// The kind that `use_dora` makes of it.
    pub with_dora: Option<AdapterKind>,
}

const LORA: Traits = Traits {
    has_rank: true,
    trained: Trained::Matrices,
    parameters: |it| it.rank * (it.inputs + it.outputs),
    saves_outputs: false,
    fast_path: FastPath::Always,
    on_int4: true,
    on_embedding: true,
    with_dora: None,
};

impl AdapterKind {
    pub fn traits(self) -> Traits {
        match self {
            Self::Lora => Traits { with_dora: Some(Self::Dora), ..LORA },
            Self::Rslora => LORA,
            Self::Dora => Traits {
                trained: Trained::Vectors,
                parameters: |it| it.rank * (it.inputs + it.outputs) + it.outputs,
                saves_outputs: true,
                with_dora: Some(Self::Dora),
                ..LORA
            },
            Self::Adalora => Traits {
                trained: Trained::Vectors,
                // peft starts it at half as much rank again and prunes down to the target.
                parameters: |it| (it.rank * 3).div_ceil(2) * (it.inputs + it.outputs + 1),
                on_embedding: false,
                ..LORA
            },
            Self::Lokr => Traits {
                parameters: lokr_parameters,
                fast_path: FastPath::WithoutDropout,
                // peft reads the shape of the weight, which one of 4 bits does not have.
                on_int4: false,
                on_embedding: false,
                ..LORA
            },
            Self::Ia3 => Traits {
                has_rank: false,
                trained: Trained::Vectors,
                parameters: |it| if it.feedforward { it.inputs } else { it.outputs },
                on_embedding: false,
                ..LORA
            },
            Self::Prompt => Traits {
                has_rank: false,
                trained: Trained::SoftPrompts,
                parameters: |_| 0,
                fast_path: FastPath::Never,
                ..LORA
            },
        }
    }

    pub fn has_rank(self) -> bool {
        self.traits().has_rank
    }

    /// The format that holds a base in the least memory under this adapter.
    pub fn smallest_format(self) -> Quantization {
        if self.traits().on_int4 { Quantization::Int4 } else { Quantization::Int8 }
    }

    pub fn is_soft_prompt(self) -> bool {
        self.traits().trained == Trained::SoftPrompts
    }
}

impl Adapter {
    /// Tokens that soft prompts put before every row.
    pub fn virtual_tokens(&self) -> u64 {
        self.soft_prompts.iter().map(|prompt| u64::from(prompt.tokens)).sum()
    }

    /// Whether the worker's own decoder computes this adapter. It reads the weights of head, embedding and norms directly.
    pub fn takes_fast_path(&self) -> bool {
        if self.target_modules.iter().any(|path| is_read_directly(path)) {
            return false;
        }
        match self.kind.traits().fast_path {
            FastPath::Always => true,
            FastPath::WithoutDropout => self.dropout == 0.0,
            FastPath::Never => false,
        }
    }
}

fn is_read_directly(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    matches!(name, "lm_head" | "embed_tokens") || name.ends_with("norm")
}

/// peft factorises both sides near their square roots and keeps the second block low-rank while that is smaller.
fn lokr_parameters(it: Layer) -> u64 {
    let (out_small, out_large) = near_square(it.outputs);
    let (in_small, in_large) = near_square(it.inputs);
    let second = if it.rank * 2 < out_large.max(in_large) {
        it.rank * (out_large + in_large)
    } else {
        out_large * in_large
    };
    out_small * in_small + second
}

fn near_square(dimension: u64) -> (u64, u64) {
    let small = (1..=dimension.isqrt()).rev().find(|divisor| dimension.is_multiple_of(*divisor)).unwrap_or(1);
    (small, dimension / small)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_fast_path(kind: AdapterKind, dropout: f64) -> bool {
        on(&[], kind, dropout)
    }

    fn on(modules: &[&str], kind: AdapterKind, dropout: f64) -> bool {
        let adapter = Adapter {
            kind,
            rank: Some(8),
            alpha: Some(16.0),
            dropout,
            target_modules: modules.iter().map(|name| (*name).to_owned()).collect(),
            feedforward_modules: Vec::new(),
            soft_prompts: Vec::new(),
            initial: None,
        };
        adapter.takes_fast_path()
    }

    #[test]
    fn the_fast_path_leaves_out_soft_prompts_and_the_dropout_of_lokr() {
        assert!(takes_fast_path(AdapterKind::Dora, 0.1));
        assert!(takes_fast_path(AdapterKind::Lokr, 0.0));
        assert!(!takes_fast_path(AdapterKind::Lokr, 0.1));
        assert!(!takes_fast_path(AdapterKind::Prompt, 0.0));
    }

    #[test]
    fn the_fast_path_leaves_out_adapters_of_head_embedding_and_norms() {
        assert!(on(&["all-linear"], AdapterKind::Lora, 0.0));
        assert!(on(&["q_proj", "down_proj"], AdapterKind::Lora, 0.0));
        for name in ["lm_head", "embed_tokens", "model.embed_tokens", "input_layernorm"] {
            assert!(!on(&["q_proj", name], AdapterKind::Lora, 0.0), "{name}");
        }
    }
}
