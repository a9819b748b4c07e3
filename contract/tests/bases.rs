//! What a plan takes from the base's own folder: its layers, and which of the manifest's names they carry.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::site;
use expert_contract::diagnostic::{Code, Diagnostic, Severity};
use expert_contract::manifest::Options;
use expert_contract::plan::AdaptedModules;
use expert_contract::read::{Loaded, from_bytes};
use expert_contract::resolve::{Resolved, Site, resolve};
use serde_json::{Value, json};

/// A folder with bases in it, and manifests that name them.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn base(&self, name: &str, model_type: &str) -> PathBuf {
        let folder = self.0.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let config = json!({
            "model_type": model_type, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 256,
            "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256
        });
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        folder
    }

    fn manifest(bases: &Value, config: &Value) -> String {
        let ranked = config["adapter_type"] != "ia3";
        let mut all = if ranked { json!({"rank": 2, "alpha": 4}) } else { json!({}) };
        all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        json!({
            "name": "ash", "schema_version": "2.0", "base_models": bases,
            "training": {"dataset": {"path": "train.jsonl"}, "config": all}
        })
        .to_string()
    }

    fn read(&self, bases: &Value, config: &Value) -> Loaded {
        let path = self.0.path().join("manifest.json");
        from_bytes(Self::manifest(bases, config).into_bytes(), &path, &Options::default())
    }

    fn resolve(&self, config: &Value) -> Resolved {
        let loaded = self.read(&json!([{"name": "base"}]), config);
        let complaints: Vec<_> = loaded.diagnostics.iter().map(|it| it.message.clone()).collect();
        let manifest = loaded.manifest.unwrap_or_else(|| panic!("{complaints:?}"));
        resolve(&manifest.effective(0).unwrap(), &site(&self.0.path().join("manifest.json"))).unwrap()
    }

    fn modules(&self, config: &Value) -> AdaptedModules {
        self.resolve(config).machine.modules.unwrap()
    }

    fn refusals(&self, bases: &Value, config: &Value) -> Vec<Diagnostic> {
        let loaded = self.read(bases, config);
        assert!(loaded.manifest.is_none());
        loaded.diagnostics.into_iter().filter(|it| it.severity == Severity::Error).collect()
    }

    fn refusal(&self, config: &Value) -> Diagnostic {
        let mut found = self.refusals(&json!([{"name": "base"}]), config);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// A cache whose snapshot has these files, each with the configuration of the base in it, and a manifest of that base.
fn in_hub_cache(files: &[&str]) -> Resolved {
    let folder = Folder::new();
    let repository = folder.base("hub/models--someone--mine", "qwen3");
    let config = repository.join("config.json");
    let snapshot = repository.join("snapshots/abc");
    for new in ["refs", "snapshots/abc"] {
        std::fs::create_dir_all(repository.join(new)).unwrap();
    }
    std::fs::write(repository.join("refs/main"), "abc").unwrap();
    for file in files {
        std::fs::copy(&config, snapshot.join(file)).unwrap();
    }
    let manifest = folder.read(&json!([{"name": "someone/mine"}]), &json!({})).manifest.unwrap();
    let site =
        Site { hub_cache: folder.0.path().join("hub"), ..site(&folder.0.path().join("manifest.json")) };
    resolve(&manifest.effective(0).unwrap(), &site).unwrap()
}

#[test]
fn a_snapshot_without_its_weights_gives_dimensions_and_no_folder_to_load_from() {
    for (files, here) in [
        (&["config.json", "tokenizer.json"][..], false),
        (&["config.json", "model-00001-of-00002.safetensors"], false),
        (&["config.json", "model.safetensors"], true),
    ] {
        let resolved = in_hub_cache(files);
        assert_eq!(resolved.base.is_here(), here, "{files:?}");
        assert_eq!(resolved.machine.paths.base.is_some(), here, "{files:?}");
        assert!(resolved.base.config_folder().is_some(), "{files:?}");
        assert_eq!(resolved.base.shape.map(|shape| shape.layers), Some(2), "{files:?}");
    }
}

const LAYERS: &str = "`down_proj`, `gate_proj`, `k_proj`, `o_proj`, `q_proj`, `up_proj`, `v_proj`";

#[test]
fn a_name_that_no_layer_has_is_refused_with_the_names_there_are() {
    let folder = Folder::new();
    folder.base("base", "llama");
    let one = folder.refusal(&json!({"target_modules": ["q_proj", "wq"]}));
    assert_eq!(
        (one.code, one.message.as_str()),
        (Code::ModuleMissing, "`wq` of `target_modules` matches no layer of base")
    );
    assert_eq!(
        one.hint.unwrap(),
        format!("its layers are {LAYERS}; `\"target_modules\": \"all-linear\"` takes all")
    );
    let two = folder.refusal(&json!({"target_modules": ["wq", "q_proj", "wk"]}));
    assert_eq!(two.message, "`wq`, `wk` of `target_modules` match no layer of base");
    let pattern = folder.refusal(&json!({"target_modules": [".*q_proj"]}));
    assert!(pattern.hint.unwrap().starts_with("patterns are not taken; its layers are `down_proj`"));
    let keys =
        json!({"adapter_type": "ia3", "target_modules": ["k_proj", "fc"], "feedforward_modules": ["fc"]});
    let both = folder.refusals(&json!([{"name": "base"}]), &keys);
    assert_eq!(both.len(), 2, "{both:?}");
    assert_eq!(both[0].message, "`fc` of `feedforward_modules` matches no layer of base");
    assert_eq!(both[0].hint, Some(format!("its layers are {LAYERS}")));
    folder.modules(&json!({"target_modules": ["q_proj", "v_proj"]}));
}

#[test]
fn the_list_is_pointed_at_unless_several_bases_share_it() {
    let folder = Folder::new();
    folder.base("base", "llama");
    folder.base("other", "gpt2");
    let list = json!({"target_modules": ["wq"]});
    let pointers = |bases: Value, config: &Value| {
        folder.refusals(&bases, config).into_iter().map(|it| it.pointer).collect::<Vec<_>>()
    };
    let overridden = "/base_models/0/overrides/target_modules";
    assert_eq!(pointers(json!([{"name": "base"}]), &list), ["/training/config/target_modules"]);
    let both = ["/base_models/0/name", "/base_models/1/name"];
    assert_eq!(pointers(json!([{"name": "base"}, {"name": "other"}]), &list), both);
    let own = json!({"name": "base", "overrides": list});
    assert_eq!(pointers(json!([own, {"name": "other"}]), &json!({})), [overridden]);
    assert_eq!(pointers(json!([own]), &json!({})), [overridden]);
}

#[test]
fn all_linear_and_the_defaults_of_ia3_are_names_of_the_bases_layers() {
    let folder = Folder::new();
    folder.base("base", "llama");
    let all = folder.modules(&json!({"target_modules": "all-linear", "rank": 4}));
    assert_eq!(all.target, ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]);
    // Of two layers each: rank times (inputs + outputs) of every linear layer.
    let widths = [(64, 64), (64, 32), (64, 32), (64, 64), (64, 128), (64, 128), (128, 64)];
    let expected: u64 = widths.iter().map(|(inputs, outputs)| 2 * 4 * (inputs + outputs)).sum();
    assert_eq!(all.parameters, Some(expected));
    let ia3 = folder.modules(&json!({"adapter_type": "ia3"}));
    assert_eq!(
        (ia3.target, ia3.feedforward),
        (vec!["down_proj".into(), "k_proj".into(), "v_proj".into()], vec!["down_proj".to_owned()])
    );
    let given = json!({"adapter_type": "ia3", "target_modules": ["k_proj"], "feedforward_modules": []});
    assert_eq!(folder.modules(&given).target, ["k_proj"]);
    let none = folder.modules(&json!({"adapter_type": "ia3", "target_modules": []}));
    assert_eq!(none.target, all.target, "an empty list means every layer, also for ia3");
}

