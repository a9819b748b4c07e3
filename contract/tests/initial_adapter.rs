//! An adapter that training starts from: where it may be, and what it must have in common with the one that is trained.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

use std::path::PathBuf;

use expert_contract::adapters::{CONFIG, WEIGHTS};
use expert_contract::diagnostic::{Code, Severity};
use expert_contract::manifest::{Options, Set};
use expert_contract::read::load;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A shelf with one expert that names `first` as its adapter to start from.
struct Expert {
    folder: TempDir,
}

impl Expert {
    fn new(config: Value) -> Self {
        let expert = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(expert.home()).unwrap();
        std::fs::write(expert.home().join("data.jsonl"), "{}\n").unwrap();
        expert.manifest("first", config, json!([]));
        expert
    }

    fn manifest(&self, initial: &str, config: Value, soft_prompts: Value) {
        let mut whole = json!({
            "name": "x", "base_models": ["Qwen/Qwen3-0.6B"], "soft_prompts": soft_prompts,
            "training": {"dataset": "data.jsonl", "config": config},
        });
        whole["training"]["config"]["initial_adapter"] = json!(initial);
        std::fs::write(self.home().join("manifest.json"), whole.to_string()).unwrap();
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("shelf/x")
    }

    /// As peft saves one.
    fn save(&self, name: &str, config: &Value) {
        let folder = self.home().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(CONFIG), config.to_string()).unwrap();
        std::fs::write(folder.join(WEIGHTS), "weights").unwrap();
    }

    fn found(&self, options: &Options) -> Vec<(Code, Severity, String)> {
        let found = load(&self.home().join("manifest.json"), options).diagnostics;
        found
            .into_iter()
            .map(|it| (it.code, it.severity, format!("{} ({})", it.message, it.hint.unwrap_or_default())))
            .collect()
    }

    fn refused(&self) -> Vec<String> {
        let found = self.found(&Options::default()).into_iter();
        found
            .filter(|(code, severity, _)| *code == Code::InitialAdapter && *severity == Severity::Error)
            .map(|it| it.2)
            .collect()
    }
}

