//! The schemas of what the CLI and its worker exchange, checked in, so that Python can be held against them.
//! `UPDATE=1 cargo test -p expert-contract --test wire_schema` writes them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use expert_contract::event::Event;
use expert_contract::plan::Plan;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

fn hold<T: JsonSchema>(file: &str) {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        checked_in == text,
        "{file} is not what the Rust types say; run with UPDATE=1 and review the diff"
    );
}

#[test]
fn plan() {
    hold::<Plan>("plan.schema.json");
}

#[test]
fn event() {
    hold::<Event>("event.schema.json");
}
