//! `matrix --changed-since`: what retrains and what does not, in real repositories.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

struct Shelf {
    folder: tempfile::TempDir,
}

impl Shelf {
    /// A repository with the experts a and b, committed.
    fn new() -> Self {
        let shelf = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(shelf.path("experts")).unwrap();
        shelf.expert_cli(&["init", "a"]);
        shelf.expert_cli(&["init", "b"]);
        shelf.git(&["init", "--quiet"]);
        shelf.commit();
        shelf
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn expert_cli(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    fn git(&self, arguments: &[&str]) {
        git(self.folder.path(), arguments);
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "x"]);
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(self.path(file), text.replace(from, to)).unwrap();
    }

    /// What a training of now would record.
    fn inputs(&self, expert: &str) -> serde_json::Value {
        let planned = self.expert_cli(&["train", "-m", expert, "--device", "cpu", "--dry-run", "--json"]);
        let planned: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
        planned["plan"]["inputs"].clone()
    }

    /// The experts listed, and standard error.
    fn changed_since(&self, reference: &str) -> (Vec<String>, String) {
        let output = self.expert_cli(&["matrix", "--changed-since", reference]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names = document["include"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["expert"].as_str().unwrap().to_owned());
        (names.collect(), String::from_utf8(output.stderr).unwrap())
    }

    fn names(&self) -> Vec<String> {
        let (names, talk) = self.changed_since("HEAD");
        assert_eq!(talk, "");
        names
    }
}

/// An `expert.lock` of one training.
fn lock_of(base: &str, inputs: &serde_json::Value) -> String {
    let result = json!({"adapter": "", "steps": 1, "device": "cpu", "threads": 1, "score": null});
    json!({"format": 1, "adapters": {base: {"inputs": inputs, "result": result}}}).to_string()
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Ignored as weights usually are, while its configuration may be tracked.
#[test]
fn an_adapter_to_start_from_that_git_ignores_is_looked_at() {
    for ignored in ["*.safetensors\n", "*.safetensors\nadapter_config.json\n"] {
        let shelf = Shelf::new();
        shelf.write(".gitignore", ignored);
        shelf.edit("experts/a/manifest.json", "\"rank\":", "\"initial_adapter\": \"first\", \"rank\":");
        shelf.write("experts/a/first/adapter_config.json", r#"{"peft_type": "LORA"}"#);
        shelf.write("experts/a/first/adapter_model.safetensors", "weights");
        shelf.commit();
        assert!(shelf.changed_since("HEAD").0.contains(&"a".to_owned()), "nothing is known of it: {ignored}");
    }
}

#[test]
fn without_a_revision_every_expert_is_listed_in_one_line() {
    let output = Shelf::new().expert_cli(&["matrix"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"include\":[{\"expert\":\"a\",\"manifest\":\"experts/a/manifest.json\",\"path\":\"experts/a\"},\
         {\"expert\":\"b\",\"manifest\":\"experts/b/manifest.json\",\"path\":\"experts/b\"}]}\n"
    );
}

#[test]
fn experts_of_one_name_are_listed_by_their_folders() {
    let shelf = Shelf::new();
    shelf.edit("experts/b/manifest.json", "\"name\": \"b\"", "\"name\": \"a\"");
    let output = shelf.expert_cli(&["matrix"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = document["include"].as_array().unwrap();
    assert_eq!(entries.iter().map(|entry| entry["expert"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    shelf.commit();
    shelf.edit("experts/b/datasets/train.jsonl", "Monday", "Sunday");
    let (names, talk) = shelf.changed_since("HEAD");
    assert_eq!(names, ["b"], "the same name, whichever experts changed");
    assert!(talk.contains("the experts a, b have one name: a") && talk.contains("change `name`"), "{talk}");
}

#[test]
fn prose_comments_metadata_and_results_do_not_retrain() {
    let shelf = Shelf::new();
    shelf.edit("experts/a/README.md", "An expert", "The expert");
    shelf.edit("experts/a/manifest.json", "Keys that begin", "Each key that begins");
    shelf.edit("experts/a/manifest.json", "\"description\": \"Turns", "\"description\": \"Makes");
    shelf.edit("experts/b/manifest.json", "\"save_total_limit\": 2", "\"save_total_limit\": 3");
    for file in
        ["experts/a/weights/x/run.json", "experts/a/datasets_optimized/x/y.arrow", "experts/b/results/r.json"]
    {
        std::fs::create_dir_all(shelf.path(file).parent().unwrap()).unwrap();
        std::fs::write(shelf.path(file), "{}").unwrap();
    }
    assert!(shelf.names().is_empty());
    assert_eq!(
        String::from_utf8_lossy(&shelf.expert_cli(&["matrix", "--changed-since", "HEAD"]).stdout),
        "{\"include\":[]}\n"
    );
}

/// As `train -o` and `search -o` leave them. A program's own `run.json` is none.
#[test]
fn runs_and_searches_in_separate_folders_do_not_retrain() {
    let shelf = Shelf::new();
    let record = json!({"recipe_digest": "d"}).to_string();
    for (file, text) in [
        ("experts/a/finished/run.json", &*record),
        ("experts/a/finished/final/adapter_config.json", "{}"),
        ("experts/a/begun/plan.json", &record),
        ("experts/a/begun/checkpoint-3/state.json", "{}"),
        ("experts/b/searched/search.json", "{}"),
        ("experts/b/searched/trial-0/rung-1/run.json", &record),
        ("experts/beside/run.json", &record),
    ] {
        shelf.write(file, text);
    }
    assert!(shelf.names().is_empty());
    shelf.write("experts/b/generator/run.json", "{}");
    assert_eq!(shelf.names(), ["b"]);
}

#[test]
fn recipe_data_and_code_retrain_committed_or_not() {
    let shelf = Shelf::new();
    shelf.edit("experts/b/manifest.json", "\"rank\": 8", "\"rank\": 16");
    assert_eq!(shelf.names(), ["b"]);
    shelf.commit();
    assert!(shelf.names().is_empty());
    assert_eq!(shelf.changed_since("HEAD~1").0, ["b"]);

    shelf.edit("experts/a/datasets/train.jsonl", "Monday", "Sunday");
    assert_eq!(shelf.names(), ["a"]);
    shelf.commit();
    std::fs::write(shelf.path("experts/a/generate.py"), "").unwrap();
    assert_eq!(shelf.names(), ["a"]);
}

#[test]
fn new_experts_are_listed_and_deleted_ones_are_not() {
    let shelf = Shelf::new();
    std::fs::remove_dir_all(shelf.path("experts/b")).unwrap();
    shelf.expert_cli(&["init", "c"]);
    assert_eq!(shelf.names(), ["c"]);
}

#[test]
fn code_that_experts_share_retrains_all_of_them() {
    let shelf = Shelf::new();
    shelf.write("experts/common/draw.py", "");
    shelf.write("worker/python/expert_worker/train/loop.py", "");
    shelf.write("worker/python/expert_worker/report/page.py", "");
    shelf.commit();
    assert!(shelf.names().is_empty());

    shelf.write("experts/common/README.md", "prose");
    shelf.write("worker/python/expert_worker/report/page.py", "drawn otherwise");
    shelf.write("notes.txt", "elsewhere");
    assert!(shelf.names().is_empty());
    shelf.write("experts/common/draw.py", "import random");
    assert_eq!(shelf.names(), ["a", "b"]);
    shelf.commit();
    shelf.write("worker/python/expert_worker/train/loop.py", "pass");
    assert_eq!(shelf.names(), ["a", "b"]);
}

#[test]
fn packages_and_exports_beside_the_experts_retrain_nothing() {
    let shelf = Shelf::new();
    shelf.write("experts/a.v1.expert", "packed");
    shelf.write("experts/a.v1.expert.sha256", "digest");
    for place in ["experts/a-merged", "experts/a/merged"] {
        shelf.write(&format!("{place}/expert.json"), "{}");
        shelf.write(&format!("{place}/model.safetensors"), "weights");
    }
    assert!(shelf.names().is_empty());
}

#[test]
fn an_adapter_that_is_locked_to_another_worker_is_retrained() {
    let shelf = Shelf::new();
    let planned = shelf.inputs("experts/b");
    let now = &planned["code"];
    assert!(now["worker"].is_string() && now["native"].is_string(), "{now}");
    let lock = |change: &str, value: serde_json::Value| {
        let mut code = now.clone();
        code[change] = value;
        let inputs = json!({"recipe": "", "data": {}, "base": null, "tokenizer": null, "template": "",
            "code": code});
        lock_of("x", &inputs)
    };
    let same = lock("version", env!("CARGO_PKG_VERSION").into());
    shelf.write("experts/b/expert.lock", &same);
    for (change, value) in [
        ("version", "0.0.1".into()),
        ("worker", "0".repeat(64).into()),
        ("worker", serde_json::Value::Null),
        ("native", serde_json::Value::Null),
    ] {
        shelf.write("experts/a/expert.lock", &lock(change, value));
        shelf.commit();
        assert_eq!(shelf.names(), ["a"], "{change}");
    }
    shelf.write("experts/a/expert.lock", &same);
    shelf.commit();
    assert!(shelf.names().is_empty());
    shelf.write("experts/a/expert.lock", &lock("version", "0.0.1".into()));
    // Where the repository holds the worker itself, git has the say.
    shelf.write("worker/python/expert_worker/train/loop.py", "");
    shelf.commit();
    assert!(shelf.names().is_empty());
}

#[test]
fn data_outside_an_experts_folder_counts() {
    let shelf = Shelf::new();
    shelf.write("bases/tiny/config.json", "{}");
    shelf.edit("experts/b/manifest.json", "\"smollm2-135m-instruct\"", "\"../../bases/tiny\"");
    shelf.commit();
    assert!(shelf.names().is_empty());
    shelf.write("bases/tiny/config.json", "{ }");
    assert_eq!(shelf.names(), ["b"]);
}

/// `train` reads them with --allow-path.
#[cfg(unix)]
#[test]
fn rows_outside_an_experts_folder_count() {
    let shelf = Shelf::new();
    for expert in ["a", "b"] {
        let rows = format!("experts/{expert}/datasets/train.jsonl");
        shelf.write(&format!("shared/{expert}.jsonl"), &std::fs::read_to_string(shelf.path(&rows)).unwrap());
        std::fs::remove_file(shelf.path(&rows)).unwrap();
    }
    shelf.edit("experts/a/manifest.json", "datasets/train.jsonl", "../../shared/a.jsonl");
    let link = shelf.path("experts/b/datasets/train.jsonl");
    std::os::unix::fs::symlink("../../../shared/b.jsonl", link).unwrap();
    shelf.commit();
    assert!(shelf.names().is_empty());
    shelf.edit("shared/a.jsonl", "Monday", "Sunday");
    assert_eq!(shelf.names(), ["a"]);
    shelf.edit("shared/b.jsonl", "Monday", "Sunday");
    assert_eq!(shelf.names(), ["a", "b"]);
    shelf.commit();
    std::fs::remove_file(shelf.path("shared/b.jsonl")).unwrap();
    assert_eq!(shelf.names(), ["b"], "its link leads nowhere");
}

#[test]
fn a_file_that_is_gone_from_a_folder_or_pattern_counts() {
    let shelf = Shelf::new();
    let rows = std::fs::read_to_string(shelf.path("experts/a/datasets/train.jsonl")).unwrap();
    for (expert, data) in [("a", "../../shared/rows"), ("b", "../../shared/more-*.jsonl")] {
        shelf.edit(&format!("experts/{expert}/manifest.json"), "datasets/train.jsonl", data);
    }
    for file in ["rows/1.jsonl", "rows/2.jsonl", "rows/README.md", "more-1.jsonl", "more-2.jsonl", "x.jsonl"]
    {
        shelf.write(&format!("shared/{file}"), &rows);
    }
    shelf.commit();
    std::fs::remove_file(shelf.path("shared/x.jsonl")).unwrap();
    shelf.write("shared/rows/README.md", "prose");
    assert!(shelf.names().is_empty());
    std::fs::rename(shelf.path("shared/rows/2.jsonl"), shelf.path("shared/rows-2.jsonl")).unwrap();
    assert_eq!(shelf.names(), ["a"]);
    shelf.commit();
    std::fs::remove_file(shelf.path("shared/more-2.jsonl")).unwrap();
    assert_eq!(shelf.names(), ["b"]);
}

/// `git clone` takes a Unix path as a URL as it is.
#[cfg(unix)]
#[test]
fn rows_of_a_submodule_count_when_its_commit_moves() {
    let shelf = Shelf::new();
    let other = Shelf { folder: tempfile::tempdir().unwrap() };
    std::fs::copy(shelf.path("experts/a/datasets/train.jsonl"), other.path("rows.jsonl")).unwrap();
    other.git(&["init", "--quiet"]);
    other.commit();
    let from = other.folder.path().to_str().unwrap();
    shelf.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "shared"]);
    shelf.edit("experts/a/manifest.json", "datasets/train.jsonl", "../../shared/rows.jsonl");
    shelf.edit("experts/b/manifest.json", "datasets/train.jsonl", "../../shared/*.jsonl");
    shelf.commit();
    assert!(shelf.names().is_empty());
    shelf.edit("shared/rows.jsonl", "Monday", "Sunday");
    assert_eq!(shelf.names(), ["a", "b"]);
    git(&shelf.path("shared"), &["commit", "--quiet", "--all", "--message", "x"]);
    assert_eq!(shelf.names(), ["a", "b"]);
    shelf.commit();
    assert!(shelf.names().is_empty());
}

#[test]
fn data_that_git_does_not_track_is_compared_with_the_lock() {
    let shelf = Shelf::new();
    let outside = tempfile::tempdir().unwrap();
    let rows = outside.path().join("rows.jsonl");
    std::fs::copy(shelf.path("experts/b/datasets/train.jsonl"), &rows).unwrap();
    shelf.write(".gitignore", "train.jsonl\n");
    shelf.git(&["rm", "--quiet", "--cached", "experts/a/datasets/train.jsonl"]);
    let name = rows.to_str().unwrap().replace('\\', "/");
    shelf.edit("experts/b/manifest.json", "datasets/train.jsonl", &name);
    shelf.commit();
    let (names, talk) = shelf.changed_since("HEAD");
    assert_eq!(names, ["a", "b"]);
    assert!(
        talk.contains("experts/a/manifest.json counts as changed: git does not track its manifest, data"),
        "{talk}"
    );
    for expert in ["a", "b"] {
        let mut inputs = shelf.inputs("experts/a");
        if expert == "b" {
            let data = inputs["data"].as_object_mut().unwrap();
            let digest = data.remove("datasets/train.jsonl").unwrap();
            data.insert(name.clone(), digest);
        }
        shelf.write(&format!("experts/{expert}/expert.lock"), &lock_of("smollm2-135m-instruct", &inputs));
    }
    assert!(shelf.names().is_empty());
    shelf.edit("experts/a/datasets/train.jsonl", "Monday", "Sunday");
    assert_eq!(shelf.names(), ["a"]);
    std::fs::write(&rows, "").unwrap();
    assert_eq!(shelf.names(), ["a", "b"]);
    // Made by the code that git tracks, and not made here yet.
    std::fs::remove_file(shelf.path("experts/a/datasets/train.jsonl")).unwrap();
    assert_eq!(shelf.names(), ["b"]);
}

#[test]
fn a_manifest_that_git_does_not_track_is_compared_with_the_lock() {
    let shelf = Shelf::new();
    shelf.write(".gitignore", "experts/a/manifest.json\n");
    shelf.git(&["rm", "--quiet", "--cached", "experts/a/manifest.json"]);
    shelf.commit();
    let (names, talk) = shelf.changed_since("HEAD");
    assert_eq!(names, ["a"], "nothing is known of it");
    assert!(talk.contains("experts/a/manifest.json counts as changed: git does not track"), "{talk}");
    shelf.write("experts/a/expert.lock", &lock_of("smollm2-135m-instruct", &shelf.inputs("experts/a")));
    assert!(shelf.names().is_empty());
    shelf.edit("experts/a/manifest.json", "Keys that begin", "Each key that begins");
    assert!(shelf.names().is_empty(), "a comment");
    shelf.edit("experts/a/manifest.json", "\"rank\": 8", "\"rank\": 16");
    assert_eq!(shelf.names(), ["a"]);
}

#[test]
fn bases_and_scorers_that_git_does_not_track_are_compared_with_the_lock() {
    let shelf = Shelf::new();
    shelf.write(".gitignore", "bases/\nscore.py\n");
    let config = json!({"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32});
    shelf.write("bases/tiny/config.json", &config.to_string());
    shelf.write("bases/tiny/model.safetensors", "weights");
    shelf.write("bases/tiny/tokenizer.json", "{}");
    shelf.edit("experts/b/manifest.json", "\"smollm2-135m-instruct\"", "\"../../bases/tiny\"");
    shelf.commit();
    let (names, talk) = shelf.changed_since("HEAD");
    assert_eq!(names, ["b"]);
    assert!(talk.contains("git does not track its manifest, data or base"), "{talk}");
    let inputs = shelf.inputs("experts/b");
    assert!(inputs["base"].is_string() && inputs["tokenizer"].is_string(), "{inputs}");
    shelf.write("experts/b/expert.lock", &lock_of("tiny", &inputs));
    assert!(shelf.names().is_empty());
    for file in ["bases/tiny/model.safetensors", "bases/tiny/tokenizer.json"] {
        let before = std::fs::read_to_string(shelf.path(file)).unwrap();
        shelf.write(file, "other bytes");
        assert_eq!(shelf.names(), ["b"], "{file}");
        shelf.write(file, &before);
        assert!(shelf.names().is_empty());
    }

    let manifest = std::fs::read_to_string(shelf.path("experts/a/manifest.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    manifest["evaluation"]["scorer"] = json!({"python": "score.py:score"});
    shelf.write("experts/a/manifest.json", &manifest.to_string());
    shelf.write("experts/a/score.py", "def score(answer, expected, row): return 1");
    shelf.commit();
    let digest = "0".repeat(64);
    let mut lock: serde_json::Value =
        serde_json::from_str(&lock_of("smollm2-135m-instruct", &shelf.inputs("experts/a"))).unwrap();
    lock["adapters"]["smollm2-135m-instruct"]["result"]["score"] =
        json!({"rows": 1, "base": 0.0, "adapter": 1.0, "scorer": digest});
    shelf.write("experts/a/expert.lock", &lock.to_string());
    assert_eq!(shelf.names(), ["a"], "scored by another function");
}

#[test]
fn a_lock_that_cannot_be_read_is_named_and_counts_as_changed() {
    let shelf = Shelf::new();
    shelf.write("experts/a/expert.lock", "<<<<<<< HEAD\n");
    shelf.commit();
    let (names, talk) = shelf.changed_since("HEAD");
    assert_eq!(names, ["a"]);
    assert!(
        talk.contains("experts/a/manifest.json counts as changed: ") && talk.contains("merge conflict"),
        "{talk}"
    );
}

#[test]
fn files_that_join_or_leave_a_folder_of_data_count_where_git_does_not_track_them() {
    let shelf = Shelf::new();
    let train = std::fs::read_to_string(shelf.path("experts/a/datasets/train.jsonl")).unwrap();
    shelf.write(".gitignore", "rows/\n");
    shelf.write("experts/a/rows/1.jsonl", &train);
    shelf.write("experts/a/rows/2.jsonl", &train.replace("Monday", "Sunday"));
    shelf.edit("experts/a/manifest.json", "datasets/train.jsonl", "rows");
    shelf.commit();
    let inputs = shelf.inputs("experts/a");
    assert!(inputs["data"].get("rows/2.jsonl").is_some(), "{inputs}");
    // Of a training that was not scored.
    shelf.write("experts/a/expert.lock", &lock_of("smollm2-135m-instruct", &inputs));
    assert!(shelf.names().is_empty());
    shelf.write("experts/a/rows/3.jsonl", &train.replace("Monday", "Friday"));
    assert_eq!(shelf.names(), ["a"]);
    std::fs::remove_file(shelf.path("experts/a/rows/3.jsonl")).unwrap();
    assert!(shelf.names().is_empty());
    std::fs::remove_file(shelf.path("experts/a/rows/2.jsonl")).unwrap();
    assert_eq!(shelf.names(), ["a"]);
}

#[test]
fn a_file_that_the_manifest_names_counts_whatever_its_name_is() {
    let shelf = Shelf::new();
    let names = ["notices.jsonl", "events.jsonl", "README.jsonl", ".rows.jsonl", "reports/rows.jsonl"];
    for (number, name) in names.iter().enumerate() {
        let expert = format!("e{number}");
        shelf.expert_cli(&["init", &expert]);
        let rows =
            std::fs::read_to_string(shelf.path(&format!("experts/{expert}/datasets/train.jsonl"))).unwrap();
        shelf.write(&format!("experts/{expert}/{name}"), &rows);
        shelf.edit(&format!("experts/{expert}/manifest.json"), "datasets/train.jsonl", name);
        std::fs::remove_file(shelf.path(&format!("experts/{expert}/datasets/train.jsonl"))).unwrap();
    }
    shelf.commit();
    assert!(shelf.names().is_empty());
    for (number, name) in names.iter().enumerate() {
        shelf.edit(&format!("experts/e{number}/{name}"), "Monday", "Sunday");
    }
    assert_eq!(shelf.names(), ["e0", "e1", "e2", "e3", "e4"]);
    shelf.commit();
    // What only looks like a record or like prose, and is not named.
    for (number, name) in ["generator/plan.json", "licenses.py"].iter().enumerate() {
        shelf.write(&format!("experts/e{number}/{name}"), "{}");
    }
    assert_eq!(shelf.names(), ["e0", "e1"]);
}

#[test]
fn a_manifest_that_no_longer_holds_is_listed_so_that_its_run_says_why() {
    let shelf = Shelf::new();
    shelf.edit("experts/a/manifest.json", "\"sft\"", "\"magic\"");
    let is_listed = || {
        let (names, talk) = shelf.changed_since("HEAD");
        assert_eq!(names, ["a"]);
        assert!(talk.contains("experts/a/manifest.json has errors and counts as changed"), "{talk}");
    };
    is_listed();
    shelf.commit();
    // Which files it named is unknown.
    is_listed();
}

/// The `.gitignore` that hid its runs is renamed with it.
#[test]
fn runs_at_the_old_place_of_a_renamed_expert_do_not_count_as_shared_code() {
    let shelf = Shelf::new();
    std::fs::rename(shelf.path("experts/a"), shelf.path("experts/c")).unwrap();
    shelf.commit();
    assert_eq!(shelf.names(), [""; 0]);
    shelf.write("experts/a/weights/base/final/adapter_model.safetensors", "x");
    shelf.write("experts/a/datasets_optimized/base/rows.arrow", "x");
    assert_eq!(shelf.names(), [""; 0]);
    assert_eq!(shelf.changed_since("HEAD~1").0, ["a"], "its manifest still has that name");
    // Code that the experts share, in a folder with results.
    shelf.write("experts/common/rows.py", "");
    shelf.write("experts/common/results/table.py", "");
    shelf.commit();
    shelf.write("experts/common/results/table.py", "1");
    assert_eq!(shelf.names(), ["b", "a"]);
}

#[test]
fn if_git_fails_every_expert_is_listed_with_a_warning() {
    let shelf = Shelf::new();
    for reference in ["nowhere", "--output=owned", "-h", "", "HEAD:experts", "HEAD~9"] {
        let (names, talk) = shelf.changed_since(reference);
        assert_eq!(names, ["a", "b"], "{reference}");
        assert!(talk.contains("warning: all experts are listed"), "{reference}: {talk}");
    }
    assert!(!shelf.path("owned").exists());

    let bare = Shelf { folder: tempfile::tempdir().unwrap() };
    bare.expert_cli(&["init", "a", "--parent", "experts"]);
    let (names, talk) = bare.changed_since("HEAD");
    assert_eq!(names, ["a"]);
    assert!(talk.contains("not a git repository"), "{talk}");
}

/// `git clone` takes a Unix path as a URL as it is.
#[cfg(unix)]
#[test]
fn a_shallow_clone_means_every_expert_and_a_warning() {
    let shelf = Shelf::new();
    let clone = tempfile::tempdir().unwrap();
    let origin = format!("file://{}", shelf.folder.path().display());
    git(clone.path(), &["clone", "--quiet", "--depth", "1", &origin, "."]);
    let shallow = Shelf { folder: clone };
    let (names, talk) = shallow.changed_since("HEAD~1");
    assert_eq!(names, ["a", "b"]);
    assert!(talk.contains("shallow clone"), "{talk}");
}

/// Windows has no file of such a name.
#[cfg(unix)]
#[test]
fn names_that_look_like_patterns_or_are_not_ascii_are_just_names() {
    let shelf = Shelf::new();
    std::fs::rename(shelf.path("experts/a"), shelf.path("experts/[a] ü*")).unwrap();
    shelf.commit();
    assert!(shelf.names().is_empty());
    shelf.edit("experts/[a] ü*/datasets/test.jsonl", "Friday", "Sunday");
    assert_eq!(shelf.names(), ["a"]);
}

#[test]
fn a_folder_that_is_not_there_is_bad_input() {
    let shelf = Shelf::new();
    let output = shelf.expert_cli(&["matrix", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}
