//! The names that `field_mapping` may have are those that the worker's native module reads rows by.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use expert_contract::rules::{FIELDS, OPTIONAL_FIELDS};

/// The texts of one constant of Rust.
fn constant<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let (_, after) = source.split_once(&format!("pub const {name}:")).unwrap();
    let (declared, _) = after.split_once("];\n").unwrap();
    let (_, value) = declared.split_once(" = ").unwrap();
    value.split('"').skip(1).step_by(2).collect()
}

#[test]
fn a_mapping_may_name_every_field_that_rows_are_read_by() {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/native/src/rows");
    let names = std::fs::read_to_string(rows.join("fields.rs")).unwrap();
    let constants = ["QUESTIONS", "ANSWERS", "CONTEXTS", "SYSTEMS", "DIALOGUES"];
    let mut read: BTreeSet<&str> = constants.iter().flat_map(|name| constant(&names, name)).collect();
    let shapes = std::fs::read_to_string(rows.join("shape.rs")).unwrap();
    for name in ["text", "tools", "history"] {
        assert!(shapes.contains(&format!("\"{name}\"")), "{name}");
        read.insert(name);
    }
    assert_eq!(FIELDS.into_iter().collect::<BTreeSet<_>>(), read);
    assert_eq!(FIELDS.len(), read.len());
    let mut optional: BTreeSet<&str> =
        ["CONTEXTS", "SYSTEMS"].iter().flat_map(|name| constant(&names, name)).collect();
    optional.extend(["tools", "history"]);
    assert_eq!(OPTIONAL_FIELDS.into_iter().collect::<BTreeSet<_>>(), optional);
}
