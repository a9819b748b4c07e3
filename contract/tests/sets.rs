//! `--set`, and which layer decides a value.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use expert_contract::diagnostic::{Code, Severity, Style};
use expert_contract::manifest::{Bases, Config, Options, Origin, Set};
use expert_contract::plan::AdapterKind;
use expert_contract::read::{Loaded, from_bytes};

const MANIFEST: &str = r#"{
  "name": "expert-x",
  "base_models": [
    {"name": "Qwen/Qwen3-0.6B", "adapters": [{"type": "dora", "r": 8, "alpha": 16, "target_modules": ["q_proj"]}]},
    {"name": "SmolLM2-135M-Instruct", "adapters": [{"type": "lora", "r": 4, "alpha": 8}],
     "overrides": {"batch_size": 2, "rank": 6, "max_steps": 20}}
  ],
  "training": {"dataset": {"path": "data.jsonl"}, "config": {"batch_size": 16, "learning_rate": 1e-4, "epochs": 2}}
}"#;

fn load(sets: &[Set]) -> Loaded {
    let options = Options { sets: sets.to_vec(), ..Options::default() };
    from_bytes(MANIFEST.into(), Path::new("/nowhere/expert-x/manifest.json"), &options)
}

fn set(argument: &str) -> Set {
    Set::parse(argument).unwrap()
}

#[test]
fn layers_go_over_one_another() {
    let manifest = load(&[]).manifest.unwrap();
    let first = manifest.effective(0).unwrap().config;
    assert_eq!((*first.adapter_type, first.adapter_type.origin), (AdapterKind::Dora, Origin::Adapter));
    assert_eq!((*first.rank, first.rank.origin), (Some(8), Origin::Adapter));
    assert_eq!((*first.batch_size, first.batch_size.origin), (16, Origin::Manifest));
    assert_eq!((*first.seed, first.seed.origin), (42, Origin::Default));
    assert_eq!(first.target_modules.value.0, ["q_proj"]);
    let second = manifest.effective(1).unwrap().config;
    assert_eq!((*second.rank, second.rank.origin), (Some(6), Origin::Overrides));
    assert_eq!((*second.batch_size, second.batch_size.origin), (2, Origin::Overrides));
    assert_eq!((*second.alpha, second.alpha.origin), (Some(8.0), Origin::Adapter));
    assert!(manifest.effective(2).is_none());
}

#[test]
fn the_command_line_goes_over_everything() {
    let manifest =
        load(&[set("training.config.batch_size=4"), set("training.config.rank=32")]).manifest.unwrap();
    for effective in manifest.all_effective() {
        assert_eq!(
            (*effective.config.batch_size, effective.config.batch_size.origin),
            (4, Origin::CommandLine)
        );
        assert_eq!((*effective.config.rank, effective.config.rank.origin), (Some(32), Origin::CommandLine));
    }
}

#[test]
fn values_are_json_and_bare_words_are_texts() {
    let sets = [
        "training.config.lr_scheduler=linear",
        "training.config.target_modules=[\"k_proj\"]",
        "base_models[1].overrides.learning_rate=5e-5",
        "base_models.0.quantization=bf16",
        "training.epochs=7",
    ];
    let loaded = load(&sets.map(set));
    let manifest = loaded.manifest.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let config = manifest.effective(1).unwrap().config;
    assert_eq!(config.lr_scheduler.as_str(), "linear");
    assert_eq!(config.target_modules.value.0, ["k_proj"]);
    assert!((*config.learning_rate - 5e-5).abs() < f64::EPSILON);
    assert_eq!(manifest.bases[0].quantization.as_str(), "bf16");
    assert!((*config.epochs - 7.0).abs() < f64::EPSILON);
}

fn shown(argument: &str) -> String {
    let loaded = load(&[set(argument)]);
    assert!(!loaded.ok(), "{argument} is accepted");
    let found: Vec<_> = loaded.diagnostics.into_iter().filter(|found| found.span.is_argument()).collect();
    found
        .iter()
        .map(|found| expert_contract::diagnostic::render(found, &loaded.document.sources, Style::default()))
        .collect()
}