#[test]
fn dropout_on_the_embedding_alone_is_reported() {
    let folder = Folder::new();
    folder.base("base", "llama");
    let codes = |config: Value| -> Vec<Code> {
        let loaded = folder.read(&json!([{"name": "base"}]), &config);
        assert!(loaded.manifest.is_some());
        loaded.diagnostics.iter().map(|it| it.code).filter(|it| *it == Code::NoEffect).collect()
    };
    let on = |modules: Value, dropout: f64| codes(json!({"target_modules": modules, "dropout": dropout}));
    assert_eq!(on(json!(["embed_tokens"]), 0.5), [Code::NoEffect]);
    assert_eq!(on(json!(["model.embed_tokens"]), 0.5), [Code::NoEffect]);
    assert_eq!(on(json!(["embed_tokens"]), 0.0), []);
    assert_eq!(on(json!(["embed_tokens", "q_proj"]), 0.5), []);
    assert_eq!(on(json!("all-linear"), 0.5), []);
}

/// peft refuses them once the base is loaded.
#[test]
fn feedforward_modules_of_ia3_are_among_the_layers_that_the_base_gives_it() {
    let folder = Folder::new();
    folder.base("base", "llama");
    let of = |target: Value, feedforward: &str| {
        let mut keys = json!({"adapter_type": "ia3", "feedforward_modules": [feedforward]});
        if !target.is_null() {
            keys["target_modules"] = target;
        }
        keys
    };
    for (target, stray, found) in [
        (Value::Null, "gate_proj", "of which the default is `k_proj`, `v_proj`, `down_proj`"),
        (Value::Null, "mlp.down_proj", "of which the default is"),
        (json!("all-linear"), "mlp.down_proj", "of which all-linear is `down_proj`, `gate_proj`"),
        (json!([]), "lm_head", "of which all-linear is"),
    ] {
        let one = folder.refusal(&of(target, stray));
        assert_eq!(one.code, Code::AdapterModules, "{stray}");
        assert!(
            one.message.starts_with(&format!("`{stray}` is in `feedforward_modules`")),
            "{}",
            one.message
        );
        assert!(one.message.contains(found), "{}", one.message);
    }
    let unknown = folder.refusal(&of(Value::Null, "nope"));
    assert_eq!(unknown.code, Code::ModuleMissing);
    for target in [Value::Null, json!("all-linear")] {
        assert_eq!(folder.modules(&of(target, "down_proj")).feedforward, ["down_proj"]);
    }
}

