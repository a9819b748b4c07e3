//! The commands that start a worker: what they ask of it, and the rules of output folders.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::process::{Child, Stdio};

use common::{World, signal, talk};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn flags_reach_the_worker_as_a_request() {
    let world = World::shelf(&["a"]);
    let train = "train -m experts/a --device cpu -o out";
    let cases = [
        ("", json!({"from": "nothing"}), false),
        ("--resume", json!({"from": "newest"}), false),
        ("--resume auto --evaluate", json!({"from": "newest"}), true),
        ("--extend", json!({"from": "newest"}), false),
    ];
    for (flags, resume, evaluate) in cases {
        let (output, document) = world.json(&format!("{train} {flags}"), "final");
        assert_eq!(output.status.code(), Some(0), "{flags}: {}", talk(&output));
        assert_eq!(document["request"]["resume"], resume, "{flags}");
        assert_eq!(document["request"]["evaluate"], evaluate, "{flags}");
        std::fs::remove_dir_all(world.path("out")).unwrap();
    }
    let named = format!("{train} --resume kept/checkpoint-3");
    let (output, refused) = world.json(&named, "steps=1");
    assert_eq!((output.status.code(), &refused["error"]["code"]), (Some(2), &json!("no-checkpoint")));
    assert!(!world.path("out").exists(), "nothing is written");
    std::fs::create_dir_all(world.path("kept/checkpoint-3")).unwrap();
    let (_, document) = world.json(&named, "steps=1");
    let path = document["request"]["resume"]["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with('/') && path.ends_with("kept/checkpoint-3"), "{path}");
}

#[test]
fn checkpoints_are_mirrored_in_the_foreground_if_asked() {
    let world = World::shelf(&["a"]);
    let train =
        "train -m experts/a --device cpu -o out --fresh --set training.config.checkpoint_mirror=mirror";
    for (flag, background) in [("", true), ("--no-background-upload", false)] {
        let (output, _) = world.json(&format!("{train} {flag}"), "steps=1");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        let plan: Value =
            serde_json::from_slice(&std::fs::read(world.path("out/plan.json")).unwrap()).unwrap();
        assert_eq!(plan["machine"]["mirror"]["background"], background);
    }
}

#[test]
fn more_processes_than_devices_are_refused_before_a_worker_starts() {
    let world = World::shelf(&["a"]);
    let train = "train -m experts/a --device cpu -o out --set training.config.distributed.processes";
    let (output, document) = world.json(&format!("{train}=32"), "steps=1");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(document["diagnostics"][0]["code"], "idle-processes", "{document}");
    assert!(!world.path("out").exists());
}

#[test]
fn a_used_output_folder_is_not_touched_unless_asked() {
    let world = World::shelf(&["a"]);
    let train = "train -m experts/a --device cpu -o out";
    let (output, _) = world.json(train, "steps=2,missing");
    assert_eq!(output.status.code(), Some(3));
    let before = std::fs::read(world.path("out/events.jsonl")).unwrap();

    let (output, document) = world.json(train, "steps=1");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(document["error"]["code"], "output-used");
    assert_eq!(std::fs::read(world.path("out/events.jsonl")).unwrap(), before);

    let (output, _) = world.json(&format!("{train} --resume"), "steps=1,missing");
    assert_eq!(output.status.code(), Some(3));
    let resumed = std::fs::read_to_string(world.path("out/events.jsonl")).unwrap();
    assert!(resumed.contains("\"attempt\":1") && resumed.contains("\"attempt\":2"));

    let (output, _) = world.json(&format!("{train} --fresh"), "steps=1");
    assert_eq!(output.status.code(), Some(0));
    assert!(!std::fs::read_to_string(world.path("out/events.jsonl")).unwrap().contains("\"attempt\":2"));
}

#[test]
fn a_finished_recipe_is_not_trained_again_and_another_recipe_is_refused() {
    let world = World::shelf(&["a"]);
    let train = "train -m experts/a --device cpu -o out";
    world.json(train, "steps=2,final");
    for flags in ["", "--resume", "--extend"] {
        let (output, document) = world.json(&format!("{train} {flags}"), "die=9");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert_eq!(document, json!({"ok": true, "steps": 7, "eval_loss": 0.5}));
        assert!(talk(&output).contains("this recipe is finished in"), "{}", talk(&output));
    }
    let (output, document) = world.json(&format!("{train} --lora-rank 4"), "steps=1");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"output-used".into()));
}