#[test]
fn mistakes_point_at_the_argument() {
    assert_eq!(
        shown("training.config.batch_size=0"),
        "error[out-of-range]: `training.config.batch_size` is 0, which is out of range\n \
         --> --set:1:28\n  |\n1 | training.config.batch_size=0\n  |                            ^\n  = hint: write a whole number from 1 to 65536\n"
    );
    assert_eq!(
        shown("training.config.batchsize=4"),
        "error[invalid-set]: `training.config.batchsize` names no key of the manifest\n --> --set:1:1\n  |\n\
         1 | training.config.batchsize=4\n  | ^^^^^^^^^^^^^^^^^^^^^^^^^\n  = hint: did you mean `batch_size`?\n"
    );
    for wrong in
        ["base_models[5].name=x", "base_models.x.name=y", "name.x=1", "a..b=1", "training.dataset.path.x=1"]
    {
        assert!(shown(wrong).contains("error[invalid-set]"), "{wrong}: {}", shown(wrong));
    }
}

#[test]
fn a_flag_that_stands_for_a_path_is_named_itself() {
    let loaded = load(&[Set::flag("--lora-rank", "training.config.rank", "0")]);
    let text = loaded.rendered(Style::default());
    assert!(text.contains(" --> --lora-rank:1:1\n"), "{text}");
}

#[test]
fn an_argument_has_a_path_and_a_value() {
    for wrong in ["", "epochs", "=3"] {
        assert!(Set::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Set::parse("a.b=c=d").unwrap(), Set::new("a.b", "c=d"));
}

#[test]
fn bases_are_found_by_any_of_their_names() {
    let manifest = load(&[]).manifest.unwrap();
    for (name, index) in [
        ("Qwen/Qwen3-0.6B", 0),
        ("qwen3-0.6b", 0),
        ("smollm2-135m", 1),
        ("SmolLM2-135M-Instruct", 1),
        ("1", 1),
    ] {
        assert_eq!(manifest.find_base(name), Some(index), "{name}");
    }
    for name in ["llama", "2", "", "unsloth/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M-Instruct"] {
        assert_eq!(manifest.find_base(name), None, "{name}");
    }
    assert_eq!(manifest.copied_base("HuggingFaceTB/SmolLM2-135M-Instruct"), Some(1));
    assert_eq!(manifest.copied_base("unsloth/Qwen3-0.6B"), None, "another owner's base");
    assert_eq!(manifest.entry_for("1"), Some(1));
    assert_eq!(manifest.entry_for("HuggingFaceTB/SmolLM2-135M-Instruct"), Some(1));
    assert_eq!(manifest.entry_for("unsloth/Qwen3-0.6B"), None);
}

#[test]
fn what_comes_with_the_worker_is_a_copy_of_the_hubs_base() {
    let of_the_hub = Set::new("base_models[1].name", "HuggingFaceTB/SmolLM2-135M-Instruct");
    let manifest = load(&[of_the_hub]).manifest.unwrap();
    assert_eq!(manifest.find_base("smollm2-135m-instruct"), None);
    assert_eq!(manifest.copied_base("smollm2-135m-instruct"), Some(1));
    assert_eq!(manifest.find_base("SmolLM2-135M"), Some(1));
}

#[test]
fn the_first_generation_trains_as_the_second_does() {
    let text = r#"{"name": "x", "schema_version": "1.0", "base_model": "Qwen/Qwen3-0.6B",
        "adapters": [{"type": "dora", "r": 8, "alpha": 16}],
        "training": {"dataset": "data.jsonl", "method": "sft", "epochs": 4, "config": {"batch_size": 2}}}"#;
    let path = Path::new("/nowhere/x/manifest.json");
    let manifest = from_bytes(text.into(), path, &Options::default()).manifest.unwrap();
    let config = manifest.effective(0).unwrap().config;
    assert_eq!((*config.adapter_type, *config.rank, *config.batch_size), (AdapterKind::Dora, Some(8), 2));
    assert!((*config.epochs - 4.0).abs() < f64::EPSILON);
    assert_eq!(manifest.root.training.dataset.path.as_deref(), Some("data.jsonl"));
}

