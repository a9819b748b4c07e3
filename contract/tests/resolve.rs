//! A plan from a manifest: the recipe is the result's name, the machine is how it is computed here.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use expert_contract::budget::Shape;
use expert_contract::diagnostic::Severity;
use expert_contract::manifest::{Manifest, Options, Set};
use expert_contract::plan::{
    AdapterKind, CheckpointingMode, DataFormat, Device, DeviceKind, Dtype, Duration, Plan, Quantization,
    Request, Resume, RopeKind, Strategy, Threads, Warmup,
};
use expert_contract::read::from_bytes;
use expert_contract::resolve::{
    CachedRows, Found, ProductsInFp32, Resolved, RowLengths, Share, Site, fuse, resolve,
};
use expert_contract::speed::Limits;

const MANIFEST: &str = r#"{
  "name": "expert-sql",
  "schema_version": "2.0",
  "base_models": [
    {"name": "Qwen/Qwen3-0.6B", "quantization": "int4", "prompt_template": "qwen3",
     "rope_scaling": {"type": "ntk-by-parts", "factor": 8.0, "original_max_position_embeddings": 8192},
     "adapters": [{"type": "dora", "target_modules": ["q_proj", "v_proj", "q_proj"], "r": 12, "alpha": 24, "dropout": 0.1}]},
    {"name": "SmolLM2-135M-Instruct",
     "adapters": [{"type": "lora", "r": 8, "alpha": 16}],
     "overrides": {"batch_size": 4, "max_seq_length": 512}}
  ],
  "training": {
    "dataset": {"path": "datasets/train.jsonl", "validation_path": "datasets/validation.jsonl"},
    "config": {"batch_size": 16, "gradient_accumulation_steps": 4, "max_seq_length": 2048, "learning_rate": 5e-5,
      "epochs": 1.5, "warmup_ratio": 0.1, "packing": true, "bf16": true, "gradient_checkpointing": "selective",
      "evaluation_strategy": "steps", "eval_steps": 250, "save_steps": 250, "load_best_model_at_end": true,
      "save_total_limit": null}
  }
}"#;

fn manifest(sets: &[Set]) -> Manifest {
    manifest_at(Path::new("/experts/expert-sql/manifest.json"), sets)
}

fn manifest_at(path: &Path, sets: &[Set]) -> Manifest {
    let options = Options { sets: sets.to_vec(), ..Options::default() };
    let loaded = from_bytes(MANIFEST.into(), path, &options);
    let complaints: Vec<_> = loaded.diagnostics.iter().map(|it| it.message.clone()).collect();
    loaded.manifest.unwrap_or_else(|| panic!("{complaints:?}"))
}

fn site(memory: Option<u64>, kind: DeviceKind) -> Site {
    let site = common::site(Path::new("/experts/expert-sql/manifest.json"));
    Site { device: Device { kind, memory_bytes: memory, ..site.device }, ..site }
}

const TRAIN: Request =
    Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };

fn plan(manifest: &Manifest, base: usize, site: &Site) -> Resolved {
    resolve(&manifest.effective(base).unwrap(), site).unwrap()
}