#[test]
fn a_hub_dataset_is_an_input_by_its_commit() {
    let world = World::shelf(&["a"]);
    let manifest = world.path("experts/a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("datasets/train.jsonl", "someone/rows::train")).unwrap();
    let train = |flags: &str| {
        let words = format!("train -m experts/a --device cpu --json {flags}");
        let words: Vec<_> = words.split_whitespace().collect();
        world.expert_cli(&words, "final").env("HF_HUB_CACHE", world.path("hub")).output().unwrap()
    };
    let main = world.path("hub/datasets--someone--rows/refs/main");
    let output = train("");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let lock = std::fs::read(world.path("experts/a/expert.lock")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let data = &lock["adapters"]["smollm2-135m-instruct"]["inputs"]["data"];
    assert_eq!(data["someone/rows::train"], format!("revision:{}", "a".repeat(40)));

    // One that has left the cache is downloaded before anything is compared.
    std::fs::remove_file(&main).unwrap();
    for flags in ["", "--locked"] {
        let output = train(flags);
        assert!(talk(&output).contains("this recipe is finished in"), "{}", talk(&output));
    }
    let all = "train --all --device cpu --jobs 1 --no-evaluate --locked";
    let shelf = || {
        std::fs::remove_dir_all(world.path(common::BASE)).unwrap();
        let words: Vec<_> = all.split(' ').collect();
        world.expert_cli(&words, "final").env("HF_HUB_CACHE", world.path("hub")).output().unwrap()
    };
    std::fs::remove_dir_all(world.path("hub")).unwrap();
    let output = shelf();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(main.exists(), "it was downloaded");
    // What is known before the download is compared before it.
    std::fs::remove_dir_all(world.path("hub")).unwrap();
    let rows = world.path("experts/a/datasets/validation.jsonl");
    let text = std::fs::read_to_string(&rows).unwrap();
    std::fs::write(&rows, text.replace("Saturday", "Sunday")).unwrap();
    let output = shelf();
    assert_eq!((output.status.code(), main.exists()), (Some(2), false), "{}", talk(&output));
    assert!(talk(&output).contains("datasets/validation.jsonl: "), "{}", talk(&output));
    std::fs::write(&rows, text).unwrap();
    train("");

    std::fs::write(&main, "b".repeat(40)).unwrap();
    for flags in ["", "--resume", "--locked"] {
        let output = train(flags);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let difference = "someone/rows::train: aaaaaaaaaaaa -> bbbbbbbbbbbb";
        assert!(talk(&output).contains(difference), "{}", talk(&output));
    }
}

#[test]
fn training_is_scored_where_asked_and_refused_at_once_where_that_cannot_be() {
    let world = World::shelf(&["a"]);
    let (output, document) = world.json("train -m experts/a --device cpu --evaluate", "final");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let scored = &document["evaluation"]["request"];
    assert_eq!(scored["stage"], "evaluate");
    assert!(scored["adapter"].as_str().unwrap().ends_with("smollm2-135m-instruct/final"), "{scored}");

    let manifest = world.path("experts/a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"test_path\": \"datasets/test.jsonl\",", "")).unwrap();
    let (output, document) = world.json("train -m experts/a --device cpu --evaluate --fresh", "final");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"no-test-set".into()));
    assert!(world.path("experts/a/weights/smollm2-135m-instruct/final").exists());
}

