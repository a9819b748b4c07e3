//! `init`: what it writes, and what it refuses.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use expert_contract::manifest::{self, Options};

fn init(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .arg("init")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn what_it_writes_validates_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let output = init(folder.path(), &["expert-new", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["path"], "expert-new");
    for file in document["files"].as_array().unwrap() {
        assert!(folder.path().join(file.as_str().unwrap()).is_file());
    }
    let options = Options { strict: true, ..Options::default() };
    let loaded = manifest::load(&folder.path().join("expert-new/manifest.json"), &options);
    assert!(loaded.ok() && loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
}

#[test]
fn the_rows_are_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["one"]);
    init(folder.path(), &["two"]);
    let data = |name: &str| std::fs::read(folder.path().join(name).join("datasets/train.jsonl")).unwrap();
    assert_eq!(data("one"), data("two"));
}

#[test]
fn it_goes_into_the_shelf_and_never_over_anything() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("experts")).unwrap();
    assert_eq!(init(folder.path(), &["a"]).status.code(), Some(0));
    let manifest = folder.path().join("experts/a/manifest.json");
    std::fs::write(&manifest, "mine").unwrap();
    let output = init(folder.path(), &["a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is there already"));
    assert_eq!(std::fs::read_to_string(manifest).unwrap(), "mine");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../x", "/tmp/x", "a/b", "", "CON"] {
        assert_eq!(init(folder.path(), &[name]).status.code(), Some(2), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