#[test]
fn the_plan_says_what_the_expert_is_for_and_the_recipe_does_not() {
    let plan = |description: &str| {
        let text = MANIFEST.replace(r#""schema_version""#, &format!(r#"{description} "schema_version""#));
        let loaded = from_bytes(text.into(), Path::new("/e/manifest.json"), &Options::default());
        let site = site(None, DeviceKind::Cpu);
        resolve(&loaded.manifest.unwrap().effective(1).unwrap(), &site).unwrap().plan(TRAIN)
    };
    let (said, silent) = (plan(r#""description": " Writes SQL. ","#), plan(""));
    assert_eq!((said.description.as_deref(), silent.description), (Some("Writes SQL."), None));
    assert_eq!(said.recipe_digest, silent.recipe_digest);
    assert_eq!(plan(r#""description": ["a", 1],"#).description, None);
}

#[test]
fn sixteen_bits_without_units_for_them_are_multiplied_in_fp32() {
    let half = |kind, computes_bf16| {
        let products_in_fp32 = ProductsInFp32::unmeasured(computes_bf16);
        let site = Site { computes_bf16, products_in_fp32, ..site(None, kind) };
        plan(&manifest(&[]), 1, &site).machine
    };
    let without = half(DeviceKind::Cpu, false);
    let with = half(DeviceKind::Cpu, true);
    assert_eq!((without.dtype, without.fp32_products), (Dtype::Bf16, true));
    assert_eq!((with.dtype, with.fp32_products), (Dtype::Bf16, false));
    let measured =
        Site { products_in_fp32: ProductsInFp32 { bf16: true, fp16: false }, ..site(None, DeviceKind::Cpu) };
    let measured = plan(&manifest(&[]), 1, &measured).machine;
    assert_eq!((measured.dtype, measured.fp32_products), (Dtype::Bf16, true), "units that are slower");
    assert!(!half(DeviceKind::Cuda, true).fp32_products);
    assert!(!half(DeviceKind::Cuda, false).fp32_products);
}

#[test]
fn a_base_in_sixteen_bits_is_multiplied_in_fp32_whatever_is_asked_for() {
    let machine = |quantization: &str| {
        let sets = [
            Set::new("training.config.bf16", "false"),
            Set::new("base_models[1].quantization", format!("\"{quantization}\"")),
        ];
        let products_in_fp32 = ProductsInFp32::unmeasured(false);
        let site = Site { computes_bf16: false, products_in_fp32, ..site(None, DeviceKind::Cpu) };
        plan(&manifest(&sets), 1, &site).machine
    };
    for (quantization, dtype, in_fp32) in
        [("bf16", Dtype::Bf16, true), ("fp16", Dtype::Fp16, true), ("none", Dtype::Fp32, false)]
    {
        let found = machine(quantization);
        assert_eq!((found.dtype, found.fp32_products), (dtype, in_fp32), "{quantization}");
    }
}

#[test]
fn a_base_held_in_16_bits_or_the_manifest_decides_the_format_and_the_plan_says_so_where_it_is_unusual() {
    let (gpu, cpu) = (DeviceKind::Cuda, DeviceKind::Cpu);
    for (quantization, asked, device, dtype, notes) in [
        ("fp16", r#"{"bf16": true}"#, gpu, Dtype::Fp16, &["format-of-base"][..]),
        ("fp16", "{}", gpu, Dtype::Fp16, &[]),
        ("bf16", r#"{"fp16": true}"#, gpu, Dtype::Bf16, &["format-of-base"]),
        ("bf16", r#"{"fp16": true}"#, cpu, Dtype::Bf16, &["format-of-base"]),
        ("bf16", r#"{"bf16": false}"#, cpu, Dtype::Bf16, &["format-of-base"]),
        ("bf16", r#"{"bf16": true}"#, cpu, Dtype::Bf16, &[]),
        ("int8", r#"{"fp16": true}"#, gpu, Dtype::Fp16, &[]),
        ("none", r#"{"fp16": true}"#, cpu, Dtype::Fp16, &[]),
        ("none", r#"{"fp16": false}"#, gpu, Dtype::Bf16, &[]),
        ("none", r#"{"fp16": false, "bf16": null}"#, cpu, Dtype::Fp32, &[]),
        ("none", r#"{"fp16": false, "bf16": false}"#, gpu, Dtype::Fp32, &["fp32-on-gpu"]),
        ("none", r#"{"bf16": false}"#, gpu, Dtype::Fp32, &["fp32-on-gpu"]),
        ("none", r#"{"bf16": false}"#, cpu, Dtype::Fp32, &[]),
    ] {
        let text = format!(
            r#"{{"name": "x", "base_models": [{{"name": "SmolLM2-135M-Instruct", "quantization": "{quantization}",
                "overrides": {asked}}}],
                "training": {{"dataset": "a.jsonl", "config": {{"rank": 8, "alpha": 16}}}}}}"#
        );
        let loaded = from_bytes(text.into_bytes(), Path::new("/e/manifest.json"), &Options::default());
        let made = plan(&loaded.manifest.unwrap(), 0, &site(None, device));
        let known = ["format-of-base", "bf16-unsupported", "fp32-on-gpu"];
        let said: Vec<_> = made.notes.iter().map(|it| it.code).filter(|it| known.contains(it)).collect();
        assert_eq!((made.machine.dtype, said.as_slice()), (dtype, notes), "{quantization} {asked} {device}");
    }
}

#[test]
fn a_gpu_without_bf16_computes_in_fp16_and_the_plan_says_so() {
    let made = |computes_bf16, bf16: &str| {
        let site = Site { computes_bf16, ..site(None, DeviceKind::Cuda) };
        let made = plan(&manifest(&[Set::new("training.config.bf16", bf16)]), 0, &site);
        (made.machine.dtype, made.notes.iter().any(|note| note.code == "bf16-unsupported"))
    };
    assert_eq!((made(true, "true"), made(false, "true")), ((Dtype::Bf16, false), (Dtype::Fp16, true)));
    assert_eq!(made(false, "false"), (Dtype::Fp32, false));
}

#[test]
fn layers_are_compiled_where_they_were_found_right_or_the_manifest_says_so() {
    let layers =
        |refused: Option<&str>| vec![Found { format: Dtype::Bf16, refused: refused.map(str::to_owned) }];
    let made = |kind, compiled, sets: &[(&str, &str)]| {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| Set::new(format!("training.config.{key}"), *value)).collect();
        let made = plan(&manifest(&sets), 0, &Site { compiled, ..site(None, kind) });
        let note = made.notes.iter().find(|note| note.code == "not-compiled").map(|it| it.message.clone());
        (made.machine.compile.map(|it| it.asked), note)
    };
    let gpu = DeviceKind::Cuda;
    assert_eq!(made(gpu, layers(None), &[]), (Some(false), None));
    let (compile, note) = made(gpu, layers(Some("its loss differs by nan")), &[]);
    assert!(compile.is_none() && note.unwrap().contains("its loss differs by nan"));
    let (compile, note) = made(gpu, Vec::new(), &[]);
    assert!(compile.is_none() && note.unwrap().contains("not yet verified on device"));
    assert_eq!(made(gpu, Vec::new(), &[("torch_compile", "true")]), (Some(true), None));
    assert_eq!(made(gpu, layers(None), &[("torch_compile", "false")]), (None, None));
    // Nothing is tried in fp32, on a CPU, or for an adapter that takes the plain path.
    assert_eq!(made(gpu, Vec::new(), &[("bf16", "false")]), (None, None));
    assert_eq!(made(DeviceKind::Cpu, Vec::new(), &[]), (None, None));
    let (compile, note) = made(gpu, Vec::new(), &[("bf16", "false"), ("fp16", "true")]);
    assert!(compile.is_none() && note.is_some());
}

#[test]
fn a_step_is_captured_where_launches_bound_it_and_it_was_found_right() {
    let steps =
        |refused: Option<&str>| vec![Found { format: Dtype::Bf16, refused: refused.map(str::to_owned) }];
    let h100 = Limits { tera_flops: 989.0, gigabytes: 3350.0, reached: 0.64 };
    let slow = Limits { tera_flops: 30.0, gigabytes: 300.0, reached: 0.9 };
    // The second base, in micro-batches of 4 x 512 tokens.
    let of = |base, limits: Option<Limits>, captured, sets: &[(&str, &str)]| {
        let sets: Vec<_> =
            sets.iter().map(|(key, value)| Set::new(format!("training.config.{key}"), *value)).collect();
        let site = Site { captured, limits, ..site(None, DeviceKind::Cuda) };
        let made = plan(&manifest(&sets), base, &site);
        let note = made.notes.iter().find(|note| note.code == "not-captured").map(|it| it.message.clone());
        (made.machine.cuda_graphs.map(|it| it.asked), note)
    };
    let made = |limits, captured, sets: &[(&str, &str)]| of(1, limits, captured, sets);
    assert_eq!(made(Some(h100), steps(None), &[]), (Some(false), None));
    let (graphs, note) = made(Some(h100), steps(Some("its loss differs by nan")), &[]);
    assert!(graphs.is_none() && note.unwrap().contains("its loss differs by nan"));
    let (graphs, note) = made(Some(h100), Vec::new(), &[]);
    assert!(graphs.is_none() && note.unwrap().contains("not yet verified on device"));
    // The device is busy anyway, or it is not known.
    assert_eq!(made(Some(slow), steps(None), &[]), (None, None));
    assert_eq!(made(None, steps(None), &[]), (None, None));
    // Where it cannot be captured it is not, and a wish for it is answered.
    for (set, why) in [(("neftune_noise_alpha", "5"), "NEFTune"), (("bf16", "false"), "fp32")] {
        assert_eq!(made(Some(h100), steps(None), &[set]), (None, None), "{why}");
        let (graphs, note) = made(Some(h100), steps(None), &[set, ("use_cuda_graphs", "true")]);
        assert!(graphs == Some(true) && note.unwrap().contains(why), "{why}");
    }
    let (graphs, note) = of(0, None, Vec::new(), &[("use_cuda_graphs", "true")]);
    assert!(graphs == Some(true) && note.unwrap().contains("DoRA"));
    assert_eq!(made(Some(slow), Vec::new(), &[("use_cuda_graphs", "true")]), (Some(true), None));
    assert_eq!(made(Some(h100), steps(None), &[("use_cuda_graphs", "false")]), (None, None));
    let as_mode = ("torch_compile_mode", "reduce-overhead");
    assert_eq!(made(None, Vec::new(), &[("torch_compile", "true"), as_mode]).0, Some(true));
}

#[test]
fn eager_attention_is_planned_without_the_fast_path() {
    let fast = |sdpa: &str, flash: &str, kind| {
        let sets = [
            Set::new("training.config.use_sdpa", sdpa),
            Set::new("training.config.flash_attention_2", flash),
        ];
        plan(&manifest(&sets), 1, &site(None, kind)).machine.fast_path
    };
    for kind in [DeviceKind::Cpu, DeviceKind::Cuda] {
        assert!(fast("true", "false", kind) && !fast("false", "false", kind));
    }
    assert!(fast("false", "true", DeviceKind::Cuda) && !fast("false", "true", DeviceKind::Cpu));
}

#[test]
fn flash_attention_without_cuda_is_noted_and_not_planned() {
    let made = |asked: &str, kind| {
        let sets = [Set::new("training.config.flash_attention_2", asked)];
        let made = plan(&manifest(&sets), 1, &site(None, kind));
        let is_noted = made.notes.iter().any(|note| note.code == "flash-attention-unused");
        (made.machine.flash_attention, is_noted)
    };
    assert_eq!(made("true", DeviceKind::Cpu), (false, true));
    assert_eq!(made("true", DeviceKind::Cuda), (true, false));
    assert_eq!(made("false", DeviceKind::Cpu), (false, false));
}

#[test]
fn zero_switches_noise_and_clearing_off() {
    let made = |value: &str| {
        let sets = ["neftune_noise_alpha", "memory_clear_every", "max_grad_norm"];
        let sets = sets.map(|key| Set::new(format!("training.config.{key}"), value));
        let made = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cuda));
        let optimizer = &made.recipe.optimizer;
        [
            optimizer.neftune.is_some(),
            made.machine.memory_clear_every.is_some(),
            optimizer.max_grad_norm.is_some(),
        ]
    };
    assert_eq!((made("1"), made("0")), ([true; 3], [false; 3]));
}

#[test]
fn rows_are_read_ahead_only_by_workers() {
    let ahead = |workers: &str| {
        let sets = [
            Set::new("training.config.dataloader_prefetch_factor", "4"),
            Set::new("training.config.dataloader_num_workers", workers),
        ];
        plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).machine.loader.prefetch_factor
    };
    assert_eq!((ahead("2"), ahead("0")), (Some(4), None));
}

/// 8% of the device stay free, for fragmentation and what the estimate misses.
#[test]
fn a_plan_fills_most_of_the_device_and_not_all() {
    let manifest = manifest(&[]);
    let rows_in = |memory: Option<u64>| plan(&manifest, 0, &site(memory, DeviceKind::Cuda)).machine;
    let wanted = rows_in(None);
    let needed = wanted.estimate.total as f64;
    assert_eq!(rows_in(Some((needed / 0.91) as u64)).micro_batch, wanted.micro_batch);
    assert!(rows_in(Some((needed / 0.93) as u64)).micro_batch < wanted.micro_batch);
}

#[test]
fn a_custom_template_is_the_manifests_or_a_files_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site { manifest: folder.path().join("manifest.json"), ..site(None, DeviceKind::Cpu) };
    std::fs::write(folder.path().join("chat.jinja"), "of a file").unwrap();
    let with = |key: &str, value: &str| {
        let sets = [
            Set::new("base_models[1].prompt_template", "\"custom\""),
            Set::new(format!("base_models[1].{key}"), format!("\"{value}\"")),
        ];
        manifest_at(&site.manifest, &sets)
    };
    let template = |manifest: &Manifest| {
        resolve(&manifest.effective(1).unwrap(), &site).map(|it| it.recipe.template.source)
    };
    let (own, file) = (with("template_source", "of the manifest"), with("template_path", "chat.jinja"));
    assert_eq!(template(&own).unwrap().as_deref(), Some("of the manifest"));
    assert_eq!(template(&file).unwrap().as_deref(), Some("of a file"));
    std::fs::remove_file(folder.path().join("chat.jinja")).unwrap();
    let absent = template(&file).unwrap_err();
    assert!(absent.message.starts_with("the template chat.jinja cannot be read"), "{}", absent.message);
    let own = plan(&manifest(&[]), 1, &site).recipe.template;
    assert_eq!(own.source, None);
}

#[test]
fn a_digest_of_the_base_is_kept_and_an_empty_one_is_none() {
    let sha256 = |value: &str| {
        let sets = [Set::new("base_models[1].sha256", format!("\"{value}\""))];
        plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).recipe.base.sha256
    };
    assert_eq!(sha256(&"ab".repeat(32)), Some("ab".repeat(32)));
    assert_eq!(sha256(""), None);
}

#[test]
fn the_recipe_says_what_the_manifest_says() {
    let resolved = plan(&manifest(&[]), 0, &site(None, DeviceKind::Cuda));
    let recipe = &resolved.recipe;
    assert_eq!(recipe.base.quantization, Quantization::Int4);
    let rope = recipe.base.rope_scaling.as_ref().unwrap();
    assert_eq!((rope.kind, rope.attention_factor, rope.factor), (RopeKind::Yarn, Some(1.0), 8.0));
    assert_eq!(recipe.adapter.target_modules, ["q_proj", "v_proj"]);
    assert_eq!(
        (recipe.adapter.rank, recipe.adapter.alpha, recipe.adapter.dropout),
        (Some(12), Some(24.0), 0.1)
    );
    assert_eq!((recipe.batch.rows_per_step, recipe.batch.packing), (64, true));
    assert_eq!(recipe.optimizer.learning_rate.to_bits(), 5e-5_f64.to_bits());
    assert_eq!(recipe.schedule.warmup, Warmup::Ratio(0.1));
    assert_eq!(recipe.schedule.duration, Duration::Epochs(1.5));
    assert_eq!(recipe.data.train[0].format, DataFormat::Jsonl);
    assert_eq!(recipe.evaluation.strategy, Strategy::Steps);
    let best = recipe.evaluation.best.as_ref().unwrap();
    assert_eq!((best.metric.as_str(), best.greater_is_better), ("eval_loss", false));
    let machine = &resolved.machine;
    assert_eq!(machine.dtype, Dtype::Bf16);
    assert_eq!(machine.checkpointing, CheckpointingMode::Selective);
    assert_eq!(machine.save_total_limit, None);
    assert_eq!(machine.paths.output, "/experts/expert-sql/weights/qwen3-0.6b");
    assert_eq!(machine.paths.cache, "/experts/expert-sql/datasets_optimized/expert-sql/tokenized");
}

#[test]
fn overrides_and_arguments_say_where_they_came_from() {
    let manifest = manifest(&[Set::new("training.config.learning_rate", "1e-3")]);
    let resolved = plan(&manifest, 1, &site(None, DeviceKind::Cpu));
    let origin = |key: &str| resolved.settings.iter().find(|it| it.key == key).unwrap().origin.as_str();
    assert_eq!(origin("batch_size"), "overrides");
    assert_eq!(origin("rank"), "adapters[]");
    assert_eq!(origin("epochs"), "manifest");
    assert_eq!(origin("learning_rate"), "command line");
    assert_eq!(origin("weight_decay"), "default");
    assert_eq!(resolved.recipe.batch.rows_per_step, 16);
}

#[test]
fn the_digest_does_not_know_the_machine() {
    let here = plan(&manifest(&[]), 1, &site(None, DeviceKind::Cpu));
    let mut elsewhere = site(Some(80 << 30), DeviceKind::Cuda);
    elsewhere.output = Some("/somewhere/else".into());
    elsewhere.home = "/other".into();
    let there = plan(&manifest(&[]), 1, &elsewhere);
    assert_eq!(here.recipe.digest(), there.recipe.digest());
    assert_ne!(here.machine, there.machine);
}

#[test]
fn every_part_of_the_recipe_is_in_the_digest() {
    let digest = |key: &str, value: &str| {
        plan(&manifest(&[Set::new(format!("training.config.{key}"), value)]), 1, &site(None, DeviceKind::Cpu))
            .recipe
            .digest()
    };
    let same = digest("logging_steps", "7");
    for (key, value) in [("seed", "1"), ("learning_rate", "6e-5"), ("epochs", "2"), ("use_tf32", "false")] {
        let sets = [Set::new(format!("base_models[1].overrides.{key}"), value)];
        let other = plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).recipe.digest();
        assert_ne!(same, other, "{key}");
    }
    assert_eq!(same, digest("save_total_limit", "2"), "retention does not change the result");
    assert_eq!(same, digest("dataloader_num_workers", "2"), "workers do not change the result");
}

#[test]
fn settings_of_answers_and_scores_change_the_digest_of_the_evaluation_alone() {
    let recipe = |best: &str, sets: &[(&str, &str)]| {
        let best = [
            Set::new("training.config.metric_for_best_model".to_owned(), best),
            Set::new("training.config.load_best_model_at_end".to_owned(), "true"),
        ];
        let sets = sets.iter().map(|(key, value)| Set::new((*key).to_owned(), *value));
        plan(&manifest(&best.into_iter().chain(sets).collect::<Vec<_>>()), 0, &site(None, DeviceKind::Cpu))
            .recipe
    };
    for best in ["eval_loss", "accuracy"] {
        let before = recipe(best, &[]);
        assert_eq!(before.chooses_by_score(), best == "accuracy");
        for (key, value) in [
            ("evaluation.scorer", "contains"),
            ("training.decoding.temperature", "0.5"),
            ("evaluation.max_new_tokens", "7"),
        ] {
            let now = recipe(best, &[(key, value)]);
            assert_ne!(before.evaluation_digest(), now.evaluation_digest(), "{key}");
            assert_eq!(before.digest() != now.digest(), before.chooses_by_score(), "{key}");
        }
        let short = recipe(best, &[("evaluation.max_new_tokens", "7")]);
        assert_eq!((short.scoring().max_new_tokens, &short.decoding), (7, &before.decoding));
        let same = before.decoding.max_new_tokens.to_string();
        assert_eq!(recipe(best, &[("evaluation.max_new_tokens", &same)]), before);
        let fewer = recipe(best, &[("evaluation.test_set_size", "3")]);
        assert_ne!(before.evaluation_digest(), fewer.evaluation_digest());
        assert_eq!(before.digest(), fewer.digest());
        let other = recipe(best, &[("training.config.seed", "7")]);
        assert_eq!(before.evaluation_digest(), other.evaluation_digest());
    }
}

#[test]
fn a_batch_that_does_not_fit_is_split_and_said_so() {
    let wanted = 16;
    let resolved = plan(&manifest(&[]), 0, &site(Some(8 << 30), DeviceKind::Cuda));
    let machine = &resolved.machine;
    assert!(machine.micro_batch < wanted, "{}", machine.micro_batch);
    assert_eq!(machine.micro_batch * machine.accumulation, 64, "a step still has the same rows");
    assert!(resolved.notes.iter().any(|note| note.code == "micro-batch-lowered"));
    let roomy = plan(&manifest(&[]), 0, &site(Some(139 << 30), DeviceKind::Cuda));
    let of_batch = roomy.notes.iter().filter(|note| note.code != "not-compiled");
    assert_eq!((roomy.machine.micro_batch, of_batch.count()), (16, 0));
    assert!(roomy.largest_micro_batch.unwrap() > 16);
}

/// The worker weighs rows by the tokens of the whole step: its micro-batches need not be equal.
#[test]
fn a_batch_that_few_numbers_divide_is_split_unevenly() {
    let split = |batch: &str, memory: u64| {
        let sets = [
            Set::new("training.config.batch_size", batch),
            Set::new("training.config.gradient_accumulation_steps", "1"),
        ];
        let resolved = plan(&manifest(&sets), 0, &site(Some(memory), DeviceKind::Cuda));
        let note = resolved.notes.iter().find(|note| note.code == "micro-batch-lowered").unwrap();
        let machine = &resolved.machine;
        (resolved.largest_micro_batch.unwrap(), machine.micro_batch, machine.accumulation, note.hint.clone())
    };
    // The memory in which these rows fit, and not one more.
    let memory = |rows: &str| {
        let sets = [Set::new("training.config.batch_size", rows)];
        let needed = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cuda)).machine.estimate.total;
        (needed as f64 / 0.919) as u64
    };
    let (_, rows, parts, _) = split("13", memory("2"));
    assert_eq!((rows, parts), (2, 7));
    let (largest, rows, parts, hint) = split("13", memory("3"));
    assert_eq!((largest, rows, parts), (3, 3, 5));
    assert!(hint.contains("a batch_size of 12 would make equal micro-batches"), "{hint}");
    let (_, rows, parts, hint) = split("16", memory("3"));
    assert_eq!((rows, parts), (2, 8), "equal ones, where a divisor is near");
    assert!(hint.starts_with("set batch_size to 2 "), "{hint}");
}

#[test]
fn the_way_to_fit_is_one_that_the_adapter_takes() {
    let hint_of = |kind: &str, distributed: &str, gib: u64| {
        let manifest = manifest(&[
            Set::new("base_models[0].name", "Qwen/Qwen3-14B"),
            Set::new("base_models[0].quantization", "none"),
            Set::new("base_models[0].adapters[0].type", kind),
            Set::new("training.config.max_seq_length", "512"),
            Set::new("training.config.distributed", distributed),
        ]);
        let site = Site { devices: 2, ..site(Some(gib << 30), DeviceKind::Cuda) };
        let resolved = plan(&manifest, 0, &site);
        resolved.notes.iter().find(|note| note.code == "does-not-fit").unwrap().hint.clone()
    };
    let hint = |kind: &str| hint_of(kind, "null", 24);
    assert!(hint("lora").contains("`quantization` to int4"), "{}", hint("lora"));
    assert!(hint("lokr").contains("`quantization` to int8"), "{}", hint("lokr"));
    assert!(hint_of("lora", "ddp", 16).contains("`quantization` to int4"), "{}", hint_of("lora", "ddp", 16));
    let sharded = hint_of("lora", "fsdp2", 16);
    assert!(!sharded.contains("quantization"), "FSDP2 shards no quantized weights: {sharded}");
}

/// A manifest of one base, the proposals of its plan and their hint.
fn proposals(sets: &[Set], site: &Site) -> (Vec<Vec<String>>, String) {
    let resolved = plan(&manifest(sets), 0, site);
    let note = resolved.notes.iter().find(|note| note.code == "does-not-fit");
    let words = |sets: Vec<Set>| sets.iter().map(|it| format!("{}={}", it.path, it.value)).collect();
    let found = resolved.remedies.iter().map(|it| words(it.sets(0))).collect();
    (found, note.map(|it| it.hint.clone()).unwrap_or_default())
}

fn large(base: &str, more: &[(&str, &str)]) -> Vec<Set> {
    let base = [
        Set::new("base_models[0].name", base),
        Set::new("base_models[0].quantization", "none"),
        Set::new("base_models[0].adapters[0].type", "lora"),
        Set::new("training.config.gradient_checkpointing", "full"),
        Set::new("training.config.max_seq_length", "512"),
    ];
    base.into_iter().chain(more.iter().map(|(key, value)| Set::new(*key, *value))).collect()
}

fn cards(gib: u64, devices: u32) -> Site {
    Site { devices, ..site(Some(gib << 30), DeviceKind::Cuda) }
}

const SHARDED: &str = "training.config.distributed.strategy=fsdp2";
const INT4: &str = "base_models.0.quantization=int4";

#[test]
fn a_base_too_large_for_one_of_several_cards_is_sharded_where_that_makes_it_fit() {
    let qwen = |more: &[(&str, &str)], site: &Site| proposals(&large("Qwen/Qwen3-14B", more), site);
    let (found, hint) = qwen(&[], &cards(24, 2));
    assert_eq!(found, [[INT4], [SHARDED]]);
    assert!(hint.contains("or `distributed` to fsdp2 ("), "{hint}");
    assert!(hint.contains("GiB in each of 2 processes; `--evaluate` would still need a device"), "{hint}");
    assert_eq!(qwen(&[], &cards(24, 1)).0, [[INT4]], "one card");
    assert_eq!(qwen(&[], &cards(12, 2)).0, [[INT4]], "half of it is too much");
    let several = [("training.config.distributed", "ddp")];
    assert_eq!(qwen(&several, &cards(24, 2)).0, [[INT4], [SHARDED]]);
    let one = [("training.config.distributed", r#"{"processes": 1}"#)];
    assert_eq!(qwen(&one, &cards(24, 2)).0, [[INT4]], "one process is asked for");
    let unlike = Site { least_memory: Some(8 << 30), ..cards(24, 2) };
    assert_eq!(qwen(&[], &unlike).0, [[INT4]], "the other card is smaller");
    let launched = Site { launched: Some(4), launched_here: Some(1), ..cards(16, 1) };
    assert_eq!(qwen(&[], &launched).0, [[INT4], [SHARDED]]);
    assert_eq!(qwen(&[("training.config.distributed", "fsdp2")], &cards(24, 2)).0.len(), 0, "it fits");
    let memory_alone = [("training.config.max_seq_length", "8192"), ("training.config.distributed", "fsdp2")];
    let (found, _) = qwen(&memory_alone, &cards(18, 2));
    assert!(!found.concat().contains(&SHARDED.to_owned()), "{found:?}");
}

#[test]
fn a_quantized_base_is_sharded_in_16_bits_and_what_fsdp2_cannot_shard_is_not() {
    let llama = "meta-llama/Llama-3.3-70B-Instruct";
    let int4 = [("base_models[0].quantization", "int4")];
    let (found, _) = proposals(&large(llama, &int4), &cards(32, 8));
    assert_eq!(found, [["base_models.0.quantization=none", SHARDED]]);
    let (found, _) = proposals(&large(llama, &[("base_models[0].quantization", "bf16")]), &cards(32, 8));
    assert_eq!(found, [[SHARDED]]);
    let prompt = [
        ("base_models[0].adapters", "[]"),
        ("training.config.adapter_type", "prompt"),
        ("soft_prompts", r#"[{"name": "p", "tokens": 8}]"#),
        ("training.config.bf16", "true"),
    ];
    let (found, _) = proposals(&large("Qwen/Qwen3-14B", &prompt), &cards(24, 2));
    assert_eq!(found, [[INT4]], "the embedding of soft prompts");
    for (architecture, can) in [("qwen3_moe", true), ("gpt2", false), ("opt", false), ("unheard_of", false)] {
        let config = serde_json::json!({
            "model_type": architecture, "vocab_size": 99, "hidden_size": 8, "intermediate_size": 16,
            "num_hidden_layers": 2, "num_attention_heads": 2,
        });
        assert_eq!(Shape::from_config(&config).unwrap().can_be_sharded(), can, "{architecture}");
    }
}

#[test]
fn shorter_rows_are_proposed_last_with_what_they_cost() {
    let long = [("training.config.max_seq_length", "32768"), ("base_models[0].quantization", "int4")];
    let (found, hint) = proposals(&large("Qwen/Qwen3-8B", &long), &cards(16, 1));
    let [shorter] = &found[..] else { panic!("{found:?}") };
    let [change] = &shorter[..] else { panic!("{shorter:?}") };
    let length: u64 = change.strip_prefix("training.config.max_seq_length=").unwrap().parse().unwrap();
    assert!((64..32768).contains(&length) && length.is_multiple_of(64), "{change}");
    assert!(hint.ends_with("cuts longer rows; how many there are is not known until they are tokenized)"));
    let next = [long[1], ("training.config.max_seq_length", &*(length + 64).to_string())];
    assert!(!proposals(&large("Qwen/Qwen3-8B", &next), &cards(16, 1)).1.is_empty(), "the longest that fits");
    let drops = [&long[..], &[("training.dataset.overlong", "drop")]].concat();
    assert!(proposals(&large("Qwen/Qwen3-8B", &drops), &cards(16, 1)).1.contains("; drops longer rows;"));
    // What keeps all rows comes first.
    let plain = [long[0], ("training.config.gradient_checkpointing", "false")];
    let (found, _) = proposals(&large("Qwen/Qwen3-0.6B", &plain), &cards(12, 2));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], ["training.config.gradient_checkpointing=full"]);
    assert!(found[1][0].starts_with("training.config.max_seq_length="), "{found:?}");
}

#[test]
fn a_refusal_to_fuse_says_what_differs() {
    let expert = |name: &str, change: fn(&mut Resolved)| {
        let set = Set::new("name", format!("expert-{name}"));
        let mut resolved = plan(&manifest(&[set]), 0, &site(None, DeviceKind::Cuda));
        resolved.recipe.adapter.kind = AdapterKind::Lora;
        change(&mut resolved);
        resolved
    };
    let refusal = |change: fn(&mut Resolved)| {
        let (one, two) = (expert("one", |_| ()), expert("two", change));
        let refused = fuse(&[&one, &two]).unwrap_err();
        format!("{} ({})", refused.message, refused.hint)
    };
    let found = refusal(|it| it.machine.paths.base = Some("/bases/two".to_owned()));
    assert!(found.contains(" are in no folder yet and /bases/two (name one folder in both "), "{found}");
    let found = refusal(|it| it.recipe.base.quantization = Quantization::Bf16);
    assert!(found.contains("the quantizations of their bases are int4 and bf16 ("), "{found}");
    let found = refusal(|it| it.machine.dtype = Dtype::Fp32);
    assert!(found.contains("their number formats are bf16 and fp32 ("), "{found}");
    let found = refusal(|it| it.recipe.precision.tf32 = false);
    assert!(found.contains("their use_tf32 is true and false ("), "{found}");
}

fn soft_prompt(max_seq_length: u64, tokens: u64) -> Vec<Set> {
    let prompt = [
        ("base_models[0].adapters", "[]".to_owned()),
        ("training.config.adapter_type", "prompt".to_owned()),
        ("training.config.max_seq_length", max_seq_length.to_string()),
        ("soft_prompts", format!(r#"[{{"tokens": {tokens}}}]"#)),
    ];
    let sets = prompt.map(|(key, value)| Set::new(key, value));
    large("Qwen/Qwen3-0.6B", &[]).into_iter().chain(sets).collect()
}

#[test]
fn virtual_tokens_are_computed_with_every_row() {
    let parts = |length, tokens| {
        let resolved =
            plan(&manifest(&soft_prompt(length, tokens)), 0, &site(Some(139 << 30), DeviceKind::Cuda));
        let found = resolved.machine.estimate;
        (found.activations, found.logits)
    };
    assert_eq!(parts(512, 1536), parts(2040, 8));
    assert!(parts(512, 1536) > parts(512, 8));
}

#[test]
fn shorter_rows_are_proposed_beside_the_virtual_tokens() {
    let found = |length| proposals(&soft_prompt(length, 2048), &cards(9, 1)).0.concat();
    let proposed = found(16384);
    let [change] = &proposed[..] else { panic!("{proposed:?}") };
    let length: u64 = change.strip_prefix("training.config.max_seq_length=").unwrap().parse().unwrap();
    assert!(found(length).is_empty() && !found(length + 64).is_empty(), "the longest that fits: {length}");
}

#[test]
fn where_no_row_fits_whole_the_longest_is_proposed() {
    let plain =
        [("training.config.max_seq_length", "32768"), ("training.config.gradient_checkpointing", "false")];
    let changes = |base: &str, gib: u64| proposals(&large(base, &plain), &cards(gib, 1)).0;
    let (full, length) = ("training.config.gradient_checkpointing=full", "training.config.max_seq_length=");
    let found = changes("Qwen/Qwen3-1.7B", 7);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0][0] == full && found[0][1].starts_with(length), "{found:?}");
    assert!(found[1][0].starts_with(length), "{found:?}");
    let [only] = &changes("Qwen/Qwen3-14B", 15)[..] else { panic!() };
    assert_eq!(only[..2], [INT4, full]);
    assert!(only[2].starts_with(length), "{only:?}");
}

/// Of a cache with rows of at most 4,096 tokens.
fn counted(bins: &[(u64, u64)], longest: u64, more: &serde_json::Value) -> RowLengths {
    let documents: u64 = bins.iter().map(|(_, count)| count).sum();
    let record = serde_json::json!({
        "inputs": {"max_seq_length": 4096},
        "sources": [more],
        "splits": {"train": {"documents": documents, "length_histogram": bins, "length_quantiles": [1, longest]}},
    });
    RowLengths::of(&serde_json::from_value(record).unwrap()).unwrap()
}

#[test]
fn known_lengths_say_how_many_rows_shorter_ones_cost() {
    let sets = |overlong: &str| {
        let more = [
            ("training.config.max_seq_length", "4096"),
            ("training.config.gradient_checkpointing", "false"),
            ("training.dataset.overlong", overlong),
        ];
        large("Qwen/Qwen3-0.6B", &more)
    };
    let site = cards(6, 1);
    let planned = |overlong: &str, lengths: &RowLengths| {
        let resolved = plan(&manifest(&sets(overlong)), 0, &site).with_row_lengths(lengths);
        let note = resolved.notes.iter().find(|note| note.code == "does-not-fit").unwrap().hint.clone();
        let first = resolved.remedies[0].sets(0)[0].path.clone();
        (note, first, resolved.remedies.len())
    };
    let none = serde_json::json!({});
    let (found, _) = proposals(&sets("truncate"), &site);
    let length: u64 = found.last().unwrap()[0].rsplit_once('=').unwrap().1.parse().unwrap();
    assert!((256..4000).contains(&length), "{length}");
    let bins = [(0, 0), (128, 90), (length, 5), (length + 40, 3), (4200, 2)];
    let long = counted(&bins, 4096, &none);
    for (overlong, cost) in [("truncate", "cuts the ends of"), ("drop", "drops"), ("split", "splits")] {
        let (hint, first, count) = planned(overlong, &long);
        assert!(hint.ends_with(&format!("; {cost} 5 of 100 rows)")), "{hint}");
        assert_eq!((first.as_str(), count), ("training.config.gradient_checkpointing", 2));
    }
    assert_eq!(planned("error", &long).2, 1, "training would refuse them");
    // A bin that the length divides.
    let divided = counted(&[(0, 0), (128, 90), (length + 40, 3), (4200, 2)], 4096, &none);
    assert!(planned("truncate", &divided).0.ends_with("; cuts the ends of 2 to 5 of 95 rows)"));
    let dropped = counted(&bins, 4096, &serde_json::json!({"dropped_overlong": 7}));
    assert!(planned("drop", &dropped).0.ends_with("; drops 12 of 107 rows)"));
    // Where no row is longer, shorter ones are free.
    let short = counted(&[(0, 0), (128, 90), (4200, 9)], length, &none);
    for overlong in ["truncate", "error"] {
        let (hint, first, _) = planned(overlong, &short);
        assert!(hint.contains("; no row is longer), or `gradient_checkpointing`"), "{hint}");
        assert_eq!(first, "training.config.max_seq_length");
    }
}

/// As the command line applies them.
#[test]
fn every_proposal_makes_the_plan_fit() {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for base in ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "meta-llama/Llama-3.3-70B-Instruct"] {
        for (gib, devices) in [(4, 1), (8, 2), (16, 4), (24, 1), (24, 8), (80, 8)] {
            for quantization in ["none", "bf16", "int8", "int4"] {
                for more in [
                    &[][..],
                    &[("training.config.max_seq_length", "16384"), ("training.config.distributed", "ddp")],
                    &[("training.config.distributed", "fsdp2"), ("base_models[0].quantization", "none")],
                    &[("training.config.bf16", "false"), ("training.config.gradient_checkpointing", "false")],
                    &[("base_models[0].adapters[0].type", "dora"), ("training.config.use_sdpa", "false")],
                    &[("base_models[0].adapters[0].type", "lokr"), ("base_models[0].quantization", "none")],
                ] {
                    let more = [&[("base_models[0].quantization", quantization)], more].concat();
                    let (sets, site) = (large(base, &more), cards(gib, devices));
                    for remedy in plan(&manifest(&sets), 0, &site).remedies {
                        let changed = [&sets[..], &remedy.sets(0)].concat();
                        let again = plan(&manifest(&changed), 0, &site);
                        assert!(again.fits(), "{base} on {devices} of {gib} with {more:?}: {remedy}");
                        for set in remedy.sets(0) {
                            *kinds.entry(set.path).or_default() += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert!(kinds.values().all(|count| *count > 3), "{kinds:?}");
}

/// Short rows are short micro-batches, which launches bound.
#[test]
fn the_work_of_rows_is_that_of_their_tokens_unless_they_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    std::fs::create_dir(folder.path().join("datasets")).unwrap();
    let row = "{\"prompt\": \"one two three\", \"completion\": \"four\"}\n";
    std::fs::write(folder.path().join("datasets/train.jsonl"), row.repeat(9)).unwrap();
    let row_tokens = |packing: &str| {
        let manifest = manifest_at(&path, &[Set::new("training.config.packing", packing)]);
        let resolved = plan(&manifest, 1, &Site { manifest: path.clone(), ..site(None, DeviceKind::Cuda) });
        resolved.work.unwrap().tokens as u64 / resolved.machine.micro_batch
    };
    assert_eq!(row_tokens("true"), 512);
    assert!((8..32).contains(&row_tokens("false")), "{}", row_tokens("false"));
}

/// What QLoRA needs on a card of 24 GB.
#[test]
fn bases_of_8b_fit_a_card_of_24_gb_and_larger_ones_say_what_would() {
    let lora = r#"[{"type": "lora", "r": 16, "alpha": 32, "target_modules": "all-linear"}]"#;
    let on_card = |base: &str, length: &str, quantization: &str| {
        let manifest = manifest(&[
            Set::new("base_models[0].name", base),
            Set::new("base_models[0].quantization", quantization),
            Set::new("base_models[0].adapters", lora),
            Set::new("training.config.gradient_checkpointing", "false"),
            Set::new("training.config.max_seq_length", length),
        ]);
        let resolved = plan(&manifest, 0, &site(Some(24 << 30), DeviceKind::Cuda));
        resolved.notes.iter().find(|note| note.code == "does-not-fit").map(|it| it.hint.clone())
    };
    for (base, length) in
        [("Qwen/Qwen3-8B", "2048"), ("meta-llama/Llama-3.1-8B-Instruct", "2048"), ("Qwen/Qwen3-14B", "1024")]
    {
        assert_eq!(on_card(base, length, "int4"), None, "{base}");
    }
    let said = |base, quantization| on_card(base, "2048", quantization).unwrap();
    assert!(said("Qwen/Qwen3-14B", "int4").starts_with("set `gradient_checkpointing` to selective ("));
    let both = "set `quantization` to int4 and `gradient_checkpointing` to selective (";
    assert!(said("Qwen/Qwen3-14B", "none").starts_with(both));
    assert_eq!(
        said("meta-llama/Llama-3.3-70B-Instruct", "int4"),
        "choose a smaller base, or a machine with more memory"
    );
}

#[test]
fn a_plan_survives_its_own_json() {
    let plan = plan(&manifest(&[]), 0, &site(Some(24 << 30), DeviceKind::Cuda)).plan(TRAIN);
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(again, plan);
    assert_eq!(again.recipe.digest(), plan.recipe_digest);
}

#[test]
fn processes_share_a_step_and_a_spread_base_shares_its_weights() {
    let together = |text: &str| {
        let plain = Set::new("base_models[0].quantization", "none");
        let sets = [plain, Set::new("training.config.distributed", text)];
        plan(&manifest(&sets), 1, &Site { devices: 2, ..site(Some(80 << 30), DeviceKind::Cuda) }).machine
    };
    let alone = together("null");
    assert_eq!(alone.distributed, None);
    let both = together(r#"{"strategy": "ddp"}"#);
    assert_eq!(both.distributed.map(|it| (it.strategy.as_str(), it.processes)), Some(("ddp", 2)));
    assert_eq!(both.accumulation * 2, alone.accumulation);
    assert_eq!(both.estimate.weights, alone.estimate.weights);
    let spread = together(r#"{"strategy": "fsdp2", "processes": 2}"#);
    assert!(spread.estimate.weights < alone.estimate.weights);
}

#[test]
fn processes_on_a_cpu_share_its_memory() {
    let micro_batch = |memory: u64, processes: &str, site_of: &dyn Fn(Site) -> Site| {
        let plain = Set::new("base_models[0].quantization", "none");
        let sets = [
            plain,
            Set::new("training.config.distributed", processes),
            Set::new("training.config.batch_size", "8"),
            Set::new("training.config.gradient_accumulation_steps", "8"),
        ];
        let resolved = plan(&manifest(&sets), 1, &site_of(site(Some(memory), DeviceKind::Cpu)));
        let is_of_memory = |code: &str| ["micro-batch-lowered", "does-not-fit"].contains(&code);
        let note = resolved.notes.into_iter().find(|note| is_of_memory(note.code));
        (resolved.machine.micro_batch, note.map(|note| note.message))
    };
    let here = |site| site;
    let alone = (1..1000).find(|gib| micro_batch(gib << 30, "null", &here).0 == 8).unwrap() << 30;
    let four = r#"{"processes": 4}"#;
    let (rows, note) = micro_batch(alone, four, &here);
    assert!(rows < 8 && note.unwrap().contains("GiB for 4 processes)"));
    assert_eq!(micro_batch(4 * alone, four, &here), (8, None));
    let launched = |here| move |site| Site { launched: Some(4), launched_here: here, ..site };
    assert!(micro_batch(alone, "null", &launched(Some(4))).0 < 8);
    assert_eq!(micro_batch(alone, "null", &launched(Some(1))), (8, None), "one per machine");
    assert_eq!(micro_batch(alone, "null", &launched(None)), (8, None));
}

#[test]
fn a_micro_batch_is_no_larger_than_the_share_of_a_process() {
    let sets = [
        Set::new("training.config.distributed", r#"{"processes": 3}"#),
        Set::new("training.config.batch_size", "8"),
        Set::new("training.config.gradient_accumulation_steps", "1"),
    ];
    let machine = plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).machine;
    assert_eq!((machine.micro_batch, machine.accumulation), (3, 1));
}

#[test]
fn processes_of_a_launcher_train_together_whatever_the_manifest_says() {
    let joined = |text: &str| {
        let plain = Set::new("base_models[0].quantization", "none");
        let sets = [plain, Set::new("training.config.distributed", text)];
        let site = Site { launched: Some(4), ..site(None, DeviceKind::Cpu) };
        let together = plan(&manifest(&sets), 1, &site).machine.distributed;
        together.map(|it| (it.strategy.as_str(), it.processes))
    };
    assert_eq!(joined("null"), Some(("ddp", 4)));
    assert_eq!(joined("ddp"), Some(("ddp", 4)));
    assert_eq!(joined("fsdp2"), Some(("fsdp2", 4)));
}

#[test]
fn one_device_makes_one_process_and_the_plan_says_so() {
    let sets = [Set::new("training.config.distributed", "ddp")];
    let resolved = plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu));
    assert_eq!(resolved.machine.distributed, None);
    assert!(resolved.notes.iter().any(|note| note.code == "one-process"));
}

#[test]
fn processes_without_rows_are_noted_with_settings_that_give_each_some() {
    let noted = |site: &Site, sets: &[(&str, &str)]| {
        let config = |key: &str| format!("base_models[1].overrides.{key}");
        let sets: Vec<Set> = sets.iter().map(|(key, value)| Set::new(config(key), *value)).collect();
        let notes = plan(&manifest(&sets), 1, site).notes;
        notes.into_iter().find(|note| note.code == "processes-without-rows")
    };
    let ddp = ("distributed", "ddp");
    let batch = |batch, steps| [ddp, ("batch_size", batch), ("gradient_accumulation_steps", steps)];
    let note = noted(&cards(24, 8), &batch("2", "1")).unwrap();
    assert_eq!(note.message, "8 processes share a step of 2 rows: 6 of them have nothing to do");
    assert_eq!(
        note.hint,
        "in training.config, set batch_size 8 with gradient_accumulation_steps 1, or distributed.processes 2"
    );
    assert_eq!(noted(&cards(24, 8), &batch("8", "1")), None, "one hint is followed");
    let two = ("distributed", r#"{"strategy": "ddp", "processes": 2}"#);
    assert_eq!(noted(&cards(24, 8), &[&batch("2", "1")[..], &[two]].concat()), None, "the other one");
    let hint = |site: &Site, sets: &[(&str, &str)]| noted(site, sets).map(|note| note.hint).unwrap();
    assert!(hint(&cards(24, 2), &batch("1", "1")).ends_with(", or remove `distributed`"));
    let fsdp2 = [&batch("2", "1")[..], &[("distributed", "fsdp2")]].concat();
    assert!(!hint(&cards(24, 8), &fsdp2).contains(", or "), "fewer may not have room for the base");
    let launched = Site { launched: Some(8), ..cards(24, 1) };
    assert!(
        hint(&launched, &[("batch_size", "1"), ("gradient_accumulation_steps", "2")])
            .ends_with(", or start 2 processes with the launcher")
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    std::fs::write(&file, "{\"text\": \"a\"}\n".repeat(64)).unwrap();
    let with_rows = Site { data: Some(file), ..cards(24, 8) };
    let eight = ("distributed", r#"{"strategy": "ddp", "processes": 8}"#);
    let by_data =
        noted(&with_rows, &[eight, batch("8", "auto")[1], batch("8", "auto")[2], ("packing", "false")]);
    assert_eq!(
        by_data.map(|note| note.message).as_deref(),
        Some("8 processes share a step of 2 rows: 6 of them have nothing to do"),
        "the data chose the rows"
    );
}

/// Zero steps and zero rows are how other tools write "no limit".
#[test]
fn zero_means_unset() {
    let sets =
        [Set::new("training.config.max_steps", "0"), Set::new("evaluation", r#"{"test_set_size": 0}"#)];
    let recipe = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cuda)).recipe;
    assert_eq!(recipe.schedule.duration, Duration::Epochs(1.5));
    assert_eq!(recipe.evaluation.test_set_size, None);
    let sets =
        [Set::new("training.config.max_steps", "7"), Set::new("evaluation", r#"{"test_set_size": 3}"#)];
    let recipe = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cuda)).recipe;
    assert_eq!((recipe.schedule.duration, recipe.evaluation.test_set_size), (Duration::Steps(7), Some(3)));
}

#[test]
fn the_validation_file_goes_before_the_split() {
    let sets = [Set::new("training.dataset.validation_split", "0.1")];
    let data = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cuda)).recipe.data;
    assert_eq!((data.validation.len(), data.validation_split), (1, None));
}

#[test]
fn questions_may_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = site(None, DeviceKind::Cuda);
    site.manifest = folder.path().join("manifest.json");
    let asked = |text: &str| {
        std::fs::write(folder.path().join("cases"), text).unwrap();
        let manifest = manifest(&[Set::new("evaluation", r#"{"test_cases": "cases"}"#)]);
        resolve(&manifest.effective(0).unwrap(), &site).map(|it| it.recipe.evaluation.test_cases)
    };
    let one = asked(r#"[{"prompt": "a", "expected": "b"}]"#).unwrap();
    assert_eq!((one[0].prompt.as_str(), one[0].expected.as_str()), ("a", "b"));
    let lines =
        asked("{\"question\": \"a\", \"answer\": \"b\"}\n\n{\"input\": \"c\", \"output\": \"d\"}\n").unwrap();
    assert_eq!((lines.len(), lines[1].expected.as_str()), (2, "d"));
    let case = r#"[{"prompt": "a", "expected": "b"}]"#;
    let padded = case.to_owned() + &" ".repeat((16 << 20) - case.len());
    assert_eq!(asked(&padded).unwrap().len(), 1, "16 MiB are allowed");
    assert!(asked("{\"prompt\": \"a\"}\n").unwrap_err().message.contains("question 1 of `cases` lacks"));
    assert!(
        asked("prompt,expected\n").unwrap_err().message.starts_with("line 1 of `cases` is not valid JSON")
    );
    let second = asked("{\"prompt\": \"a\", \"expected\": \"b\"}\n{\"prompt\": \"a\" \"b\"}\n").unwrap_err();
    assert!(second.message.starts_with("line 2 of `cases` is not valid JSON: "), "{}", second.message);
    let third = asked("[\n{\"prompt\": \"a\", \"expected\": \"b\"},\n{\"prompt\" \"a\"}]").unwrap_err();
    assert!(third.message.starts_with("line 3 of `cases` is not valid JSON: "), "{}", third.message);
    assert_eq!(asked(&format!("\u{feff}{case}")).unwrap().len(), 1, "editors begin UTF-8 with a mark");
    let many = format!("[{}]", vec![case.trim_matches(['[', ']']); 40_000].join(","));
    let many = asked(&many).unwrap_err();
    assert!(
        many.message.contains("more than 100000 values")
            && many.hint.unwrap().contains("one question per line")
    );
    std::fs::File::create(folder.path().join("cases")).unwrap().set_len((16 << 20) + 1).unwrap();
    let large = resolve(
        &manifest(&[Set::new("evaluation", r#"{"test_cases": "cases"}"#)]).effective(0).unwrap(),
        &site,
    );
    assert!(large.unwrap_err().message.contains("larger than 16 MiB"));
    std::fs::remove_file(folder.path().join("cases")).unwrap();
    let manifest = manifest(&[Set::new("evaluation", r#"{"test_cases": "cases"}"#)]);
    let absent = resolve(&manifest.effective(0).unwrap(), &site);
    let absent = absent.unwrap_err();
    assert!(absent.message.contains("cannot be read") && absent.severity == Severity::Error);
}

/// 320 rows of 100 bytes are about 8,000 tokens: 4 rows of 2,048.
#[test]
fn rows_per_step_far_from_what_adapters_like_are_noted() {
    let noted = |batch: &str, packing: &str| {
        let sets = [
            Set::new("training.config.batch_size", batch),
            Set::new("training.config.gradient_accumulation_steps", "1"),
            Set::new("training.config.packing", packing),
            Set::new("base_models[0].overrides", "{}"),
        ];
        let notes = plan(&manifest(&sets), 0, &site(None, DeviceKind::Cpu)).notes;
        notes.into_iter().map(|note| note.code).find(|code| code.ends_with("-batch"))
    };
    assert_eq!(noted("129", "true"), Some("large-batch"));
    assert_eq!(noted("128", "true"), None);
    assert_eq!(noted("1", "false"), Some("small-batch"));
    assert_eq!((noted("1", "true"), noted("2", "false")), (None, None));
}

#[test]
fn few_steps_are_noted_with_settings_that_make_enough() {
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("{{\"text\": \"{}\"}}\n", "a".repeat(86)).repeat(320);
    let file = folder.path().join("rows.jsonl");
    std::fs::write(&file, rows).unwrap();
    let noted = |sets: &[(&str, &str)]| {
        let config = |key: &str| format!("base_models[1].overrides.{key}");
        let sets: Vec<Set> = sets.iter().map(|(key, value)| Set::new(config(key), *value)).collect();
        let site = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
        let notes = plan(&manifest(&sets), 1, &site).notes;
        notes.into_iter().find(|note| note.code == "few-steps")
    };
    let few = noted(&[("batch_size", "8"), ("gradient_accumulation_steps", "4"), ("max_seq_length", "2048")])
        .unwrap();
    assert!(few.message.starts_with("about 2 optimizer steps of 32 rows"), "{}", few.message);
    let counted = |rows| {
        let sets = [("batch_size", "8"), ("gradient_accumulation_steps", "4")]
            .map(|(key, value)| Set::new(format!("base_models[1].overrides.{key}"), value));
        let site = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
        let counted = plan(&manifest(&sets), 1, &site).with_counted_rows(CachedRows { rows, tokens: rows });
        counted.notes.into_iter().find(|note| note.code == "few-steps").map(|note| note.message)
    };
    let epochs = plan(&manifest(&[]), 1, &site(None, DeviceKind::Cpu)).recipe.schedule.duration;
    let Duration::Epochs(epochs) = epochs else { panic!("{epochs:?}") };
    let exact = format!("{} optimizer steps of 32 rows", (2.0 * epochs).ceil());
    assert!(counted(64).is_some_and(|it| it.starts_with(&exact)), "{:?} is not {exact}", counted(64));
    assert_eq!(counted(3200), None);
    assert!(few.hint.contains("batch_size 1 with gradient_accumulation_steps 1 and epochs"), "{}", few.hint);
    let hint_of = |sets: &[(&str, &str)]| noted(sets).map(|note| note.hint);
    let alone = [("batch_size", "16"), ("gradient_accumulation_steps", "8"), ("packing", "false")];
    assert_eq!(
        hint_of(&[&alone[..], &[("epochs", "0.25")]].concat()).as_deref(),
        Some("in training.config, set batch_size 2 with gradient_accumulation_steps 1 and epochs 1"),
        "a row that is not packed is one document"
    );
    assert_eq!(
        hint_of(&[
            ("batch_size", "1"),
            ("gradient_accumulation_steps", "1"),
            ("packing", "false"),
            ("epochs", "0.05")
        ])
        .as_deref(),
        Some("in training.config, set gradient_accumulation_steps 2 and epochs 1")
    );
    let hint = |keys: &[(&str, &str)]| noted(keys).map(|note| note.hint);
    let one_row = [("batch_size", "1"), ("gradient_accumulation_steps", "1"), ("max_seq_length", "2048")];
    assert_eq!(hint(&one_row).as_deref(), Some("in training.config, set epochs 13"));
    let epochs =
        |epochs: &'static str| noted(&[one_row[0], one_row[1], one_row[2], ("epochs", epochs)]).is_some();
    assert_eq!((epochs("7.25"), epochs("7.5")), (true, false), "29 and 30 steps of 4 rows");
    let small = [("batch_size", "1"), ("gradient_accumulation_steps", "1"), ("max_seq_length", "128")];
    assert_eq!(noted(&small), None);
    assert_eq!(noted(&[("batch_size", "8"), ("max_steps", "3")]), None, "the number was asked for");
}

/// What the hint of a plan proposes: each way is settings to make, as `batch_size 2 with gradient_accumulation_steps 1`.
fn ways(hint: &str) -> Vec<Vec<(&str, &str)>> {
    const KEYS: [&str; 4] = ["batch_size", "gradient_accumulation_steps", "epochs", "packing"];
    hint.split(", or ")
        .map(|way| {
            let words: Vec<&str> = way.split(' ').filter(|word| *word != "to").collect();
            let pairs = words.windows(2).filter(|pair| KEYS.contains(&pair[0]));
            pairs.map(|pair| (pair[0], pair[1].trim_matches('"'))).collect()
        })
        .filter(|settings: &Vec<_>| !settings.is_empty())
        .collect()
}

/// A row of 100 bytes is about 25 tokens: 82 rows fill 2,048.
#[test]
fn the_data_chooses_the_rows_of_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let row = format!("{{\"text\": \"{}\"}}\n", "a".repeat(86));
    let write = |rows| std::fs::write(&file, row.repeat(rows)).unwrap();
    let batch = |rows: usize, sets: &[(&str, &str)]| {
        write(rows);
        let auto = [("gradient_accumulation_steps", "auto"), ("batch_size", "4"), ("max_seq_length", "2048")];
        let set = |(key, value): &(&str, &str)| Set::new(format!("base_models[1].overrides.{key}"), *value);
        let sets: Vec<Set> = auto.iter().chain(sets).map(set).collect();
        let site = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
        let resolved = plan(&manifest(&sets), 1, &site);
        (resolved.recipe.batch.rows_per_step, resolved.machine.micro_batch, resolved.machine.accumulation)
    };
    assert_eq!(batch(320, &[("packing", "true")]), (1, 1, 1), "4 rows per epoch");
    assert_eq!(batch(12_000, &[("packing", "true")]), (4, 4, 1), "147 rows per epoch");
    assert_eq!(batch(50_000, &[("packing", "true")]), (16, 4, 4), "611 rows per epoch");
    assert_eq!(batch(320, &[("packing", "false")]), (8, 4, 2), "320 rows per epoch");
    assert_eq!(batch(50_000, &[("packing", "false")]), (32, 4, 8));
    assert_eq!(batch(320, &[("packing", "false"), ("epochs", "9")]), (8, 4, 2), "a run can be extended");
    assert_eq!(batch(320, &[("packing", "false"), ("gradient_accumulation_steps", "3")]), (12, 4, 3));
    let sets = [
        Set::new("base_models[1].overrides.gradient_accumulation_steps", "auto"),
        Set::new("base_models[1].overrides.packing", "false"),
        Set::new("training.dataset.validation_split", "0.5"),
        Set::new("training.dataset.validation_path", "null"),
    ];
    write(256);
    let with_rows = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
    let halved = plan(&manifest(&sets), 1, &with_rows).recipe;
    assert_eq!(
        (halved.data.validation_split, halved.batch.rows_per_step),
        (Some(0.5), 4),
        "128 rows per epoch"
    );
    std::fs::remove_file(&file).unwrap();
    let sets = [Set::new("training.config.gradient_accumulation_steps", "auto")];
    assert_eq!(plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).recipe.batch.rows_per_step, 16);
}

/// Every way of every hint is followed, whatever the data, until a plan has none.
#[test]
fn no_hint_about_steps_leads_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let row = format!("{{\"text\": \"{}\"}}\n", "a".repeat(86));
    let site = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
    let note = |settings: &BTreeMap<String, String>| {
        let set = |(key, value): (&String, &String)| {
            Set::new(format!("base_models[1].overrides.{key}"), value.as_str())
        };
        let resolved = plan(&manifest(&settings.iter().map(set).collect::<Vec<_>>()), 1, &site);
        resolved.notes.into_iter().find(|it| ["few-steps", "large-batch", "small-batch"].contains(&it.code))
    };
    let mut followed = 0;
    for rows in [1, 2, 3, 29, 30, 40, 60, 61, 320, 4_000] {
        std::fs::write(&file, row.repeat(rows)).unwrap();
        for (batch, accumulation) in
            [("1", "1"), ("2", "auto"), ("1", "8"), ("16", "1"), ("8", "auto"), ("150", "1"), ("64", "16")]
        {
            for (packing, drop_last, epochs) in [
                ("false", "false", "2"),
                ("false", "true", "0.5"),
                ("false", "true", "3"),
                ("true", "false", "1"),
                ("true", "true", "7"),
            ] {
                let begin = BTreeMap::from(
                    [
                        ("batch_size", batch),
                        ("gradient_accumulation_steps", accumulation),
                        ("packing", packing),
                        ("dataloader_drop_last", drop_last),
                        ("epochs", epochs),
                        ("max_seq_length", "256"),
                    ]
                    .map(|(key, value)| (key.to_owned(), value.to_owned())),
                );
                let mut paths = vec![vec![begin]];
                while let Some(path) = paths.pop() {
                    let last = path.last().unwrap();
                    let Some(note) = note(last) else { continue };
                    assert!(path.len() <= 4, "{rows} rows, {}: {path:#?}", note.hint);
                    let ways = ways(&note.hint);
                    assert!(!ways.is_empty(), "{}", note.hint);
                    for way in ways {
                        let mut next = last.clone();
                        next.extend(way.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
                        assert!(!path.contains(&next), "{rows} rows, {}: {path:#?}", note.hint);
                        paths.push([&path[..], &[next]].concat());
                        followed += 1;
                    }
                }
            }
        }
    }
    assert!(followed > 100, "{followed} hints");
}

#[test]
fn a_step_has_more_than_one_row_wherever_the_data_allows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let noted = |rows: usize, sets: &[(&str, &str)]| {
        std::fs::write(&file, format!("{{\"text\": \"{}\"}}\n", "a".repeat(86)).repeat(rows)).unwrap();
        let shared = [("packing", "false"), ("batch_size", "1"), ("max_seq_length", "256")];
        let set = |(key, value): &(&str, &str)| Set::new(format!("base_models[1].overrides.{key}"), *value);
        let sets: Vec<Set> = shared.iter().chain(sets).map(set).collect();
        let site = Site { data: Some(file.clone()), ..site(None, DeviceKind::Cpu) };
        let resolved = plan(&manifest(&sets), 1, &site);
        let note =
            resolved.notes.into_iter().find(|it| it.code.ends_with("-steps") || it.code.ends_with("-batch"));
        (resolved.recipe.batch.rows_per_step, note.map(|note| note.hint))
    };
    let auto = |rows, epochs| {
        noted(rows, &[("gradient_accumulation_steps", "auto"), ("batch_size", "2"), ("epochs", epochs)])
    };
    assert_eq!(auto(40, "2"), (2, None), "40 steps");
    assert_eq!(auto(1, "30"), (1, None));
    let one = |rows, epochs| noted(rows, &[("gradient_accumulation_steps", "1"), ("epochs", epochs)]).1;
    assert_eq!(one(40, "2").as_deref(), Some("set gradient_accumulation_steps to 2"), "not 8: 10 steps");
    assert_eq!(one(60, "2").as_deref(), Some("set gradient_accumulation_steps to 4"), "30 steps");
    assert_eq!(one(57, "2").as_deref(), Some("set gradient_accumulation_steps to 4"), "30 steps");
    assert_eq!(one(56, "2").as_deref(), Some("set gradient_accumulation_steps to 2"), "28 steps of four");
    assert_eq!(one(58, "1"), None, "29 steps of two rows");
    assert_eq!(
        one(400, "1").as_deref(),
        Some("set gradient_accumulation_steps to 8, or packing to true"),
        "50 steps, and more than 30 of packed rows"
    );
    assert_eq!(one(1, "40"), None, "there is no second row");
    let several = [
        ("gradient_accumulation_steps", "32"),
        ("epochs", "1"),
        ("distributed", r#"{"strategy": "ddp", "processes": 4}"#),
    ];
    assert_eq!(
        noted(100, &several).1.as_deref(),
        Some("in training.config, set batch_size 4 with gradient_accumulation_steps 1 and epochs 2"),
        "each of four processes has a row"
    );
}

#[test]
fn a_test_file_of_the_command_line_stands_in_for_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let (data, test) = (folder.path().join("rows.jsonl"), folder.path().join("test/rows.jsonl"));
    let site = Site { data: Some(data.clone()), test: Some(test.clone()), ..site(None, DeviceKind::Cpu) };
    let made = plan(&manifest(&[Set::new("training.dataset.test_path", "datasets/test.jsonl")]), 1, &site);
    let path =
        |source: &expert_contract::plan::Source| Path::new(&made.machine.paths.data[&source.name]).to_owned();
    assert_eq!(made.recipe.data.train.iter().map(path).collect::<Vec<_>>(), [data]);
    assert_eq!(made.recipe.data.test.iter().map(path).collect::<Vec<_>>(), [test], "of the same name");
}

#[test]
fn a_share_of_the_machine_changes_its_device_and_threads_only() {
    let whole = plan(&manifest(&[]), 1, &site(Some(80 << 30), DeviceKind::Cuda));
    let other = Device { index: 1, ..whole.machine.device.clone() };
    let part = whole.clone().on(&Share { device: Some(other.clone()), threads: Some(3) });
    let threads = Threads { compute: Some(3), pretokenize: Some(3) };
    assert_eq!((&part.machine.device, part.machine.threads), (&other, threads));
    assert_eq!(part.recipe, whole.recipe);
    let back = Share { device: Some(whole.machine.device.clone()), threads: None };
    assert_eq!(part.on(&back).machine, whole.machine);
}

#[test]
fn a_mirror_may_be_named_for_expert_and_base() {
    let target = |written: &str| {
        let sets = [Set::new("training.config.checkpoint_mirror", format!(r#"{{"target": "{written}"}}"#))];
        plan(&manifest(&sets), 1, &site(None, DeviceKind::Cpu)).machine.mirror.unwrap().target
    };
    assert!(
        target("mirror/{model-slug}").replace('\\', "/").ends_with("expert-sql/mirror/smollm2-135m-instruct")
    );
    assert_eq!(target("s3://b/{expert-name}/{model-slug}"), "s3://b/expert-sql/smollm2-135m-instruct");
}

#[test]
fn a_copy_to_the_mirror_is_waited_for_where_the_command_line_says_so() {
    let sets = [Set::new("training.config.checkpoint_mirror", r#"{"target": "mirror"}"#)];
    let background = |wait_for_mirror| {
        let site = Site { wait_for_mirror, ..site(None, DeviceKind::Cpu) };
        plan(&manifest(&sets), 1, &site).machine.mirror.unwrap().background
    };
    assert!(background(false) && !background(true));
}

#[test]
fn near_copies_are_dropped_where_that_is_asked_and_other_recipes_stay_as_they_were() {
    let with = |deduplicate: &str| {
        let checks =
            format!(r#"datasets/validation.jsonl", "validation": {{"deduplicate": {deduplicate}}}}}"#);
        let text = MANIFEST.replace(r#"datasets/validation.jsonl"}"#, &checks);
        let loaded = from_bytes(
            text.into_bytes(),
            Path::new("/experts/expert-sql/manifest.json"),
            &Options::default(),
        );
        plan(&loaded.manifest.unwrap(), 0, &site(None, DeviceKind::Cpu)).recipe
    };
    for (written, exact, near) in [("false", false, false), ("true", true, false), ("\"near\"", true, true)] {
        let recipe = with(written);
        assert_eq!((recipe.data.deduplicate, recipe.data.drop_near_copies), (exact, near));
        assert_eq!(serde_json::to_string(&recipe).unwrap().contains("drop_near_copies"), near);
    }
}
