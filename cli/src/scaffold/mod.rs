//! The expert that `init` writes: small, whole, and trainable on the base that comes with the worker.

mod rows;

pub use rows::{Split, rows};

pub fn manifest(name: &str) -> String {
    include_str!("manifest.json").replace("{{name}}", name)
}

pub fn readme(name: &str, path: &str) -> String {
    include_str!("README.md").replace("{{name}}", name).replace("{{path}}", path)
}