/// Without a word of it they would wait for 15 minutes.
#[test]
fn other_ranks_learn_that_there_are_no_test_rows() {
    let world = World::shelf(&["a"]);
    let manifest = world.path("experts/a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"test_path\": \"datasets/test.jsonl\",", "")).unwrap();
    let (program, said) = (world.path("python"), world.path("said"));
    let real = common::python();
    let body = format!(
        "case \"$*\" in *train.refusal*) head -n 1 >'{}';; *) exec '{}' \"$@\";; esac",
        said.display(),
        real.display()
    );
    common::script(&program, &body);
    let mut command = world.expert_cli(&["train", "experts/a", "--device", "cpu", "--evaluate"], "final");
    let launcher = ["RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"];
    let launcher = launcher.iter().filter_map(|one| one.split_once('='));
    let output = command.envs(launcher).env("EXPERT_PYTHON", &program).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(std::fs::read_to_string(said).unwrap().contains("no-test-set"));
}

#[test]
fn a_dry_run_starts_and_writes_nothing() {
    let world = World::shelf(&["a"]);
    let (output, document) = world.json("train -m experts/a --device cpu --dry-run --max-steps 3", "die=9");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(document["plan"]["recipe"]["schedule"]["duration"], json!({"unit": "steps", "value": 3}));
    assert!(!world.path("experts/a/weights").exists());
}

