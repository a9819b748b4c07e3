//! The ledger is true: every honoured key changes the plan, and every key that is not is said to be so.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::diagnostic::Code;
use expert_contract::ledger::{Class, Entry, Kind, entries};
use expert_contract::manifest::{Manifest, Options, ROOT};
use expert_contract::plan::{BestModel, Device, DeviceKind, GrammarKind, Recipe, by_key, manifest_key};
use expert_contract::read::{Loaded, from_bytes};
use expert_contract::resolve::{Site, resolve};
use serde_json::{Value, json};

const PLACE: &str = "/nowhere/expert-x/manifest.json";

/// Keys that decide how the manifest itself is read.
const ABOUT_READING: [&str; 2] = ["schema_version", "$schema"];

fn minimal() -> Value {
    json!({
        "name": "expert-x",
        "base_models": [{"name": "Qwen/Qwen3-0.6B"}],
        "training": {
            "dataset": {"path": "train.jsonl", "validation_path": "validation.jsonl"},
            "config": {"rank": 8, "alpha": 16, "evaluation_strategy": "steps", "save_steps": 100, "eval_steps": 50},
        },
    })
}

/// Writes at `a.b[0].c`, making what is absent on the way; null takes away.
fn put(document: &mut Value, path: &str, value: Value) {
    let mut place = document;
    let path = path.replace("[]", ".0").replace('[', ".").replace(']', "");
    let tokens: Vec<_> = path.split('.').collect();
    for (index, token) in tokens.iter().enumerate() {
        if index + 1 == tokens.len() && value.is_null() {
            place.as_object_mut().unwrap().remove(*token);
            return;
        }
        if token.parse::<usize>().is_ok() && !place.is_array() {
            *place = json!([{}]);
        }
        place = match token.parse::<usize>() {
            Ok(number) => &mut place[number],
            Err(_) => &mut place[*token],
        };
    }
    *place = value;
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = minimal();
    for (path, value) in changes {
        put(&mut document, path, value.clone());
    }
    document
}

fn load(document: &Value) -> Loaded {
    from_bytes(document.to_string().into_bytes(), Path::new(PLACE), &Options::default())
}

fn accepted(document: &Value) -> Manifest {
    let loaded = load(document);
    let found: Vec<_> = loaded.diagnostics.iter().map(|found| (found.code, found.message.as_str())).collect();
    loaded.manifest.clone().unwrap_or_else(|| panic!("{found:?} in {document}"))
}

/// The plan without its digest, which would differ by itself.
fn plan(document: &Value) -> Value {
    let manifest = accepted(document);
    let device =
        Device { kind: DeviceKind::Cuda, index: 0, name: "device".into(), memory_bytes: Some(80 << 30) };
    let site = Site { device, devices: 2, ..common::site(Path::new(PLACE)) };
    let plan = resolve(&manifest.effective(0).unwrap(), &site).unwrap();
    json!({
        "recipe": plan.recipe, "machine": plan.machine, "license": plan.license, "routing": plan.routing,
        "test_sets": plan.test_sets,
    })
}

