//! The files that `init` writes: a small, complete, trainable expert, and a workflow for a repository of experts.

pub mod name;
mod preset;
mod rows;
pub mod workflow;

pub use preset::Preset;
pub use rows::{Split, rows};

/// What is made from the expert's files, and can be made again.
pub const IGNORED: &str = "/weights/\n/datasets_optimized/\n";

/// The manifest's text in a readable layout, with the preset's parts unchanged.
pub fn manifest(name: &str, preset: Preset) -> serde_json::Result<String> {
    let parts = preset.parts()?;
    Ok(include_str!("manifest.json")
        .replace("{{base_models}}", parts.base_models)
        .replace("{{config}}", parts.config)
        .replace("{{name}}", name))
}

/// Beside the manifest, which names it: editors complete and check keys by it.
pub const SCHEMA: &str = "manifest.schema.json";

pub fn schema() -> serde_json::Result<String> {
    serde_json::to_string_pretty(&expert_contract::schema::manifest()).map(|text| text + "\n")
}

pub fn readme(name: &str, path: &str) -> String {
    include_str!("README.md").replace("{{name}}", name).replace("{{path}}", path)
}