#[test]
fn evaluate_and_export_take_the_adapter_that_the_run_left() {
    let world = World::shelf(&["a"]);
    let (output, document) = world.json("evaluate -m experts/a --device cpu", "steps=1");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"no-adapter".into()));
    let (_, document) = world.json("evaluate -m experts/a --device cpu --base-only", "steps=1");
    assert_eq!(document["request"]["adapter"], Value::Null);

    world.json("train -m experts/a --device cpu", "final");
    let (_, document) = world.json("evaluate -m experts/a --device cpu", "steps=1");
    let adapter = document["request"]["adapter"].as_str().unwrap().to_owned();
    assert!(adapter.ends_with("experts/a/weights/smollm2-135m-instruct/final"), "{adapter}");
    let (_, document) = world.json("export -m experts/a --device cpu --merge", "steps=1");
    assert_eq!(document["request"]["adapter"], adapter.as_str());
    assert!(
        document["request"]["target"]
            .as_str()
            .unwrap()
            .ends_with("weights/smollm2-135m-instruct/export/merged")
    );
    let (output, _) = world.json("export -m experts/a --device cpu", "steps=1");
    assert_eq!(output.status.code(), Some(2));
    // A command in passing leaves the run's own plan alone.
    let plan: Value = serde_json::from_slice(
        &std::fs::read(world.path("experts/a/weights/smollm2-135m-instruct/plan.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(plan["request"]["stage"], "train");
}

#[test]
fn evaluate_says_what_replaces_the_manifests_rows_and_settings_of_scores() {
    let world = World::shelf(&["a"]);
    let rows = |name: &str| world.path(&format!("experts/a/datasets/{name}.jsonl"));
    std::fs::copy(rows("test"), rows("more")).unwrap();
    for (flags, other) in [
        ("", Value::Null),
        ("--set training.config.rank=4", Value::Null),
        ("--set training.decoding.temperature=0.5", "settings".into()),
        ("--rows 2", "few".into()),
        ("--set evaluation.scorer=contains", "settings".into()),
        ("--rows 2 --set evaluation.test_sets.more=datasets/more.jsonl", "settings".into()),
        ("--set training.dataset.test_path=datasets/more.jsonl", "settings".into()),
        ("--set training.dataset.field_mapping.completion=answer", "settings".into()),
        ("--set base_models.0.prompt_template=chatml", "settings".into()),
        ("--set base_models[0].chat_template_kwargs.enable_thinking=false", "settings".into()),
        ("--set base_models.0.quantization=bf16", "settings".into()),
        (
            "--set base_models[0].rope_scaling.type=linear --set base_models[0].rope_scaling.factor=2",
            "settings".into(),
        ),
        ("--set base_models.0.overrides.rank=4", Value::Null),
        ("--set evaluation.scorer=contains -d experts/a/datasets/test.jsonl", "file".into()),
    ] {
        let line = format!("evaluate experts/a --device cpu --base-only {flags}");
        let (_, document) = world.json(&line, "steps=1");
        assert_eq!(document["request"]["stage"], "evaluate", "{flags}: {document}");
        assert_eq!(document["request"]["other_rows"], other, "{flags}");
    }
    let manifest = world.path("experts/a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let limited = text.replacen("\"evaluation\": {", "\"evaluation\": {\n    \"test_set_size\": 3,", 1);
    std::fs::write(&manifest, limited).unwrap();
    for (rows, other) in [(2, "few"), (4, "settings")] {
        let line = format!("evaluate experts/a --device cpu --base-only --rows {rows}");
        let (_, document) = world.json(&line, "steps=1");
        assert_eq!(document["request"]["other_rows"], other, "{rows}: {document}");
    }
}

#[test]
fn samples_are_drawn_at_the_temperature_of_the_flag_of_the_manifest_or_above_0() {
    let world = World::shelf(&["a"]);
    let asked = |flags: &str| {
        let line = format!("evaluate -m experts/a --device cpu --base-only {flags}");
        let (output, document) = world.json(&line, "steps=1");
        (output.status.code(), document["request"]["samples"].clone())
    };
    assert_eq!(asked(""), (Some(0), Value::Null));
    assert_eq!(asked("--samples 8"), (Some(0), json!({"per_row": 8, "temperature": 0.8})));
    let manifest = "--samples 2 --set training.decoding.temperature=0.4";
    assert_eq!(asked(manifest), (Some(0), json!({"per_row": 2, "temperature": 0.4})));
    let flag = format!("{manifest} --temperature 1.5");
    assert_eq!(asked(&flag), (Some(0), json!({"per_row": 2, "temperature": 1.5})));
    for refused in ["--samples 0", "--samples 257", "--samples 2 --temperature 0", "--temperature 0.5"] {
        assert_eq!(asked(refused).0, Some(2), "{refused}");
    }
}

/// Its prompts come from the pipe.
fn generating(world: &World, more: &[&str]) -> Child {
    let words = [&["generate", "-m", "experts/a", "--device", "cpu"], more].concat();
    let mut cli = world.expert_cli(&words, "echo");
    cli.stdin(Stdio::piped()).spawn().unwrap()
}

#[test]
fn prompts_are_lines_of_standard_input() {
    let world = World::shelf(&["a"]);
    let mut cli = generating(&world, &[]);
    cli.stdin.take().unwrap().write_all("say \"hi\" ü\n\n \t\nand more\n".as_bytes()).unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[base] SAY \"HI\" Ü\n[base] AND MORE\n");
}

#[test]
fn generate_says_that_it_asks_with_another_template_than_the_runs() {
    let world = World::shelf(&["a"]);
    world.json("train -m experts/a --device cpu", "final");
    for (more, is_other) in [
        ("", false),
        ("--set base_models.0.prompt_template=chatml", true),
        ("--set base_models.0.chat_template_kwargs.enable_thinking=false", true),
        ("--set training.decoding.temperature=0.5", false),
    ] {
        let (output, _) =
            world.json(&format!("generate -m experts/a --device cpu --prompt one {more}"), "steps=1");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        let times = talk(&output).matches("another chat template than the run").count();
        assert_eq!(times, usize::from(is_other), "{more}: {}", talk(&output));
    }
}

#[test]
fn a_prompt_that_is_not_utf8_ends_the_answers_with_an_error() {
    let world = World::shelf(&["a"]);
    let mut cli = generating(&world, &[]);
    cli.stdin.take().unwrap().write_all(b"one\ncaf\xe9\nthree\n").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[base] ONE\n");
    assert!(talk(&output).contains("line 2 of standard input is not UTF-8"), "{}", talk(&output));

    let mut cli = generating(&world, &["--json"]);
    cli.stdin.take().unwrap().write_all(b"one\ncaf\xe9\nthree\n").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["answers"], json!([{"prompt": "one", "base": "ONE"}]), "{document}");
    let failed = (&document["ok"], &document["exit"], &document["error"]["code"]);
    assert_eq!(failed, (&json!(false), &json!(2), &json!("not-utf8")));
}