#[test]
fn a_key_without_its_path_gets_the_whole_path() {
    for (argument, hint) in [
        ("learning_rate=1e-4", "write --set training.config.learning_rate=1e-4"),
        ("train_on=all", "write --set training.dataset.train_on=all"),
        ("scorer=sql", "write --set evaluation.scorer=sql"),
        (r#"scorer={"python":"a.py:b"}"#, r#"write --set 'evaluation.scorer={"python":"a.py:b"}'"#),
        ("lora_r=8", "another trainer's name; here it is `training.config.rank`"),
        ("training.config.lora_r=8", "another trainer's name; here it is `training.config.rank`"),
        ("num_epochs=1", "write --set training.config.num_epochs=1"),
        ("config.rank=64", "write --set training.config.rank=64"),
        ("decoding.temperature=0.7", "write --set training.decoding.temperature=0.7"),
        ("hyperparameters.rank=64", "write --set training.config.rank=64"),
        ("training.hyperparameters.rank=64", "write --set training.config.rank=64"),
        ("training.config.train_on=all", "write --set training.dataset.train_on=all"),
        ("overrides.rank=2", "write --set base_models.0.overrides.rank=2"),
        ("training.0.rank=2", "write --set training.config.rank=2"),
        ("Training.config.rank=64", "did you mean `training`?"),
        ("training.confg.rank=3", "did you mean `config`?"),
        ("training.rnak=3", "did you mean `rank`?"),
        ("notes.mine=3", "`schema --ledger` lists every key"),
    ] {
        let loaded = load(&[set(argument)]);
        let refused = loaded.diagnostics.iter().filter(|it| it.code == Code::InvalidSet);
        let hints: Vec<_> = refused.filter_map(|it| it.hint.as_deref()).collect();
        assert_eq!(hints, [hint], "{argument}");
    }
}

#[test]
fn modules_from_the_command_line_are_checked_for_the_base_that_is_used() {
    let text = r#"{"name": "x", "base_models": [{"name": "Qwen/Qwen3-0.6B"}, {"name": "bases/phi3"}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": {"rank": 8, "alpha": 16}}}"#;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/manifests/invalid/manifest.json");
    let sets = vec![Set::new("training.config.target_modules", r#"["q_proj"]"#)];
    let read =
        |bases| from_bytes(text.into(), &path, &Options { sets: sets.clone(), bases, ..Options::default() });
    let found = |bases| {
        let diagnostics = read(bases).diagnostics;
        let severities = diagnostics.iter().filter(|it| it.code == Code::ModuleMissing).map(|it| it.severity);
        severities.collect::<Vec<_>>()
    };
    assert_eq!(found(Bases::First), [Severity::Warning]);
    assert_eq!(found(Bases::Named("phi3".into())), [Severity::Error]);
}

#[test]
fn a_setting_that_does_not_suit_a_base_that_is_not_used_is_a_warning() {
    let manifest = |overrides: &str| {
        format!(
            r#"{{"name": "x", "base_models": [{{"name": "Qwen/Qwen3-0.6B"}}, {{"name": "HuggingFaceTB/SmolLM2-135M", "overrides": {overrides}}}],
            "training": {{"dataset": {{"path": "train.jsonl", "validation_path": "validation.jsonl"}}, "config": {{"rank": 8, "alpha": 16,
            "evaluation_strategy": "steps", "load_best_model_at_end": true}}}}}}"#
        )
    };
    let found = |overrides: &str, bases| {
        let options = Options {
            sets: vec![Set::new("training.config.metric_for_best_model", "bleu")],
            bases,
            ..Options::default()
        };
        let read = from_bytes(manifest(overrides).into(), Path::new("/nowhere/x/manifest.json"), &options);
        let of_rule = read.diagnostics.into_iter().filter(|it| it.code == Code::UnknownMetric);
        of_rule.map(|it| (it.severity, it.message)).collect::<Vec<_>>()
    };
    let small = || Bases::Named("SmolLM2-135M".into());
    let spared = r#"{"load_best_model_at_end": false}"#;
    let [(severity, message)] = &found(spared, small())[..] else { panic!() };
    assert_eq!(*severity, Severity::Warning);
    let said = "Qwen/Qwen3-0.6B, which is not used here: evaluation during training does not measure `bleu`";
    assert_eq!(message, said);
    assert!(matches!(&found(spared, Bases::First)[..], [(Severity::Error, _)]));
    assert!(matches!(&found(spared, Bases::Every)[..], [(Severity::Error, _)]));
    assert!(matches!(&found("{}", small())[..], [(Severity::Error, _)]), "the same of both is said once");
}

/// The settings of the only base, with what there is to say about them.
fn settled(config: &str, overrides: &str, sets: &[Set]) -> (Config, Vec<Code>) {
    let text = format!(
        r#"{{"name": "x", "base_models": [{{"name": "someone/model-7B", "overrides": {{{overrides}}}}}], "training":
        {{"dataset": {{"path": "train.jsonl", "validation_path": "v.jsonl", "streaming": true}}, "config": {{{config}}}}}}}"#
    );
    let options = Options { sets: sets.to_vec(), ..Options::default() };
    let loaded = from_bytes(text.into(), Path::new("/nowhere/x/manifest.json"), &options);
    let codes = loaded.diagnostics.iter().map(|it| it.code).filter(|code| *code != Code::DataMissing);
    let codes = codes.collect();
    let manifest = loaded.manifest.unwrap_or_else(|| panic!("{config}: {:?}", loaded.diagnostics));
    (manifest.effective(0).unwrap().config, codes)
}

