//! Where a rule across keys begins and ends to hold: a number at its bound, keys that agree, what another rule reports.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::path::Path;

use expert_contract::diagnostic::Code;
use expert_contract::manifest::{Options, Set};
use expert_contract::read::from_bytes;
use serde_json::{Value, json};

/// A manifest without a problem, into which each case merges its own keys.
fn manifest(more: &Value) -> Value {
    let mut whole = json!({
        "name": "ash",
        "version": "1.0.0",
        "schema_version": "2.0",
        "base_models": [{"name": "someone/model-7B"}],
        "training": {
            "dataset": {"path": "train.jsonl"},
            "config": {"rank": 8, "alpha": 16, "warmup_ratio": 0.0, "warmup_steps": 0, "learning_rate": 0.01}
        }
    });
    merge(&mut whole, more);
    whole
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// The pointers of that code's diagnostics.
fn places(code: Code, more: &Value, sets: &[(&str, &str)]) -> Vec<String> {
    let options = Options {
        sets: sets.iter().map(|(path, value)| Set::new(*path, *value)).collect(),
        ..Options::default()
    };
    let loaded =
        from_bytes(manifest(more).to_string().into_bytes(), Path::new("/nowhere/manifest.json"), &options);
    let found = loaded.diagnostics.into_iter().filter(|one| one.code == code);
    found.map(|one| one.pointer).collect()
}

fn config(keys: Value) -> Value {
    json!({"training": {"config": keys}})
}

fn judge(keys: Value) -> Value {
    json!({"evaluation": {"scorer": {"judge": keys}}})
}

fn with_key(url: &str) -> Value {
    judge(json!({"url": url, "model": "m", "key_variable": "JUDGE_KEY"}))
}

fn decoding(keys: Value) -> Value {
    json!({"training": {"decoding": keys}})
}

fn dataset(keys: Value) -> Value {
    json!({"training": {"dataset": keys}})
}

/// Two tasks instead of a file.
fn tasks(keys: Value) -> Value {
    let mut two = json!({"path": null, "tasks": ["a.jsonl", "c.jsonl"]});
    merge(&mut two, &keys);
    dataset(two)
}

/// With `save_steps` all the same.
fn saved_by_epoch(keys: Value) -> Value {
    let mut epochs =
        config(json!({"save_strategy": "epoch", "save_steps": 20, "evaluation_strategy": "steps"}));
    merge(&mut epochs, &config(keys));
    merge(&mut epochs, &dataset(json!({"validation_split": 0.1})));
    epochs
}

fn base(keys: Value) -> Value {
    let mut base = json!({"name": "someone/model-7B"});
    merge(&mut base, &keys);
    json!({"base_models": [base]})
}

fn rope(keys: Value) -> Value {
    base(json!({"rope_scaling": keys}))
}

fn llama3(keys: Value) -> Value {
    let mut scaling = json!({"type": "llama3", "factor": 8, "original_max_position_embeddings": 8192});
    merge(&mut scaling, &keys);
    rope(scaling)
}

/// From 8,192 positions to 32,768.
fn grown(kind: &str, factor: f64) -> Value {
    let mut scaling = json!({
        "type": kind, "factor": factor,
        "max_position_embeddings": 32_768, "original_max_position_embeddings": 8192
    });
    if kind == "longrope" {
        merge(&mut scaling, &json!({"short_factor": [1, 1], "long_factor": [1, 2]}));
    }
    rope(scaling)
}

fn adapter(keys: Value) -> Value {
    base(json!({"adapters": [keys]}))
}

#[test]
fn nothing_is_reported_of_a_plain_manifest() {
    let loaded = from_bytes(
        manifest(&json!({})).to_string().into_bytes(),
        Path::new("/nowhere/manifest.json"),
        &Options::default(),
    );
    let problems: Vec<_> = loaded.diagnostics.iter().map(|one| &one.message).collect();
    assert!(loaded.manifest.is_some(), "{problems:?}");
}

#[test]
fn rules_hold_up_to_their_bounds_and_not_beyond() {
    let (all, none) = (1, 0);
    let cases = [
        (Code::WarmupConflict, all, config(json!({"warmup_steps": 5, "warmup_ratio": 0.1}))),
        (Code::WarmupConflict, none, config(json!({"warmup_steps": 0, "warmup_ratio": 0.1}))),
        (Code::WarmupConflict, none, config(json!({"warmup_steps": 5, "warmup_ratio": 0.0}))),
        (Code::WarmupUnused, all, config(json!({"lr_scheduler": "constant", "warmup_steps": 5}))),
        (Code::WarmupUnused, all, config(json!({"lr_scheduler": "constant", "warmup_ratio": 0.1}))),
        (Code::WarmupUnused, none, config(json!({"lr_scheduler": "constant"}))),
        (Code::WarmupUnused, none, config(json!({"lr_scheduler": "linear", "warmup_steps": 5}))),
        (Code::WarmupTooLong, all, config(json!({"max_steps": 4, "warmup_steps": 100}))),
        (Code::WarmupTooLong, all, config(json!({"max_steps": 4, "warmup_steps": 4}))),
        (Code::WarmupTooLong, none, config(json!({"max_steps": 4, "warmup_steps": 3}))),
        (Code::WarmupTooLong, none, config(json!({"max_steps": 4, "warmup_ratio": 0.8}))),
        (Code::WarmupTooLong, none, config(json!({"epochs": 1, "warmup_steps": 100}))),
        (
            Code::WarmupTooLong,
            none,
            config(json!({"max_steps": 4, "warmup_steps": 100, "lr_scheduler": "constant"})),
        ),
        (
            Code::WarmupTooLong,
            all,
            config(json!({"max_steps": 9, "warmup_steps": 10, "lr_scheduler": "one_cycle"})),
        ),
        (
            Code::WarmupTooLong,
            none,
            config(json!({"max_steps": 9, "warmup_steps": 9, "lr_scheduler": "one_cycle"})),
        ),
        (Code::WarmupOnly, all, config(json!({"max_steps": 1, "warmup_steps": 1}))),
        (Code::WarmupOnly, none, config(json!({"max_steps": 1}))),
        (Code::WarmupOnly, none, config(json!({"max_steps": 1, "warmup_ratio": 0.1}))),
        (
            Code::WarmupOnly,
            none,
            config(json!({"max_steps": 1, "warmup_steps": 1, "lr_scheduler": "one_cycle"})),
        ),
        (Code::CheckpointingConflict, all, checkpointing(json!(true), "none")),
        (Code::CheckpointingConflict, none, checkpointing(json!(false), "none")),
        (Code::CheckpointingConflict, all, checkpointing(json!(false), "full")),
        (Code::CheckpointingConflict, none, checkpointing(json!("selective"), "attention_only")),
        (Code::SchedulerOption, all, config(json!({"lr_scheduler_kwargs": {"min_lr_ratio": 1.0}}))),
        (Code::SchedulerOption, all, config(json!({"lr_scheduler_kwargs": {"min_lr_ratio": 2.0}}))),
        (Code::SchedulerOption, none, config(json!({"lr_scheduler_kwargs": {"min_lr_ratio": 0.9}}))),
        (Code::SchedulerOption, all, scheduler("cosine", json!({"num_cycles": 0}))),
        (Code::SchedulerOption, none, scheduler("cosine", json!({"num_cycles": 0.5}))),
        (Code::SchedulerOption, all, scheduler("polynomial", json!({"lr_end": 0.01}))),
        (Code::SchedulerOption, all, scheduler("polynomial", json!({"lr_end": 0.02}))),
        (Code::SchedulerOption, none, scheduler("polynomial", json!({"lr_end": 0.009}))),
        (Code::AdapterConflict, none, adapter(json!({"r": 8, "alpha": 16}))),
        (Code::AdapterConflict, 2, adapter(json!({"r": 9, "alpha": 17}))),
        (Code::AdapterConflict, none, base(json!({"adapters": [{"r": 9}], "overrides": {"rank": 9}}))),
        (Code::AdapterConflict, all, base(json!({"adapters": [{"r": 9}], "overrides": {"alpha": 9}}))),
        (Code::OutOfRange, none, config(json!({"epochs": 1_000_000}))),
        (Code::OutOfRange, all, config(json!({"epochs": 1e300}))),
        (Code::AdapterConflict, all, feedforward("down_proj", "up_proj")),
        (Code::AdapterConflict, none, feedforward("down_proj", "down_proj")),
        (Code::AdapterConflict, none, adapter(json!({"type": "lora", "use_dora": true}))),
        (Code::AdapterConflict, none, adapter(json!({"type": "ia3", "use_dora": false}))),
        (Code::AdapterConflict, all, adapter(json!({"type": "ia3", "use_dora": true}))),
        (Code::DataFormat, none, dataset(json!({"path": "a.csv", "format": "csv"}))),
        (Code::DataFormat, all, dataset(json!({"path": "a.csv", "format": "jsonl"}))),
        (Code::DataFormat, none, dataset(json!({"path": "a.json", "format": "jsonl"}))),
        (Code::DataFormat, none, dataset(json!({"path": "a.jsonl", "format": "json"}))),
        (Code::DataFormat, all, dataset(json!({"path": "rows"}))),
        (Code::DataFormat, none, dataset(json!({"path": "owner/rows"}))),
        (Code::DataFormat, none, dataset(json!({"path": "rows/*"}))),
        (Code::LengthBounds, none, dataset(json!({"validation": {"min_length": 5, "max_length": 5}}))),
        (Code::LengthBounds, all, dataset(json!({"validation": {"min_length": 6, "max_length": 5}}))),
        (Code::LoaderWithoutWorkers, none, config(json!({"dataloader_prefetch_factor": null}))),
        (Code::LoaderWithoutWorkers, all, config(json!({"dataloader_prefetch_factor": 2}))),
        (Code::SwitchedOff, none, config(json!({"logging_steps": 7, "report": "none"}))),
        (
            Code::SwitchedOff,
            none,
            base(json!({"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 9}})),
        ),
        (
            Code::SwitchedOff,
            all,
            base(json!({"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 9}})),
        ),
        (Code::SwitchedOff, all, base(json!({"rope_scaling": {"type": "none", "factor": 2}}))),
        (Code::SwitchedOff, none, base(json!({"rope_scaling": "none"}))),
        (Code::SwitchedOff, none, saved_by_epoch(json!({}))),
        (Code::SwitchedOff, all, saved_by_epoch(json!({"eval_steps": 10}))),
        (Code::SwitchedOff, all, saved_by_epoch(json!({"evaluation_strategy": "epoch"}))),
        (Code::SwitchedOff, none, decoding(json!({"grammar_type": "sql"}))),
        (Code::SwitchedOff, all, decoding(json!({"grammar_type": "sql", "use_grammar": false}))),
        (Code::GrammarMissing, none, decoding(json!({"grammar_type": "sql"}))),
        (Code::GrammarMissing, all, decoding(json!({"grammar_type": "lark"}))),
        (Code::InvalidName, none, json!({"name": "a".repeat(100)})),
        (Code::InvalidName, all, json!({"name": "a".repeat(101)})),
        (Code::InvalidName, all, json!({"name": "-a"})),
        (Code::InvalidName, all, json!({"name": "a."})),
        (Code::InvalidName, all, json!({"name": "auto"})),
        (Code::InvalidName, none, json!({"name": "automatic"})),
        (Code::SmallInt4, none, base(json!({"name": "x/model-3B", "quantization": "int4"}))),
        (Code::SmallInt4, all, base(json!({"name": "x/model-2.9B", "quantization": "int4"}))),
        (Code::RopeScaling, none, base(json!({"rope_scaling": {"type": "default"}}))),
        (Code::RopeScaling, all, base(json!({"rope_scaling": {"type": "linear"}}))),
        (Code::RopeScaling, 2, base(json!({"rope_scaling": {"type": "longrope", "factor": 2.0}}))),
        (
            Code::RopeScaling,
            all,
            base(json!({"rope_scaling": {"type": "yarn", "max_position_embeddings": 9}})),
        ),
        (Code::RopeScaling, all, llama3(json!({"low_freq_factor": 4, "high_freq_factor": 4}))),
        (Code::RopeScaling, none, llama3(json!({"low_freq_factor": 3.9, "high_freq_factor": 4}))),
        // Its lengths do not give the factor: those of Llama 3.1 are 16 times apart.
        (
            Code::RopeScaling,
            none,
            llama3(json!({"low_freq_factor": 1, "high_freq_factor": 4, "max_position_embeddings": 131_072})),
        ),
        (
            Code::RopeScaling,
            all,
            rope(json!({"type": "yarn", "factor": 2, "beta_slow": 9.5, "beta_fast": 9})),
        ),
        (
            Code::RopeScaling,
            all,
            rope(json!({"type": "ntk-by-parts", "factor": 2, "beta_slow": 9.5, "beta_fast": 9})),
        ),
        (Code::RopeScaling, none, rope(json!({"type": "yarn", "factor": 2, "beta_slow": 9, "beta_fast": 9}))),
        (Code::RopeScaling, all, grown("yarn", 3.9)),
        (Code::RopeScaling, all, grown("linear", 2.0)),
        (Code::RopeScaling, all, grown("longrope", 4.1)),
        (Code::RopeScaling, none, grown("yarn", 4.0)),
        (Code::RopeScaling, none, grown("linear", 4.03)),
        (Code::RopeScaling, none, grown("dynamic", 2.0)),
        (
            Code::RopeScaling,
            all,
            rope(json!({"type": "longrope", "factor": 2, "short_factor": [1, 1], "long_factor": [1, 1, 1]})),
        ),
        (
            Code::RopeScaling,
            all,
            rope(json!({"type": "longrope", "short_factor": [1, 1], "long_factor": [1, 2]})),
        ),
        (
            Code::RopeScaling,
            none,
            rope(json!({
                "type": "longrope", "short_factor": [1, 1], "long_factor": [1, 2],
                "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096
            })),
        ),
        (Code::NoEffect, none, config(json!({"adapter_type": "ia3", "rank": null, "alpha": null}))),
        (
            Code::NoEffect,
            all,
            config(json!({"adapter_type": "ia3", "rank": null, "alpha": null, "dropout": 0.1})),
        ),
        (Code::NoEffect, all, dataset(json!({"stopping_strategy": "all_exhausted"}))),
        (Code::NoEffect, all, tasks(json!({"stopping_strategy": "all_exhausted"}))),
        (Code::NoEffect, none, tasks(json!({"stopping_strategy": "all_exhausted", "weights": [1, 2]}))),
        (Code::TaskWeights, none, tasks(json!({"weights": {}}))),
        (Code::TaskWeights, none, tasks(json!({"weights": {"a.jsonl": 1, "c.jsonl": 0}}))),
        (Code::TaskWeights, all, tasks(json!({"weights": {"c.jsonl": 1}}))),
        (Code::TaskWeights, all, tasks(json!({"weights": {"c.jsonl": 1, "d.jsonl": 1}}))),
        (Code::UnknownScorer, none, json!({"evaluation": {"scorer": "package:name"}})),
        (Code::UnknownScorer, all, json!({"evaluation": {"scorer": "pack age:name"}})),
        (Code::UnknownScorer, all, json!({"evaluation": {"scorer": ":name"}})),
        (Code::UnknownScorer, all, json!({"evaluation": {"scorer": "package:"}})),
        (Code::ScorerChoice, none, json!({"evaluation": {"scorer": {"python": "a/score.py:f"}}})),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": {"python": "score.py"}}})),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": {}}})),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": "judge"}})),
        (
            Code::ScorerChoice,
            none,
            judge(json!({"url": "https://a/v1", "model": "m", "key_variable": "JUDGE_KEY"})),
        ),
        (
            Code::ScorerChoice,
            all,
            judge(json!({"url": "https://a/v1", "model": "m", "key_variable": "AWS_SECRET_ACCESS_KEY"})),
        ),
        (Code::ScorerChoice, all, with_key("http://a/v1")),
        (Code::ScorerChoice, all, with_key("http://127.0.0.1.example.org/v1")),
        (Code::ScorerChoice, all, with_key("http://[::2]:8000/v1")),
        (Code::ScorerChoice, all, with_key("http://[::1].example.org/v1")),
        (Code::ScorerChoice, all, with_key("http://localhost\\.example.org/v1")),
        (Code::ScorerChoice, none, with_key("http://127.0.0.1:8000/v1")),
        (Code::ScorerChoice, none, with_key("http://[::1]:8000/v1")),
        (Code::ScorerChoice, none, with_key("http://LocalHost/v1")),
        (Code::ScorerChoice, none, judge(json!({"url": "http://a/v1", "model": "m"}))),
        (Code::ScorerChoice, all, judge(json!({"url": "ftp://a", "model": "m"}))),
        (Code::ScorerChoice, all, judge(json!({"url": "http://", "model": "m"}))),
        (Code::ScorerChoice, all, judge(json!({"url": "https://a", "model": "m", "key_variable": "sk-12"}))),
        (Code::Credentials, all, judge(json!({"url": "http://me:pw@a/v1", "model": "m"}))),
        (Code::Credentials, none, judge(json!({"url": "http://a/v1?x=@", "model": "m"}))),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": {"python": "a.py:a", "rouge": "rouge1"}}})),
        (Code::ScorerChoice, none, json!({"evaluation": {"scorer": {"classification": {}}}})),
        (
            Code::ScorerChoice,
            none,
            json!({"evaluation": {"scorer": {"classification": {"labels": ["a", "b"]}}}}),
        ),
        (
            Code::ScorerChoice,
            all,
            json!({"evaluation": {"scorer": {"classification": {"labels": ["a", " A"]}}}}),
        ),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": {"classification": {"labels": ["a"]}}}})),
        (
            Code::ScorerChoice,
            all,
            json!({"evaluation": {"scorer": {"classification": {"labels": ["a", ""]}}}}),
        ),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": "python"}})),
        (Code::ScorerChoice, all, json!({"evaluation": {"scorer": "score.py:score"}})),
        (Code::MissingKey, none, json!({"training": 5})),
        (Code::MissingKey, none, json!({"training": {"dataset": 5}})),
        (Code::MissingKey, none, dataset(json!({"path": 5}))),
        (Code::TemplateSource, all, base(json!({"prompt_template": "custom"}))),
        (Code::TemplateSource, none, base(json!({"prompt_template": "custom", "template_source": 5}))),
        (Code::TemplateSource, none, base(json!({"prompt_template": "custom", "template_path": 5}))),
        (
            Code::IdleProcesses,
            none,
            config(json!({
                "batch_size": 2, "gradient_accumulation_steps": 2, "distributed": {"strategy": "ddp", "processes": 4}
            })),
        ),
        (
            Code::IdleProcesses,
            all,
            config(json!({
                "batch_size": 2, "gradient_accumulation_steps": 2, "distributed": {"strategy": "ddp", "processes": 5}
            })),
        ),
    ];
    for (code, count, more) in cases {
        let found = places(code, &more, &[]);
        assert_eq!(found.len(), count, "{code} at {found:?} of {more}");
    }
}

/// The names of an ia3 adapter's MLP layers, in `adapters[]` and in `training.config`.
fn feedforward(entry: &str, own: &str) -> Value {
    let mut whole = adapter(json!({"type": "ia3", "feedforward_modules": [entry]}));
    let keys = json!({"adapter_type": "ia3", "rank": null, "alpha": null, "feedforward_modules": [own]});
    merge(&mut whole, &config(keys));
    whole
}

fn checkpointing(gradient: Value, activation: &str) -> Value {
    config(json!({"gradient_checkpointing": gradient, "activation_checkpointing": activation}))
}

fn scheduler(name: &str, kwargs: Value) -> Value {
    config(json!({"lr_scheduler": name, "lr_scheduler_kwargs": kwargs}))
}

#[test]
fn modules_in_another_order_are_the_same() {
    let of = |entry: Value, own: Value| {
        let mut whole = adapter(json!({"target_modules": entry}));
        merge(&mut whole, &config(json!({"target_modules": own})));
        places(Code::AdapterConflict, &whole, &[]).len()
    };
    assert_eq!(of(json!(["q_proj", "v_proj"]), json!(["v_proj", "q_proj"])), 0);
    assert_eq!(of(json!(["q_proj"]), json!(["v_proj"])), 1);
}

#[test]
fn a_conflict_has_one_place() {
    let warm = places(Code::WarmupConflict, &config(json!({"warmup_steps": 5, "warmup_ratio": 0.1})), &[]);
    assert_eq!(warm, ["/training/config/warmup_steps"]);
    let only = |sets: &[(&str, &str)]| places(Code::WarmupOnly, &config(json!({"warmup_steps": 1})), sets);
    assert_eq!(only(&[("training.config.max_steps", "1")]), ["/training/config/max_steps"]);
    let unused = |keys: Value| {
        let mut whole = config(keys);
        merge(&mut whole, &config(json!({"lr_scheduler": "constant"})));
        places(Code::WarmupUnused, &whole, &[])
    };
    assert_eq!(unused(json!({"warmup_steps": 5})), ["/training/config/warmup_steps"]);
    assert_eq!(unused(json!({"warmup_ratio": 0.1})), ["/training/config/warmup_ratio"]);
    let precision = places(Code::PrecisionConflict, &config(json!({"fp16": true, "bf16": true})), &[]);
    assert_eq!(precision, ["/training/config/bf16"]);
}
