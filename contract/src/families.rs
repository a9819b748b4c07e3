//! Model families: which linear layers an architecture has, and what an adapter is put on by default. One table,
//! `families.json`, that the worker reads too.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

pub const TABLE: &str = include_str!("families.json");

#[derive(Debug, Default, Deserialize)]
pub struct Table {
    pub families: Vec<Family>,
    /// Last parts of names: small layers that choose experts get no adapter.
    routers: Vec<String>,
    /// Parts of names that lead out of the decoder's own linear layers: fused experts, vision, audio.
    outside: Vec<String>,
    /// Reason -> architectures that cannot be trained.
    pub refused: BTreeMap<String, Vec<String>>,
}

/// Architectures whose blocks hold linear layers of the same names.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub name: String,
    /// Values of `model_type` in `config.json`.
    pub architectures: Vec<String>,
    /// What holds the blocks.
    #[serde(default = "llama_blocks")]
    pub blocks: String,
    #[serde(default = "llama_embedding")]
    pub embedding: String,
    #[serde(default = "llama_head")]
    pub head: String,
    /// Architectures whose head shares the embedding's weights where `config.json` does not say.
    #[serde(default)]
    pub tied: Vec<String>,
    /// Name in a block, width of the input, width of the output.
    pub linears: Vec<(String, Width, Width)>,
    pub ia3: Ia3,
    /// The worker's module that reads its layers on the fast path.
    #[serde(default)]
    pub fast_path: Option<String>,
    /// Whether blocks hold experts, whose weights are one tensor that no adapter is put on.
    #[serde(default)]
    pub experts: bool,
    /// Architectures whose attention transformers computes only with all scores at once.
    #[serde(default)]
    pub eager_attention: Vec<String>,
    /// Architectures that cannot compute rows longer than the positions of their `config.json`.
    #[serde(default)]
    pub bounded_positions: Vec<String>,
    /// Architectures whose positions are not rotary, or are a table of rotations without settings.
    #[serde(default)]
    pub no_rope_scaling: Vec<String>,
    /// Architectures whose linear layers are saved as [input, output].
    #[serde(default)]
    pub transposed: Vec<String>,
}

/// What ia3 scales where the manifest names no module.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ia3 {
    pub target: Vec<String>,
    pub feedforward: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    Hidden,
    Query,
    Key,
    /// Queries, keys and values in one layer.
    QueryKeyValue,
    Intermediate,
    /// Gate and up in one layer.
    GateUp,
    /// The expert that every token goes through.
    Shared,
}

fn llama_blocks() -> String {
    "model.layers".to_owned()
}

fn llama_embedding() -> String {
    "model.embed_tokens".to_owned()
}

fn llama_head() -> String {
    "lm_head".to_owned()
}

pub fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    // A test reads it, so that it cannot be invalid in a build.
    READ.get_or_init(|| serde_json::from_str(TABLE).unwrap_or_default())
}

/// The family of a `model_type`.
pub fn family(architecture: &str) -> Option<&'static Family> {
    table().families.iter().find(|family| family.architectures.iter().any(|it| it == architecture))
}

/// The module of the token embedding.
pub fn embedding(architecture: &str) -> &'static str {
    family(architecture).map_or("embed_tokens", |it| it.embedding.as_str())
}

/// Why this architecture cannot be trained.
pub fn refusal(architecture: &str) -> Option<&'static str> {
    let mut refused = table().refused.iter();
    refused.find(|(_, all)| all.iter().any(|it| it == architecture)).map(|(reason, _)| reason.as_str())
}

/// Whether a module of this name, if it is a linear layer, belongs to what `all-linear` means: it is in one of the
/// decoder's blocks, and is neither an expert nor what chooses between experts.
pub fn is_adaptable(name: &str) -> bool {
    let table = table();
    let last = name.rsplit('.').next().unwrap_or(name);
    let mut in_block = false;
    for part in name.split('.') {
        if table.outside.iter().any(|it| it == part) {
            return false;
        }
        in_block |= !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    }
    in_block && !table.routers.iter().any(|it| it == last)
}

/// Whether peft puts an adapter on the module `name` for this entry of `target_modules`.
pub fn selects(entry: &str, name: &str) -> bool {
    name == entry || name.strip_suffix(entry).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_is_valid_and_names_an_architecture_once() {
        let table: Table = serde_json::from_str(TABLE).unwrap();
        let names =
            table.families.iter().flat_map(|it| &it.architectures).chain(table.refused.values().flatten());
        let names: Vec<_> = names.collect();
        assert!(names.len() > 40);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn what_ia3_scales_are_layers_of_the_family() {
        for family in &table().families {
            for name in &family.ia3.target {
                assert!(
                    family.linears.iter().any(|(path, ..)| selects(name, path)),
                    "{}: {name}",
                    family.name
                );
            }
            for name in &family.ia3.feedforward {
                assert!(family.ia3.target.contains(name), "{}: {name}", family.name);
            }
        }
    }

    #[test]
    fn experts_routers_and_vision_are_not_adapted() {
        assert!(is_adaptable("model.layers.0.mlp.gate_proj"));
        assert!(is_adaptable("h.3.attn.c_attn"));
        for name in [
            "lm_head",
            "model.embed_tokens",
            "model.layers.0.mlp.gate",
            "model.layers.0.mlp.experts.3.gate_proj",
            "model.vision_tower.encoder.layers.0.self_attn.q_proj",
        ] {
            assert!(!is_adaptable(name), "{name}");
        }
    }
}
