//! `plan`: what a run would do, or why it cannot.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

struct Expert {
    folder: tempfile::TempDir,
}

impl Expert {
    fn new(bases: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manifest = json!({
            "name": "sized",
            "base_models": bases,
            "training": {
                "dataset": {"path": "train.jsonl"},
                "config": {"rank": 8, "alpha": 16, "epochs": 2, "batch_size": 4, "max_seq_length": 128},
            },
        });
        std::fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
        std::fs::write(folder.path().join("train.jsonl"), "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n")
            .unwrap();
        Self { folder }
    }

    fn plan(&self, more: &[&str]) -> Output {
        self.plan_from(self.folder.path(), more)
    }

    fn plan_from(&self, folder: &Path, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(["plan", "--device", "cpu", "--manifest"])
            .arg(self.folder.path())
            .args(more)
            .current_dir(folder)
            .output()
            .unwrap()
    }

    fn document(&self, more: &[&str]) -> Value {
        let output = self.plan(&[&["--json"], more].concat());
        assert!(output.status.success(), "{}", talk(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn embedded() -> Value {
    json!([{"name": "smollm2-135m-instruct"}])
}

#[test]
fn everything_is_resolved_and_says_who_decided() {
    let expert = Expert::new(&embedded());
    let document = expert.document(&["--set", "training.config.batch_size=1", "--epochs", "3"]);
    assert_eq!(document["data"][0]["rows"], 2);
    assert_eq!(document["steps"]["steps"], 6);
    assert_eq!(document["plan"]["recipe"]["schedule"]["duration"], json!({"unit": "epochs", "value": 3.0}));
    assert!(document["plan"]["machine"]["estimate"]["total"].as_u64().unwrap() > 100 << 20);
    let settings = document["settings"].as_array().unwrap();
    let origin = |key: &str| settings.iter().find(|it| it["key"] == key).unwrap()["origin"].clone();
    assert_eq!(
        [origin("batch_size"), origin("epochs"), origin("rank"), origin("seed")],
        ["command line", "command line", "manifest", "default"]
    );
}

#[test]
fn shares_are_shown_as_round_percentages() {
    let sets =
        ["--set", "training.config.warmup_ratio=0.07", "--set", "training.dataset.validation_split=0.07"];
    let output = Expert::new(&embedded()).plan(&sets);
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("warm-up over 7% of the steps"), "{text}");
    assert!(text.contains(", 7% held out for validation"), "{text}");
}

fn recommended(more: &[&str]) -> Value {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .args(["recommend", "--json"])
        .args(more)
        .current_dir(empty.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is written");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_base_is_recommended_that_fits() {
    let large = recommended(&["--for", "80GB"]);
    assert_eq!(large["recommended"], "Qwen/Qwen3-8B");
    let small = recommended(&["--for", "8GB", "--set", "training.config.batch_size=1"]);
    let bases = small["bases"].as_array().unwrap();
    let of = |name: &Value| bases.iter().find(|it| it["base"] == *name).unwrap();
    assert!(of(&small["recommended"])["fits"] == true && small["recommended"] != "Qwen/Qwen3-8B", "{small}");
    assert_eq!(
        of(&"Qwen/Qwen3-8B".into())["held_in"],
        "int4",
        "tried in 4 bits where it does not fit otherwise"
    );
    assert_eq!(
        recommended(&["--device", "cpu", "--max-memory", "2GB"])["recommended"],
        "smollm2-135m-instruct"
    );
    let expert = Expert::new(&embedded());
    let own = recommended(&[&expert.folder.path().to_string_lossy(), "--for", "80GB"]);
    assert_eq!(own["bases"].as_array().unwrap().len(), 7);
}

#[test]
fn a_plan_names_no_token_cache_that_training_does_not_read() {
    let expert = Expert::new(&embedded());
    let cache = |words: &[&str]| {
        let plan = String::from_utf8(expert.plan(words).stdout).unwrap();
        plan.lines().find_map(|line| line.trim().strip_prefix("token cache").map(str::to_owned)).unwrap()
    };
    assert!(cache(&[]).contains("datasets_optimized"));
    let streamed = cache(&["--set", "training.dataset.streaming=true"]);
    assert_eq!(streamed.trim(), "none: each training tokenizes its rows");
}

#[test]
fn a_recommended_base_has_the_parameters_that_the_plan_shows() {
    let expert = Expert::new(&embedded());
    let plan = String::from_utf8(expert.plan(&[]).stdout).unwrap();
    let at = plan.find(" parameters, ").unwrap();
    let planned = plan[..at].split_whitespace().last().unwrap();
    let mut recommend = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    let output = recommend.arg("recommend").arg(expert.folder.path()).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with("smollm2-135m-instruct ")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some(planned), "{table}");
}

#[test]
fn a_base_that_refuses_the_settings_is_a_row_of_the_recommendation() {
    let lokr = recommended(&["--for", "8GB", "--set", "training.config.adapter_type=lokr"]);
    let held = |name: &str| {
        let bases = lokr["bases"].as_array().unwrap();
        bases.iter().find(|it| it["base"] == name).unwrap()["held_in"].clone()
    };
    assert_eq!(held("Qwen/Qwen3-8B"), "int8", "LoKr cannot be trained on int4");
    let modules = "training.config.target_modules=[\"v_proj\", \"qkv_proj\"]";
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    let words = ["recommend", "--json", "--for", "8GB", "--set", modules];
    let none = command.args(words).current_dir(empty.path()).output().unwrap();
    let said: Value = serde_json::from_slice(&none.stdout).unwrap();
    assert_eq!((none.status.code(), said["error"]["code"].as_str()), (Some(2), Some("no-budget")), "{said}");
    let why = said["error"]["message"].as_str().unwrap();
    assert!(
        why.starts_with("no base takes the settings: `qkv_proj`") && !talk(&none).contains(".json"),
        "{why}"
    );
    // These overrides hold for the manifest's one base.
    let expert =
        Expert::new(&json!([{"name": "smollm2-135m-instruct", "overrides": {"target_modules": ["wq"]}}]));
    let some = recommended(&[&expert.folder.path().to_string_lossy(), "--for", "80GB"]);
    let bases = some["bases"].as_array().unwrap();
    assert_eq!(bases.len(), 7, "{some}");
    let reason = bases[0]["reason"].as_str().unwrap();
    assert!(bases[0]["fits"] == false && reason.contains("`wq` of `target_modules`"), "{some}");
    assert_eq!(some["recommended"], "Qwen/Qwen3-8B");
}

#[cfg(unix)]
#[test]
fn a_base_is_recommended_for_an_expert_with_data_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.args(words).current_dir(folder.path()).output().unwrap()
    };
    assert!(run(&["init", "a", "--parent", "."]).status.success());
    std::fs::create_dir(folder.path().join("shared")).unwrap();
    let rows = folder.path().join("a/datasets/train.jsonl");
    std::fs::rename(&rows, folder.path().join("shared/train.jsonl")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("shared/train.jsonl"), rows).unwrap();
    let words = ["recommend", "a", "--for", "80GB"];
    assert_eq!(run(&words).status.code(), Some(2));
    let found = talk(&run(&[&words[..], &["--allow-path", "shared"]].concat()));
    assert!(found.contains("--allow-path shared --for 80GB"), "{found}");
}

/// What was sized is what the next command plans: base, format, machine and settings.
#[test]
fn the_next_command_plans_what_is_recommended() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.args(words).current_dir(folder.path()).output().unwrap()
    };
    let next_of = |words: &[&str]| talk(&run(words)).split("next: ").nth(1).unwrap().trim_end().to_owned();
    let small = ["recommend", "--for", "6 GB", "--set", "training.config.batch_size=1"];
    let settings = "--set training.config.batch_size=1 --set base_models.0.quantization=int4 --for '6 GB'";
    let planned = format!("--model Qwen/Qwen3-4B {settings}");
    assert_eq!(next_of(&small), format!("expert-cli init NAME, then expert-cli plan NAME {planned}"));
    std::fs::create_dir(folder.path().join("experts")).unwrap();
    assert_eq!(next_of(&small), format!("expert-cli init NAME, then expert-cli plan experts/NAME {planned}"));
    assert!(run(&["init", "a"]).status.success());
    let own = [&small[..1], &["experts/a"], &small[1..]].concat();
    assert_eq!(next_of(&own), format!("expert-cli plan experts/a {planned}"));
    let words = ["plan", "experts/a", "--model", "Qwen/Qwen3-4B", "--for", "6 GB", "--json", "--set"];
    let sets = ["training.config.batch_size=1", "--set", "base_models.0.quantization=int4"];
    let plan: Value = serde_json::from_slice(&run(&[&words[..], &sets[..]].concat()).stdout).unwrap();
    assert_eq!(plan["plan"]["recipe"]["base"]["quantization"], "int4");
    // The setting is for the entry of the base, where the manifest has one.
    let manifest = folder.path().join("experts/a/manifest.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    document["base_models"].as_array_mut().unwrap().push(json!({"name": "Qwen/Qwen3-4B"}));
    std::fs::write(&manifest, document.to_string()).unwrap();
    let second = planned.replace("base_models.0", "base_models.1");
    assert_eq!(next_of(&own), format!("expert-cli plan experts/a {second}"));
    let large = next_of(&["recommend", "experts/a", "--for", "80GB", "--max-memory", "70GB"]);
    assert_eq!(large, "expert-cli plan experts/a --model Qwen/Qwen3-8B --for 80GB --max-memory 70GB");
}