/// A key, a value that is not its default, and what must stand around it to have an effect.
struct Example {
    path: &'static str,
    value: Value,
    around: Vec<(&'static str, Value)>,
}

macro_rules! examples {
    ($($path:literal = $value:tt $(with { $($key:literal: $other:tt),+ })?;)+) => {
        vec![$(Example { path: $path, value: json!($value), around: vec![$($(($key, json!($other))),+)?] }),+]
    };
}

fn root_examples() -> Vec<Example> {
    examples! {
        "name" = "expert-y";
        "license" = "MIT";
        "routing.keywords" = ["sql"] with { "routing": {} };
        "routing.exclude_keywords" = ["explain"] with { "routing": {} };
        "base_models[].name" = "Qwen/Qwen3-1.7B";
        "base_models[].sha256" = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        "base_models[].quantization" = "int8";
        "base_models[].rope_scaling.type" = "linear" with { "base_models[].rope_scaling": {"type": "dynamic", "factor": 2} };
        "base_models[].rope_scaling.factor" = 4 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.max_position_embeddings" = 65536 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.original_max_position_embeddings" = 4096 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.attention_factor" = 0.5 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.beta_fast" = 16 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.beta_slow" = 2 with { "base_models[].rope_scaling": {"type": "yarn", "factor": 2} };
        "base_models[].rope_scaling.low_freq_factor" = 2 with { "base_models[].rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192} };
        "base_models[].rope_scaling.high_freq_factor" = 8 with { "base_models[].rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192} };
        "base_models[].rope_scaling.short_factor" = [2, 2] with { "base_models[].name": "someone/model-7B", "base_models[].rope_scaling": {"type": "longrope", "factor": 8, "short_factor": [1, 1], "long_factor": [1, 2]} };
        "base_models[].rope_scaling.long_factor" = [3, 3] with { "base_models[].name": "someone/model-7B", "base_models[].rope_scaling": {"type": "longrope", "factor": 8, "short_factor": [1, 1], "long_factor": [1, 2]} };
        "base_models[].prompt_template" = "chatml";
        "base_models[].template_source" = "{{ b }}" with { "base_models[].prompt_template": "custom", "base_models[].template_source": "{{ a }}" };
        "base_models[].chat_template_kwargs" = {"enable_thinking": true} with { "base_models[].prompt_template": "qwen3" };
        "base_models[].adapters[].type" = "dora";
        "base_models[].adapters[].target_modules" = ["q_proj"];
        "base_models[].adapters[].feedforward_modules" = ["down_proj"] with { "base_models[].adapters": [{"type": "ia3", "target_modules": ["k_proj", "down_proj"]}], "training.config": {} };
        "base_models[].adapters[].r" = 4 with { "training.config": {"alpha": 16}, "base_models[].adapters": [{"r": 8}] };
        "base_models[].adapters[].alpha" = 4 with { "training.config": {"rank": 8}, "base_models[].adapters": [{"alpha": 8}] };
        "base_models[].adapters[].dropout" = 0.1;
        "base_models[].adapters[].use_dora" = true;
        "soft_prompts[].name" = "style" with { "training.config": {"adapter_type": "prompt"}, "soft_prompts": [{"tokens": 8}] };
        "soft_prompts[].tokens" = 16 with { "training.config": {"adapter_type": "prompt"}, "soft_prompts": [{"tokens": 8}] };
        "soft_prompts[].init_method" = "vocab_sample" with { "training.config": {"adapter_type": "prompt"}, "soft_prompts": [{"tokens": 8}] };
        "soft_prompts[].init_text" = "b" with { "training.config": {"adapter_type": "prompt"}, "soft_prompts": [{"tokens": 8, "init_method": "text", "init_text": "a"}] };
        "evaluation.scorer.python" = "other.py:score" with { "evaluation.scorer": {"python": "score.py:score"} };
        "evaluation.scorer.classification.labels" = ["yes", "no"] with { "evaluation.scorer": {"classification": {}} };
        "evaluation.scorer.judge.url" = "http://127.0.0.1:9/v1" with { "evaluation.scorer": {"judge": {"url": "http://a/v1", "model": "m"}} };
        "evaluation.scorer.judge.model" = "n" with { "evaluation.scorer": {"judge": {"url": "http://a/v1", "model": "m"}} };
        "evaluation.scorer.judge.key_variable" = "JUDGE_KEY" with { "evaluation.scorer": {"judge": {"url": "https://a/v1", "model": "m"}} };
        "evaluation.scorer.judge.instructions" = "Be short." with { "evaluation.scorer": {"judge": {"url": "http://a/v1", "model": "m"}} };
        "evaluation.scorer.judge.timeout_seconds" = 5 with { "evaluation.scorer": {"judge": {"url": "http://a/v1", "model": "m"}} };
        "evaluation.scorer.judge.concurrency" = 2 with { "evaluation.scorer": {"judge": {"url": "http://a/v1", "model": "m"}} };
        "evaluation.scorer.rouge" = "rouge1" with { "evaluation.scorer": {"rouge": "rougeL"} };
        "evaluation.test_cases[].prompt" = "b" with { "evaluation.test_cases": [{"prompt": "a", "expected": "a"}] };
        "evaluation.test_cases[].expected" = "b" with { "evaluation.test_cases": [{"prompt": "a", "expected": "a"}] };
        "evaluation.test_sets" = {"people": "people.jsonl"} with { "training.dataset.test_path": "test.jsonl" };
        "evaluation.test_set_size" = 10;
        "evaluation.max_new_tokens" = 7;
        "training.decoding.temperature" = 0.5;
        "training.decoding.top_p" = 0.5;
        "training.decoding.top_k" = 5;
        "training.decoding.min_p" = 0.5;
        "training.decoding.stop_sequences" = [";"];
        "training.decoding.max_new_tokens" = 7;
        "training.decoding.use_grammar" = false with { "training.decoding.grammar_type": "json" };
        "training.decoding.grammar_type" = "json";
    }
}

fn dataset_examples() -> Vec<Example> {
    examples! {
        "training.dataset.path" = "other.jsonl";
        "training.dataset.validation_path" = "other.jsonl";
        "training.dataset.test_path" = "test.jsonl";
        "training.dataset.validation_split" = 0.5 with { "training.dataset": {"path": "train.jsonl"} };
        "training.dataset.type" = "huggingface" with { "training.dataset.path": "owner/rows" };
        "training.dataset.format" = "json";
        "training.dataset.streaming" = true;
        "training.dataset.field_mapping" = {"text": "body"};
        "training.dataset.text_field" = "body";
        "training.dataset.use_pretokenized" = false;
        "training.dataset.tasks[].name" = "b" with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.tasks[].path" = "b.jsonl" with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.tasks[].validation_path" = "b.jsonl" with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.tasks[].test_path" = "b.jsonl" with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.tasks[].format" = "json" with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.tasks[].weight" = 3 with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.weights" = [1, 3] with { "training.dataset": {"tasks": [{"path": "a.jsonl"}, {"path": "c.jsonl"}]} };
        "training.dataset.stopping_strategy" = "all_exhausted" with { "training.dataset": {"tasks": [{"path": "a.jsonl", "weight": 1}, {"path": "c.jsonl", "weight": 1}]} };
        "training.dataset.validation.deduplicate" = true;
        "training.dataset.validation.min_length" = 5;
        "training.dataset.validation.max_length" = 5;
        "training.dataset.train_on" = "all";
        "training.dataset.on_bad_row" = "skip";
        "training.dataset.overlong" = "drop";
        "training.dataset.text_dialogue" = "raw";
    }
}

/// Keys of `training.config`, which may stand in `base_models[].overrides` too.
fn config_examples() -> Vec<Example> {
    examples! {
        "adapter_type" = "dora";
        "rank" = 4;
        "alpha" = 4;
        "dropout" = 0.1;
        "target_modules" = ["q_proj"];
        "feedforward_modules" = ["down_proj"] with { "training.config": {"adapter_type": "ia3", "target_modules": ["k_proj", "down_proj"]} };
        "learning_rate" = 5e-5;
        "lr_scheduler" = "linear";
        "lr_scheduler_kwargs" = {"num_cycles": 2};
        "warmup_steps" = 10;
        "warmup_ratio" = 0.1;
        "epochs" = 2;
        "max_steps" = 20;
        "batch_size" = 4;
        "gradient_accumulation_steps" = 4;
        "max_seq_length" = 512;
        "packing" = true;
        "share_prefixes" = true with { "training.config.packing": true };
        "group_by_length" = true;
        "optim" = "muon";
        "weight_decay" = 0.1;
        "adam_beta1" = 0.8;
        "adam_beta2" = 0.95;
        "adam_epsilon" = 1e-6;
        "max_grad_norm" = 0;
        "neftune_noise_alpha" = 5;
        "initial_adapter" = "weights/first/final";
        "seed" = 7;
        "fp16" = true;
        "bf16" = true;
        "use_tf32" = false;
        "use_sdpa" = false;
        "flash_attention_2" = true;
        "gradient_checkpointing" = "selective";
        "activation_checkpointing" = "attention_only" with { "training.config.gradient_checkpointing": true };
        "torch_compile" = true;
        "torch_compile_backend" = "eager" with { "training.config.torch_compile": true };
        "torch_compile_mode" = "max-autotune" with { "training.config.torch_compile": true };
        "use_cuda_graphs" = true;
        "dataloader_num_workers" = 2;
        "dataloader_pin_memory" = false;
        "dataloader_prefetch_factor" = 4 with { "training.config.dataloader_num_workers": 2 };
        "dataloader_drop_last" = true;
        "logging_steps" = 3;
        "report" = ["wandb"];
        "save_strategy" = "epoch";
        "save_steps" = 50;
        "save_total_limit" = 9;
        "evaluation_strategy" = "epoch";
        "eval_steps" = 25;
        "eval_rows" = 32;
        "metric_for_best_model" = "accuracy" with { "training.config.load_best_model_at_end": true };
        "load_best_model_at_end" = true;
        "greater_is_better" = true with { "training.config.load_best_model_at_end": true };
        "early_stopping_patience" = 2 with { "training.config.load_best_model_at_end": true };
        "memory_clear_every" = 10;
        "pretokenized_cache" = "elsewhere/{model-slug}";
        "checkpoint_mirror.target" = "mnt/b" with { "training.config.checkpoint_mirror": {"target": "mnt/a"} };
        "checkpoint_mirror.compress" = true with { "training.config.checkpoint_mirror": {"target": "mnt/a"} };
        "checkpoint_mirror.background" = false with { "training.config.checkpoint_mirror": {"target": "mnt/a"} };
        "distributed.strategy" = "fsdp2" with { "training.config.distributed": {"processes": 4} };
        "distributed.processes" = 4 with { "training.config.distributed": {"strategy": "ddp"} };
    }
}

/// One word only is accepted, or the words mean the same, or a file is read.
const WITHOUT_CHOICE: [&str; 3] =
    ["training.config.method", "base_models[].template_path", "training.decoding.grammar_file"];

/// The problem of an example, if there is one.
fn check(path: &str, example: &Example) -> Option<String> {
    let mut around = example.around.clone();
    let before = plan(&with(&around));
    around.push((path, example.value.clone()));
    let after = plan(&with(&around));
    (before == after).then(|| format!("`{path}` = {} changes nothing in the plan", example.value))
}

#[test]
fn every_honoured_key_changes_the_plan() {
    let root = root_examples()
        .into_iter()
        .chain(dataset_examples())
        .map(|example| (example.path.to_owned(), example));
    let config =
        config_examples().into_iter().map(|example| (format!("training.config.{}", example.path), example));
    let idle: Vec<_> = root.chain(config).filter_map(|(path, example)| check(&path, &example)).collect();
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

#[test]
fn overrides_and_the_shorthand_have_the_same_keys() {
    let mut idle = Vec::new();
    for example in config_examples().iter().filter(|example| !example.path.contains('.')) {
        idle.extend(check(&format!("base_models[].overrides.{}", example.path), example));
        let in_config = minimal()["training"]["config"].get(example.path).is_some();
        if !in_config {
            idle.extend(check(&format!("training.{}", example.path), example));
        }
    }
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

fn holds_keys(entry: &Entry) -> bool {
    let inner = |kind: &Kind| !kind.sections().is_empty();
    inner(&entry.field.kind)
}

/// Honoured keys at the one place where each is described.
fn honoured() -> BTreeSet<String> {
    let all = entries(&ROOT).into_iter().filter(|entry| entry.field.is_honoured() && !holds_keys(entry));
    let repeated = |path: &str| {
        path.starts_with("base_model.") || path.starts_with("adapters[]") || path.contains(".overrides.")
    };
    all.map(|entry| entry.path).filter(|path| !repeated(path)).collect()
}

#[test]
fn every_honoured_key_has_an_example() {
    let mut shown: BTreeSet<String> =
        root_examples().iter().chain(&dataset_examples()).map(|it| it.path.to_owned()).collect();
    shown.extend(config_examples().iter().map(|example| format!("training.config.{}", example.path)));
    shown.extend(ABOUT_READING.iter().chain(&WITHOUT_CHOICE).map(|path| (*path).to_owned()));
    let honoured = honoured();
    assert_eq!(
        honoured.difference(&shown).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "honoured keys without an example"
    );
    assert_eq!(
        shown.difference(&honoured).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "examples of no honoured key"
    );
}

#[test]
fn a_custom_template_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat.jinja"), "{{ a }}").unwrap();
    let document = with(&[
        ("base_models[].prompt_template", json!("custom")),
        ("base_models[].template_path", json!("chat.jinja")),
    ]);
    let path = folder.path().join("manifest.json");
    let manifest =
        from_bytes(document.to_string().into_bytes(), &path, &Options::default()).manifest.unwrap();
    assert_eq!(manifest.bases[0].template_path.as_deref(), Some("chat.jinja"));
}

#[test]
fn a_grammar_is_read_from_its_file_and_leaves_the_digest_of_the_adapter() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("yes.gbnf"), "root ::= \"yes\"").unwrap();
    let path = folder.path().join("manifest.json");
    let grammar = |changes: &[(&str, Value)]| {
        let loaded = from_bytes(with(changes).to_string().into_bytes(), &path, &Options::default());
        expert_contract::rules::read_grammar(&loaded.manifest.unwrap()).unwrap()
    };
    let file = ("training.decoding.grammar_file", json!("yes.gbnf"));
    let found = grammar(std::slice::from_ref(&file)).unwrap();
    assert_eq!((found.kind, found.name.as_str()), (GrammarKind::Gbnf, "yes.gbnf"));
    assert_eq!(found.text, "root ::= \"yes\"");
    assert_eq!(found.sha256().len(), 64);
    assert_eq!(grammar(&[file, ("training.decoding.use_grammar", json!(false))]), None);
    assert_eq!(grammar(&[("training.decoding.use_grammar", json!(true))]), None);

    let json =
        [("training.decoding.use_grammar", json!(true)), ("training.decoding.grammar_type", json!("json"))];
    let recipe = |changes: &[(&str, Value)]| -> Recipe {
        serde_json::from_value(plan(&with(changes))["recipe"].clone()).unwrap()
    };
    for (word, kind) in [("sql", GrammarKind::Sql), ("cypher", GrammarKind::Cypher)] {
        let found = grammar(&[json[0].clone(), ("training.decoding.grammar_type", json!(word))]).unwrap();
        assert_eq!((found.kind, found.name.as_str(), found.text.as_str()), (kind, word, word));
    }
    let (free, constrained) = (recipe(&[]), recipe(&json));
    assert_ne!(free, constrained);
    assert_eq!(free.digest(), constrained.digest());
    let chosen = |mut recipe: Recipe| {
        recipe.evaluation.best =
            Some(BestModel { metric: "accuracy".to_owned(), greater_is_better: true, patience: None });
        recipe.digest()
    };
    assert_ne!(chosen(free), chosen(constrained));
}

#[test]
fn keys_without_effect_are_reported_each() {
    for entry in entries(&ROOT).iter().filter(|entry| matches!(entry.field.class, Class::Advice { .. })) {
        // The first generation's base would stand beside the second's.
        if entry.path.starts_with("base_model.") {
            continue;
        }
        let loaded = load(&with(&[(entry.path.as_str(), json!(true))]));
        let name = entry.field.name();
        let told = |found: &expert_contract::diagnostic::Diagnostic| {
            found.code == Code::NoEffect && found.message.starts_with(&format!("`{name}` has no effect: "))
        };
        assert!(loaded.ok() && loaded.diagnostics.iter().any(told), "{} is not reported", entry.path);
    }
}

#[test]
fn metadata_is_not_judged() {
    for entry in entries(&ROOT).iter().filter(|entry| entry.field.class == Class::Metadata) {
        if entry.path.starts_with("base_model.")
            || entry.path.contains("soft_prompts")
            || entry.path.contains("test_cases")
        {
            continue;
        }
        let loaded = load(&with(&[(entry.path.as_str(), json!({"anything": [1]}))]));
        let pointer = format!("/{}", entry.path.replace("[]", "/0").replace('.', "/"));
        let judged: Vec<_> = loaded.diagnostics.iter().filter(|found| found.pointer == pointer).collect();
        assert!(judged.is_empty(), "{} is judged: {judged:?}", entry.path);
    }
}

/// Paths of a recipe that no single key decides, or none at all.
const OF_NO_SINGLE_KEY: [&str; 8] = [
    "base.name",
    "template.source",
    "data.train",
    "data.validation",
    "data.test",
    "batch.rows_per_step",
    "evaluation.scorer_settings",
    "decoding.grammar",
];

#[test]
fn every_path_of_a_recipe_has_its_key_or_is_known_to_have_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut recipes = Vec::new();
    for file in
        files(&root.join("../experts")).filter(|path| path.is_dir()).map(|it| it.join("manifest.json"))
    {
        let loaded = from_bytes(std::fs::read(&file).unwrap(), &file, &Options::default());
        let manifest = loaded.manifest.unwrap();
        let resolved = resolve(&manifest.effective(0).unwrap(), &common::site(&file)).unwrap();
        recipes.push(serde_json::to_value(resolved.recipe).unwrap());
    }
    for file in files(&root.join("tests/plans")) {
        let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        recipes.push(document["recipe"].clone());
    }
    let known: Vec<String> = entries(&ROOT).into_iter().map(|entry| entry.path.replace("[]", "")).collect();
    let is_key = |key: &str| known.iter().any(|path| path == key || path.ends_with(&format!(".{key}")));
    let is_whole = |rest: &str| rest.is_empty() || rest.starts_with('.');
    for recipe in recipes {
        let mut paths = Vec::new();
        leaves(&by_key(recipe), "", &mut paths);
        for path in paths {
            let key = manifest_key(&path);
            let object = key.split_once('.').map_or(key.as_str(), |(object, _)| object);
            let free = ["field_mapping", "lr_scheduler_kwargs"].contains(&object);
            if OF_NO_SINGLE_KEY.iter().any(|it| path.strip_prefix(it).is_some_and(is_whole)) {
                assert_eq!(key, path);
            } else {
                assert!(is_key(if free { object } else { &key }), "{path} is not {key}");
            }
        }
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}

fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                leaves(inner, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        Value::Null => {}
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn a_length_is_under_the_key_of_its_unit_and_near_copies_under_deduplicate() {
    let recipe = json!({
        "data": {"deduplicate": true, "drop_near_copies": true},
        "schedule": {"warmup": {"unit": "ratio", "value": 0.1}, "duration": {"unit": "steps", "value": 3}},
    });
    let mut paths = Vec::new();
    leaves(&by_key(recipe.clone()), "", &mut paths);
    let keys: Vec<String> = paths.iter().map(|path| manifest_key(path)).collect();
    assert_eq!(keys, ["validation.deduplicate", "max_steps", "warmup_ratio"]);
    assert_eq!(by_key(recipe)["data"], json!({"deduplicate": "near"}));
}

#[test]
fn the_number_format_and_the_best_checkpoint_are_under_the_keys_that_select_them() {
    let precision = |compute: &str| by_key(json!({"precision": {"compute": compute}}))["precision"].clone();
    assert_eq!(precision("auto"), json!({"bf16": null, "fp16": false}));
    assert_eq!(precision("bf16"), json!({"bf16": true, "fp16": false}));
    assert_eq!(precision("fp16"), json!({"bf16": null, "fp16": true}));
    assert_eq!(precision("fp32"), json!({"bf16": false, "fp16": false}));
    let best = |best: Value| by_key(json!({"evaluation": {"best": best}}))["evaluation"].clone();
    let of = |metric: &str, greater: bool| {
        best(json!({"metric": metric, "greater_is_better": greater, "patience": null}))
    };
    let chosen = |best: Value, is: bool| json!({"best": best, "load_best_model_at_end": is});
    assert_eq!(best(Value::Null), chosen(json!({"metric": "eval_loss"}), false));
    assert_eq!(of("eval_loss", false), chosen(json!({"metric": "eval_loss", "patience": null}), true));
    assert_eq!(of("accuracy", true), chosen(json!({"metric": "accuracy", "patience": null}), true));
    assert_eq!(of("accuracy", false)["best"]["greater_is_better"], false, "it was written");
    assert_eq!(of("eval_loss", true)["best"]["greater_is_better"], true, "it was written");
    assert_eq!(by_key(json!({"evaluation": {}})), by_key(json!({"evaluation": {"best": null}})));
    assert_eq!(by_key(Value::Null), Value::Null, "not on record");
}