#[test]
fn a_later_layer_replaces_what_it_excludes() {
    let lora = r#""rank": 8, "alpha": 16, "evaluation_strategy": "epoch", "save_strategy": "epoch""#;
    for (before, later, replaced, value) in [
        (r#""max_steps": 30"#, "epochs=1", "max_steps", "null"),
        (r#""warmup_steps": 5"#, "warmup_ratio=0.1", "warmup_steps", "0"),
        (r#""warmup_ratio": 0.1"#, "warmup_steps=5", "warmup_ratio", "0"),
        (r#""warmup_ratio": 0.1"#, r#"lr_scheduler="constant""#, "warmup_ratio", "0"),
        (r#""warmup_steps": 5"#, r#"lr_scheduler="constant""#, "warmup_steps", "0"),
        (r#""fp16": true"#, "bf16=true", "fp16", "false"),
        (r#""bf16": true"#, "fp16=true", "bf16", "false"),
        (
            r#""lr_scheduler_kwargs": {"num_cycles": 2, "min_lr_ratio": 0.1}"#,
            r#"lr_scheduler="linear""#,
            "lr_scheduler_kwargs",
            r#"{"min_lr_ratio":0.1}"#,
        ),
        (r#""packing": true, "share_prefixes": true"#, "packing=false", "share_prefixes", "false"),
        (
            r#""dataloader_num_workers": 2, "dataloader_prefetch_factor": 2"#,
            "dataloader_num_workers=0",
            "dataloader_prefetch_factor",
            "null",
        ),
        (
            r#""load_best_model_at_end": true, "early_stopping_patience": 2"#,
            r#"evaluation_strategy="no""#,
            "load_best_model_at_end",
            "false",
        ),
        (
            r#""load_best_model_at_end": true, "greater_is_better": false"#,
            r#"metric_for_best_model="accuracy""#,
            "greater_is_better",
            "null",
        ),
        (
            r#""activation_checkpointing": "none""#,
            "gradient_checkpointing=true",
            "activation_checkpointing",
            "null",
        ),
        (
            r#""gradient_checkpointing": false"#,
            r#"activation_checkpointing="full""#,
            "gradient_checkpointing",
            "true",
        ),
        (
            r#""gradient_checkpointing": "full""#,
            r#"activation_checkpointing="attention_only""#,
            "gradient_checkpointing",
            "true",
        ),
        (
            r#""gradient_checkpointing": true"#,
            r#"activation_checkpointing="none""#,
            "gradient_checkpointing",
            "false",
        ),
        (r#""dropout": 0.1"#, r#"adapter_type="ia3""#, "dropout", "0"),
        (r#""dropout": 0.1"#, r#"adapter_type="ia3""#, "rank", "null"),
    ] {
        let before = format!("{lora}, {before}");
        let (key, given) = later.split_once('=').unwrap();
        let path = format!("training.config.{key}");
        let sets = [Set::new(path.as_str(), given)];
        let presets = [Set::flag("--preset mine", path.as_str(), given)];
        let overridden = format!(r#""{key}": {given}"#);
        for (overrides, sets, origin) in [
            ("", &sets[..], Origin::CommandLine),
            ("", &presets[..], Origin::Preset),
            (&*overridden, &[][..], Origin::Overrides),
        ] {
            let (config, codes) = settled(&before, overrides, sets);
            let shown = config.shown().into_iter().find(|it| it.key == replaced).unwrap();
            let found = (shown.value.unwrap().to_string(), shown.origin);
            assert_eq!(found, (value.to_owned(), origin), "{later} over {before}");
            assert!(codes.iter().all(|code| *code == Code::NotServable), "{later} over {before}: {codes:?}");
        }
    }
    let flags =
        [Set::flag("--preset mine", "training.config.max_steps", "9"), set("training.config.epochs=1")];
    let (config, codes) = settled(lora, "", &flags);
    assert_eq!(
        (config.max_steps.0, *config.epochs, codes.len()),
        (None, 1.0, 0),
        "a flag goes over a preset"
    );
    let (config, codes) =
        settled(lora, "", &["epochs=1", "max_steps=9"].map(|it| set(&format!("training.config.{it}"))));
    assert_eq!((config.max_steps.0, &codes[..]), (Some(9), &[Code::StepsOverEpochs][..]), "one layer");
    let (config, _) = settled(&format!(r#"{lora}, "max_steps": 30"#), "", &[set("training.config.seed=1")]);
    assert_eq!(config.max_steps.0, Some(30));
}

#[test]
fn an_argument_replaces_every_spelling_of_its_key() {
    let written = r#""lora_rank": 8, "alpha": 16, "num_epochs": 3, "per_device_train_batch_size": 2, "eval_strategy": "steps""#;
    let spellings = ["rank", "epochs", "batch_size"];
    let sets = spellings.map(|key| set(&format!("training.config.{key}=4")));
    let (config, codes) = settled(written, r#""max_length": 64"#, &sets);
    assert_eq!((*config.rank, *config.epochs, *config.batch_size), (Some(4), 4.0, 4));
    assert!(codes.is_empty(), "{codes:?}");
    let sets =
        ["training.config.rank=4", "training.lora_rank=5", "base_models.0.overrides.max_seq_length=32"];
    let (config, codes) = settled(written, r#""max_length": 64"#, &sets.map(set));
    assert_eq!((*config.rank, *config.max_seq_length), (Some(5), 32));
    assert!(codes.is_empty(), "{codes:?}");
}

#[test]
fn a_part_of_a_setting_is_changed_wherever_a_base_takes_the_setting_from() {
    let lora = r#""rank": 8, "alpha": 16, "evaluation_strategy": "epoch", "save_strategy": "epoch""#;
    let least = r#""lr_scheduler_kwargs": {"min_lr_ratio": 0.1}"#;
    let other = r#""lr_scheduler_kwargs": {"min_lr_ratio": 0.2, "num_cycles": 2}"#;
    let modules = r#""target_modules": ["q_proj", "v_proj"]"#;
    for (config, overrides, part, value, whole) in [
        ("", least, "lr_scheduler_kwargs.min_lr_ratio", "0.3", r#"{"min_lr_ratio":0.3}"#),
        (other, least, "lr_scheduler_kwargs.min_lr_ratio", "0.3", r#"{"min_lr_ratio":0.3}"#),
        (other, least, "lr_scheduler_kwargs.num_cycles", "3", r#"{"min_lr_ratio":0.1,"num_cycles":3}"#),
        ("", modules, "target_modules.1", "o_proj", r#"["q_proj","o_proj"]"#),
        (r#""target_modules": ["k_proj"]"#, modules, "target_modules.1", "o_proj", r#"["q_proj","o_proj"]"#),
        (modules, "", "target_modules.1", "o_proj", r#"["q_proj","o_proj"]"#),
        ("", r#""report_to": ["wandb"]"#, "report.0", "tensorboard", r#"["tensorboard"]"#),
    ] {
        let written = [lora, config].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(", ");
        let path = format!("training.config.{part}");
        let (config, codes) = settled(&written, overrides, &[Set::new(path.as_str(), value)]);
        let (key, _) = part.split_once('.').unwrap();
        let shown = config.shown().into_iter().find(|it| it.key == key).unwrap();
        let json: serde_json::Value = serde_json::from_str(whole).unwrap();
        let found = shown.value.unwrap();
        assert_eq!((found, shown.origin), (json, Origin::CommandLine), "{path} over {overrides}");
        assert!(codes.iter().all(|code| *code == Code::NotServable), "{path} over {overrides}: {codes:?}");
        let presets = [Set::flag("--preset mine", path.as_str(), value)];
        let (config, _) = settled(&written, overrides, &presets);
        let shown = config.shown().into_iter().find(|it| it.key == key).unwrap();
        assert_eq!(shown.origin, Origin::Preset, "{path}");
    }
    for overrides in [r#""distributed": {"strategy": "fsdp2", "processes": 4}"#, r#""distributed": "fsdp2""#]
    {
        let two = set("training.config.distributed.processes=2");
        let (config, _) = settled(lora, overrides, &[two]);
        let distributed = config.distributed.value.unwrap();
        assert_eq!(
            (distributed.strategy.as_str(), *distributed.processes),
            ("fsdp2", Some(2)),
            "{overrides}"
        );
    }
    let mirror = r#""checkpoint_mirror": {"target": "mirror", "compress": true}"#;
    for config in [lora.to_owned(), format!("{lora}, {mirror}")] {
        let (config, codes) =
            settled(&config, mirror, &[set("training.config.checkpoint_mirror.compress=false")]);
        let mirror = config.checkpoint_mirror.value.unwrap();
        assert_eq!((mirror.target.as_str(), *mirror.compress, codes), ("mirror", false, vec![]));
    }
}

#[test]
fn a_part_of_a_setting_keeps_what_version_1_and_adapters_say_of_the_rest() {
    let short = r#"{"name": "x", "base_model": "someone/model-7B", "adapters": [{"type": "lora", "r": 8, "alpha": 16,
        "target_modules": ["q_proj", "v_proj"]}], "training": {"dataset": "data.jsonl",
        "lr_scheduler_kwargs": {"min_lr_ratio": 0.1}, "distributed": {"strategy": "fsdp2", "processes": 4}}}"#;
    let sets = [
        "training.config.lr_scheduler_kwargs.num_cycles=2",
        "training.distributed.processes=2",
        "training.config.target_modules.0=o_proj",
    ];
    let options = Options { sets: sets.map(set).to_vec(), ..Options::default() };
    let loaded = from_bytes(short.into(), Path::new("/nowhere/x/manifest.json"), &options);
    let manifest = loaded.manifest.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let config = manifest.effective(0).unwrap().config;
    let options: Vec<_> =
        config.lr_scheduler_kwargs.iter().map(|(key, number)| (key.as_str(), *number)).collect();
    assert_eq!(options, [("min_lr_ratio", 0.1), ("num_cycles", 2.0)]);
    let distributed = config.distributed.value.unwrap();
    assert_eq!((distributed.strategy.as_str(), *distributed.processes), ("fsdp2", Some(2)));
    assert_eq!(config.target_modules.value.0, ["o_proj", "v_proj"]);
}

#[test]
fn a_mistake_in_a_part_of_a_setting_is_an_error_for_the_base_that_has_it() {
    let text = r#"{"name": "x", "base_models": [{"name": "someone/model-7B"},
        {"name": "someone/other-7B", "overrides": {"target_modules": ["q_proj"]}}],
        "training": {"dataset": "train.jsonl", "config": {"rank": 8, "alpha": 16, "target_modules": ["q_proj", "v_proj"]}}}"#;
    let found = |argument, bases| {
        let options = Options { sets: vec![set(argument)], bases, ..Options::default() };
        let loaded = from_bytes(text.into(), Path::new("/nowhere/x/manifest.json"), &options);
        let found = loaded.diagnostics.into_iter();
        let found = found.filter(|it| matches!(it.code, Code::InvalidSet | Code::WrongType));
        found.map(|it| (it.severity, it.pointer)).collect::<Vec<_>>()
    };
    let other = || Bases::Named("other-7B".into());
    let place = "/base_models/1/overrides/target_modules".to_owned();
    assert_eq!(
        found("training.config.target_modules.1=o_proj", Bases::First),
        [(Severity::Warning, place.clone())]
    );
    assert_eq!(found("training.config.target_modules.1=o_proj", other()), [(Severity::Error, place)]);
    let shared = "/training/config/target_modules/0".to_owned();
    for bases in [Bases::First, other()] {
        assert_eq!(found("training.config.target_modules.0=8", bases), [(Severity::Error, shared.clone())]);
    }
}

/// Both versions of the format, and each value in its short form or absent.
#[test]
fn what_is_inside_a_short_form_can_be_set() {
    let new = r#"{"name": "x", "base_models": ["smollm2-135m-instruct"], "training": {"dataset": "train.jsonl",
        "config": {"rank": 8, "alpha": 16}}, "evaluation": {"scorer": "json"}}"#;
    let old = r#"{"name": "x", "schema_version": "1.0", "base_model": "smollm2-135m-instruct", "training":
        {"dataset": "train.jsonl", "rank": 8, "alpha": 16}, "evaluation": {"scorer": "json"}}"#;
    for text in [new, old] {
        let path = Path::new("/nowhere/x/manifest.json");
        let sets = [
            "training.dataset.on_bad_row=skip",
            "base_models.0.quantization=int8",
            r#"evaluation.scorer.classification.labels=["a","b"]"#,
            "base_models[0].adapters.0.r=8",
            "training.rank=8",
        ];
        let options = Options { sets: sets.map(set).to_vec(), ..Options::default() };
        let loaded = from_bytes(text.into(), path, &options);
        let manifest = loaded.manifest.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let dataset = &manifest.root.training.dataset;
        assert_eq!((dataset.path.as_deref(), dataset.on_bad_row.as_str()), (Some("train.jsonl"), "skip"));
        let base = &manifest.bases[0];
        assert_eq!((base.name.as_str(), base.quantization.as_str()), ("smollm2-135m-instruct", "int8"));
        assert_eq!((base.adapters.len(), *base.adapters[0].rank), (1, Some(8)));
        assert_eq!(manifest.root.evaluation.scorer.as_ref().unwrap().chosen(), ["classification"]);
    }
}

#[test]
fn nothing_is_said_of_the_settings_of_a_base_that_is_not_used() {
    let text = r#"{"name": "x", "base_models": [{"name": "someone/model-7B"},
        {"name": "someone/other-7B", "overrides": {"max_steps": 30, "epochs": 2}}],
        "training": {"dataset": "train.jsonl", "config": {"rank": 8, "alpha": 16}}}"#;
    let said = |bases| {
        let options = Options { bases, ..Options::default() };
        let loaded = from_bytes(text.into(), Path::new("/nowhere/x/manifest.json"), &options);
        loaded.diagnostics.iter().filter(|it| it.code == Code::StepsOverEpochs).count()
    };
    assert_eq!((said(Bases::First), said(Bases::Named("other-7B".into())), said(Bases::Every)), (0, 1, 1));
}
