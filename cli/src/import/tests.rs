//! Configurations with the documented keys of Axolotl, LLaMA-Factory and TRL: each gives a valid manifest, and each key
//! is carried over or listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::manifest::Options;
use expert_contract::read;
use serde_json::{Value as Json, json};

use super::tree::{self, Value};
use super::{Fate, Imported, Refused, import};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cli/import")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn imported(text: &str, file: &Path) -> Result<Imported, Refused> {
    import(text, file, None, "an-expert", Path::new("an-expert"))
}

fn read_file(name: &str) -> Imported {
    let file = folder().join(name);
    imported(&std::fs::read_to_string(&file).unwrap(), &file).unwrap()
}

/// Every key of a configuration; those of its datasets too.
fn keys(source: &Value) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for entry in source.entries() {
        let items = match &entry.value {
            Value::List(items) if entry.key.ends_with("datasets") => items.as_slice(),
            _ => &[],
        };
        if items.is_empty() {
            keys.insert(entry.key.clone());
        }
        for (index, item) in items.iter().enumerate() {
            keys.extend(item.entries().iter().map(|inner| format!("{}[{index}].{}", entry.key, inner.key)));
        }
    }
    keys
}

#[test]
fn every_key_is_carried_over_or_listed_with_its_reason() {
    let files = files();
    assert!(files.len() >= 12);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let imported =
            imported(&text, &file).unwrap_or_else(|refused| panic!("{}: {refused:?}", file.display()));
        let listed: BTreeSet<String> = imported.lines.iter().map(|line| line.key.clone()).collect();
        let missing: Vec<_> = keys(&tree::read(&text).unwrap()).difference(&listed).cloned().collect();
        assert!(missing.is_empty(), "{}: {missing:?}", file.display());
        let manifest: Json = serde_json::from_str(&imported.manifest).unwrap();
        for line in &imported.lines {
            let place = format!("{}: {}", file.display(), line.key);
            match line.fate {
                Fate::Carried | Fate::Changed | Fate::Default => assert!(!line.here.is_empty(), "{place}"),
                Fate::Left => assert!(!line.why.is_empty() && !line.instead.is_empty(), "{place}"),
                Fate::Unneeded => assert!(!line.why.is_empty(), "{place}"),
            }
            // What a line claims is what the manifest says, unless a later key says it again.
            for (path, value) in line.here.iter().filter_map(|here| here.split_once(" = ")) {
                let found = manifest.pointer(&format!("/{}", path.replace('.', "/")));
                let again = imported
                    .lines
                    .iter()
                    .filter(|other| other.here.iter().any(|it| it.starts_with(path)))
                    .count()
                    > 1;
                let claimed: Json = serde_json::from_str(value).unwrap();
                assert!(again || found == Some(&claimed), "{place}: {path} is {found:?}");
            }
        }
        let written = imported.manifest.into_bytes();
        let loaded = read::from_bytes(written, Path::new("an-expert/manifest.json"), &Options::default());
        assert!(
            loaded.ok(),
            "{}: {}",
            file.display(),
            loaded.diagnostics.iter().map(|it| it.message.as_str()).collect::<String>()
        );
    }
}

