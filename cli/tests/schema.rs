//! `schema` prints the checked-in schemas.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;
use std::process::Command;

fn printed(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_expert-cli")).arg("schema").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn schemas_are_those_in_the_repository() {
    for (flags, file) in [(&[][..], "manifest"), (&["--plan"], "plan"), (&["--event"], "event")] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../contract/schema/{file}.schema.json"));
        let checked_in = std::fs::read_to_string(path).unwrap().replace("\r\n", "\n");
        assert_eq!(printed(flags), checked_in, "{file}");
        let compact: Value = serde_json::from_str(&printed(&[flags, &["--json"]].concat())).unwrap();
        assert_eq!(compact, serde_json::from_str::<Value>(&checked_in).unwrap(), "{file}");
    }
}

#[test]
fn the_ledger_shows_the_use_of_a_key() {
    let text = printed(&["--ledger"]);
    let line = |path: &str| {
        text.lines().find(|line| line.starts_with(&format!("{path} "))).unwrap_or_default().to_owned()
    };
    assert!(
        line("training.config.batch_size").contains("honoured")
            && line("training.config.batch_size").contains("[8]")
    );
    assert!(
        line("training.config.use_unsloth").contains("advice")
            && line("training.config.use_unsloth").contains("no effect:")
    );
    assert!(line("quality_metrics").contains("metadata"));
    assert!(!line("base_models[].overrides.batch_size").is_empty());
    let rows: Vec<Value> = serde_json::from_str(&printed(&["--ledger", "--json"])).unwrap();
    assert_eq!(rows.len(), text.lines().count());
    assert!(
        rows.iter().all(|row| row["path"].is_string() && row["doc"].is_string() && row["class"].is_string())
    );
    let advice = rows.iter().filter(|row| row["class"] == "advice");
    assert!(advice.clone().count() > 4 && advice.into_iter().all(|row| row["reason"].is_string()));
}

#[test]
fn only_one_document_at_a_time() {
    let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .args(["schema", "--plan", "--event"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
