//! `bench` measures, compares and writes, here with a worker whose measurements are known.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::Output;

use common::{World, talk, terminal};
use serde_json::Value;

const MANIFEST: &str = r#"{
  "name": "expert-x", "_why": "kept  as it is",
  "base_models": [
    { "name": "smollm2-135m-instruct" }
  ],
  "training": {
    "dataset": { "path": "train.jsonl" },
    "config": {
      "rank": 8, "alpha": 16,
      "batch_size":   16,
      "packing": true, "fp16": false, "bf16": false
    }
  }
}
"#;

struct Expert {
    world: World,
}

impl Expert {
    fn new() -> Self {
        let world = World::new();
        std::fs::write(world.path("manifest.json"), MANIFEST).unwrap();
        std::fs::write(world.path("train.jsonl"), "{\"text\": \"one\"}\n").unwrap();
        Self { world }
    }

    fn bench(&self, words: &[&str]) -> Output {
        let arguments: Vec<_> = ["bench"].iter().chain(words).copied().collect();
        self.world.expert_cli(&arguments, "steps=1").output().unwrap()
    }

    fn measured(&self, what: &str, words: &[&str]) -> (Option<i32>, Value) {
        let arguments: Vec<_> =
            [what, "--json", "--device", "cpu", "-m", "manifest.json"].iter().chain(words).copied().collect();
        let output = self.bench(&arguments);
        let document = serde_json::from_slice(&output.stdout);
        (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {}", talk(&output))))
    }

    fn manifest(&self) -> PathBuf {
        self.world.path("manifest.json")
    }
}

fn variant<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["variants"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

#[test]
fn the_list_of_switches_and_the_ledger_fit_a_terminal() {
    let expert = Expert::new();
    for words in [&["schema", "--ledger"][..], &["bench", "ablate", "--list", "-m", "manifest.json"]] {
        let (status, text) = terminal::run(&mut expert.world.expert_cli(words, ""), 80);
        let text = terminal::without_own_sequences(&text);
        assert!(status.success() && text.lines().count() > 10, "{text}");
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

#[test]
fn every_switch_is_listed_and_what_cannot_be_tried_says_why() {
    let (code, document) = Expert::new().measured("ablate", &["--list"]);
    assert_eq!(code, Some(0));
    for group in [
        "packing",
        "cache",
        "attention",
        "kernels",
        "path",
        "pieces",
        "precision",
        "tf32",
        "compile",
        "capture",
        "checkpointing",
        "loader",
        "batch",
        "quantization",
    ] {
        let found = document["variants"].as_array().unwrap().iter().any(|it| it["group"] == group);
        assert!(found, "{group}");
    }
    let listed = document["variants"].as_array().unwrap();
    let groups: Vec<&str> = listed.iter().map(|it| it["group"].as_str().unwrap()).collect();
    let (code, again) = Expert::new().measured("ablate", &["--list", "--only", &groups.join(",")]);
    assert_eq!((code, &again), (Some(0), &document), "every group that is listed can be named");
    assert!(variant(&document, "TF32 off")["impossible"].as_str().unwrap().contains("CUDA"));
    let kernels = variant(&document, "every other kernel of each operation that runs here");
    assert!(kernels["impossible"].is_null());
}

#[test]
fn equal_losses_pass_and_the_numbers_stand_beside_the_plans() {
    let expert = Expert::new();
    let (code, document) = expert.measured("ablate", &["--only", "tf32,batch"]);
    assert_eq!((code, &document["ok"]), (Some(0), &Value::Bool(true)));
    assert_eq!(document["planned"]["tokens_per_second"], 40.0);
    let one = variant(&document, "1 of 16 rows at once");
    assert_eq!((&one["measured"]["tokens_per_second"], &one["losses"]), (&85.0.into(), &"equal".into()));
    assert_eq!(variant(&document, "32 rows per step")["losses"], "not_comparable");
    assert!(variant(&document, "TF32 off")["why"].as_str().unwrap().contains("CUDA"));
}

#[test]
fn losses_that_must_not_differ_fail_the_command() {
    let (code, document) = Expert::new().measured("ablate", &["--only", "kernels"]);
    assert_eq!((code, &document["ok"]), (Some(1), &Value::Bool(false)));
    assert_eq!(variant(&document, "head_loss: whole")["losses"], "differ");
    assert_eq!(variant(&document, "swiglu: torch")["losses"], "equal");
}

#[test]
fn a_change_that_the_worker_did_not_make_is_not_measured() {
    let (code, document) = Expert::new().measured("ablate", &["--only", "compile"]);
    assert_eq!((code, &document["ok"]), (Some(0), &Value::Bool(true)));
    let compiled = variant(&document, "compile on");
    assert_eq!(compiled["why"], "the run continues uncompiled: no compiler");
    assert!(compiled["measured"].is_null());
    // The plan asks for it too: the other change is measured beside it.
    let asked = ["--only", "cache", "--set", "training.config.torch_compile=true"];
    let (_, document) = Expert::new().measured("ablate", &asked);
    assert!(variant(&document, "token cache off")["measured"].is_object());
    let world = Expert::new().world;
    let words = "bench ablate --device cpu -m manifest.json --only path";
    let why = |acts: &str| variant(&world.json(words, acts).1, "plain transformers + peft")["why"].clone();
    assert_eq!(why("plain"), "the run takes the plain path as planned");
    assert!(why("steps=1").is_null());
}

#[test]
fn results_are_kept_with_a_page() {
    let expert = Expert::new();
    let output =
        expert.bench(&["ablate", "--device", "cpu", "-m", "manifest.json", "--only", "cache", "-o", "kept"]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("as planned, again") && shown.contains("token cache off"), "{shown}");
    assert!(shown.contains("whole training"), "{shown}");
    assert!(
        std::fs::read_to_string(expert.world.path("kept/ablation.html")).unwrap().contains("token cache off")
    );
    assert!(expert.world.path("kept/ablation.json").is_file());
}

#[test]
fn tuning_finds_the_fastest_size_that_fits_and_shows_the_lines() {
    let expert = Expert::new();
    let (code, document) = expert.measured("tune", &[]);
    assert_eq!((code, &document["best"]), (Some(0), &"4 of 16 rows at once".into()));
    let first = &document["trials"][0];
    assert_eq!((&first["name"], &first["fits"]), (&"16 of 16 rows at once".into(), &false.into()));
    let best =
        document["trials"].as_array().unwrap().iter().find(|it| it["name"] == document["best"]).unwrap();
    assert_eq!(best["measured"]["steps_per_second"], 0.5);
    let whole = best["whole_training_seconds"].as_f64().unwrap();
    assert!(whole > 0.0 && whole % 2.0 == 0.0, "two seconds for each step: {whole}");
    let changes = document["changes"].as_array().unwrap();
    assert_eq!(
        (&changes[0]["line"], &changes[0]["before"], &changes[0]["after"]),
        (&10.into(), &"16".into(), &"4".into())
    );
    assert_eq!(
        (&changes[1]["key"], &changes[1]["after"]),
        (&"gradient_accumulation_steps".into(), &"4".into())
    );
    assert_eq!(std::fs::read_to_string(expert.manifest()).unwrap(), MANIFEST);
}

#[test]
fn written_settings_change_nothing_else_and_are_then_in_force() {
    let expert = Expert::new();
    let (code, document) = expert.measured("tune", &["--write", "--precision"]);
    assert_eq!((code, &document["written"]), (Some(0), &true.into()));
    assert_eq!(document["best"], "4 of 16 rows at once, bf16");
    let wanted = MANIFEST
        .replace("\"batch_size\":   16", "\"batch_size\":   4")
        .replace("\"bf16\": false", "\"bf16\": true, \"gradient_accumulation_steps\": 4");
    assert_eq!(std::fs::read_to_string(expert.manifest()).unwrap(), wanted);
    let (_, again) = expert.measured("tune", &["--precision"]);
    assert_eq!(again["changes"], serde_json::json!([]));
}

#[test]
fn no_size_is_tried_that_a_plan_would_lower() {
    let tried = |words: &[&str]| {
        let memory = ["--max-memory", "3GB"];
        let (code, document) = Expert::new().measured("tune", &[&memory[..], words].concat());
        assert_eq!(code, Some(0), "{document}");
        let trials = document["trials"].as_array().unwrap().iter();
        trials.map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Three rows fit; four are the fastest.
    let sizes = tried(&["--set", "training.config.max_seq_length=320"]);
    assert_eq!(sizes, ["2 of 16 rows at once", "1 of 16 rows at once"]);
    let checkpointing = "training.config.gradient_checkpointing=true";
    let changed = tried(&["--set", "training.config.max_seq_length=512", "--set", checkpointing]);
    assert_eq!(changed[2], "4 of 16 rows at once");
    assert_eq!(changed.last().unwrap(), "2 of 16 rows at once, checkpointing none");
    let changed = tried(&["--set", "training.config.max_seq_length=2048", "--set", checkpointing]);
    assert_eq!(changed.last().unwrap(), "4 of 16 rows at once, checkpointing none");
}

#[test]
fn a_base_held_in_16_bits_is_computed_in_no_other_format() {
    let held = ["--set", "base_models[0].quantization=bf16"];
    let (_, document) = Expert::new().measured("ablate", &[&held[..], &["--list"]].concat());
    for name in ["fp32", "fp16"] {
        let why = variant(&document, name)["impossible"].as_str().unwrap();
        assert_eq!(why, "the base is held as bf16, so the run computes in bf16");
    }
    let (code, document) = Expert::new().measured("tune", &[&held[..], &["--precision"]].concat());
    let trials = document["trials"].as_array().unwrap();
    let others = trials.iter().filter(|it| it["name"].as_str().unwrap().contains("fp32")).count();
    assert_eq!((code, others, &document["best"]), (Some(0), 0, &"4 of 16 rows at once".into()));
}

#[test]
fn where_several_processes_train_one_of_them_is_measured() {
    let words = |strategy: &str| {
        format!(r#"training.config.distributed={{"strategy": "{strategy}", "processes": 4}}"#)
    };
    for what in ["ablate", "tune"] {
        let (code, document) = Expert::new().measured(what, &["--set", &words("fsdp2")]);
        assert_eq!((code, &document["error"]["code"]), (Some(2), &"bench-sharded".into()));
    }
    let expert = Expert::new();
    let asked = words("ddp");
    let output = expert.bench(&["tune", "--json", "--device", "cpu", "-m", "manifest.json", "--set", &asked]);
    assert!(talk(&output).contains("measured in one process; 4 will train"), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &document["trials"][0];
    assert_eq!((&first["name"], &first["fits"]), (&"4 of 16 rows at once".into(), &true.into()));
    assert!(first["whole_training_seconds"].is_null());
}

#[test]
fn row_lengths_are_measured_with_the_largest_size_that_fits_each() {
    let expert = Expert::new();
    let (code, document) = expert.measured("tune", &["--lengths", "64,128"]);
    assert_eq!((code, &document["changes"]), (Some(0), &serde_json::json!([])));
    let fitting: Vec<_> =
        document["trials"].as_array().unwrap().iter().filter(|it| it["fits"] == true).collect();
    let lengths: Vec<_> = fitting.iter().map(|it| it["max_seq_length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [64, 128], "{document}");
    assert!(fitting[1]["name"].as_str().unwrap().starts_with("128 tokens, "), "{document}");
}

#[test]
fn what_the_worker_measures_itself_keeps_its_exit_code_and_its_document() {
    let expert = Expert::new();
    let output = expert.bench(&["watch", "--run", "nowhere", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["code"], "no-run");
    let output = expert.bench(&["watch", "--alone", "--interval", "0.1", "--duration", "0.2", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["run"]), (Some(0), &Value::Null));
}

#[test]
fn two_measurements_are_compared_and_held_to_bands() {
    let expert = Expert::new();
    let write = |name: &str, text: &str| {
        let path = expert.world.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "a.json",
        r#"{"planned": {"tokens_per_second": 100.0, "peak_bytes": 1000, "ready_seconds": 10.0}}"#,
    );
    write("b.json", r#"{"planned": {"tokens_per_second": 310.0, "peak_bytes": 600, "ready_seconds": 5.0}}"#);
    write("run/run.json", r#"{"result": {"tokens_per_second": 96.0, "peak_memory_bytes": 1200}}"#);
    let compare = |words: &[&str]| {
        let output = expert.bench(&[&["compare", "--json"], words].concat());
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let target = ["--speed", "3", "--memory", "0.6", "--ready", "0.5"];
    let (code, document) = compare(&[&["a.json", "b.json"][..], &target].concat());
    assert_eq!((code, &document["ok"]), (Some(0), &Value::Bool(true)), "{document}");
    assert_eq!(document["compared"].as_array().unwrap().len(), 3);
    let (code, document) = compare(&["a.json", "b.json", "--speed", "3.2"]);
    assert_eq!((code, &document["compared"][0]["passed"]), (Some(1), &Value::Bool(false)));
    // Within 5% of the speed, and more than 5% above the memory; a run does not record when it was ready.
    let (code, document) = compare(&["a.json", "run"]);
    let passed: Vec<_> = document["compared"].as_array().unwrap().iter().map(|it| &it["passed"]).collect();
    assert_eq!((code, passed), (Some(1), vec![&Value::Bool(true), &Value::Bool(false)]));
    let text = String::from_utf8(expert.bench(&["compare", "a.json", "run"]).stdout).unwrap();
    assert!(text.contains("FAIL") && text.contains("1.20x") && text.contains("at most 1.05x"), "{text}");

    write("odd.json", "[]");
    write("empty.json", "{}");
    for other in ["odd.json", "absent.json", "empty.json"] {
        let (code, document) = compare(&["a.json", other]);
        assert_eq!(code, Some(2), "{document}");
        assert!(document["error"]["hint"].is_string());
    }
}