/// What a person who knows the other trainer would check first.
#[test]
fn settings_keep_their_meaning() {
    let expected = [
        (
            "axolotl-qlora-chat.yml",
            json!({"base_models/0/name": "meta-llama/Llama-3.1-8B-Instruct", "base_models/0/quantization": "int4",
                "training/config/adapter_type": "lora", "training/config/rank": 32, "training/config/alpha": 16,
                "training/config/target_modules": "all-linear", "training/config/learning_rate": 2e-4,
                "training/config/max_seq_length": 4096, "training/config/packing": true, "training/config/epochs": 3,
                "training/config/batch_size": 2, "training/config/gradient_accumulation_steps": 4,
                "training/config/optim": "paged_adamw_32bit", "training/config/warmup_steps": 10,
                "training/config/flash_attention_2": true, "training/config/report": "wandb",
                "training/config/load_best_model_at_end": true, "training/dataset/path": "datasets/support.jsonl",
                "training/dataset/field_mapping": {"messages": "turns"}, "training/dataset/train_on": "assistant",
                "training/dataset/validation_split": 0.05, "training/dataset/overlong": "drop"}),
        ),
        (
            "axolotl-lora-alpaca.yml",
            json!({"base_models/0/prompt_template": "alpaca", "training/dataset/path": "mhenrichsen/alpaca_2k_test::train",
                "training/config/target_modules": ["q_proj", "v_proj", "k_proj", "o_proj"],
                "training/config/gradient_checkpointing": "full", "training/config/warmup_ratio": 0.1,
                "training/config/bf16": true, "training/config/save_steps": 100}),
        ),
        (
            "axolotl-completion-dora.yaml",
            json!({"training/config/adapter_type": "dora", "training/dataset/field_mapping": {"text": "body"},
                "training/dataset/text_dialogue": "raw", "training/config/max_steps": 400, "training/config/adam_beta2": 0.95,
                "training/config/lr_scheduler_kwargs": {"min_lr_ratio": 0.1}, "training/config/warmup_ratio": 0.05}),
        ),
        (
            "axolotl-full-fsdp.yml",
            json!({"training/config/adapter_type": "lora", "training/config/rank": 64,
                "training/dataset/path": "HuggingFaceH4/ultrachat_200k::train_sft",
                "training/dataset/validation/deduplicate": true, "base_models/0/prompt_template": "qwen3"}),
        ),
        (
            "axolotl-several-datasets.yml",
            json!({"base_models/0/quantization": "int8", "training/dataset/path": "datasets/train",
                "training/dataset/validation_path": "datasets/held-out.jsonl", "training/config/fp16": true,
                "training/config/gradient_accumulation_steps": 16, "training/config/eval_steps": 50}),
        ),
        (
            "llama-factory-lora.yaml",
            json!({"training/config/alpha": 16, "training/dataset/validation_split": 0.1, "training/config/report": "none",
                "training/dataset/train_on": "assistant", "training/config/gradient_checkpointing": true}),
        ),
        (
            "llama-factory-qlora.yaml",
            json!({"base_models/0/quantization": "int4", "training/config/adapter_type": "rslora",
                "training/config/optim": "adamw_bnb_8bit", "training/dataset/train_on": "completions",
                "training/config/lr_scheduler_kwargs": {"min_lr_ratio": 0.1}}),
        ),
        (
            "llama-factory-pretrain.yaml",
            json!({"training/dataset/train_on": "all", "training/dataset/field_mapping": {"text": "body"},
                "training/config/gradient_checkpointing": false, "training/config/save_strategy": "no",
                "training/config/lr_scheduler": "linear"}),
        ),
        (
            "llama-factory-dora.json",
            json!({"training/config/learning_rate": 5e-5, "training/config/epochs": 1.5,
                "training/dataset/field_mapping": {"instruction": "q", "output": "a"},
                "training/dataset/tasks/1/path": "someone/papers::validation::en"}),
        ),
        (
            "trl.json",
            json!({"training/dataset/validation_path": "trl-lib/Capybara::test", "training/config/rank": 32,
                "training/dataset/train_on": "assistant", "training/config/eval_steps": 100}),
        ),
    ];
    for (name, settings) in expected {
        let manifest: Json = serde_json::from_str(&read_file(name).manifest).unwrap();
        for (path, value) in settings.as_object().unwrap() {
            assert_eq!(manifest.pointer(&format!("/{path}")), Some(value), "{name}: {path}");
        }
    }
}

#[test]
fn the_rows_of_several_datasets_are_all_taken_as_there() {
    let manifest: Json = serde_json::from_str(&read_file("llama-factory-dora.json").manifest).unwrap();
    let tasks = manifest["training"]["dataset"]["tasks"].as_array().unwrap();
    assert!(tasks.len() == 2 && tasks.iter().all(|task| task.get("weight").is_none()), "{tasks:?}");
}

#[test]
fn what_cannot_be_carried_over_is_said() {
    let left = |name: &str| -> BTreeSet<String> {
        read_file(name)
            .lines
            .into_iter()
            .filter(|line| line.fate == Fate::Left)
            .map(|line| line.key)
            .collect()
    };
    for (name, key) in [
        ("axolotl-qlora-chat.yml", "special_tokens"),
        ("axolotl-lora-alpaca.yml", "val_set_size"),
        ("axolotl-completion-dora.yaml", "lora_modules_to_save"),
        ("axolotl-several-datasets.yml", "unknown_setting"),
        ("axolotl-several-datasets.yml", "optimizer"),
        ("axolotl-mixture.yml", "datasets[0].field_messages"),
        ("axolotl-mixture.yml", "lora_target_modules"),
        ("llama-factory-full.yaml", "deepspeed"),
        ("llama-factory-dora.json", "pissa_init"),
        ("llama-factory-vision.yaml", "image_max_pixels"),
    ] {
        assert!(left(name).contains(key), "{name}: {key}");
    }
}