#[test]
fn what_cannot_be_put_on_a_base_is_refused() {
    let folder = Folder::new();
    folder.base("base", "gpt2");
    assert!(
        folder
            .refusal(&json!({"adapter_type": "lokr"}))
            .message
            .contains("lokr cannot be put on the layers of `gpt2`")
    );
    assert_eq!(folder.modules(&json!({})).target, ["c_attn", "c_fc", "c_proj"]);
    folder.base("base", "llama");
    folder.modules(&json!({"adapter_type": "lokr"}));
    let with_embedding = |kind| json!({"adapter_type": kind, "target_modules": ["q_proj", "embed_tokens"]});
    for kind in ["lokr", "adalora", "ia3"] {
        let refusal = folder.refusal(&with_embedding(kind));
        assert_eq!(refusal.code, Code::AdapterModules);
        assert_eq!(
            refusal.message,
            format!("{kind} cannot be put on the embedding, which is not a linear layer")
        );
        assert_eq!(refusal.hint.unwrap(), "leave `embed_tokens` out of `target_modules`, or use `lora`");
    }
    for kind in ["lora", "rslora", "dora"] {
        folder.modules(&with_embedding(kind));
    }
    folder.base("base", "mamba");
    let refusal = folder.refusal(&json!({}));
    assert_eq!(refusal.code, Code::BaseUnsupported);
    assert!(refusal.message.contains("state-space"), "{}", refusal.message);
}

