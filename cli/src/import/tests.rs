//! Configurations with the documented keys of Axolotl, LLaMA-Factory and TRL: each gives a valid manifest, and each key
//! is carried over or listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::manifest::Options;
use expert_contract::read;
use serde_json::{Value as Json, json};

use super::tree::{self, Value};
use super::{Fate, Imported, KeyFate, Refused, import};

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

pub(super) fn imported(text: &str, file: &Path) -> Result<Imported, Refused> {
    import(text, file, None, "an-expert", Path::new("an-expert"))
}

pub(super) fn read_file(name: &str) -> Imported {
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

/// Settings that a line claims and the manifest has not.
pub(super) fn false_claims(imported: &Imported) -> Vec<&str> {
    let manifest: Json = serde_json::from_str(&imported.manifest).unwrap();
    let is_false = |here: &&str| {
        let Some((path, value)) = here.split_once(" = ") else { return false };
        let found = manifest.pointer(&format!("/{}", path.replace('.', "/")));
        found != Some(&serde_json::from_str::<Json>(value).unwrap())
    };
    let claims = imported.lines.iter().flat_map(|line| &line.here);
    claims.map(String::as_str).filter(is_false).collect()
}

pub(super) fn fate_of(imported: &Imported, key: &str) -> Option<Fate> {
    imported.lines.iter().find(|line| line.key == key).map(|line| line.fate)
}

/// The value at a path such as `training/config/seed`.
pub(super) fn value_at(imported: &Imported, path: &str) -> Json {
    let manifest: Json = serde_json::from_str(&imported.manifest).unwrap();
    manifest.pointer(&format!("/{path}")).cloned().unwrap_or_default()
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
        for line in &imported.lines {
            let place = format!("{}: {}", file.display(), line.key);
            match line.fate {
                Fate::Carried | Fate::Changed | Fate::Default => assert!(!line.here.is_empty(), "{place}"),
                Fate::Left => assert!(!line.why.is_empty() && !line.instead.is_empty(), "{place}"),
                Fate::Unneeded => assert!(!line.why.is_empty(), "{place}"),
            }
        }
        assert_eq!(false_claims(&imported), [""; 0], "{}", file.display());
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
                "training/dataset/field_mapping": {"instruction": "q", "output": "a", "history": "before"},
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
    // TRL's trainers are known by the keys that only they have.
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    for key in [
        "beta: 0.1",
        "loss_type: sigmoid",
        "max_prompt_length: 512",
        "num_generations: 16",
        "desirable_weight: 1.0",
    ] {
        let refused = imported(&format!("{trl}{key}\n"), file);
        assert!(matches!(refused, Err(Refused::Method(_, Some(4)))), "{key}: {refused:?}");
    }
    for key in ["loss_type: nll", "loss_type: dft", "beta: null"] {
        assert!(imported(&format!("{trl}{key}\n"), file).is_ok(), "{key}");
    }
    let factory = "model_name_or_path: a/b\ntemplate: qwen\nstage: dpo\n";
    assert!(matches!(imported(factory, file), Err(Refused::Method(_, Some(3)))));
    assert!(matches!(imported("name: x\nservices: {}\n", file), Err(Refused::Unknown)));
    assert!(matches!(
        imported("model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n", file),
        Err(Refused::Unread("torchtune"))
    ));
    assert!(matches!(imported("a: [", file), Err(Refused::Unreadable(_))));
    assert!(matches!(imported("adapter: lora\nsequence_len: 8\n", file), Err(Refused::Invalid(..))));
    let worded = "base_model: a/b\nadapter: lora\nlora_r: sixteen\nlora_alpha: 8\n";
    let Err(Refused::Invalid(_, dropped)) = imported(worded, file) else {
        panic!("a rank in words is taken")
    };
    assert!(dropped[0].starts_with("line 3: lora_r is "), "{dropped:?}");
}

#[test]
fn variables_of_the_template_are_carried_where_it_reads_them() {
    let factory = "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\nlora_rank: 8\nenable_thinking: false\n";
    let of = |text: &str| imported(text, Path::new("x/config.yaml")).unwrap();
    let found = of(&format!("{factory}template: qwen3\n"));
    assert_eq!(value_at(&found, "base_models/0/chat_template_kwargs"), json!({"enable_thinking": false}));
    assert_eq!(fate_of(&found, "enable_thinking"), Some(Fate::Carried));
    let found = of(&format!("{factory}template: vicuna\n"));
    assert_eq!(fate_of(&found, "enable_thinking"), Some(Fate::Left));
    assert!(line(&found, "enable_thinking").why.contains("does not read `enable_thinking`"));
    let axolotl = "base_model: a/b\nmicro_batch_size: 2\nadapter: lora\ndatasets: [{path: x/y, type: chat_template}]\n\
        chat_template_kwargs: {thinking: true, effort: low}\n";
    assert_eq!(
        value_at(&of(axolotl), "base_models/0/chat_template_kwargs"),
        json!({"thinking": true, "effort": "low"})
    );
}

#[test]
fn each_variable_of_the_template_is_carried_or_listed_alone() {
    const VARIABLES: &str = "base_models/0/chat_template_kwargs";
    let factory = "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\nfinetuning_type: lora\n";
    let of = |more: &str| imported(&format!("{factory}{more}"), Path::new("x/config.yaml")).unwrap();
    let keys = ["enable_thinking: false\n", "chat_template_kwargs: {thinking: true}\n"];
    for more in [keys.concat(), [keys[1], keys[0]].concat()] {
        let found = of(&more);
        assert_eq!(
            value_at(&found, VARIABLES),
            json!({"enable_thinking": false, "thinking": true}),
            "{more}"
        );
        assert_eq!(false_claims(&found), [""; 0], "{more}");
    }
    let found = of("enable_thinking: false\nchat_template_kwargs: {enable_thinking: true}\n");
    assert_eq!(value_at(&found, VARIABLES), json!({"enable_thinking": false}));
    assert_eq!(fate_of(&found, "chat_template_kwargs.enable_thinking"), Some(Fate::Left));
    let found = of("template: qwen3\nchat_template_kwargs:\n  enable_thinking: true\n  level: 1.5\n  \
        effort: low\n  a.b: 1\n  '0': 1\n  _note: true\n  tools: 1\n  none: null\n");
    assert_eq!(value_at(&found, VARIABLES), json!({"enable_thinking": true}));
    for (name, fate) in [
        ("enable_thinking", Fate::Carried),
        ("level", Fate::Left),
        ("effort", Fate::Left),
        ("a.b", Fate::Left),
        ("0", Fate::Left),
        ("_note", Fate::Left),
        ("tools", Fate::Left),
        ("none", Fate::Unneeded),
    ] {
        assert_eq!(fate_of(&found, &format!("chat_template_kwargs.{name}")), Some(fate), "{name}");
    }
    assert!(line(&found, "chat_template_kwargs.effort").why.contains("does not read `effort`"));
    assert_eq!(line(&found, "chat_template_kwargs.effort").line, Some(8));
    for (more, fate) in [("{}", Fate::Unneeded), ("low", Fate::Left)] {
        let found = of(&format!("enable_thinking: true\nchat_template_kwargs: {more}\n"));
        assert_eq!(fate_of(&found, "chat_template_kwargs"), Some(fate), "{more}");
        assert_eq!(value_at(&found, VARIABLES), json!({"enable_thinking": true}), "{more}");
    }
}

/// One key decides; the other one is listed with what it would have set.
#[test]
fn of_two_keys_for_one_setting_one_decides_and_the_other_is_left() {
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    let axolotl = "base_model: a/b\nmicro_batch_size: 2\nadapter: lora\ndatasets: [{path: x.jsonl, type: chat_template}]\n";
    for (text, path, value, left) in [
        (format!("{trl}data_seed: 7\nseed: 42\n"), "training/config/seed", json!(42), "data_seed"),
        (
            format!("{trl}max_length: 512\nmax_seq_length: 256\n"),
            "training/config/max_seq_length",
            json!(512),
            "max_seq_length",
        ),
        (
            format!("{trl}completion_only_loss: true\nassistant_only_loss: true\n"),
            "training/dataset/train_on",
            json!("assistant"),
            "completion_only_loss",
        ),
        (
            format!("{trl}truncation_side: left\ntruncation_mode: keep_start\n"),
            "training/dataset/overlong",
            json!("truncate"),
            "truncation_side",
        ),
        (
            format!("{trl}truncation_mode: keep_end\ntruncation_side: right\n"),
            "training/dataset/overlong",
            json!("keep_end"),
            "truncation_side",
        ),
        (
            format!("{trl}use_rslora: true\nuse_dora: true\n"),
            "training/config/adapter_type",
            json!("dora"),
            "use_rslora",
        ),
        (
            format!("{axolotl}load_in_8bit: true\nload_in_4bit: true\n"),
            "base_models/0/quantization",
            json!("int8"),
            "load_in_4bit",
        ),
        // What trains the whole model there does so with any rank.
        (
            "base_model: a/b\nmicro_batch_size: 2\nlora_r: 8\n".to_owned(),
            "training/config/rank",
            json!(64),
            "lora_r",
        ),
        (
            "model_name_or_path: a/b\nstage: sft\nlora_rank: 8\nfinetuning_type: full\n".to_owned(),
            "training/config/rank",
            json!(64),
            "lora_rank",
        ),
    ] {
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(value_at(&found, path), value, "{text}");
        assert_eq!(fate_of(&found, left), Some(Fate::Left), "{text}");
        assert_eq!(false_claims(&found), [""; 0], "{text}");
    }
    // These say the same, or add to one another.
    for (text, path, value, key) in [
        (format!("{trl}seed: 7\ndata_seed: 7\n"), "training/config/seed", json!(7), "data_seed"),
        (
            format!("{trl}completion_only_loss: false\nassistant_only_loss: true\n"),
            "training/dataset/train_on",
            json!("assistant"),
            "completion_only_loss",
        ),
        (format!("{axolotl}peft_use_dora: true\n"), "training/config/adapter_type", json!("dora"), "adapter"),
        (
            format!("{axolotl}use_tensorboard: true\nwandb_project: mine\n"),
            "training/config/report",
            json!(["tensorboard", "wandb"]),
            "wandb_project",
        ),
        (
            format!("{axolotl}train_on_inputs: true\n"),
            "training/dataset/train_on",
            json!("all"),
            "datasets[0].type",
        ),
        (
            format!("{axolotl}cosine_min_lr_ratio: 0.1\nlr_scheduler_kwargs: {{num_cycles: 2}}\n"),
            "training/config/lr_scheduler_kwargs",
            json!({"num_cycles": 2, "min_lr_ratio": 0.1}),
            "cosine_min_lr_ratio",
        ),
    ] {
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(value_at(&found, path), value, "{text}");
        assert_ne!(fate_of(&found, key), Some(Fate::Left), "{text}");
    }
}

/// TRL's defaults, and those of its scripts, which have `use_peft`.
#[test]
fn what_trl_does_by_default_is_said() {
    let of = |more: &str| {
        let text = format!("model_name_or_path: a/b\ndataset_name: x/y\nlearning_rate: 2e-5\n{more}");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    let adapter = |imported: &Imported| {
        ["rank", "alpha", "dropout"].map(|key| value_at(imported, &format!("training/config/{key}")))
    };
    let whole = [json!(64), json!(64), Json::Null];
    for (more, expected) in [
        ("", whole.clone()),
        ("use_peft: false\nlora_r: 8\n", whole),
        ("use_peft: true\n", [json!(16), json!(32), json!(0.05)]),
        ("lora_alpha: 4\n", [json!(8), json!(4), Json::Null]),
        ("load_in_4bit: true\n", [json!(8), json!(8), Json::Null]),
    ] {
        let found = of(more);
        assert_eq!(adapter(&found), expected, "{more}");
        let says_so = found.lines.iter().any(|line| line.instead.contains("raise learning_rate"));
        assert_eq!(says_so, expected[0] == 64, "{more}");
        // TRL learns every token of dialogues.
        let loss =
            found.lines.iter().find(|line| line.here.iter().any(|it| it.contains("train_on"))).unwrap();
        assert_eq!(loss.fate, Fate::Changed, "{more}");
    }
    assert_eq!(fate_of(&of("assistant_only_loss: true\n"), "assistant_only_loss"), Some(Fate::Carried));
}

/// The first line of a key, and what it says.
pub(super) fn line<'a>(imported: &'a Imported, key: &str) -> &'a KeyFate {
    imported.lines.iter().find(|line| line.key == key).unwrap_or_else(|| panic!("no line of {key}"))
}

