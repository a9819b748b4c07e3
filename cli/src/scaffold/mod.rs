//! What `init` writes: an expert that is small, whole and trainable as it is, and a workflow for a repository of experts.

pub mod name;
mod preset;
mod rows;
pub mod workflow;

pub use preset::Preset;
pub use rows::{Split, rows};

/// The manifest's text as a person would lay it out, with the preset's parts as they stand in its file.
pub fn manifest(name: &str, preset: Preset) -> serde_json::Result<String> {
    let parts = preset.parts()?;
    Ok(include_str!("manifest.json")
        .replace("{{base_models}}", parts.base_models)
        .replace("{{config}}", parts.config)
        .replace("{{name}}", name))
}

pub fn readme(name: &str, path: &str) -> String {
    include_str!("README.md").replace("{{name}}", name).replace("{{path}}", path)
}
