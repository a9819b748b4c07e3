//! `import`: what it writes and says, and what it refuses.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const AXOLOTL: &str = "base_model: HuggingFaceTB/SmolLM2-135M-Instruct\ndatasets:\n  - path: rows/a.jsonl\n    type: chat_template\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlearning_rate: 2e-4\nhub_token: hf_abcdefghijklmnopqrstuvwxyz\nsequence_lenn: 5\nspecial_tokens: {pad_token: '<pad>'}\n";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_expert-cli")).args(arguments).current_dir(folder).output().unwrap()
}

fn with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("My Config.yml"), text).unwrap();
    folder
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_expert_is_made_and_what_is_left_is_listed() {
    let folder = with(AXOLOTL);
    let absent = run(folder.path(), &["import", "My Config.yml", "--to", "other"]);
    let absent = words(&absent.stderr);
    assert!(
        absent.contains("the data is not here: put rows/a.jsonl at other/datasets/a.jsonl")
            && !absent.contains("cp "),
        "{absent}"
    );
    std::fs::create_dir(folder.path().join("rows")).unwrap();
    std::fs::write(folder.path().join("rows/a.jsonl"), "").unwrap();
    let output = run(folder.path(), &["import", "My Config.yml"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    let (said, next) = (words(&output.stdout), words(&output.stderr));
    for part in [
        "my-config/manifest.json",
        "line 11: special_tokens",
        "sequence_lenn",
        "if `sequence_len` is meant",
        "lora_r",
        "training.config.rank = 8",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(next.contains("cp rows/a.jsonl my-config/datasets/a.jsonl"), "{next}");
    assert!(next.contains("next: expert-cli plan my-config"), "{next}");
    let list = std::fs::read_to_string(folder.path().join("my-config/IMPORT.md")).unwrap();
    assert!(list.contains("| 10 | sequence_lenn | 5 | not carried over |"), "{list}");
    assert!(!format!("{said}{next}{list}").contains("hf_abc"), "a secret is shown");

    std::fs::create_dir_all(folder.path().join("my-config/datasets")).unwrap();
    let row = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";
    std::fs::write(folder.path().join("my-config/datasets/a.jsonl"), row).unwrap();
    let checked = run(folder.path(), &["validate", "my-config"]);
    assert_eq!(checked.status.code(), Some(0), "{}", words(&checked.stderr));
    let planned = run(folder.path(), &["plan", "my-config", "--device", "cpu", "--json"]);
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!(plan["plan"]["recipe"]["adapter"]["rank"], 8);
    assert_eq!(plan["plan"]["recipe"]["data"]["train_on"], "assistant");
}

#[test]
fn the_document_has_every_key() {
    let folder = with(AXOLOTL);
    let output = run(folder.path(), &["import", "My Config.yml", "--to", "here/mine", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document["ok"].as_bool(), document["expert"].as_str()), (Some(true), Some("mine")));
    let fate = |key: &str| {
        document["keys"]
            .as_array()
            .unwrap()
            .iter()
            .find(|line| line["key"] == key)
            .map(|line| line["fate"].clone())
    };
    assert_eq!(fate("lora_alpha").unwrap(), "carried");
    assert_eq!(fate("num_epochs").unwrap(), "default");
    assert_eq!(fate("special_tokens").unwrap(), "left");
    assert_eq!(document["copy"][0]["to"], "datasets/a.jsonl");
}

#[test]
fn nothing_is_overwritten() {
    for there in ["manifest.json", "IMPORT.md"] {
        let folder = with(AXOLOTL);
        let expert = folder.path().join("mine");
        std::fs::create_dir(&expert).unwrap();
        std::fs::write(expert.join(there), "my own").unwrap();
        let output = run(folder.path(), &["import", "My Config.yml", "--to", "mine"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            words(&output.stderr).contains(&format!("mine/{there} is there already")),
            "{}",
            words(&output.stderr)
        );
        assert_eq!(std::fs::read_to_string(expert.join(there)).unwrap(), "my own");
        assert_eq!(std::fs::read_dir(&expert).unwrap().count(), 1);
    }
    // Data that is there already, and ignored files, stay.
    let folder = with(AXOLOTL);
    std::fs::create_dir_all(folder.path().join("mine/datasets")).unwrap();
    std::fs::write(folder.path().join("mine/.gitignore"), "mine").unwrap();
    assert_eq!(run(folder.path(), &["import", "My Config.yml", "--to", "mine"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(folder.path().join("mine/.gitignore")).unwrap(), "mine");
}

#[test]
fn other_files_are_refused_and_nothing_is_left() {
    let too_large = format!("{AXOLOTL}# {}\n", "x".repeat(1 << 20));
    for (text, said) in [
        (
            format!("{AXOLOTL}rl: dpo\n"),
            "My Config.yml:12: `rl: \"dpo\"` is not supervised fine-tuning of a causal language model",
        ),
        ("a: [1,\n".to_owned(), "My Config.yml:2: this is not valid YAML"),
        ("name: shop\nports: [80]\n".to_owned(), "is not a configuration of Axolotl, LLaMA-Factory or TRL"),
        ("tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n".to_owned(), "torchtune"),
        (
            "model: Qwen/Qwen3-8B\ntrain_type: lora\nlora_rank: 8\n".to_owned(),
            "docs/import.md has a table of the most used keys of ms-swift",
        ),
        (too_large, "larger than 1 MiB"),
        (format!("{AXOLOTL}lora_r: 9\n"), "`lora_r` is written twice, first in line 6"),
    ] {
        let folder = with(&text);
        let output = run(folder.path(), &["import", "My Config.yml", "--to", "mine"]);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words(&output.stderr).contains(said), "{said}: {}", words(&output.stderr));
        assert!(words(&output.stderr).contains("hint"), "{said}");
        assert!(!folder.path().join("mine").exists(), "{said}");
    }
    let folder = with(AXOLOTL);
    for (file, said) in [("none.yml", "cannot read none.yml"), (".", ". is not a file")] {
        let output = run(folder.path(), &["import", file, "--to", "mine"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(words(&output.stderr).contains(said), "{}", words(&output.stderr));
    }
}

#[test]
fn a_file_in_place_of_a_manifest_leads_to_import() {
    let folder = with(AXOLOTL);
    let output = run(folder.path(), &["validate", "My Config.yml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output.stderr).contains("`expert-cli import"), "{}", words(&output.stderr));
    std::fs::write(
        folder.path().join("args.json"),
        "{\"model_name_or_path\": \"a/b\", \"lora_rank\": 8, \"cutoff_len\": 64}",
    )
    .unwrap();
    let output = run(folder.path(), &["validate", "args.json"]);
    let said = words(&output.stderr);
    assert!(
        said.contains("another trainer's configuration") && said.contains("`expert-cli import"),
        "{said}"
    );
    assert_eq!(said.matches("error").count(), 1, "{said}");
    std::fs::create_dir(folder.path().join("e")).unwrap();
    std::fs::write(folder.path().join("e/manifest.yaml"), AXOLOTL).unwrap();
    let output = run(folder.path(), &["plan", "e"]);
    assert!(words(&output.stderr).contains("there is a manifest.yaml instead"), "{}", words(&output.stderr));
}

/// The commands that are printed work where they are printed.
#[test]
#[cfg(unix)]
fn data_is_copied_by_the_printed_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("cfg/data/rows")).unwrap();
    std::fs::create_dir_all(path("home/my data")).unwrap();
    std::fs::write(path("home/my data/own.jsonl"), "{}\n").unwrap();
    std::fs::write(path("cfg/data/identity.json"), "[]").unwrap();
    std::fs::write(path("cfg/data/rows/a.jsonl"), "{}\n").unwrap();
    let info = "{\"identity\": {\"file_name\": \"identity.json\"}, \"rows\": {\"file_name\": \"rows\"}}";
    std::fs::write(path("cfg/data/dataset_info.json"), info).unwrap();
    let factory = "model_name_or_path: a/b\nstage: sft\ntemplate: qwen\ndataset: identity,rows\n";
    std::fs::write(path("cfg/lf.yaml"), factory).unwrap();
    let axolotl = "base_model: a/b\nadapter: lora\ndatasets:\n- {path: '~/my data/own.jsonl'}\n- {path: https://example.com/x.jsonl}\n- {path: s3://bucket/y.parquet}\n";
    std::fs::write(path("cfg/ax.yml"), axolotl).unwrap();
    std::fs::create_dir_all(path("cfg/my rows")).unwrap();
    for file in ["part-0.jsonl", "part-1.jsonl", "other.jsonl"] {
        std::fs::write(path("cfg/my rows").join(file), "{}\n").unwrap();
    }
    std::fs::write(path("held.jsonl"), "{}\n").unwrap();
    let pattern = "base_model: a/b\nadapter: lora\ndatasets:\n- {path: json, data_files: 'my rows/part-[!2-9].jsonl'}\ntest_datasets:\n- {path: json, data_files: held.jsonl}\n";
    std::fs::write(path("cfg/pattern.yml"), pattern).unwrap();
    let home = path("home");
    for (file, expert) in [("cfg/lf.yaml", "one"), ("cfg/ax.yml", "two"), ("cfg/pattern.yml", "three")] {
        let imported = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(["import", file, "--to", expert])
            .current_dir(folder.path())
            .env("HOME", &home)
            .output()
            .unwrap();
        assert_eq!(imported.status.code(), Some(0), "{}", words(&imported.stderr));
        let said = words(&imported.stderr);
        for command in said.lines().filter_map(|line| line.strip_prefix("copy the data: ")) {
            assert!(!command.contains("://"), "{command}");
            let copied = Command::new("sh")
                .args(["-c", command])
                .current_dir(folder.path())
                .env("HOME", &home)
                .output()
                .unwrap();
            assert!(copied.status.success(), "{command}: {}", words(&copied.stderr));
        }
        let downloads = said.lines().filter(|line| line.starts_with("download the data: ")).count();
        assert_eq!(downloads, if expert == "two" { 2 } else { 0 }, "{said}");
    }
    for file in ["one/datasets/identity.json", "one/datasets/rows/a.jsonl", "two/datasets/own.jsonl"] {
        assert!(path(file).is_file(), "{file}");
    }
    let files = |folder: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(path(folder)).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(files("three/datasets"), ["held.jsonl", "train"]);
    assert_eq!(files("three/datasets/train"), ["part-0.jsonl", "part-1.jsonl"]);
}