#[test]
fn files_of_one_name_get_different_places() {
    let of = |text: &str| imported(&format!("base_model: a/b\n{text}"), Path::new("config.yml")).unwrap();
    let places = |imported: &Imported| -> Vec<(String, String)> {
        imported.copies.iter().map(|copy| (copy.from.clone(), copy.to.clone())).collect()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let found = of("datasets: [{path: ./train/data.jsonl, type: alpaca}]\n\
                    test_datasets: [{path: ./eval/Data.jsonl, type: alpaca}]\n");
    assert_eq!(
        places(&found),
        [
            pair("./train/data.jsonl", "datasets/data.jsonl"),
            pair("./eval/Data.jsonl", "datasets/validation-Data.jsonl")
        ]
    );
    let manifest: Json = serde_json::from_str(&found.manifest).unwrap();
    assert_eq!(manifest["training"]["dataset"]["path"], "datasets/data.jsonl");
    assert_eq!(manifest["training"]["dataset"]["validation_path"], "datasets/validation-Data.jsonl");

    let found =
        of("datasets: [{path: a/data.jsonl.gz}, {path: b/data.jsonl.gz}, {path: ./a/data.jsonl.gz}]\n");
    assert_eq!(
        places(&found),
        [
            pair("a/data.jsonl.gz", "datasets/train/data.jsonl.gz"),
            pair("b/data.jsonl.gz", "datasets/train/data-2.jsonl.gz"),
            pair("./a/data.jsonl.gz", "datasets/train/data.jsonl.gz"),
        ]
    );
    // Each line of the list names the file's own place.
    let listed: Vec<_> = found.lines.iter().flat_map(|line| line.here.clone()).collect();
    assert!(listed.contains(&"datasets/train/data-2.jsonl.gz".to_owned()), "{listed:?}");
}

#[test]
fn fields_that_differ_between_files_are_listed_as_left() {
    let folder = tempfile::tempdir().unwrap();
    let info = json!({
        "one": {"file_name": "one.json", "columns": {"prompt": "q", "response": "a"}},
        "two": {"file_name": "two.json", "columns": {"prompt": "frage", "response": "antwort"}},
    });
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
    let of = |text: &str| {
        let text = format!("model_name_or_path: a/b\ntemplate: qwen\nstage: sft\n{text}");
        let imported = imported(&text, &folder.path().join("config.yml")).unwrap();
        let manifest: Json = serde_json::from_str(&imported.manifest).unwrap();
        let left = imported.lines.into_iter().filter(|line| line.fate == Fate::Left);
        let left: Vec<_> =
            left.filter(|line| line.why.contains("field_mapping")).map(|line| line.key).collect();
        (manifest["training"]["dataset"]["field_mapping"].clone(), left)
    };
    let mapped = json!({"instruction": "q", "output": "a"});
    assert_eq!(of("dataset: one\n"), (mapped.clone(), vec![]));
    assert_eq!(of("dataset: one,two\n"), (Json::Null, vec!["dataset (fields)".to_owned()]));
    assert_eq!(
        of("dataset: one\neval_dataset: two\n"),
        (mapped.clone(), vec!["eval_dataset (fields)".to_owned()])
    );
    assert_eq!(of("dataset: one\neval_dataset: one\n"), (mapped, vec![]));

    let text = "base_model: a/b\ndatasets: [{path: x.jsonl, type: completion, field: body}]\n\
                test_datasets: [{path: y.jsonl, type: completion, field: text}]\n";
    let left = imported(text, Path::new("config.yml")).unwrap().lines;
    let left: Vec<_> = left.iter().filter(|line| line.fate == Fate::Left).map(|line| &line.key).collect();
    assert_eq!(left, ["test_datasets (fields)"]);
}

#[test]
fn no_secret_is_repeated() {
    let imported = read_file("llama-factory-full.yaml");
    assert!(!imported.manifest.contains("hf_abcdefg"));
    assert!(
        imported
            .lines
            .iter()
            .all(|line| !line.value.contains("hf_abcdefg") && !line.here.concat().contains("hf_abcdefg"))
    );
}

/// Whatever stands at a key, there is a valid manifest or a refusal.
#[test]
fn any_value_at_any_key_gives_a_valid_manifest_or_a_refusal() {
    let odd = ["''", "-1", "true", "[1, [2]]", "{a: {b: 1}}"];
    for name in ["axolotl-several-datasets.yml", "llama-factory-qlora.yaml"] {
        let file = folder().join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        let source = tree::read(&text).unwrap();
        for entry in source.entries() {
            for value in odd {
                let others: Json = source
                    .entries()
                    .iter()
                    .filter(|it| it.key != entry.key)
                    .map(|it| (it.key.clone(), it.value.json()))
                    .collect();
                let others = others.to_string();
                // JSON is YAML too; the odd value needs YAML.
                let text = format!("---\n{{{}: {value}, {}", entry.key, &others[1..]);
                let Ok(imported) = imported(&text, &file) else { continue };
                let loaded = read::from_bytes(
                    imported.manifest.into_bytes(),
                    Path::new("x/manifest.json"),
                    &Options::default(),
                );
                assert!(loaded.ok(), "{name}: {}: {value}", entry.key);
            }
        }
    }
}

#[test]
fn other_methods_and_other_files_are_refused() {
    let file = Path::new("config.yml");
    let axolotl = "base_model: a/b\ndatasets: [{path: x.jsonl, type: alpaca}]\n";
    assert!(
        matches!(imported(&format!("{axolotl}rl: dpo\n"), file), Err(Refused::Method(key, Some(3))) if key == "rl: \"dpo\"")
    );
    let factory = "model_name_or_path: a/b\ntemplate: qwen\nstage: dpo\n";
    assert!(matches!(imported(factory, file), Err(Refused::Method(_, Some(3)))));
    assert!(matches!(imported("name: x\nservices: {}\n", file), Err(Refused::Unknown)));
    assert!(matches!(
        imported("model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n", file),
        Err(Refused::Torchtune)
    ));
    assert!(matches!(imported("a: [", file), Err(Refused::Unreadable(_))));
    assert!(matches!(imported("adapter: lora\nsequence_len: 8\n", file), Err(Refused::Invalid(_))));
}