fn lora(more: Value) -> Value {
    let mut config = json!({
        "peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_dora": false, "use_rslora": false, "bias": "none",
        "base_model_name_or_path": "Qwen/Qwen3-0.6B", "target_modules": ["q_proj"], "rank_pattern": {},
        "alpha_pattern": {}, "modules_to_save": null, "lora_bias": false, "target_parameters": null,
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn of_lora() -> Value {
    json!({"rank": 8, "alpha": 16})
}

#[test]
fn one_with_the_same_settings_is_accepted() {
    let expert = Expert::new(of_lora());
    expert.save("first", &lora(json!({})));
    assert!(expert.found(&Options::default()).is_empty(), "{:?}", expert.found(&Options::default()));
}

#[test]
fn each_difference_is_named_with_the_setting_that_ends_it() {
    for (saved, expected) in [
        (json!({"r": 16}), "`first` has `rank` 16, and 8 is to be trained (set `rank` to 16)"),
        (json!({"lora_alpha": 32}), "`first` has `alpha` 32, and 16 is to be trained (set `alpha` to 32)"),
        (
            json!({"lora_alpha": 12.5}),
            "`first` has `alpha` 12.5, and 16 is to be trained (set `alpha` to 12.5)",
        ),
        (
            json!({"use_dora": true}),
            "`first` is of the kind `dora`, and `lora` is to be trained (set `adapter_type` to `dora`)",
        ),
        (
            json!({"use_rslora": true}),
            "`first` is of the kind `rslora`, and `lora` is to be trained (set `adapter_type` to `rslora`)",
        ),
        (
            json!({"peft_type": "IA3"}),
            "`first` is of the kind `ia3`, and `lora` is to be trained (set `adapter_type` to `ia3`)",
        ),
        (
            json!({"peft_type": "LOHA"}),
            "`first` is of the kind LOHA, which cannot be trained (start with a new one)",
        ),
    ] {
        let expert = Expert::new(of_lora());
        expert.save("first", &lora(saved.clone()));
        assert_eq!(expert.refused(), [expected], "{saved}");
    }
    for beside in [
        json!({"modules_to_save": ["lm_head"]}),
        json!({"rank_pattern": {"q_proj": 4}}),
        json!({"trainable_token_indices": [1]}),
        json!({"bias": "all"}),
        json!({"lora_bias": true}),
        json!({"layers_to_transform": [0]}),
        json!({"alora_invocation_tokens": [5, 6]}),
        json!({"init_lora_weights": "pissa"}),
        json!({"init_lora_weights": "loftq"}),
        json!({"of_a_later_version": {"x": 1}}),
    ] {
        let expert = Expert::new(of_lora());
        expert.save("first", &lora(beside.clone()));
        let refused = expert.refused();
        assert!(
            refused.len() == 1 && refused[0].contains("export --merge --from FOLDER"),
            "{beside}: {refused:?}"
        );
    }
    // As peft writes them where they are not used, or where they leave the base as it is.
    for plain in [
        json!({"init_lora_weights": true, "lora_dropout": 0.1, "qalora_group_size": 16, "megatron_core": "megatron.core"}),
        json!({"init_lora_weights": "gaussian", "loftq_config": {}, "of_a_later_version": null}),
        json!({"of_a_later_version": 0, "another": [], "exclude_modules": ["lm_head"]}),
    ] {
        let expert = Expert::new(of_lora());
        expert.save("first", &lora(plain.clone()));
        assert_eq!(expert.refused(), [""; 0], "{plain}");
    }
}

#[test]
fn soft_prompts_have_as_many_tokens_as_the_saved_ones() {
    let expert = Expert::new(json!({}));
    let prompts = json!([{"name": "a", "tokens": 3}, {"name": "b", "tokens": 5}]);
    expert.manifest("first", json!({"adapter_type": "prompt"}), prompts);
    expert.save("first", &json!({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 8}));
    assert_eq!(expert.refused(), [""; 0]);
    expert.save("first", &json!({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 9}));
    assert_eq!(
        expert.refused(),
        ["`first` has 9 virtual tokens, and `soft_prompts` have 8 (make `soft_prompts` 9 tokens long)"]
    );
}

#[test]
fn one_of_another_base_is_a_warning_because_only_names_are_known() {
    let expert = Expert::new(of_lora());
    expert.save("first", &lora(json!({"base_model_name_or_path": "someone/other"})));
    let found = expert.found(&Options::default());
    assert_eq!(found.len(), 1, "{found:?}");
    let (code, severity, said) = &found[0];
    assert_eq!((*code, *severity), (Code::InitialAdapter, Severity::Warning));
    assert!(said.contains("was trained on someone/other, and the base is Qwen/Qwen3-0.6B"), "{said}");
    // A folder that is called as the model of the Hub.
    for path in ["/models/Qwen3-0.6B/", "/home/me/hub/models--Qwen--Qwen3-0.6B/snapshots/0a1b2c3d4e"] {
        expert.save("first", &lora(json!({"base_model_name_or_path": path})));
        assert!(expert.found(&Options::default()).is_empty(), "{path}");
    }
}

#[test]
fn one_that_is_not_here_is_missing_data() {
    let expert = Expert::new(of_lora());
    let found = expert.found(&Options::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1), (Code::DataMissing, Severity::Warning));
    assert!(found[0].2.contains("there is no adapter `first`"), "{found:?}");
    let strict = Options { strict: true, ..Options::default() };
    assert!(expert.found(&strict).iter().any(|it| it.0 == Code::DataMissing && it.1 == Severity::Error));
    expert.save("first/final", &lora(json!({})));
    assert!(expert.found(&Options::default())[0].2.contains("`first` is not an adapter: it has no adapter_config.json (name the finished adapter in it, `first/final`)"));
}

#[test]
fn it_is_in_the_experts_folder_or_where_the_command_line_allows() {
    let expert = Expert::new(of_lora());
    expert.save("../other/final", &lora(json!({})));
    expert.manifest("../other/final", of_lora(), json!([]));
    let codes = |options: &Options| expert.found(options).into_iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(codes(&Options::default()), [Code::PathOutside]);
    let allowing = Options { allowed: vec![expert.folder.path().join("shelf/other")], ..Options::default() };
    assert_eq!(codes(&allowing), []);
    expert.manifest("first", of_lora(), json!([]));
    let given = Options {
        sets: vec![Set::new("training.config.initial_adapter", "../other/final")],
        ..Options::default()
    };
    assert_eq!(codes(&given), [], "a path of the command line");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../other/final", expert.home().join("first")).unwrap();
        assert_eq!(codes(&Options::default()), [Code::PathOutside]);
    }
}

#[test]
fn configurations_that_are_none_are_refused() {
    for (text, expected) in
        [("[]", "is not a JSON object"), ("{", "is not JSON"), ("{}", "that its configuration does not name")]
    {
        let expert = Expert::new(of_lora());
        expert.save("first", &json!({}));
        std::fs::write(expert.home().join("first").join(CONFIG), text).unwrap();
        let refused = expert.refused();
        assert!(refused.len() == 1 && refused[0].contains(expected), "{text}: {refused:?}");
    }
    let expert = Expert::new(of_lora());
    expert.manifest(" ", of_lora(), json!([]));
    assert!(expert.refused()[0].contains("names no folder"), "{:?}", expert.refused());
}

#[test]
fn an_override_names_one_for_each_base() {
    let expert = Expert::new(of_lora());
    expert.save("first", &lora(json!({})));
    expert.save("second", &lora(json!({"r": 4})));
    let manifest = json!({
        "name": "x", "training": {"dataset": "data.jsonl", "config": of_lora()},
        "base_models": [
            {"name": "Qwen/Qwen3-0.6B", "overrides": {"initial_adapter": "first"}},
            {"name": "Qwen/Qwen3-1.7B", "overrides": {"initial_adapter": "second"}},
        ],
    });
    std::fs::write(expert.home().join("manifest.json"), manifest.to_string()).unwrap();
    let refused = expert.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("`second` has `rank` 4"), "{refused:?}");
}
