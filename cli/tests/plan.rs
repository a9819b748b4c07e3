//! `plan`: what a run would do, or why it cannot.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

struct Expert {
    folder: tempfile::TempDir,
}

impl Expert {
    fn new(bases: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifest = json!({
            "name": "sized",
            "base_models": bases,
            "training": {
                "dataset": {"path": "train.jsonl"},
                "config": {"rank": 8, "alpha": 16, "epochs": 2, "batch_size": 4, "max_seq_length": 128},
            },
        });
        std::fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
        std::fs::write(folder.path().join("train.jsonl"), "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n")
            .unwrap();
        Self { folder }
    }

    fn plan(&self, more: &[&str]) -> Output {
        self.plan_from(self.folder.path(), more)
    }

    fn plan_from(&self, folder: &Path, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(["plan", "--device", "cpu", "--manifest"])
            .arg(self.folder.path())
            .args(more)
            .current_dir(folder)
            .output()
            .unwrap()
    }

    fn document(&self, more: &[&str]) -> Value {
        let output = self.plan(&[&["--json"], more].concat());
        assert!(output.status.success(), "{}", talk(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn embedded() -> Value {
    json!([{"name": "smollm2-135m-instruct"}])
}

#[test]
fn everything_is_resolved_and_says_who_decided() {
    let expert = Expert::new(&embedded());
    let document = expert.document(&["--set", "training.config.batch_size=1", "--epochs", "3"]);
    assert_eq!(document["data"][0]["rows"], 2);
    assert_eq!(document["steps"]["steps"], 6);
    assert_eq!(document["plan"]["recipe"]["schedule"]["duration"], json!({"unit": "epochs", "value": 3.0}));
    assert!(document["plan"]["machine"]["estimate"]["total"].as_u64().unwrap() > 100 << 20);
    let settings = document["settings"].as_array().unwrap();
    let origin = |key: &str| settings.iter().find(|it| it["key"] == key).unwrap()["origin"].clone();
    assert_eq!(
        [origin("batch_size"), origin("epochs"), origin("rank"), origin("seed")],
        ["command line", "command line", "manifest", "default"]
    );
}

#[test]
fn the_digest_is_the_same_from_anywhere() {
    let expert = Expert::new(&embedded());
    let elsewhere = tempfile::tempdir().unwrap();
    let output = expert.plan_from(elsewhere.path(), &["--json", "--output", "runs/here"]);
    let there: Value = serde_json::from_slice(&output.stdout).unwrap();
    let here = expert.document(&[]);
    assert_eq!(here["plan"]["recipe_digest"], there["plan"]["recipe_digest"]);
    assert_ne!(here["plan"]["machine"]["paths"]["output"], there["plan"]["machine"]["paths"]["output"]);
}

#[test]
fn the_page_names_memory_and_settings() {
    let output = Expert::new(&embedded()).plan(&[]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["sized", "comes with the worker", "Memory:", "activations", "Settings that are not defaults"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn only_the_chosen_base_is_talked_about() {
    let expert = Expert::new(&json!([
        {"name": "Qwen/Qwen3-0.6B", "quantization": "int4"},
        {"name": "smollm2-135m-instruct"},
    ]));
    assert!(talk(&expert.plan(&[])).contains("small-int4"));
    assert!(!talk(&expert.plan(&["--model", "smollm2-135m"])).contains("small-int4"));
}

#[test]
fn what_is_missing_is_named_with_its_exit_code() {
    let absent = Expert::new(&json!([{"name": "F:/models/Qwen3-0.6B"}]));
    let output = absent.plan(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    assert!(talk(&output).contains("F:/models/Qwen3-0.6B"));

    let expert = Expert::new(&embedded());
    let output = expert.plan(&["--model", "llama"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("it has smollm2-135m-instruct"), "{}", talk(&output));

    std::fs::remove_file(expert.folder.path().join("train.jsonl")).unwrap();
    let output = expert.plan(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("train.jsonl"), "{}", talk(&output));
}

#[test]
fn an_error_in_another_base_is_a_warning() {
    let expert = Expert::new(&json!([
        {"name": "smollm2-135m-instruct"},
        {"name": "Qwen/Qwen3-0.6B", "quantization": "int3"},
    ]));
    for more in [&[][..], &["--model", "smollm2-135m"]] {
        let output = expert.plan(more);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert!(talk(&output).contains("warning[unknown-word]: invalid value \"int3\""), "{}", talk(&output));
    }
    let output = expert.plan(&["--model", "qwen3-0.6b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("error[unknown-word]: invalid value \"int3\""), "{}", talk(&output));
}

#[test]
fn the_expert_is_named_as_it_is_and_common_settings_have_flags() {
    let expert = Expert::new(&embedded());
    let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .args(["plan", "--json", "--learning-rate", "1e-4", "--seed", "7", "--max-seq-length", "64"])
        .arg(expert.folder.path())
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let recipe = &document["plan"]["recipe"];
    assert_eq!(recipe["optimizer"]["learning_rate"], 1e-4, "{}", talk(&output));
    assert_eq!((&recipe["seed"], &recipe["batch"]["max_seq_length"]), (&json!(7), &json!(64)));
}

#[test]
fn a_folder_and_packed_or_utf16_data_are_named_for_what_they_are() {
    let expert = Expert::new(&embedded());
    let folder = expert.folder.path();
    let text = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let cases: [(&str, &[u8], &str); 5] = [
        ("a.jsonl.gz", b"\x1f\x8b\x08\0rest", "is compressed with gzip\n  hint: unpack it first"),
        ("a.xlsx", b"PK\x03\x04rest", "is a zip archive\n  hint: unpack it first"),
        ("a.jsonl", b"\x28\xb5\x2f\xfdrest", "is compressed with zstd"),
        ("b.jsonl", &utf16, "is UTF-16\n  hint: save it as UTF-8"),
        ("shards/a.jsonl", text.as_bytes(), ""),
    ];
    for (name, bytes, _) in cases {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    let refused = cases[..4].iter().map(|(name, _, said)| (*name, *said));
    for (name, said) in
        refused.chain([("shards", "is a folder, and data is read from files\n  hint: name one")])
    {
        let data = folder.join(name);
        let output = expert.plan(&["--data", data.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", talk(&output));
        assert!(talk(&output).contains(&format!("{name} {said}")), "{name}: {}", talk(&output));
    }
    let output = expert.plan(&["--data", folder.join("shards/a.jsonl").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}
