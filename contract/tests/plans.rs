//! Whole plans of a few manifests that between them use most settings, on two machines; `plans/<case>.json` holds what they were.
//! `UPDATE=1 cargo test -p expert-contract --test plans` writes them: read the diff.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::path::{Path, PathBuf};

use expert_contract::manifest::Options;
use expert_contract::plan::{Device, DeviceKind, Threads};
use expert_contract::read::from_bytes;
use expert_contract::resolve::{
    CachedRows, DataFacts, ProductsInFp32, Site, estimate_steps, gibibytes, resolve,
};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// An expert's folder with data, a base beside it and one in the Hub's cache.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let shape = json!({
            "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "head_dim": 16
        });
        world.write("experts/base/config.json", &shape.to_string());
        world.write("hub/models--someone--mine/refs/main", "abc\n");
        world.write("hub/models--someone--mine/snapshots/abc/config.json", &shape.to_string());
        world.write("hub/models--someone--mine/snapshots/abc/model.safetensors", "");
        let row =
            |number: usize| format!("{{\"prompt\": \"{}\", \"completion\": \"b\"}}\n", "a".repeat(number));
        world.write("experts/ash/train.jsonl", &(0..2000).map(row).collect::<String>());
        world.write("experts/ash/more.jsonl", &format!("{}\n \n{}", row(1), row(2).trim()));
        world.write("experts/ash/questions.jsonl", "{\"prompt\": \"p\", \"expected\": \"e\"}\n\n");
        world.write("experts/ash/template.jinja", "{{ messages }}");
        world.write("elsewhere/own.csv", "prompt,completion\na,b\n");
        world
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn site(&self, kind: DeviceKind, memory: Option<u64>, devices: u32) -> Site {
        let root = self.folder.path();
        Site {
            manifest: root.join("experts/ash/manifest.json"),
            output: None,
            data: None,
            test: None,
            home: PathBuf::from("/home"),
            hub_cache: root.join("hub"),
            device: Device { kind, index: 0, name: "device".into(), memory_bytes: memory },
            devices,
            least_memory: None,
            computes_bf16: kind == DeviceKind::Cuda,
            products_in_fp32: ProductsInFp32::unmeasured(kind == DeviceKind::Cuda),
            compiled: Vec::new(),
            captured: Vec::new(),
            limits: None,
            threads: Threads::default(),
            launched: None,
            launched_here: None,
            wait_for_mirror: false,
        }
    }

    /// Everything that follows from the manifest there, with this folder's name taken out.
    fn plan(&self, manifest: &Value, site: &Site) -> Value {
        let loaded = from_bytes(manifest.to_string().into_bytes(), &site.manifest, &Options::default());
        let said: Vec<_> =
            loaded.diagnostics.iter().map(|one| format!("{}: {}", one.code, one.message)).collect();
        let manifest = loaded.manifest.unwrap_or_else(|| panic!("{said:?}"));
        let found = resolve(&manifest.effective(0).unwrap(), site).unwrap();
        let recipe = &found.recipe;
        let steps = |cached| estimate_steps(recipe, &found.facts, cached);
        let document = json!({
            "recipe": recipe,
            "machine": found.machine,
            "base": found.base,
            "base_is_here": found.base.is_here(),
            "facts": found.facts,
            "data_is_here": found.facts.iter().map(DataFacts::is_here).collect::<Vec<_>>(),
            "tokens": found.facts.iter().map(DataFacts::tokens).collect::<Vec<_>>(),
            "notes": found.notes,
            "largest_micro_batch": found.largest_micro_batch,
            "steps": steps(None),
            "steps_of_a_cache": steps(Some(CachedRows { rows: 1001, tokens: 77_777 })),
        });
        let root = self.folder.path().to_string_lossy().replace('\\', "/");
        serde_json::from_str(&document.to_string().replace(&root, "ROOT")).unwrap()
    }
}

fn manifest(base: Value, dataset: Value, config: Value, more: Value) -> Value {
    let mut whole = json!({
        "name": "ash", "version": "1.0.0", "schema_version": "2.0", "base_models": [base],
        "training": {"dataset": dataset, "config": config}
    });
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole
}

fn hold(case: &str, found: &Value) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans").join(format!("{case}.json"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, serde_json::to_string_pretty(found).unwrap() + "\n").unwrap();
    }
    let expected: Value = serde_json::from_slice(&std::fs::read(&golden).unwrap()).unwrap();
    for (part, value) in expected.as_object().unwrap() {
        assert_eq!(&found[part], value, "{case}: {part}");
    }
}