#[test]
fn the_digest_is_the_same_from_anywhere() {
    let expert = Expert::new(&embedded());
    let elsewhere = tempfile::tempdir().unwrap();
    let output = expert.plan_from(elsewhere.path(), &["--json", "--output", "runs/here"]);
    let there: Value = serde_json::from_slice(&output.stdout).unwrap();
    let here = expert.document(&[]);
    assert_eq!(here["plan"]["recipe_digest"], there["plan"]["recipe_digest"]);
    assert_ne!(here["plan"]["machine"]["paths"]["output"], there["plan"]["machine"]["paths"]["output"]);
}

#[test]
fn the_page_names_memory_and_settings() {
    let output = Expert::new(&embedded()).plan(&[]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "sized",
        "comes with the worker",
        "Memory:",
        "activations",
        "Settings that the manifest or the command line gives",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn only_the_chosen_base_is_talked_about() {
    let expert = Expert::new(&json!([
        {"name": "Qwen/Qwen3-0.6B", "quantization": "int4"},
        {"name": "smollm2-135m-instruct"},
    ]));
    assert!(talk(&expert.plan(&[])).contains("small-int4"));
    assert!(!talk(&expert.plan(&["--model", "smollm2-135m"])).contains("small-int4"));
}

#[test]
fn what_is_missing_is_named_with_its_exit_code() {
    let absent = Expert::new(&json!([{"name": "F:/models/Qwen3-0.6B"}]));
    let output = absent.plan(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    assert!(talk(&output).contains("F:/models/Qwen3-0.6B"));

    let expert = Expert::new(&embedded());
    let output = expert.plan(&["--model", "llama"]);
    assert_eq!(output.status.code(), Some(2));
    let hint = "it has smollm2-135m-instruct; any other is named by its Hub id";
    assert!(talk(&output).contains(hint), "{}", talk(&output));
    let elsewhere = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B"}])).plan(&["--model", "smollm2-135m"]);
    assert_eq!(elsewhere.status.code(), Some(2));
    let hint = "it has Qwen/Qwen3-0.6B; smollm2-135m-instruct comes with the worker; any other";
    assert!(talk(&elsewhere).contains(hint), "{}", talk(&elsewhere));

    std::fs::remove_file(expert.folder.path().join("train.jsonl")).unwrap();
    let output = expert.plan(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("train.jsonl"), "{}", talk(&output));
}

#[test]
fn the_scorer_of_test_rows_is_shown_where_the_manifest_names_none() {
    let expert = Expert::new(&embedded());
    let shown = |more: &[&str]| String::from_utf8(expert.plan(more).stdout).unwrap();
    assert!(!shown(&[]).contains("scored by"));
    let row = "{\"prompt\": \"q\", \"completion\": \"a\"}\n";
    std::fs::write(expert.folder.path().join("test.jsonl"), row).unwrap();
    let tested = ["--set", "training.dataset.test_path=test.jsonl"];
    let unnamed = shown(&tested);
    assert!(unnamed.contains("; answers scored by exact (no scorer is named)\n"), "{unnamed}");
    let named = shown(&[&tested[..], &["--set", "evaluation.scorer=json"]].concat());
    assert!(named.contains("; answers scored by json\n"), "{named}");
    let judge = r#"evaluation.scorer={"judge":{"url":"https://j.example/v1","model":"m","key_variable":"JUDGE_KEY"}}"#;
    let judged = shown(&[&tested[..], &["--set", judge]].concat());
    let whole = "; answers scored by the judge m at https://j.example/v1 with the key in JUDGE_KEY";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&judged).contains(whole), "{judged}");
}

#[test]
fn sharding_a_quantized_base_is_refused_before_anything_starts() {
    let expert = Expert::new(&json!([{"name": "smollm2-135m-instruct", "quantization": "int4"}]));
    let file = expert.folder.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    manifest["training"]["config"]["distributed"] = json!({"strategy": "fsdp2", "processes": 2});
    std::fs::write(&file, manifest.to_string()).unwrap();
    for command in ["validate", "plan", "train"] {
        let mut process = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        let output = process.arg(command).arg(expert.folder.path()).output().unwrap();
        let said = talk(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("FSDP2 cannot shard weights that are quantized to int4"), "{command}: {said}");
        assert!(said.contains("use `ddp`") && said.contains("or a bf16 base"), "{command}: {said}");
    }
    assert_eq!(std::fs::read_dir(expert.folder.path()).unwrap().count(), 2, "nothing was written");
    // What the hint says.
    let planned = expert.document(&["--set", "training.config.distributed.strategy=ddp"]);
    assert_eq!(planned["plan"]["machine"]["distributed"]["strategy"], json!("ddp"));
    expert.document(&["--set", "base_models.0.quantization=bf16"]);
}

#[test]
fn rows_that_a_base_has_no_positions_for_are_refused() {
    let expert = Expert::new(&json!([{"name": "base"}]));
    let base = expert.folder.path().join("base");
    std::fs::create_dir(&base).unwrap();
    let config = json!({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 128, "vocab_size": 8});
    std::fs::write(base.join("config.json"), config.to_string()).unwrap();
    let refused = expert.plan(&["--max-seq-length", "1024"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = talk(&refused);
    assert!(said.contains("error[beyond-positions]") && said.contains("the 128 positions of base"), "{said}");
    assert!(expert.plan(&["--max-seq-length", "128"]).status.success());
    // `validate` knows of a base in a folder.
    let file = expert.folder.path().join("manifest.json");
    let written = std::fs::read_to_string(&file).unwrap();
    for (length, code) in [("128", 0), ("129", 2)] {
        std::fs::write(&file, written.replace("128", length)).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        let output = process.arg("validate").arg(expert.folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", talk(&output));
        assert_eq!(talk(&output).contains("error[beyond-positions]"), code == 2, "{}", talk(&output));
    }
}

#[test]
fn an_error_in_another_base_is_a_warning() {
    let expert = Expert::new(&json!([
        {"name": "smollm2-135m-instruct"},
        {"name": "Qwen/Qwen3-0.6B", "quantization": "int3"},
    ]));
    for more in [&[][..], &["--model", "smollm2-135m"]] {
        let output = expert.plan(more);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert!(talk(&output).contains("warning[unknown-word]: invalid value \"int3\""), "{}", talk(&output));
    }
    let output = expert.plan(&["--model", "qwen3-0.6b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("error[unknown-word]: invalid value \"int3\""), "{}", talk(&output));
}

#[test]
fn the_expert_is_named_as_it_is_and_common_settings_have_flags() {
    let expert = Expert::new(&embedded());
    let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .args(["plan", "--json", "--learning-rate", "1e-4", "--seed", "7", "--max-seq-length", "64"])
        .arg(expert.folder.path())
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let recipe = &document["plan"]["recipe"];
    assert_eq!(recipe["optimizer"]["learning_rate"], 1e-4, "{}", talk(&output));
    assert_eq!((&recipe["seed"], &recipe["batch"]["max_seq_length"]), (&json!(7), &json!(64)));
}

#[test]
fn a_folder_and_packed_or_utf16_data_are_named_for_what_they_are() {
    let expert = Expert::new(&embedded());
    let folder = expert.folder.path();
    let text = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    let files: [(&str, &[u8]); 8] = [
        ("a.jsonl.bz2", b"BZh9rest"),
        ("a.xz", b"\xfd7zXZrest"),
        ("notes.md", b"# Notes"),
        ("shards/a.jsonl", text.as_bytes()),
        ("shards/b.jsonl", text.as_bytes()),
        ("splits/train.csv", b"prompt,completion\na,b\n"),
        ("splits/test.csv", b"prompt,completion\na,b\n"),
        ("empty/README", b"nothing"),
    ];
    for (name, bytes) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    let place = folder.display();
    for (name, said) in [
        ("a.jsonl.bz2", ".bz2 is not a format of data\n  hint: unpack it: bunzip2"),
        ("a.xz", ".xz is not a format of data\n  hint: unpack it: unxz"),
        (
            "notes.md",
            ".md is not a format of data\n  hint: if it holds rows, end its name with .csv, .jsonl or .json, or name their `format`",
        ),
        ("empty", "there are no data files in"),
        (
            "splits",
            &format!(
                "holds several splits\n  hint: name the one to learn from: write --data '{place}/splits/*train*'"
            ),
        ),
        ("nothing.jsonl", "hint: check the path; a relative one starts at the current folder"),
    ] {
        let data = folder.join(name);
        let output = expert.plan(&["--data", data.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", talk(&output));
        assert!(talk(&output).contains(said), "{name}: {}", talk(&output));
    }
    for name in ["shards", "shards/*.jsonl", "splits/*train*"] {
        let output = expert.plan(&["--data", folder.join(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", talk(&output));
    }
    let output = expert.plan(&["--data", "tatsu-lab/alpaca"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("write --data 'tatsu-lab/alpaca::train'"), "{}", talk(&output));
    let output = expert.plan(&["--data", "tatsu-lab/alpaca::train"]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let output = expert.plan(&["--data", folder.join("shards/a.jsonl").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn any_base_can_be_named_that_is_not_in_the_manifest() {
    let expert = Expert::new(&json!([{
        "name": "smollm2-135m-instruct",
        "quantization": "bf16",
        "prompt_template": "chatml",
        "adapters": [{"type": "dora"}],
        "overrides": {"batch_size": 2},
    }]));
    let own = expert.document(&[]);
    let other = expert.document(&["--model", "Qwen/Qwen3-0.6B"]);
    let recipe =
        |document: &Value, pointer: &str| document["plan"]["recipe"].pointer(pointer).unwrap().clone();
    assert_eq!(recipe(&other, "/base/name"), "Qwen/Qwen3-0.6B");
    // Quantization and adapters hold for any base; template and overrides are those of the first.
    assert_eq!(recipe(&other, "/base/quantization"), "bf16");
    assert_eq!(recipe(&other, "/adapter/kind"), "dora");
    assert_eq!(recipe(&other, "/template/kind"), "tokenizer");
    assert_eq!(
        (recipe(&own, "/batch/rows_per_step"), recipe(&other, "/batch/rows_per_step")),
        (json!(2), json!(4))
    );
    assert_ne!(own["plan"]["recipe_digest"], other["plan"]["recipe_digest"]);
    assert!(other["plan"]["machine"]["paths"]["output"].as_str().unwrap().ends_with("weights/qwen3-0.6b"));
    let codes = |document: &Value| -> Vec<String> {
        document["notes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note["code"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(codes(&other).contains(&"base-not-in-manifest".to_owned()), "{:?}", codes(&other));
    assert!(!codes(&own).contains(&"base-not-in-manifest".to_owned()));
    // The recipe is that of a manifest which names this base.
    let named = Expert::new(
        &json!([{"name": "Qwen/Qwen3-0.6B", "quantization": "bf16", "adapters": [{"type": "dora"}]}]),
    );
    assert_eq!(named.document(&[])["plan"]["recipe_digest"], other["plan"]["recipe_digest"]);
}

#[test]
fn a_folder_beside_the_manifest_is_a_base_from_the_working_directory() {
    let expert = Expert::new(&embedded());
    let bases = tempfile::tempdir().unwrap();
    let base = bases.path().join("my-llama");
    tiny_base(&base);
    let output = expert.plan_from(bases.path(), &["--model", "./my-llama", "--json"]);
    assert!(output.status.success(), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["plan"]["recipe"]["base"]["name"], "my-llama");
    let found =
        Path::new(document["plan"]["machine"]["paths"]["base"].as_str().unwrap()).canonicalize().unwrap();
    assert_eq!(found, base.canonicalize().unwrap());
}

/// A folder with the configuration of a small base.
fn tiny_base(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let config = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn a_path_names_the_base_in_that_folder() {
    let expert = Expert::new(&json!([
        {"name": "Qwen/Qwen3-4B", "overrides": {"learning_rate": 3e-5}},
        {"name": "bases/mine", "overrides": {"learning_rate": 4e-5}},
    ]));
    tiny_base(&expert.folder.path().join("bases").join("mine"));
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["qwen3-4b", "qwen3", "mine"] {
        tiny_base(&elsewhere.path().join(name));
    }
    // A copy has the settings of the base that it is a copy of; a folder with another name has none.
    for (name, rate, declared) in
        [("qwen3-4b", 3e-5, "Qwen/Qwen3-4B"), ("qwen3", 2e-4, ""), ("mine", 4e-5, "bases/mine")]
    {
        let folder = elsewhere.path().join(name).canonicalize().unwrap();
        let document = expert.document(&["--model", &folder.to_string_lossy()]);
        assert_eq!(document["plan"]["machine"]["paths"]["base"], json!(folder), "{name}");
        assert_eq!(document["plan"]["recipe"]["optimizer"]["learning_rate"], rate, "{name}");
        let note = document["notes"].to_string();
        assert!(note.contains("base-not-in-manifest") && note.contains(declared), "{note}");
    }
    // The manifest's own base, as it is called from elsewhere.
    let own = expert.folder.path().join("bases").join("mine");
    let document = expert.document(&["--model", &own.to_string_lossy()]);
    assert!(!document["notes"].to_string().contains("base-not-in-manifest"));
    assert_eq!(document["plan"]["recipe"]["optimizer"]["learning_rate"], 4e-5);
    let absent = elsewhere.path().join("none").join("qwen3");
    let output = expert.plan_from(elsewhere.path(), &["--model", &absent.to_string_lossy()]);
    assert!(!output.status.success() && talk(&output).contains("no config.json"), "{}", talk(&output));
}

#[test]
fn another_owners_base_of_the_same_name_is_another_base() {
    let expert = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B-Base"}, {"name": "unsloth/Llama-3.2-1B"}]));
    for (named, base) in [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B"),
        ("unsloth/llama-3.2-1b", "unsloth/Llama-3.2-1B"),
        ("llama-3.2-1b", "unsloth/Llama-3.2-1B"),
        ("qwen3-0.6b", "Qwen/Qwen3-0.6B-Base"),
    ] {
        assert_eq!(expert.document(&["--model", named])["plan"]["recipe"]["base"]["name"], base, "{named}");
    }
}

#[test]
fn a_hub_id_names_the_base_on_the_hub_though_the_manifest_has_a_folder_of_that_name() {
    let expert = Expert::new(&json!([
        {"name": "C:/models/Qwen3-0.6B", "overrides": {"learning_rate": 3e-5}},
        {"name": "./bases/Qwen3-4B", "overrides": {"learning_rate": 4e-5}},
    ]));
    tiny_base(&expert.folder.path().join("bases").join("Qwen3-4B"));
    for (named, rate, declared) in [
        ("Qwen/Qwen3-0.6B", 3e-5, "C:/models/Qwen3-0.6B"),
        ("someone/qwen3-4b", 4e-5, "./bases/Qwen3-4B"),
        ("Qwen/Qwen3-8B", 2e-4, "is not in the manifest"),
    ] {
        let document = expert.document(&["--model", named]);
        let recipe = &document["plan"]["recipe"];
        assert_eq!(
            (&recipe["base"]["name"], &recipe["optimizer"]["learning_rate"]),
            (&json!(named), &json!(rate))
        );
        let notes = document["notes"].to_string();
        assert!(notes.contains("base-not-in-manifest") && notes.contains(declared), "{notes}");
    }
}

#[test]
fn missing_validation_data_is_named_by_its_key() {
    let expert = Expert::new(&embedded());
    let hint = |more: &[&str]| {
        let output = expert.plan(&[more, &["--json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["code"], "data-missing", "{}", talk(&output));
        document["error"]["hint"].as_str().unwrap().to_owned()
    };
    let validation = "training.dataset.validation_path=valid.jsonl";
    let advice = "correct or remove training.dataset.validation_path, or use validation_split";
    assert_eq!(hint(&["--set", validation]), advice);
    assert_eq!(hint(&["--set", validation, "--data", "train.jsonl"]), advice);
    assert!(hint(&["--set", "training.dataset.path=none.jsonl"]).contains("check training.dataset.path,"));
}

/// Whoever may read everything, as root, sees no difference.
#[test]
#[cfg(unix)]
fn a_data_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let expert = Expert::new(&embedded());
    let data = expert.folder.path().join("train.jsonl");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&data).is_ok() {
        return;
    }
    for more in [&[][..], &["--data", data.to_str().unwrap()]] {
        let output = expert.plan(more);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains("train.jsonl: Permission denied"), "{}", talk(&output));
    }
}

#[test]
fn a_git_lfs_pointer_is_not_data() {
    let expert = Expert::new(&embedded());
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
    std::fs::write(expert.folder.path().join("other.jsonl"), pointer).unwrap();
    for key in ["path", "validation_path"] {
        let set = format!("training.dataset.{key}=other.jsonl");
        let output = expert.plan(&["--json", "--set", &set]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &document["error"]["code"]),
            (Some(2), &json!("lfs-pointer")),
            "{key}"
        );
        assert!(document["error"]["hint"].as_str().unwrap().contains("git lfs pull"), "{document}");
    }
}

#[test]
fn a_plan_for_another_machine_is_decided_as_on_its_card() {
    let expert = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B"}]));
    let run = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .arg("plan")
            .arg(expert.folder.path())
            .args(["--set", "training.config.max_seq_length=2048", "--set", "training.config.batch_size=64"])
            .args(more)
            .output()
            .unwrap()
    };
    let machine = |card: &str| -> Value {
        let output = run(&["--for", card, "--json"]);
        assert!(output.status.success(), "{card}: {}", talk(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let codes: Vec<_> =
            document["notes"].as_array().unwrap().iter().map(|note| note["code"].clone()).collect();
        assert!(codes.contains(&json!("another-machine")), "{card}: {codes:?}");
        document["plan"].clone()
    };
    let (small, large, old) = (machine("rtx4070"), machine("h200"), machine("t4"));
    let rows = |plan: &Value| plan["machine"]["micro_batch"].as_u64().unwrap();
    assert!(rows(&small) < rows(&large), "{} and {}", rows(&small), rows(&large));
    assert_eq!(small["machine"]["device"]["name"], "NVIDIA GeForce RTX 4070");
    assert_eq!((&small["machine"]["dtype"], &old["machine"]["dtype"]), (&json!("bf16"), &json!("fp16")));
    assert!(talk(&run(&["--for", "t4"])).contains("computes in fp16 with a loss scale"));
    let wide = run(&["--for", "t4", "--mixed-precision", "no", "--json"]);
    let wide: Value = serde_json::from_slice(&wide.stdout).unwrap();
    assert_eq!(wide["plan"]["machine"]["dtype"], "fp32");
    // The result is the same on any machine.
    assert_eq!(small["recipe_digest"], large["recipe_digest"]);
    assert!(small["machine"]["estimate"]["total"].as_u64().unwrap() < 12_282 << 20);
    assert_eq!(machine("24GB")["machine"]["device"]["memory_bytes"], 24_000_000_000_u64);
    let limited = run(&["--for", "24GB", "--max-memory", "8GB", "--json"]);
    let limited: Value = serde_json::from_slice(&limited.stdout).unwrap();
    let limited = &limited["plan"];
    assert_eq!(limited["machine"]["device"]["memory_bytes"], 8_000_000_000_u64);
    assert!(rows(limited) < rows(&machine("24GB")), "{}", rows(limited));
    assert!(limited["machine"]["estimate"]["total"].as_u64().unwrap() < 8_000_000_000);

    let output = run(&["--for", "rtx4090"]);
    let said = talk(&output);
    assert!(
        said.contains("Its speed is calculated, not measured")
            && said.contains("next, on that machine: expert-cli train"),
        "{said}"
    );
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("of 24.0 GiB on NVIDIA GeForce RTX 4090"));
    assert!(shown.contains("tokens/s, calculated for this card, not measured"), "{shown}");
    // The card has a name, and nothing is calculated for fp32.
    let wide = run(&["--for", "rtx4090", "--mixed-precision", "no"]);
    let wide = String::from_utf8_lossy(&wide.stdout);
    assert!(wide.contains("unknown until a run with these settings was measured"), "{wide}");
    let any = run(&["--for", "24GB"]);
    assert!(talk(&any).contains("Its speed is not known"), "{}", talk(&any));
    assert!(
        String::from_utf8_lossy(&any.stdout).contains("unknown: a card's size does not say how fast it is")
    );
    for (more, part) in [
        (&["--for", "a100"][..], "name one of a100-40gb, a100-80gb"),
        (&["--for", "rtx4090", "--device", "cpu"], "cannot be used with"),
    ] {
        let output = run(more);
        assert_eq!(output.status.code(), Some(2));
        assert!(talk(&output).contains(part), "{}", talk(&output));
    }
}

/// As training would end.
#[test]
fn a_download_that_the_environment_forbids_is_not_promised() {
    let expert = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B"}]));
    let empty = tempfile::tempdir().unwrap();
    let plan = |name: &str, value: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.arg("plan").arg(expert.folder.path()).args(more).env("HF_HUB_CACHE", empty.path());
        command.env_remove("HF_HUB_OFFLINE").env_remove("TRANSFORMERS_OFFLINE").env(name, value);
        let output = command.output().unwrap();
        let page = String::from_utf8_lossy(&output.stdout);
        (page.split_whitespace().collect::<Vec<_>>().join(" "), talk(&output))
    };
    for name in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        let (page, said) = plan(name, "1", &[]);
        assert!(page.contains(&format!("not in the Hub's cache: {name} forbids the download")), "{page}");
        assert!(said.contains(&format!("and {name} forbids downloading them")), "{said}");
        assert!(said.contains(&format!("next, without {name}: expert-cli train")), "{said}");
    }
    for (value, more) in [("0", &[][..]), ("1", &["--for", "rtx4090"])] {
        let (page, said) = plan("HF_HUB_OFFLINE", value, more);
        assert!(page.contains("not in the Hub's cache: downloaded when training starts"), "{page}");
        assert!(!said.contains("OFFLINE"), "{said}");
    }
}

#[test]
fn gpus_that_stay_unused_are_named_with_what_uses_them() {
    let expert = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B"}]));
    let plan = |more: &str| -> (Value, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.arg("plan").arg(expert.folder.path()).args(more.split(' ')).arg("--json");
        let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let notes = document["notes"].as_array().unwrap();
        let note = notes.iter().find(|it| it["code"] == "unused-gpus").cloned().unwrap_or_default();
        (note, document["plan"]["machine"]["distributed"]["processes"].clone())
    };
    let rows = "--set training.config.gradient_accumulation_steps";
    let (note, processes) = plan(&format!("--for 8xh100 {rows}=2"));
    assert_eq!(processes, Value::Null);
    assert!(note["message"].as_str().unwrap().starts_with("7 of 8 GPUs are not used"), "{note}");
    let all = "--set training.config.distributed=ddp";
    assert!(note["hint"].as_str().unwrap().starts_with(all), "{note}");
    assert_eq!(plan(&format!("--for 8xh100 {rows}=2 {all}")), (Value::Null, json!(8)));
    let (note, _) = plan(&format!("--for 8xh100 {rows}=1"));
    assert!(note["hint"].as_str().unwrap().starts_with("raise batch_size"), "{note}");
    for (machine, more) in [("h100", ""), ("2xh100", r#"={"processes":1}"#)] {
        let more =
            if more.is_empty() { String::new() } else { format!(" --set training.config.distributed{more}") };
        assert_eq!(plan(&format!("--for {machine}{more}")).0, Value::Null, "{machine}");
    }
}

#[test]
fn gpus_without_rows_add_nothing_to_the_speed() {
    let expert = Expert::new(&json!([{"name": "Qwen/Qwen3-0.6B"}]));
    let expected = |cards: &str| -> f64 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.arg("plan").arg(expert.folder.path()).args(["--for", cards, "--json"]);
        for set in ["batch_size=2", "gradient_accumulation_steps=1", "distributed=ddp"] {
            command.args(["--set", &format!("training.config.{set}")]);
        }
        let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        document["forecast"]["expected"].as_f64().unwrap()
    };
    let (two, eight) = (expected("2xh100"), expected("8xh100"));
    assert!((two - eight).abs() < 1.0, "{two} and {eight}");
}

/// Which leads to a plan that fits, to a base that does, and only then to the training.
#[test]
fn a_plan_that_does_not_fit_leads_to_what_it_proposes() {
    let expert = Expert::new(&json!([{"name": "smollm2-135m-instruct"}, {"name": "Qwen/Qwen3-14B"}]));
    let folder = expert.folder.path();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        let output = command.args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", talk(&output));
        talk(&output)
    };
    let next_of = |said: &str| said.lines().last().unwrap().to_owned();
    let plan = |more: &str| {
        run(&format!("plan . --model Qwen/Qwen3-14B --for 24GB {more}").split(' ').collect::<Vec<_>>())
    };
    let settings = "--max-seq-length 2048 --set base_models.1.quantization=int4 \
                    --set training.config.gradient_checkpointing=selective --for 24GB";
    let proposed = format!("next: expert-cli plan . --model Qwen/Qwen3-14B {settings}");
    assert_eq!(next_of(&plan("--max-seq-length 2048")), proposed);
    // As it was printed.
    let words: Vec<&str> = proposed.split(' ').skip(2).collect();
    let said = run(&words);
    assert!(!said.contains("even one row needs"), "{said}");
    assert!(next_of(&said).starts_with("next, on that machine: expert-cli train . --model"), "{said}");
    // What is set already is not weakened again.
    let full = plan("--max-seq-length 2048 --set training.config.gradient_checkpointing=full");
    assert!(next_of(&full).ends_with("=full --set base_models.1.quantization=int4 --for 24GB"), "{full}");

    let none = plan("--max-seq-length 512 --max-memory 4GB --mixed-precision bf16 -o out");
    let recommended = "next: expert-cli recommend . --set training.config.fp16=false --set training.config.bf16=true \
                       --set training.config.max_seq_length=512 --for 24GB --max-memory 4GB";
    assert_eq!(next_of(&none), recommended);
    run(&recommended.split(' ').skip(2).collect::<Vec<_>>());
}

/// Each line leads to a plan that fits, whatever spelling the manifest or the command line has of a setting.
#[test]
fn proposals_are_the_lines_to_run() {
    let long = "--max-seq-length 32768";
    let bases = json!([
        {"name": "smollm2-135m-instruct"},
        {"name": "Qwen/Qwen3-14B", "overrides": {"distributed": "ddp"}},
        {"name": "Qwen/Qwen3-0.6B", "overrides": {"max_length": 32768}},
    ]);
    let version_1 = |text: String| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        let object = manifest.as_object_mut().unwrap();
        object.remove("base_models");
        object.insert("base_model".to_owned(), json!("Qwen/Qwen3-14B"));
        manifest.to_string()
    };
    for (options, is_version_1, settings) in [
        (
            "--model Qwen/Qwen3-14B --for 2x24GB",
            false,
            &["base_models.1.quantization=int4", "training.config.distributed.strategy=fsdp2"][..],
        ),
        ("--for 24GB", true, &["base_models.0.quantization=int4"]),
        ("--for 8GB --model qwen3-0.6b", false, &["gradient_checkpointing=full", "max_seq_length="]),
        (
            &format!("{long} --for 8GB --model Qwen/Qwen3-1.7B"),
            false,
            &["gradient_checkpointing=full --set training.config.max_seq_length=", "max_seq_length="],
        ),
        (
            "--set training.config.max_length=32768 --for 8GB --model Qwen/Qwen3-1.7B",
            false,
            &["gradient_checkpointing=full --set training.config.max_seq_length=", "max_seq_length="],
        ),
    ] {
        let expert = Expert::new(&bases);
        let folder = expert.folder.path();
        if is_version_1 {
            let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
            std::fs::write(folder.join("manifest.json"), version_1(text)).unwrap();
        }
        let run = |line: &str| {
            let words = line.split(' ').filter(|word| !word.is_empty());
            let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
                .args(words)
                .current_dir(folder)
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {}", talk(&output));
            talk(&output)
        };
        let said = run(&format!("plan . {options}"));
        let plans: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("next: ").or_else(|| line.strip_prefix("or: ")))
            .collect();
        assert_eq!(plans.len(), settings.len(), "{said}");
        for (plan, setting) in plans.iter().zip(settings) {
            assert!(plan.contains(setting) && !plan.contains(long), "{plan}");
            let again = run(plan.strip_prefix("expert-cli ").unwrap());
            assert!(!again.contains("even one row needs"), "{plan}: {again}");
            assert!(again.contains("next, on that machine: expert-cli train . "), "{plan}: {again}");
        }
    }
}

/// Its quantization is that of the entry which it is a copy of.
#[test]
fn a_copied_base_that_does_not_fit_leads_to_the_setting_of_its_entry() {
    let expert = Expert::new(&json!([{"name": "smollm2-135m-instruct"}, {"name": "Qwen/Qwen3-14B"}]));
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().canonicalize().unwrap().join("Qwen3-14B");
    std::fs::create_dir(&copy).unwrap();
    let config = json!({"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 17408,
        "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151_936, "max_position_embeddings": 40960, "tie_word_embeddings": false});
    std::fs::write(copy.join("config.json"), config.to_string()).unwrap();
    let plan = |sets: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.arg("plan").arg(expert.folder.path()).arg("--model").arg(&copy).args(["--for", "24GB"]);
        let output = command.args(sets).output().unwrap();
        assert!(output.status.success(), "{}", talk(&output));
        talk(&output)
    };
    let said = plan(&["--set", "training.config.gradient_checkpointing=full"]);
    let set = "base_models.1.quantization=int4";
    assert!(said.contains(&format!("--set {set}")), "{said}");
    let fits = plan(&["--set", "training.config.gradient_checkpointing=full", "--set", set]);
    assert!(!fits.contains("even one row needs"), "{fits}");
}

#[test]
fn training_for_another_machine_is_refused() {
    let expert = Expert::new(&embedded());
    let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    let output = command.arg("train").arg(expert.folder.path()).args(["--for", "h100"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("plan --for h100"), "{}", talk(&output));
    assert!(!expert.folder.path().join("weights").exists());
}

/// The first commands that a newcomer sees are not interrupted by advice.
#[test]
fn the_shipped_experts_plan_without_advice() {
    for name in ["json", "neo4j", "sql", "typescript"] {
        let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args([
                "plan",
                &format!("experts/expert-{name}"),
                "--model",
                "smollm2-135m-instruct",
                "--device",
                "cpu",
            ])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .output()
            .unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: {talk}");
        assert!(!talk.contains("advice[") && !talk.contains("error["), "{name}: {talk}");
    }
}

#[test]
fn a_preset_is_laid_over_the_manifest_and_below_set() {
    let expert = Expert::new(&embedded());
    let plan = expert.document(&["--preset", "production", "--set", "training.config.rank=4"]);
    let origin = |key: &str| {
        let settings = plan["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].clone(), found["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(origin("rank"), (json!(4), "command line".to_owned()));
    assert_eq!(origin("alpha"), (json!(32), "preset".to_owned()));
    assert_eq!(origin("max_seq_length"), (json!(2048), "preset".to_owned()));
    assert_eq!(origin("pretokenized_cache").1, "default");
    assert_eq!(plan["plan"]["recipe"]["base"]["name"], "smollm2-135m-instruct");
    let text = String::from_utf8(expert.plan(&["--preset", "production"]).stdout).unwrap();
    assert!(text.contains("preset"), "{text}");
    let wrong = expert.plan(&["--preset", "production", "--set", "training.config.rank=many"]);
    assert!(!wrong.status.success());
}

/// As a token cache describes the file that it has read.
#[cfg(unix)]
fn file_of(part: &str, folder: &Path, name: &str) -> Value {
    use std::os::unix::fs::MetadataExt;

    let found = std::fs::metadata(folder.join(name)).unwrap();
    json!({
        "part": part, "name": name, "bytes": found.size(), "inode": found.ino(),
        "modified": found.mtime() * 1_000_000_000 + found.mtime_nsec(),
        "changed": found.ctime() * 1_000_000_000 + found.ctime_nsec(),
    })
}

/// As preparing the rows would leave it.
#[cfg(unix)]
fn write_cache(expert: &Expert, change: impl Fn(&mut Value)) {
    let plan = &expert.document(&[])["plan"];
    let data = &plan["recipe"]["data"];
    let key = "c".repeat(32);
    let mut record = json!({
        "format": 2,
        "key": key,
        "inputs": {},
        "encoder": "native",
        "sources": [],
        "splits": {},
        "duplicates": {
            "rows": {"train": 50, "test": 20},
            "test_files": {},
            "data": data,
            "found": [{
                "part": "test", "of": "train", "rows": 20, "exact": 3, "near": 1,
                "examples": [["test.jsonl:4", "train.jsonl:9"]],
                "leak": {"message": "4 of 20 rows of the test set are copies", "hint": "Remove them."},
            }],
        },
        "read_files": [file_of("train", expert.folder.path(), data["train"][0]["name"].as_str().unwrap())],
    });
    change(&mut record);
    let folder = Path::new(plan["machine"]["paths"]["cache"].as_str().unwrap()).join(key);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cache.json"), record.to_string()).unwrap();
}

#[test]
#[cfg(unix)]
fn copies_are_shown_while_the_files_are_as_they_were_prepared() {
    let expert = Expert::new(&embedded());
    assert_eq!(expert.document(&[])["duplicates"], Value::Null);
    let text = String::from_utf8(expert.plan(&[]).stdout).unwrap();
    let unknown = "unknown until the rows are prepared: `expert-cli pretokenize ";
    assert!(text.contains(unknown), "{text}");

    write_cache(&expert, |_| ());
    let found = &expert.document(&[])["duplicates"]["found"][0];
    assert_eq!((&found["exact"], &found["near"], &found["rows"]), (&json!(3), &json!(1), &json!(20)));
    let output = expert.plan(&[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("4 of 20 test rows copy train rows (3 exact, 1 near)"), "{text}");
    assert!(!text.contains(unknown), "{text}");
    let said = talk(&output);
    assert!(said.contains("warning: 4 of 20 rows of the test set are copies"), "{said}");
    assert!(said.contains("Remove them."), "{said}");

    // Test rows that are not made yet.
    let file = expert.folder.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    manifest["training"]["dataset"]["test_path"] = json!("later.jsonl");
    std::fs::write(&file, manifest.to_string()).unwrap();
    assert_eq!(expert.document(&[])["duplicates"], Value::Null, "of other data");
    write_cache(&expert, |_| ());
    assert_eq!(expert.document(&[])["duplicates"]["found"][0]["exact"], json!(3));
    std::fs::write(expert.folder.path().join("later.jsonl"), "{\"text\": \"one\"}\n").unwrap();
    assert_eq!(expert.document(&[])["duplicates"], Value::Null, "these rows were not compared");

    // One file for both.
    manifest["training"]["dataset"]["validation_path"] = json!("later.jsonl");
    std::fs::write(&file, manifest.to_string()).unwrap();
    for (parts, is_known) in [(&["validation"][..], false), (&["validation", "test"], true)] {
        let more = parts.iter().map(|part| file_of(part, expert.folder.path(), "later.jsonl"));
        write_cache(&expert, |record| record["read_files"].as_array_mut().unwrap().extend(more.clone()));
        assert_eq!(!expert.document(&[])["duplicates"].is_null(), is_known, "{parts:?}");
    }
}

#[test]
fn fewer_rows_per_step_than_batch_size_are_said() {
    let expert = Expert::new(&embedded());
    std::fs::write(expert.folder.path().join("train.jsonl"), "{\"text\": \"one\"}\n".repeat(128)).unwrap();
    let line = |batch: &str, accumulation: &str| {
        let sets = ["batch_size", "gradient_accumulation_steps", "packing"]
            .map(|it| format!("training.config.{it}"));
        let sets = [
            format!("{}={batch}", sets[0]),
            format!("{}={accumulation}", sets[1]),
            format!("{}=false", sets[2]),
        ];
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let text = String::from_utf8(expert.plan(&sets).stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        text[text.find("batch ").unwrap()..].to_owned()
    };
    let said =
        "batch 4 rows of 128 tokens per step (chosen by the data, below batch_size 8) = 4 at a time x 1";
    assert!(line("8", "auto").starts_with(said), "{}", line("8", "auto"));
    let silent = "batch 4 rows of 128 tokens per step = 4 at a time x 1";
    assert!(line("4", "auto").starts_with(silent), "{}", line("4", "auto"));
    assert!(line("4", "1").starts_with(silent), "{}", line("4", "1"));
}

#[test]
fn rows_are_counted_where_lines_hold_them() {
    let expert = Expert::new(&embedded());
    let row = "{\"text\": \"one\"}\n";
    let indented = "{\n  \"text\": \"one\"\n}\n".repeat(5);
    for (content, rows) in
        [(row, Some("train.jsonl  1 row, ")), (&row.repeat(5), Some("5 rows, ")), (&indented, None)]
    {
        std::fs::write(expert.folder.path().join("train.jsonl"), content).unwrap();
        let text = String::from_utf8(expert.plan(&["--set", "training.config.batch_size=1"]).stdout).unwrap();
        let line = text.lines().find(|line| line.contains("train.jsonl  ")).unwrap();
        assert!(rows.map_or(!line.contains("row"), |rows| line.contains(rows)), "{line}");
        assert!(text.contains("batch       1 row of 128 tokens per step"), "{text}");
    }
}

#[test]
#[cfg(unix)]
fn the_steps_of_prepared_rows_are_exact() {
    let expert = Expert::new(&json!([{"name": "./base"}]));
    let base = expert.folder.path().join("base");
    std::fs::create_dir(&base).unwrap();
    let file = |name: &str| {
        std::fs::write(base.join(name), "{}").unwrap();
        file_of("base", &base, name)
    };
    let files = json!([file("config.json"), file("tokenizer.json")]);
    let recipe = expert.document(&[])["plan"]["recipe"].clone();
    let prepared = |change: &dyn Fn(&mut Value)| {
        write_cache(&expert, |record| {
            record["splits"] = json!({"train": {"rows": 1001, "tokens": 77_777}});
            record["rendered_by"] = recipe["template"].clone();
            record["inputs"] = json!({
                "seed": recipe["seed"], "max_seq_length": recipe["batch"]["max_seq_length"],
                "packing": recipe["batch"]["packing"],
            });
            record["tokenizer_files"] = files.clone();
            change(record);
        });
        let steps = expert.document(&["--set", "training.config.epochs=1"])["steps"].clone();
        (steps["exact"] == true, steps["rows"].clone())
    };
    assert_eq!(prepared(&|_| ()), (true, json!(1001)));
    let text = String::from_utf8(expert.plan(&["--set", "training.config.epochs=1"]).stdout).unwrap();
    assert!(!text.contains("exact once tokenized"), "{text}");
    for (at, other) in [
        ("/inputs/max_seq_length", json!(17)),
        ("/inputs/seed", json!(17)),
        ("/rendered_by/kind", json!("alpaca")),
        ("/tokenizer_files/0/inode", json!(1)),
        ("/tokenizer_files", json!([])),
        ("/read_files/0/bytes", json!(1)),
    ] {
        let (exact, rows) = prepared(&|record| *record.pointer_mut(at).unwrap() = other.clone());
        assert!(!exact && rows != json!(1001), "{at}");
    }
    let text = String::from_utf8(expert.plan(&["--set", "training.config.epochs=1"]).stdout).unwrap();
    assert!(text.contains("exact once tokenized"), "{text}");
}

/// Of this data, template and tokenizer.
#[test]
#[cfg(unix)]
fn prepared_rows_say_what_a_shorter_length_costs() {
    let expert = Expert::new(&json!([{"name": "./base"}]));
    let base = expert.folder.path().join("base");
    std::fs::create_dir(&base).unwrap();
    let config = json!({"model_type": "llama", "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 8,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 256});
    std::fs::write(base.join("config.json"), config.to_string()).unwrap();
    let options = ["--max-memory", "2GB", "--set", "training.config.max_seq_length=100000"];
    let recipe = expert.document(&[])["plan"]["recipe"].clone();
    let said = |template: &Value, bins: &Value| {
        write_cache(&expert, |record| {
            let longest = bins.as_array().unwrap().last().unwrap()[0].clone();
            record["splits"] = json!({"train": {
                "rows": 100, "documents": 100, "length_histogram": bins, "length_quantiles": [9, longest],
            }});
            record["rendered_by"] = template.clone();
            record["inputs"] = json!({"max_seq_length": 100_000});
            record["tokenizer_files"] = json!([file_of("base", &base, "config.json")]);
        });
        let output = expert.plan(&options);
        assert!(output.status.success());
        talk(&output)
    };
    let template = &recipe["template"];
    let long = said(template, &json!([[0, 0], [200, 88], [90_000, 12]]));
    assert!(long.contains("; cuts the ends of 0 to 12 of 100 rows)"), "{long}");
    let mode = long.find("gradient_checkpointing=full --set").unwrap();
    assert!(long.rfind("or: ").unwrap() > mode, "{long}");
    let short = said(template, &json!([[0, 0], [200, 100]]));
    assert!(short.contains("; no row is longer)"), "{short}");
    let other = said(&json!({"kind": "alpaca", "source": null}), &json!([[0, 0], [200, 100]]));
    assert!(other.contains("how many there are is not known until they are tokenized"), "{other}");
}

#[test]
#[cfg(unix)]
fn copies_of_other_files_or_settings_are_unknown() {
    let expert = Expert::new(&embedded());
    let known = || !expert.document(&[])["duplicates"].is_null();
    for (at, other) in
        [("/duplicates/data/min_length", json!(3)), ("/read_files/0/inode", json!(1)), ("/key", json!("k"))]
    {
        write_cache(&expert, |record| *record.pointer_mut(at).unwrap() = other.clone());
        assert!(!known(), "{at}");
    }
    write_cache(&expert, |record| record["read_files"] = json!([]));
    assert!(!known(), "no files on record");
    write_cache(&expert, |_| ());
    assert!(known());
    // The same size and the same time of the last change: only the file system knows.
    let train = expert.folder.path().join("train.jsonl");
    let before = std::fs::metadata(&train).unwrap().modified().unwrap();
    let content = std::fs::read_to_string(&train).unwrap().replace("one", "two");
    std::fs::write(&train, content).unwrap();
    std::fs::File::options().write(true).open(&train).unwrap().set_modified(before).unwrap();
    assert!(!known(), "the rows changed");
}

#[test]
#[cfg(target_os = "linux")]
fn products_are_formed_as_training_has_measured_on_this_processor() {
    let expert = Expert::new(&embedded());
    let home = tempfile::tempdir().unwrap();
    let in_fp32 = || {
        let output = Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(["plan", "--json", "--device", "cpu", "--mixed-precision", "bf16", "--manifest"])
            .arg(expert.folder.path())
            .env("EXPERT_HOME", home.path())
            .output()
            .unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["plan"]["machine"]["fp32_products"].as_bool().unwrap()
    };
    let by_flags = in_fp32();
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let named = facts.lines().find(|line| line.starts_with("model name")).unwrap();
    let processor = named.split(": ").nth(1).unwrap();
    std::fs::create_dir(home.path().join("products")).unwrap();
    let measured = |processor: &str, in_fp32: bool| {
        let speed = json!({
            "processor": processor, "instructions": "AVX512", "torch": "2.15.0", "times_fp32": 1.8, "in_fp32": in_fp32,
        });
        std::fs::write(home.path().join("products/bf16.json"), speed.to_string()).unwrap();
    };
    for measures in [true, false] {
        measured(processor, measures);
        assert_eq!(in_fp32(), measures);
        measured("another processor", measures);
        assert_eq!(in_fp32(), by_flags);
    }
}

#[test]
fn questions_that_cannot_be_read_are_an_error_wherever_they_count() {
    let expert = Expert::new(&embedded());
    let file = expert.folder.path().join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    manifest["evaluation"] = json!({"test_cases": "cases.jsonl"});
    std::fs::write(&file, manifest.to_string()).unwrap();
    let run = |command: &str, more: &[&str]| {
        let mut process = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        process.arg(command).arg(expert.folder.path()).args(more).output().unwrap()
    };
    let absent = expert.plan(&[]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(talk(&absent).contains("error[data-missing]: `cases.jsonl` cannot be read"), "{}", talk(&absent));
    assert!(talk(&absent).contains("has 1 error"), "{}", talk(&absent));
    assert!(run("validate", &[]).status.success(), "a warning");
    // What scores nothing asks no questions.
    let generated = talk(&run("export", &["--adapter", "-o", "out"]));
    assert!(!generated.contains("cannot be read"), "{generated}");
    let cases = expert.folder.path().join("cases.jsonl");
    std::fs::write(&cases, "{\"prompt\": \"a\", \"expected\": \"b\"}\n{\"prompt\"}\n").unwrap();
    let broken = run("validate", &[]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(talk(&broken).contains("line 2 of `cases.jsonl` is not valid JSON"), "{}", talk(&broken));
    std::fs::write(&cases, b"{\"prompt\": \"\xe9\", \"expected\": \"b\"}\n").unwrap();
    assert!(talk(&run("validate", &[])).contains("saved as UTF-8"));
}

#[test]
fn a_byte_order_mark_before_a_template_is_left_out() {
    let expert = Expert::new(&json!([{
        "name": "smollm2-135m-instruct", "prompt_template": "custom", "template_path": "chat.jinja"
    }]));
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    std::fs::write(expert.folder.path().join("chat.jinja"), format!("\u{feff}{template}")).unwrap();
    assert_eq!(expert.document(&[])["plan"]["recipe"]["template"]["source"], json!(template));
}

#[test]
fn an_empty_file_of_rows_is_refused() {
    let expert = Expert::new(&embedded());
    for (key, file) in [("validation_path", "validation.jsonl"), ("path", "train.jsonl")] {
        std::fs::write(expert.folder.path().join(file), "").unwrap();
        let output = expert.plan(&["--set", &format!("training.dataset.{key}={file}")]);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(&format!("{file} is empty")), "{}", talk(&output));
    }
}