fn safetensors(path: &Path, length: u64, header: &str) {
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// Of an architecture without an entry in the table of families the layers are known from the weights.
#[test]
fn layers_of_an_unknown_architecture_are_read_from_its_weights() {
    let folder = Folder::new();
    let base = folder.base("base", "novel");
    let unread = folder.resolve(&json!({"target_modules": ["wq"]}));
    assert!(unread.machine.modules.is_none() && unread.base.shape.is_none());
    let note = unread.notes.iter().find(|note| note.code == "no-budget").unwrap();
    assert!(
        note.message.starts_with("the layers of `novel` are known from weights only"),
        "{}",
        note.message
    );
    let tensor = |shape: [u64; 2]| json!({"dtype": "F32", "shape": shape, "data_offsets": [0, 0]});
    let header = json!({
        "model.embed_tokens.weight": tensor([256, 64]),
        "model.layers.0.mixer.in_proj.weight": tensor([96, 64]),
        "model.layers.1.mixer.in_proj.weight": tensor([96, 64])
    });
    let header = header.to_string();
    safetensors(&base.join("model.safetensors"), header.len() as u64, &header);
    assert!(
        folder
            .refusal(&json!({"target_modules": ["wq"]}))
            .hint
            .unwrap()
            .starts_with("its layers are `in_proj`;")
    );
    let modules = folder.modules(&json!({"rank": 2}));
    // What transformers makes of an architecture that it alone knows is counted when the base is loaded.
    assert_eq!((modules.target, modules.parameters), (vec!["in_proj".to_owned()], None));
    let ia3 = folder.refusal(&json!({"adapter_type": "ia3"}));
    assert_eq!(ia3.code, Code::AdapterModules);
    assert_eq!(ia3.hint.unwrap(), "set `target_modules` to some of `in_proj`");
    folder.modules(&json!({"adapter_type": "ia3", "target_modules": ["in_proj"]}));
    // Weights that are saved quantized have other shapes than their layers.
    let config = std::fs::read_to_string(base.join("config.json")).unwrap();
    let quantized = |value: &str| {
        config.replace("\"model_type\"", &format!("\"quantization_config\": {value}, \"model_type\""))
    };
    std::fs::write(base.join("config.json"), quantized("{}")).unwrap();
    assert!(folder.resolve(&json!({})).machine.modules.is_none());
    std::fs::write(base.join("config.json"), quantized("null")).unwrap();
    folder.modules(&json!({}));
}

#[test]
fn a_base_that_is_stored_in_4_or_8_bits_is_held_in_no_other_form() {
    let folder = Folder::new();
    let base = folder.base("base", "llama");
    let config = std::fs::read_to_string(base.join("config.json")).unwrap();
    let said = |saved: &Value, quantization: &Value| {
        let saved = format!("\"quantization_config\": {saved}, \"model_type\"");
        std::fs::write(base.join("config.json"), config.replace("\"model_type\"", &saved)).unwrap();
        let loaded = folder.read(&json!([{"name": "base", "quantization": quantization}]), &json!({}));
        let found = loaded.diagnostics.into_iter().find(|it| it.code == Code::StoredQuantization);
        found.map(|it| it.message)
    };
    for (stored, other) in [("int4", "int8"), ("int8", "int4")] {
        let saved = json!({"load_in_4bit": stored == "int4", "load_in_8bit": stored == "int8"});
        assert_eq!(said(&saved, &json!(stored)), None);
        for asked in [json!(null), json!("none"), json!("bf16"), json!(other)] {
            let wanted = format!("base is stored in {stored}, and cannot be held in another form");
            assert_eq!(said(&saved, &asked), Some(wanted), "{asked}");
        }
    }
    for form in ["fp8", "fbgemm_fp8", "mxfp4", "gptq", "awq"] {
        for asked in [json!(null), json!("bf16"), json!("int4")] {
            let wanted =
                format!("base is stored in the form `{form}`, which cannot be trained or evaluated here");
            assert_eq!(said(&json!({"quant_method": form}), &asked), Some(wanted), "{asked}");
        }
    }
    for unquantized in [json!({}), json!(null), json!({"quant_method": "bitsandbytes"})] {
        assert_eq!(said(&unquantized, &json!("bf16")), None, "{unquantized}");
    }
}

#[test]
fn weights_of_the_embedding_are_counted_for_plain_lora_only() {
    let folder = Folder::new();
    folder.base("base", "llama");
    let parameters = |kind: &str| {
        folder
            .modules(&json!({"adapter_type": kind, "rank": 2, "target_modules": ["q_proj", "lm_head"]}))
            .parameters
    };
    assert_eq!(parameters("lora"), Some(2 * (2 * (64 + 64)) + 2 * (64 + 256)));
    assert_eq!(parameters("dora"), None);
}

/// A run with one row of 4,096 tokens peaks at 1,888 MiB with eager attention and at 873 MiB with SDPA.
#[test]
fn eager_attention_is_counted_with_the_scores_of_all_pairs_of_tokens() {
    let folder = Folder::new();
    let activations = |settings: Value| {
        let mut all = json!({"max_seq_length": 4096, "batch_size": 1});
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        folder.resolve(&all).machine.estimate.activations
    };
    let eager = |settings: Value| {
        let mut all = json!({"use_sdpa": false});
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        activations(all)
    };
    let pairs = 4 * 4096 * 4096;
    folder.base("base", "olmo");
    let without = activations(json!({}));
    assert_eq!(eager(json!({})) - without, pairs * (2 * 4 + 8), "two layers and two gradients");
    let rows = json!({"batch_size": 3});
    assert_eq!(eager(rows.clone()) - activations(rows), 3 * pairs * (2 * 4 + 8));
    let half = json!({"bf16": true});
    assert_eq!(eager(half.clone()) - activations(half), pairs * (2 * 6 + 8), "a copy in the run's format");
    let full = json!({"gradient_checkpointing": "full"});
    assert_eq!(eager(full.clone()) - activations(full), pairs * (4 + 8), "one layer");
    // transformers computes it for them whatever the manifest says.
    folder.base("base", "gemma2");
    assert_eq!(activations(json!({})) - without, pairs * (2 * 8 + 8), "the output of the scores' cap too");
    folder.base("base", "bloom");
    assert!(activations(json!({})) > pairs * (2 * 4 + 8));
    assert_eq!(activations(json!({})), eager(json!({})));
}

/// Rows and, by code and message, what is said of them.
fn rows_of(folder: &Folder, settings: &Value) -> (u32, Vec<(&'static str, String)>) {
    let resolved = folder.resolve(settings);
    let of_length = ["beyond-positions", "max-seq-length-lowered"];
    let notes = resolved.notes.into_iter().filter(|note| of_length.contains(&note.code));
    (resolved.recipe.batch.max_seq_length, notes.map(|note| (note.code, note.message)).collect())
}

#[test]
fn rows_are_no_longer_than_a_table_of_positions() {
    let folder = Folder::new();
    for architecture in ["gpt2", "opt", "gpt_neo", "gptj", "mpt"] {
        folder.base("base", architecture);
        let refused = folder.refusal(&json!({"max_seq_length": 257}));
        assert_eq!(refused.code, Code::BeyondPositions, "{architecture}");
        assert!(
            refused.message.contains("257 is more than the 256 positions of base"),
            "{}",
            refused.message
        );
        assert_eq!(rows_of(&folder, &json!({"max_seq_length": 256})), (256, Vec::new()), "{architecture}");
        let (rows, notes) = rows_of(&folder, &json!({}));
        assert_eq!((rows, notes[0].0), (256, "max-seq-length-lowered"), "{architecture}");
    }
}

/// A manifest is read without the Hub's cache, which the plan looks into.
#[test]
fn the_plan_refuses_rows_without_positions_where_only_it_knows_the_base() {
    let folder = Folder::new();
    let manifest = folder.read(&json!([{"name": "base"}]), &json!({"max_seq_length": 257})).manifest.unwrap();
    folder.base("base", "gpt2");
    let path = folder.0.path().join("manifest.json");
    let problem = resolve(&manifest.effective(0).unwrap(), &site(&path)).unwrap_err();
    assert_eq!(manifest.locate(vec![problem])[0].code, Code::BeyondPositions);
}

#[test]
fn soft_prompts_take_positions_of_the_row() {
    let folder = Folder::new();
    folder.base("base", "gpt2");
    let path = folder.0.path().join("manifest.json");
    let length = |length: u32| {
        let text = json!({
            "name": "ash", "base_models": [{"name": "base"}], "soft_prompts": [{"name": "a", "tokens": 20}],
            "training": {"dataset": "a.jsonl", "config": {"adapter_type": "prompt", "max_seq_length": length}}
        });
        let loaded = from_bytes(text.to_string().into_bytes(), &path, &Options::default());
        let error = loaded.diagnostics.into_iter().find(|it| it.severity == Severity::Error);
        error.map(|it| it.message)
    };
    assert_eq!(length(236), None);
    let refused = length(237).unwrap();
    assert!(refused.contains("237 is more than the 236 that 20 soft tokens leave of the 256"), "{refused}");
}

#[test]
fn longrope_has_a_factor_for_each_pair_of_dimensions_that_the_base_rotates() {
    let folder = Folder::new();
    let error = |count: usize| {
        let factors = vec![1.0; count];
        let scaling =
            json!({"type": "longrope", "factor": 4, "short_factor": factors, "long_factor": factors});
        let loaded = folder.read(&json!([{"name": "base", "rope_scaling": scaling}]), &json!({}));
        let error = loaded.diagnostics.into_iter().find(|it| it.code == Code::RopeScaling);
        error.map(|it| it.message)
    };
    let base = folder.base("base", "llama");
    assert_eq!(error(8), None, "heads of 16 dimensions");
    let refused = error(6).unwrap();
    assert_eq!(refused, "`short_factor` has 6 numbers, and base rotates 8 pairs of dimensions");
    let config = std::fs::read_to_string(base.join("config.json")).unwrap();
    let config = config.replace("\"llama\"", "\"phi3\", \"partial_rotary_factor\": 0.75");
    std::fs::write(base.join("config.json"), config).unwrap();
    assert_eq!(error(6), None, "three quarters of a head");
    assert!(error(8).unwrap().ends_with("rotates 6 pairs of dimensions"));
    folder.base("base", "stablelm");
    assert_eq!(error(3), None, "it may rotate a part of a head");
}

#[test]
fn a_base_without_rotary_positions_that_can_be_scaled_refuses_rope_scaling() {
    let folder = Folder::new();
    let said = |architecture: &str, scaling: Value| {
        folder.base("base", architecture);
        let loaded = folder.read(&json!([{"name": "base", "rope_scaling": scaling}]), &json!({}));
        let found = loaded.diagnostics.into_iter().find(|it| it.code == Code::RopeScaling);
        found.map(|it| (it.severity, it.message))
    };
    for architecture in ["bloom", "codegen", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "mpt", "opt"] {
        let wanted =
            format!("the base's architecture `{architecture}` has no rotary positions that can be scaled");
        let found = said(architecture, json!({"type": "linear", "factor": 2}));
        assert_eq!(found, Some((Severity::Error, wanted)));
        assert_eq!(said(architecture, json!("none")), None);
    }
    assert_eq!(said("gemma3_text", json!({"type": "linear", "factor": 2})), None);
}

#[test]
fn rows_beyond_what_a_base_was_trained_on_are_noted() {
    let folder = Folder::new();
    let base = folder.base("base", "olmo");
    let (rows, notes) = rows_of(&folder, &json!({"max_seq_length": 512}));
    assert_eq!((rows, notes[0].0), (512, "beyond-positions"));
    assert!(notes[0].1.starts_with("max_seq_length 512 is more than the 256 positions"), "{}", notes[0].1);
    assert_eq!(rows_of(&folder, &json!({"max_seq_length": 256})), (256, Vec::new()));
    assert_eq!(rows_of(&folder, &json!({})), (2048, Vec::new()), "the default says nothing of the rows");
    // Scaling reaches further: the base's own, or the manifest's.
    let config = std::fs::read_to_string(base.join("config.json")).unwrap();
    let scaling =
        r#""rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 256}"#;
    let scaled = config.replace("\"model_type\"", &format!("{scaling}, \"model_type\""));
    std::fs::write(base.join("config.json"), scaled).unwrap();
    assert_eq!(rows_of(&folder, &json!({"max_seq_length": 512})), (512, Vec::new()));
    std::fs::write(base.join("config.json"), config).unwrap();
    for (factor, notes) in [(2.0, 0), (1.5, 1)] {
        let bases = json!([{"name": "base", "rope_scaling": {"type": "linear", "factor": factor}}]);
        let manifest = folder.read(&bases, &json!({"max_seq_length": 512})).manifest.unwrap();
        let path = folder.0.path().join("manifest.json");
        let resolved = resolve(&manifest.effective(0).unwrap(), &site(&path)).unwrap();
        assert_eq!(
            resolved.notes.iter().filter(|it| it.code == "beyond-positions").count(),
            notes,
            "{factor}"
        );
    }
}

/// The worker counts in the same way: `test_a_factor_counts_from_the_length_before_the_bases_own_scaling`.
#[test]
fn a_factor_counts_from_the_length_before_the_bases_own_scaling() {
    let folder = Folder::new();
    let base = folder.base("base", "llama");
    let config = std::fs::read_to_string(base.join("config.json")).unwrap();
    let own = r#"{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32}"#;
    let has = |scaling: &str| {
        let config = config.replace("\"model_type\"", &format!("{scaling}, \"model_type\""));
        std::fs::write(base.join("config.json"), config).unwrap();
    };
    has(&format!("\"rope_scaling\": {own}"));
    let said = |scaling: Value, rows: u64| {
        let bases = json!([{"name": "base", "rope_scaling": scaling}]);
        let manifest = folder.read(&bases, &json!({"max_seq_length": rows})).manifest.unwrap();
        let path = folder.0.path().join("manifest.json");
        let resolved = resolve(&manifest.effective(0).unwrap(), &site(&path)).unwrap();
        resolved.notes.into_iter().map(|it| (it.code, it.message)).collect::<Vec<_>>()
    };
    let [(shorter, why), (beyond, length)] = &said(json!({"type": "yarn", "factor": 2}), 100)[..] else {
        panic!("two notes");
    };
    assert_eq!((*shorter, *beyond), ("rope-scaling-shortens", "beyond-positions"));
    assert!(
        why.contains("counts from the 32 positions before the base's own scaling and leaves 64"),
        "{why}"
    );
    assert!(why.contains("base has 256 without it") && length.contains("the 64 positions"), "{length}");
    assert_eq!(said(json!({"type": "yarn", "factor": 16}), 512), []);
    let named = json!({"type": "yarn", "factor": 2, "original_max_position_embeddings": 256});
    assert_eq!(said(named, 512), []);
    // As transformers 5 writes it of a base whose kinds of layers have own settings.
    let each = format!(r#"{{"full_attention": {own}, "sliding_attention": {{"rope_type": "default"}}}}"#);
    has(&format!("\"rope_parameters\": {each}"));
    let shorter = said(json!({"type": "yarn", "factor": 2}), 32).remove(0).1;
    assert!(shorter.contains("counts from the 32 positions"), "{shorter}");
}

/// As transformers has it where `config.json` does not say.
#[test]
fn the_head_of_gemma_is_its_embedding() {
    let folder = Folder::new();
    let tied = |architecture: &str| {
        folder.base("base", architecture);
        folder.resolve(&json!({})).base.shape.unwrap().tied
    };
    assert_eq!(["gemma", "gemma3_text", "cohere", "gpt2"].map(tied), [true; 4]);
    assert_eq!(["llama", "olmo", "granite", "gptj"].map(tied), [false; 4]);
}

/// Configurations name their dimensions differently; a folder that is here has them.
#[test]
fn memory_is_estimated_for_families_that_name_their_dimensions_otherwise() {
    let gpt2 = json!({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "vocab_size": 256});
    let neox = json!({
        "model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 256
    });
    for config in [gpt2, neox] {
        let folder = Folder::new();
        let base = folder.base("base", "llama");
        std::fs::write(base.join("config.json"), config.to_string()).unwrap();
        let resolved = folder.resolve(&json!({"target_modules": "all-linear"}));
        let notes: Vec<_> = resolved.notes.iter().map(|note| note.message.as_str()).collect();
        assert!(resolved.machine.estimate.activations > 0, "{config}: {notes:?}");
        assert!(!notes.iter().any(|note| note.contains("not known here")), "{config}: {notes:?}");
    }
}