#[test]
fn an_adapter_to_train_on_is_copied_into_the_experts_folder() {
    let of = |text: &str| imported(text, Path::new("config.yml")).unwrap();
    let found = of("base_model: a/b\nadapter: lora\nlora_model_dir: ./outputs/first/\n");
    assert_eq!(value_at(&found, "training/config/initial_adapter"), "adapters/first");
    assert_eq!(line(&found, "lora_model_dir").fate, Fate::Changed);
    let copies: Vec<_> = found.copies.iter().map(|copy| (copy.what, &*copy.from, &*copy.to)).collect();
    assert_eq!(copies, [("adapter", "./outputs/first", "adapters/first")]);
    for (path, place) in
        [("../", "adapters/initial"), ("./", "adapters/initial"), ("'runs/a, b'", "adapters/a, b")]
    {
        let found = of(&format!("base_model: a/b\nadapter: lora\nlora_model_dir: {path}\n"));
        assert_eq!(value_at(&found, "training/config/initial_adapter"), place, "{path}");
    }
    let llama = "model_name_or_path: a/b\nstage: sft\ntemplate: qwen\n";
    assert_eq!(
        value_at(&of(&format!("{llama}adapter_name_or_path: saves/x\n")), "training/config/initial_adapter"),
        "adapters/x"
    );
    // Merged into the base before a new one is trained.
    for merged in ["adapter_name_or_path: a,b\n", "adapter_name_or_path: a\ncreate_new_adapter: true\n"] {
        let found = of(&format!("{llama}{merged}"));
        assert_eq!(value_at(&found, "training/config/initial_adapter"), Json::Null);
        assert_eq!(line(&found, "adapter_name_or_path").fate, Fate::Left);
        assert!(found.copies.iter().all(|copy| copy.what == "data"));
    }
}