#[test]
fn files_beside_a_base_on_a_cpu() {
    let world = World::new();
    let made = manifest(
        json!({"name": "../base", "quantization": "bf16", "prompt_template": "custom", "template_path": "template.jinja"}),
        json!({"path": "train.jsonl", "validation_path": "more.jsonl", "test_path": "absent.csv"}),
        json!({
            "rank": 8, "alpha": 16, "packing": true, "max_seq_length": 128, "epochs": 1.5, "batch_size": 4,
            "bf16": true, "evaluation_strategy": "epoch", "dataloader_num_workers": 0, "max_grad_norm": 0
        }),
        json!({"evaluation": {"test_cases": "questions.jsonl", "max_new_tokens": 7}}),
    );
    hold("cpu", &world.plan(&made, &world.site(DeviceKind::Cpu, Some(8 * GIB), 1)));
}

#[test]
fn a_small_gpu_with_most_switches_on() {
    let world = World::new();
    let made = manifest(
        json!({
            "name": "Qwen/Qwen3-0.6B", "quantization": "int4",
            "rope_scaling": {"type": "yarn", "max_position_embeddings": 8192, "original_max_position_embeddings": 2048}
        }),
        json!({"path": "train.jsonl", "validation_split": 0.1, "use_pretokenized": false}),
        json!({
            "adapter_type": "dora", "rank": 8, "alpha": 16, "target_modules": ["v_proj", "q_proj"],
            "packing": false, "max_seq_length": 2048, "epochs": 2, "batch_size": 48, "gradient_accumulation_steps": 3,
            "bf16": true, "torch_compile": true, "use_cuda_graphs": true, "memory_clear_every": 5,
            "dataloader_num_workers": 2, "dataloader_prefetch_factor": 3,
            "dataloader_drop_last": true, "neftune_noise_alpha": 5, "max_grad_norm": 0.5,
            "evaluation_strategy": "steps", "save_strategy": "steps", "save_steps": 20, "eval_steps": 20, "eval_rows": 9,
            "load_best_model_at_end": true, "early_stopping_patience": 3,
            "distributed": {"strategy": "ddp"}
        }),
        json!({}),
    );
    hold("gpu", &world.plan(&made, &world.site(DeviceKind::Cuda, Some(3 * GIB), 2)));
    let one = world.plan(&made, &world.site(DeviceKind::Cuda, Some(GIB / 4), 1));
    hold("gpu-too-small", &one);
}

#[test]
fn soft_prompts_of_a_mixture_on_a_base_of_the_hubs_cache() {
    let world = World::new();
    let made = manifest(
        json!({"name": "someone/mine"}),
        json!({
            "tasks": {
                "a": {"path": "train.jsonl", "validation_path": "more.jsonl", "test_path": "more.jsonl"},
                "b": {"path": "more.jsonl", "format": "jsonl"}
            },
            "weights": {"a": 0.7, "b": 0.3}
        }),
        json!({"adapter_type": "prompt", "max_steps": 30, "fp16": true, "max_seq_length": 64}),
        json!({"soft_prompts": [{"tokens": 16, "init_method": "text", "init_text": "Write SQL."}, {"name": "r", "tokens": 4}]}),
    );
    hold("prompts", &world.plan(&made, &world.site(DeviceKind::Cpu, None, 1)));
}

#[test]
fn a_hub_dataset_and_a_base_that_is_nowhere() {
    let world = World::new();
    let made = manifest(
        json!({"name": "F:/models/nobody-knows"}),
        json!({"path": "someone/data::train", "type": "huggingface", "test_path": "more.jsonl"}),
        json!({
            "adapter_type": "ia3", "epochs": 1, "save_strategy": "epoch",
            "distributed": {"strategy": "fsdp2", "processes": 4}, "checkpoint_mirror": "mirror"
        }),
        json!({}),
    );
    let site = world.site(DeviceKind::Cuda, None, 1);
    hold("hub", &world.plan(&made, &site));
    let own = Site {
        data: Some(world.folder.path().join("elsewhere/own.csv")),
        output: Some(PathBuf::from("/out")),
        ..site
    };
    hold("own-data", &world.plan(&made, &own));
}

#[test]
fn memory_is_reported_in_gibibytes() {
    assert_eq!(gibibytes(GIB * 3 / 2), "1.50 GiB");
    assert_eq!(gibibytes(10 * GIB), "10 GiB");
    assert_eq!(gibibytes(10 * GIB - 1), "10.00 GiB");
}
