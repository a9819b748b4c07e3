//! `--set`, and which layer decides a value.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use expert_contract::diagnostic::{Code, Severity, Style};
use expert_contract::manifest::{Bases, Options, Origin, Set};
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
    for name in ["llama", "2", ""] {
        assert_eq!(manifest.find_base(name), None, "{name}");
    }
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
        ("lora_r=8", "another trainer's name; here it is `training.config.rank`"),
        ("training.config.lora_r=8", "another trainer's name; here it is `training.config.rank`"),
    ] {
        let loaded = load(&[set(argument)]);
        let hints: Vec<_> = loaded.diagnostics.iter().filter_map(|it| it.hint.as_deref()).collect();
        assert!(hints.contains(&hint), "{argument}: {hints:?}");
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
            "evaluation_strategy": "steps", "eval_steps": 10, "save_steps": 10, "load_best_model_at_end": true}}}}}}"#
        )
    };
    let found = |overrides: &str, bases| {
        let options = Options {
            sets: vec![Set::new("training.config.save_steps", "175")],
            bases,
            ..Options::default()
        };
        let read = from_bytes(manifest(overrides).into(), Path::new("/nowhere/x/manifest.json"), &options);
        let of_rule = read.diagnostics.into_iter().filter(|it| it.code == Code::BestBetweenSaves);
        of_rule.map(|it| (it.severity, it.message)).collect::<Vec<_>>()
    };
    let small = || Bases::Named("SmolLM2-135M".into());
    let spared = r#"{"load_best_model_at_end": false}"#;
    let [(severity, message)] = &found(spared, small())[..] else { panic!() };
    assert_eq!(*severity, Severity::Warning);
    assert!(message.starts_with("Qwen/Qwen3-0.6B, which is not used here: `save_steps` is 175"), "{message}");
    assert!(matches!(&found(spared, Bases::First)[..], [(Severity::Error, _)]));
    assert!(matches!(&found(spared, Bases::Every)[..], [(Severity::Error, _)]));
    assert!(matches!(&found("{}", small())[..], [(Severity::Error, _)]), "the same of both is said once");
}