#[test]
fn the_layers_that_peft_adapts_by_default_are_said() {
    let folder = tempfile::tempdir().unwrap();
    for (name, family) in [("mine", "stablelm"), ("new", "smollm3")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let config = json!({"model_type": family}).to_string();
        std::fs::write(folder.path().join(name).join("config.json"), config).unwrap();
    }
    let of = |base: &str, more: &str| {
        let base = base.replace("HERE", &folder.path().to_string_lossy());
        let text = format!("model_name_or_path: {base}\ndataset_name: x/y\n{more}");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    let modules = |imported: &Imported| value_at(imported, "training/config/target_modules");
    let two = json!(["q_proj", "v_proj"]);
    for base in [
        "Qwen/Qwen3-0.6B",
        "Qwen/Qwen2.5-7B-Instruct",
        "meta-llama/Llama-3.1-8B-Instruct",
        "HuggingFaceTB/SmolLM2-1.7B",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "mistralai/Mistral-7B-v0.3",
        "mistralai/Mixtral-8x7B-v0.1",
        "google/gemma-2-9b-it",
        "google/gemma-3-1b-it",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
        "HERE/mine",
    ] {
        let found = of(base, "lora_r: 16\n");
        assert_eq!(modules(&found), two, "{base}");
        assert_eq!(fate_of(&found, "lora_target_modules"), Some(Fate::Default), "{base}");
    }
    assert_eq!(modules(&of("openai-community/gpt2", "lora_r: 16\n")), json!(["c_attn"]));
    // PEFT has no layers for these, or the name does not say which family it is.
    for base in [
        "a/b",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "Qwen/Qwen3.5-4B",
        "meta-llama/Llama-3.2-11B-Vision",
        "google/gemma-3-27b-it",
        "HERE/new",
    ] {
        let found = of(base, "lora_r: 16\n");
        let line = line(&found, "lora_target_modules");
        assert_eq!((modules(&found), line.fate), (json!("all-linear"), Fate::Changed), "{base}");
        assert!(line.instead.contains("\"q_proj\", \"v_proj\""), "{}", line.instead);
    }
    // What is written wins; without an adapter there, all layers stand for the whole model.
    for (more, expected) in [
        ("lora_r: 16\nlora_target_modules: [k_proj]\n", json!(["k_proj"])),
        ("lora_r: 16\nlora_target_modules: all-linear\n", json!("all-linear")),
        ("lora_r: 16\ntarget_modules: '.*proj'\n", Json::Null),
        ("use_peft: false\n", json!("all-linear")),
        ("use_peft: true\nlora_target_modules: null\n", two),
        // Unsloth names all layers by default.
        ("r: 16\nuse_gradient_checkpointing: unsloth\n", Json::Null),
        ("peft_type: IA3\n", Json::Null),
    ] {
        let found = of("Qwen/Qwen3-0.6B", more);
        assert_eq!(modules(&found), expected, "{more}");
        assert_eq!(false_claims(&found), [""; 0], "{more}");
    }
    let axolotl = "base_model: Qwen/Qwen3-0.6B\nadapter: lora\nmicro_batch_size: 1\n";
    assert_eq!(modules(&imported(axolotl, Path::new("config.yml")).unwrap()), Json::Null);
}

/// Axolotl adapts the named modules and all linear layers of the blocks.
#[test]
fn embedding_and_head_beside_all_linear_layers_are_listed() {
    let of = |more: &str| {
        let text = format!("base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n{more}");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        let line = line(&found, "lora_target_modules").clone();
        (value_at(&found, "training/config/target_modules"), line)
    };
    let linear = "lora_target_linear: true\nlora_target_modules: ";
    for (names, outside) in [
        ("[q_proj, embed_tokens, lm_head]", "embed_tokens, lm_head"),
        ("[model.embed_tokens]", "model.embed_tokens"),
        ("[transformer.wte, query_key_value]", "transformer.wte"),
        ("[embed_in, embed_out]", "embed_in, embed_out"),
    ] {
        let (modules, line) = of(&format!("{linear}{names}\n"));
        assert_eq!((modules, line.fate), (json!("all-linear"), Fate::Left), "{names}");
        assert!(line.why.ends_with(&format!("leaves out {outside}")), "{}", line.why);
        assert!(line.instead.contains(&format!("to adapt {outside} too")), "{}", line.instead);
    }
    let (modules, line) = of(&format!("{linear}[q_proj, mlp.down_proj]\n"));
    assert_eq!((modules, line.fate), (json!("all-linear"), Fate::Unneeded));
    let (modules, line) = of("lora_target_modules: [q_proj, embed_tokens]\n");
    assert_eq!((modules, line.fate), (json!(["q_proj", "embed_tokens"]), Fate::Carried));
}

/// Axolotl does so where each save falls on an evaluation.
#[test]
fn axolotl_ends_with_the_best_checkpoint_by_default() {
    let of = |more: &str| {
        let text = format!("base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n{more}");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        let fate = fate_of(&found, "load_best_model_at_end");
        (fate, value_at(&found, "training/config/load_best_model_at_end"))
    };
    let on = (Some(Fate::Default), json!(true));
    let off = (None, Json::Null);
    let held_out = "val_set_size: 0.1\n";
    for (more, expected) in [
        ("save_steps: 100\neval_steps: 50\n", &on),
        ("save_steps: 50\neval_steps: 50\n", &on),
        ("save_steps: 0.5\neval_steps: 0.25\n", &on),
        ("saves_per_epoch: 1\nevals_per_epoch: 4\nnum_epochs: 2\n", &on),
        ("saves_per_epoch: 2\nevals_per_epoch: 2\n", &on),
        ("save_steps: 50\neval_steps: 100\n", &off),
        ("save_steps: 100\n", &off),
        ("eval_steps: 100\n", &off),
        ("save_steps: 100\neval_steps: 0\n", &off),
        ("saves_per_epoch: 4\nevals_per_epoch: 1\nnum_epochs: 2\n", &off),
        // One save in all is at the end.
        ("saves_per_epoch: 1\nevals_per_epoch: 4\n", &off),
        ("saves_per_epoch: 1\nevals_per_epoch: 0\nnum_epochs: 2\n", &off),
    ] {
        assert_eq!(of(&format!("{held_out}{more}")), *expected, "{more}");
    }
    let steps = "save_steps: 100\neval_steps: 50\n";
    assert_eq!(of(&format!("test_datasets: [{{path: x.jsonl, type: alpaca}}]\n{steps}")), on);
    assert_eq!(of(steps), off);
    assert_eq!(
        of(&format!("{held_out}{steps}load_best_model_at_end: false\n")),
        (Some(Fate::Carried), json!(false))
    );
    let stops_early = format!("{held_out}{steps}load_best_model_at_end: false\nearly_stopping_patience: 3\n");
    assert_eq!(of(&stops_early), (Some(Fate::Changed), json!(true)));
}

#[test]
fn no_limit_of_length_is_said() {
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    let of = |more: &str| imported(&format!("{trl}{more}"), Path::new("config.yml")).unwrap();
    let length = |imported: &Imported| value_at(imported, "training/config/max_seq_length");
    let found = of("max_length: null\n");
    let written = line(&found, "max_length");
    assert_eq!((written.fate, length(&found)), (Fate::Changed, json!(2048)));
    assert!(written.instead.contains("longest row") && written.instead.contains("overlong"), "{written:?}");
    // Another key has the limit; TRL's older key has the default of 1024.
    assert_eq!(length(&of("max_length: null\nmax_seq_length: 512\n")), 512);
    assert_eq!(length(&of("max_seq_length: null\n")), 1024);
    assert_eq!(length(&of("")), 1024);
}

#[test]
fn preference_training_is_refused_by_what_only_it_has() {
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    for (key, said) in [
        ("loss_type: [sigmoid]", "loss_type: [\"sigmoid\"]"),
        ("loss_type: [nll, sigmoid]", "loss_type: [\"nll\",\"sigmoid\"]"),
        ("loss_weights: [1.0]", "loss_weights: [1]"),
    ] {
        let refused = imported(&format!("{trl}{key}\n"), Path::new("config.yml"));
        assert!(matches!(&refused, Err(Refused::Method(key, Some(4))) if key == said), "{key}: {refused:?}");
    }
    for key in ["loss_type: [nll]", "loss_weights: null"] {
        let found = imported(&format!("{trl}{key}\n"), Path::new("config.yml")).unwrap();
        let name = key.split(':').next().unwrap();
        assert_eq!(fate_of(&found, name), Some(Fate::Unneeded), "{key}");
    }
    let factory = "model_name_or_path: a/b\ntemplate: qwen\ncutoff_len: 512\n";
    for key in ["pref_beta: 0.1", "pref_loss: sigmoid"] {
        let refused = imported(&format!("{factory}{key}\n"), Path::new("config.yml"));
        assert!(matches!(refused, Err(Refused::Method(_, Some(4)))), "{key}: {refused:?}");
        // Without effect on supervised fine-tuning.
        let found = imported(&format!("{factory}{key}\nstage: sft\n"), Path::new("config.yml")).unwrap();
        assert_eq!(fate_of(&found, key.split(':').next().unwrap()), Some(Fate::Left), "{key}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let info = json!({
        "pairs": {"file_name": "pairs.json", "ranking": true},
        "rows": {"file_name": "rows.json", "ranking": false},
    });
    std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
    for (key, is_refused) in
        [("dataset: rows,pairs", true), ("eval_dataset: pairs", true), ("dataset: rows", false)]
    {
        let found = imported(&format!("{factory}{key}\nstage: sft\n"), &folder.path().join("config.yml"));
        let by_pairs = matches!(&found, Err(Refused::Method(key, Some(4))) if key.contains("pairs") && key.contains("ranking"));
        assert_eq!(by_pairs, is_refused, "{key}: {found:?}");
    }
}

#[test]
fn ms_swift_is_named() {
    for text in [
        "model: Qwen/Qwen3-8B\ntrain_type: lora\nlora_rank: 8\n",
        "model: Qwen/Qwen3-8B\ntuner_type: lora\nper_device_train_batch_size: 1\nmax_length: 512\n",
        "rlhf_type: dpo\nmodel: a/b\nmax_length: 512\nlearning_rate: 1e-4\n",
    ] {
        let refused = imported(text, Path::new("config.yml"));
        assert!(matches!(refused, Err(Refused::Unread("ms-swift"))), "{text}: {refused:?}");
    }
}

/// The table that the hint of a refused configuration names: every trainer that is not read has a column.
#[test]
fn the_page_has_the_keys_of_trainers_that_are_not_read() {
    let page = std::fs::read_to_string(folder().join("../../../docs/import.md")).unwrap();
    let (_, table) = page.split_once("| ms-swift | torchtune | here |\n").expect("a table of their keys");
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    let known = expert_contract::reference::ledger_rows();
    for row in &rows {
        let here = row.split('|').nth(3).unwrap().split('`').nth(1).unwrap();
        assert!(known.iter().any(|it| it.path.split(' ').next() == Some(here)), "{here}");
    }
    for key in ["`train_type`", "`lora_rank`", "`max_length`", "`model.lora_rank`", "`tokenizer.max_seq_len`"]
    {
        assert!(rows.iter().any(|row| row.contains(key)), "{key}");
    }
}

#[test]
fn nested_settings_of_peft_are_read_as_flat_ones() {
    let text = "model_name_or_path: a/b\ndataset_name: x/y\nlora_alpha: 5\npeft_config:\n  r: 64\n  lora_alpha: 128\n  \
                target_modules: [q_proj]\n  odd: 1\n";
    let found = imported(text, Path::new("config.yml")).unwrap();
    let at = |key: &str| value_at(&found, &format!("training/config/{key}"));
    assert_eq!([at("rank"), at("alpha"), at("target_modules")], [json!(64), json!(5), json!(["q_proj"])]);
    assert_eq!((line(&found, "r").line, line(&found, "r").fate), (Some(5), Fate::Carried));
    assert!(line(&found, "peft_config.lora_alpha").why.contains("`lora_alpha` outside of it decides"));
    assert_eq!(fate_of(&found, "odd"), Some(Fate::Left));
    assert_eq!(fate_of(&found, "peft_config"), Some(Fate::Unneeded));
    // It says that an adapter is trained, whatever is in it.
    let found = imported(
        "model_name_or_path: a/b\ndataset_name: x/y\npeft_config: {task_type: CAUSAL_LM}\n",
        Path::new("config.yml"),
    );
    assert_eq!(value_at(&found.unwrap(), "training/config/rank"), 8);
}

/// Dumps of all fields at their defaults, as TRL 1.16 and PEFT 0.21 have them.
#[test]
fn settings_of_trl_and_peft_are_all_known() {
    for name in ["trl-all-fields.json", "peft-all-fields.json"] {
        let found = read_file(name);
        let unknown = found.lines.iter().filter(|line| line.why.starts_with("not known"));
        assert_eq!(unknown.map(|line| line.key.as_str()).collect::<Vec<_>>(), [""; 0], "{name}");
    }
    let left = |name: &str| {
        let found = read_file(name).lines.into_iter().filter(|line| line.fate == Fate::Left);
        found.map(|line| line.key).collect::<Vec<_>>()
    };
    assert_eq!(left("trl-all-fields.json"), [""; 0]);
    assert_eq!(left("peft-all-fields.json"), [""; 0]);
    let of = |more: &str| {
        let text = format!("model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n{more}\n");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    for (more, key, path, expected) in [
        (
            "activation_checkpointing: false",
            "activation_checkpointing",
            "gradient_checkpointing",
            json!(false),
        ),
        ("activation_checkpointing: true", "activation_checkpointing", "gradient_checkpointing", json!(true)),
        (
            "train_sampling_strategy: group_by_length",
            "train_sampling_strategy",
            "group_by_length",
            json!(true),
        ),
    ] {
        let found = of(more);
        assert_eq!(value_at(&found, &format!("training/config/{path}")), expected, "{more}");
        assert_eq!(fate_of(&found, key), Some(Fate::Carried), "{more}");
    }
    for more in ["truncation_mode: keep_end", "truncation_side: left"] {
        let found = of(more);
        assert_eq!(value_at(&found, "training/dataset/overlong"), json!("keep_end"), "{more}");
    }
    for more in [
        "truncation_mode: keep_middle",
        "new_special_tokens: [a]",
        "push_to_hub: true",
        "exclude_modules: [q_proj]",
        "peft_autocast_adapter_dtype: false",
        "shuffle: false",
        "train_sampling_strategy: sequential",
        "eval_delay: 100",
        "use_cpu: true",
    ] {
        let key = more.split(':').next().unwrap();
        assert_eq!(fate_of(&of(more), key), Some(Fate::Left), "{more}");
    }
}

#[test]
fn the_order_of_rows_is_not_said_to_be_kept() {
    let axolotl = "base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n";
    let factory = "model_name_or_path: a/b\ntemplate: qwen\nstage: sft\n";
    for (text, fate) in [
        (format!("{axolotl}curriculum_sampling: true\n"), Fate::Left),
        (format!("{axolotl}curriculum_sampling: false\n"), Fate::Unneeded),
        // Its trainer shuffles the merged rows in each epoch all the same.
        (format!("{axolotl}shuffle_merged_datasets: false\n"), Fate::Unneeded),
        (format!("{factory}disable_shuffling: true\n"), Fate::Left),
    ] {
        let found = imported(&text, Path::new("config.yml")).unwrap();
        let key = text.lines().last().unwrap().split(':').next().unwrap();
        let line = line(&found, key);
        assert_eq!(line.fate, fate, "{text}");
        assert!(line.why.contains("rows are shuffled in each epoch"), "{}", line.why);
    }
}

#[test]
fn reasons_are_those_of_the_key() {
    let of = |text: &str| imported(text, Path::new("config.yml")).unwrap();
    let axolotl = "base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n";
    for (more, said) in [
        ("exclude_modules: [q_proj]", "excluded by its name"),
        ("lora_on_cpu: true", "on the device of its base"),
        ("rank_pattern: {q_proj: 4}", "the same rank"),
    ] {
        let found = of(&format!("{axolotl}{more}\n"));
        let line = line(&found, more.split(':').next().unwrap());
        assert!(line.why.contains(said), "{more}: {}", line.why);
    }
    let found = of(&format!("{axolotl}default_system_message: Be brief.\n"));
    let instead = &line(&found, "default_system_message").instead;
    assert!(instead.contains("the base's template may add its own"), "{instead}");
    let found = of("model_name_or_path: a/b\nstage: sft\nlora_rank: 8\ntemplate: default\n");
    assert_eq!(value_at(&found, "base_models/0/prompt_template"), "tokenizer");
    assert!(line(&found, "template").why.contains("`Human:`"), "{:?}", line(&found, "template"));
}

#[test]
fn settings_of_an_adapter_are_not_needed_only_where_they_are_the_usual_ones() {
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    let axolotl = "base_model: a/b\nadapter: lora\nmicro_batch_size: 1\n";
    let factory = "model_name_or_path: a/b\ntemplate: qwen\nstage: sft\n";
    for (text, setting, said) in [
        (trl, "bias: all", "has no biases"),
        (trl, "bias: lora_only", "has no biases"),
        (trl, "lora_bias: true", "has no biases"),
        (factory, "lora_bias: all", "has no biases"),
        (axolotl, "peft: {loftq_config: {loftq_bits: 4}}", "A random, B zero"),
        (trl, "dataset_kwargs: {skip_prepare_dataset: true}", "tokenized in every case"),
        (axolotl, "skip_prepare_dataset: true", "tokenized in every case"),
    ] {
        let found = imported(&format!("{text}{setting}\n"), Path::new("config.yml")).unwrap();
        let line = line(&found, setting.split(':').next().unwrap());
        assert_eq!(line.fate, Fate::Left, "{setting}");
        assert!(line.why.contains(said), "{setting}: {}", line.why);
    }
    for (text, setting) in [
        (trl, "bias: none"),
        (trl, "lora_bias: false"),
        (factory, "lora_bias: none"),
        (axolotl, "peft: {}"),
        (trl, "dataset_kwargs: {}"),
        (trl, "dataset_kwargs: {skip_prepare_dataset: false}"),
        (trl, "dataset_kwargs: {add_special_tokens: false}"),
        (axolotl, "skip_prepare_dataset: false"),
        (trl, "task_type: CAUSAL_LM"),
        (trl, "lora_task_type: CAUSAL_LM"),
    ] {
        let found = imported(&format!("{text}{setting}\n"), Path::new("config.yml")).unwrap();
        assert_eq!(fate_of(&found, setting.split(':').next().unwrap()), Some(Fate::Unneeded), "{setting}");
    }
    for (setting, key) in [
        ("task_type: SEQ_CLS", "task_type: \"SEQ_CLS\""),
        ("lora_task_type: TOKEN_CLS", "lora_task_type: \"TOKEN_CLS\""),
        ("peft_config: {task_type: SEQ_2_SEQ_LM}", "task_type: \"SEQ_2_SEQ_LM\""),
    ] {
        let refused = imported(&format!("{trl}{setting}\n"), Path::new("config.yml"));
        assert!(
            matches!(&refused, Err(Refused::Method(said, Some(4))) if said == key),
            "{setting}: {refused:?}"
        );
    }
}

#[test]
fn a_switch_decides_the_number_format_over_that_of_the_weights() {
    let trl = "model_name_or_path: a/b\ndataset_name: x/y\nlora_r: 8\n";
    for (more, key, decides, formats) in [
        ("torch_dtype: bfloat16\nfp16: true\n", "torch_dtype", "`fp16`", [Json::Null, json!(true)]),
        ("fp16: true\ndtype: bfloat16\n", "dtype", "`fp16`", [Json::Null, json!(true)]),
        ("bf16: true\ntorch_dtype: float16\n", "torch_dtype", "`bf16`", [json!(true), Json::Null]),
    ] {
        let found = imported(&format!("{trl}{more}"), Path::new("config.yml")).unwrap();
        let line = line(&found, key);
        assert_eq!(line.fate, Fate::Left, "{more}");
        assert!(line.why.starts_with(decides), "{more}: {}", line.why);
        assert!(!line.instead.contains("default holds"), "{}", line.instead);
        let of = |key: &str| value_at(&found, &format!("training/config/{key}"));
        assert_eq!([of("bf16"), of("fp16")], formats, "{more}");
    }
    let found =
        imported(&format!("{trl}torch_dtype: bfloat16\nfp16: false\n"), Path::new("config.yml")).unwrap();
    assert_eq!(value_at(&found, "training/config/bf16"), true);
}

/// In Axolotl a dataset's own template goes over the one for all; here one template renders all rows.
#[test]
fn the_template_for_all_datasets_is_not_lost() {
    let of = |datasets: &str, more: &str| {
        let text =
            format!("base_model: a/b\nadapter: lora\nchat_template: chatml\n{more}datasets: [{datasets}]\n");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(false_claims(&found), [""; 0], "{text}");
        found
    };
    let template = |found: &Imported| value_at(found, "base_models/0/prompt_template");
    let fates = |found: &Imported| {
        [fate_of(found, "chat_template"), fate_of(found, "datasets[0].chat_template")].map(Option::unwrap)
    };
    let mixed = of("{path: a/x, type: alpaca}, {path: a/y, type: chat_template}", "");
    assert_eq!((template(&mixed), fate_of(&mixed, "chat_template")), (json!("chatml"), Some(Fate::Carried)));
    let first = line(&mixed, "datasets[0].type");
    assert_eq!(first.fate, Fate::Left);
    assert!(!first.why.contains("get Alpaca's headings"), "{}", first.why);

    let text = "base_model: a/b\nadapter: lora\ndatasets: [{path: a/x, type: chat_template, chat_template: gemma}, \
                {path: a/y, type: alpaca}]\n";
    let found = imported(text, Path::new("config.yml")).unwrap();
    assert_eq!((template(&found), false_claims(&found)), (json!("gemma"), vec![]));

    for own in ["llama3", "gemma", "tokenizer_default"] {
        let own = format!("{{path: a/x, type: chat_template, chat_template: {own}}}");
        let two = of(&format!("{own}, {{path: a/y, type: chat_template}}"), "");
        assert_eq!((template(&two), fates(&two)), (json!("chatml"), [Fate::Carried, Fate::Left]), "{own}");
        assert!(line(&two, "datasets[0].chat_template").why.contains("`chat_template` names it"));
        // No rows are rendered with the other one.
        let alone = of(&own, "");
        assert_eq!(fate_of(&alone, "chat_template"), Some(Fate::Unneeded), "{own}");
    }
    let text = "base_model: a/b\nadapter: lora\nchat_template: tokenizer_default\ndatasets: [{path: a/x, type: chat_template, \
                chat_template: gemma}, {path: a/y, type: chat_template}]\ntest_datasets: [{path: a/z, type: chat_template, \
                chat_template: phi_3}]\n";
    let base = imported(text, Path::new("config.yml")).unwrap();
    assert_eq!((template(&base), false_claims(&base)), (Json::Null, vec![]));
    assert_eq!(fates(&base), [Fate::Unneeded, Fate::Left]);
    assert_eq!(fate_of(&base, "test_datasets[0].chat_template"), Some(Fate::Left));

    let gemma = of("{path: a/x, type: chat_template, chat_template: gemma}", "");
    assert_eq!(template(&gemma), "gemma");
    let alpaca = of("{path: a/x, type: alpaca}", "");
    assert_eq!(
        (template(&alpaca), fate_of(&alpaca, "chat_template")),
        (json!("alpaca"), Some(Fate::Unneeded))
    );

    let jinja = "chat_template_jinja: '{{ messages }}'\n";
    let found = of("{path: a/x, type: chat_template, chat_template: gemma}", jinja);
    assert_eq!((template(&found), fates(&found)), (json!("custom"), [Fate::Unneeded, Fate::Left]));
}

#[test]
fn sharding_is_carried_from_the_newer_keys_too() {
    let of = |text: &str| imported(text, Path::new("config.yml")).unwrap();
    let distributed = |found: &Imported| value_at(found, "training/config/distributed");
    let newer =
        "base_model: a/b\nadapter: lora\nfsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n";
    let found = of(newer);
    assert_eq!((distributed(&found), fate_of(&found, "fsdp_config")), (json!("fsdp2"), Some(Fate::Carried)));
    let found = of(&format!("{newer}fsdp: [full_shard]\n"));
    assert_eq!((distributed(&found), fate_of(&found, "fsdp_config")), (json!("fsdp2"), Some(Fate::Unneeded)));
    let found = of(&format!("{newer}load_in_4bit: true\n"));
    assert_eq!((distributed(&found), fate_of(&found, "fsdp_config")), (Json::Null, Some(Fate::Left)));
    let found = of("base_model: a/b\nadapter: lora\nfsdp_version: 2\nfsdp_config: {}\n");
    assert_eq!(distributed(&found), Json::Null);
    let found = of("model_name_or_path: a/b\nlora_r: 8\nfsdp_config: {min_num_params: 1}\n");
    assert_eq!(distributed(&found), Json::Null);
}

#[test]
fn an_option_that_the_schedule_does_not_take_is_listed() {
    for (more, key) in [
        ("cosine_min_lr_ratio: 1.0\n", "cosine_min_lr_ratio"),
        ("lr_scheduler: constant\ncosine_min_lr_ratio: 0.1\n", "cosine_min_lr_ratio"),
        ("lr_scheduler: constant\nlr_scheduler_kwargs: {power: 2}\nmin_lr_ratio: 0.1\n", "min_lr_ratio"),
    ] {
        let text = format!("base_model: a/b\nadapter: lora\nlearning_rate: 1e-4\n{more}");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        let line = line(&found, key);
        assert_eq!((line.fate, line.here.len()), (Fate::Left, 0), "{more}");
        assert!(line.why.contains("min_lr_ratio"), "{more}: {}", line.why);
        assert_eq!(value_at(&found, "training/config/lr_scheduler_kwargs"), Json::Null, "{more}");
        assert_eq!(false_claims(&found), [""; 0], "{more}");
    }
}

#[test]
fn a_text_in_place_of_a_templates_name_is_carried() {
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let text = format!(
        "base_model: a/b\nadapter: lora\nchat_template: '{template}'\n\
         datasets: [{{path: a/x, type: chat_template}}]\n"
    );
    let found = imported(&text, Path::new("config.yml")).unwrap();
    assert_eq!(fate_of(&found, "chat_template"), Some(Fate::Carried));
    assert_eq!(value_at(&found, "base_models/0/prompt_template"), "custom");
    assert_eq!(value_at(&found, "base_models/0/template_source"), template);
}

/// Null keeps all checkpoints; the default here is 3.
#[test]
fn as_many_checkpoints_are_kept_as_there() {
    let axolotl = "base_model: a/b\nadapter: lora\n";
    let factory = "model_name_or_path: a/b\nfinetuning_type: lora\nstage: sft\n";
    let trl = "model_name_or_path: a/b\nlora_r: 8\n";
    for (text, more, limit, fate) in [
        (axolotl, "", json!(4), Fate::Default),
        (axolotl, "save_total_limit: null\n", json!(4), Fate::Unneeded),
        (axolotl, "save_total_limit: 2\n", json!(2), Fate::Carried),
        (factory, "", Json::Null, Fate::Default),
        (trl, "", Json::Null, Fate::Default),
        (trl, "save_total_limit: null\n", Json::Null, Fate::Carried),
        (trl, "save_total_limit: 1\n", json!(1), Fate::Carried),
    ] {
        let found = imported(&format!("{text}{more}"), Path::new("config.yml")).unwrap();
        let manifest: Json = serde_json::from_str(&found.manifest).unwrap();
        assert_eq!(manifest["training"]["config"].get("save_total_limit"), Some(&limit), "{text}{more}");
        assert_eq!(fate_of(&found, "save_total_limit"), Some(fate), "{text}{more}");
    }
}

#[test]
fn quoted_words_and_old_numbers_of_yaml_are_understood() {
    let axolotl = "base_model: a/b\nadapter: lora\nlearning_rate: 1e-4\n";
    let text = format!(
        "{axolotl}sample_packing: \"true\"\nbf16: \"True\"\ntf32: \"off\"\ngroup_by_length: \"False\"\nseed: 010\nmicro_batch_size: 0x2\n"
    );
    let found = imported(&text, Path::new("config.yml")).unwrap();
    for (key, expected) in [
        ("packing", json!(true)),
        ("bf16", json!(true)),
        ("use_tf32", json!(false)),
        ("group_by_length", json!(false)),
        ("seed", json!(8)),
        ("batch_size", json!(2)),
    ] {
        assert_eq!(value_at(&found, &format!("training/config/{key}")), expected, "{key}");
    }
}

/// The number of steps is known here only where `max_steps` says it.
#[test]
fn a_share_of_all_steps_says_what_it_becomes() {
    let axolotl = "base_model: a/b\nadapter: lora\nval_set_size: 0.1\n";
    let trl = "model_name_or_path: a/b\nlora_r: 8\n";
    let of = |text: &str, more: &str| imported(&format!("{text}{more}"), Path::new("config.yml")).unwrap();
    let config = |found: &Imported, key: &str| value_at(found, &format!("training/config/{key}"));

    let found = of(axolotl, "save_steps: 0.25\neval_steps: 0.5\n");
    for (steps, strategy) in [("save_steps", "save_strategy"), ("eval_steps", "evaluation_strategy")] {
        assert_eq!(
            (config(&found, strategy), config(&found, steps)),
            (json!("epoch"), Json::Null),
            "{steps}"
        );
        let said = line(&found, steps);
        assert_eq!(said.here, [format!("training.config.{strategy} = \"epoch\"")]);
        assert!(said.fate == Fate::Changed && said.why.contains("becomes once an epoch"), "{said:?}");
        assert!(said.instead.contains(&format!("training.config.{steps} to a number")), "{said:?}");
    }
    assert!(line(&found, "save_steps").why.contains("every 0.25 epochs"));
    for key in ["save_strategy", "eval_strategy"] {
        assert_eq!(fate_of(&found, key), None, "not a default: {key}");
    }

    let exact = of(axolotl, "num_epochs: 4\nsave_steps: 0.25\n");
    assert_eq!(line(&exact, "save_steps").why, "the share 0.25 of 4 epochs is one");
    let counted = of(axolotl, "max_steps: 90\nsave_steps: 0.25\n");
    assert_eq!(
        (config(&counted, "save_steps"), config(&counted, "save_strategy")),
        (json!(23), json!("steps"))
    );
    assert_eq!(fate_of(&counted, "save_steps"), Some(Fate::Changed));

    for more in ["save_strategy: steps\nsave_steps: 0.5\n", "save_steps: 0.5\nsave_strategy: steps\n"] {
        let found = of(trl, more);
        assert_eq!(config(&found, "save_strategy"), "epoch", "{more}");
        assert!(line(&found, "save_steps").why.contains("every 1.5 epochs"), "{more}");
        assert_eq!(line(&found, "save_strategy").why, "save_steps is a share of all steps", "{more}");
        assert_eq!(false_claims(&found), [""; 0], "{more}");
    }
    let unused = of(trl, "save_strategy: 'no'\nsave_steps: 0.5\n");
    assert_eq!(config(&unused, "save_strategy"), "no");
    assert_eq!(line(&unused, "save_steps").why, "`save_strategy` does not go by steps");
}

#[test]
fn a_misspelt_key_leads_to_the_nearest_one() {
    let found =
        imported("model_name_or_path: a/b\nlora_r: 8\nmax_seq_lenght: 512\n", Path::new("a.yml")).unwrap();
    let said = line(&found, "max_seq_lenght");
    assert!(said.instead.contains("`max_seq_length` is meant"), "{said:?}");
}