#[test]
fn an_interrupt_ends_a_worker_that_waits_for_a_prompt() {
    let world = World::shelf(&["a"]);
    let mut cli = generating(&world, &[]);
    let _held = cli.stdin.take();
    world.worker();
    signal(common::pid(&cli), Signal::INT);
    assert_eq!(cli.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn jobs_and_force_reach_pretokenize() {
    let world = World::shelf(&["a", "b"]);
    let (output, document) =
        world.json("pretokenize --all --device cpu --jobs 3 --force --preview", "refuse=b");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        document["experts"][0]["result"]["request"],
        json!({"stage": "pretokenize", "force": true, "preview": 3})
    );
    assert_eq!(document["experts"][1]["exit"], 3);
}

#[test]
fn the_working_directory_may_be_the_expert_and_nothing_named_is_an_error() {
    let world = World::shelf(&["a"]);
    let output = world
        .expert_cli(&["train", "--device", "cpu", "--dry-run"], "")
        .current_dir(world.path("experts/a"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let (output, document) = world.json("train --device cpu", "steps=1");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"no-manifest".into()));
}

#[test]
fn time_and_cost_follow_from_a_run_of_the_same_shape_on_this_machine() {
    let world = World::shelf(&["a"]);
    let plan = |more: &str| world.json(&format!("plan experts/a --device cpu --max-steps 600 {more}"), "").1;
    assert_eq!(plan("--price-per-hour 2")["time"], Value::Null);
    let text = |arguments: &str, acts: &str| {
        let words: Vec<_> = arguments.split_whitespace().collect();
        let output = world.expert_cli(&words, acts).output().unwrap();
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text("plan experts/a --device cpu", "").contains("unknown until a run"));

    // 10 steps of 200 tokens at 100 tokens per second, and 36 seconds in all. It stops early, after two of its epochs.
    let train = "train experts/a --device cpu --epochs 4 --price-per-hour 50";
    let summary = text(train, "steps=10,final,speed");
    for part in ["steps/s", "0.500", "time per epoch", "18s", "0.50 for 36s of training"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let time = plan("--price-per-hour 3")["time"].clone();
    assert_eq!((&time["steps_per_second"], &time["tokens_per_second"]), (&json!(0.5), &json!(100.0)));
    assert_eq!((&time["seconds"], &time["cost"]), (&json!(1200.0), &json!(1.0)));
    assert!(time["seconds_per_epoch"].as_f64().unwrap() > 0.0);
    assert_eq!(time["measured_row_tokens"], Value::Null, "packed rows are all as long");
    let shown = text("plan experts/a --device cpu --max-steps 600 --price-per-hour 3", "");
    assert!(shown.contains("about 20m00s") && shown.contains("0.500 steps/s"), "{shown}");
    assert!(shown.contains("about 1.00 for training"), "{shown}");
    // Another shape was not measured.
    for other in ["--lora-rank 3", "--batch-size 2", "--max-seq-length 64"] {
        assert_eq!(plan(other)["time"], Value::Null, "{other}");
    }
    assert_eq!(plan("--learning-rate 1e-5")["time"]["seconds"], json!(1200.0));
    let (_, document) = world.json(&format!("{train} --fresh"), "final,speed");
    assert_eq!(document["cost"], json!(0.5));
    // Other rows may be of another length, and no cache has counted these.
    let loose = "--set training.config.packing=false";
    world.json(&format!("{train} --fresh {loose}"), "final,speed");
    let document = plan(loose);
    let rows = document["plan"]["recipe"]["batch"]["rows_per_step"].as_u64().unwrap();
    assert_eq!(document["time"]["measured_row_tokens"], json!(200.0 / rows as f64), "{}", document["time"]);
    let shown = text(&format!("plan experts/a --device cpu --max-steps 600 {loose}"), "");
    assert!(shown.contains("(this plan's are not counted yet)"), "{shown}");

    for arguments in [
        "plan experts/a --price-per-hour 0",
        "plan experts/a --price-per-hour=-1",
        "plan experts/a --price-per-hour inf",
    ] {
        let (output, _) = world.json(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(talk(&output).contains("positive"), "{}", talk(&output));
    }
    let (output, document) = world.json("train --all --price-per-hour 2", "");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(document["error"]["code"], "price-of-many");
}

/// A folder of a model, or of an adapter that was trained on `base`.
fn leave(world: &World, folder: &str, file: &str, content: &Value) -> String {
    let place = world.path(folder);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(file), content.to_string()).unwrap();
    place.to_str().unwrap().to_owned()
}

#[test]
fn evaluate_names_what_the_adapter_is_compared_with() {
    let world = World::shelf(&["a"]);
    let evaluate = |against: &str| {
        world.json(&format!("evaluate experts/a --device cpu --base-only --against {against}"), "steps=1")
    };
    let (_, plain) = world.json("evaluate experts/a --base-only", "steps=1");
    assert_eq!(plain["request"].get("against").cloned().unwrap_or_default(), Value::Null);
    let model = leave(&world, "other-model", "config.json", &json!({}));
    let (output, found) = evaluate("other-model");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let against = &found["request"]["against"];
    assert_eq!(
        (against["kind"].as_str(), against["base"]["name"].as_str()),
        (Some("model"), Some("other-model"))
    );
    let folder = std::path::Path::new(against["folder"].as_str().unwrap()).canonicalize().unwrap();
    assert_eq!(folder, std::path::Path::new(&model).canonicalize().unwrap());
    let (_, found) = evaluate("smollm2-135m");
    assert_eq!(
        found["request"]["against"]["base"]["name"], "smollm2-135m-instruct",
        "a base of the manifest"
    );

    let config = |base: &str| json!({"base_model_name_or_path": base});
    let run =
        leave(&world, "run/final", "adapter_config.json", &config("HuggingFaceTB/SmolLM2-135M-Instruct"));
    let (output, found) = evaluate("run");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(found["request"]["against"], json!({"kind": "adapter", "path": run}));

    leave(&world, "foreign", "adapter_config.json", &config("Qwen/Qwen3-0.6B"));
    leave(&world, "empty", "notes.txt", &json!(0));
    // It could be a model of the Hub, by its name alone.
    leave(&world, "out/gguf", "notes.txt", &json!(0));
    let (output, refused) =
        world.json("evaluate experts/a --device cpu --base-only --model out/gguf", "die=9");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let said = refused["error"]["message"].as_str().unwrap();
    assert_eq!(said, "there is no base model in out/gguf: no config.json");
    let wide = json!({
        "model_type": "llama", "hidden_size": 1 << 20, "intermediate_size": 1 << 20, "num_hidden_layers": 1000,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000
    });
    leave(&world, "wide", "config.json", &wide);
    let stored = json!({"model_type": "llama", "quantization_config": {"quant_method": "fp8"}});
    leave(&world, "eight", "config.json", &stored);
    for (named, code, words) in [
        (
            "foreign",
            "adapter-of-other-base",
            "was trained on Qwen/Qwen3-0.6B, and smollm2-135m-instruct is evaluated",
        ),
        ("nothing", "unknown-model", "there is no model nothing"),
        (
            "empty",
            "unknown-model",
            "holds neither a model (config.json) nor an adapter (adapter_config.json)",
        ),
        (
            "out/gguf",
            "unknown-model",
            "out/gguf holds neither a model (config.json) nor an adapter (adapter_config.json)",
        ),
        ("eight", "stored-quantization", "eight is stored in the form `fp8`, which cannot be trained"),
        ("wide", "model-too-large", "for its weights alone, and this device has"),
    ] {
        let (output, refused) =
            world.json(&format!("evaluate experts/a --device cpu --base-only --against {named}"), "die=9");
        assert_eq!(output.status.code(), Some(2), "{named}: {}", talk(&output));
        assert_eq!(refused["error"]["code"], code, "{refused}");
        let said = refused["error"]["message"].as_str().unwrap();
        assert!(said.contains(words), "{named}: {said}");
        assert!(refused["error"]["hint"].is_string(), "{named}: {refused}");
    }
}
