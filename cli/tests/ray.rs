//! `train --all --engine ray` without a cluster, and the task that it runs on a node. Tests with nodes are in
//! `tests/ray_shelf`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{World, alive, await_some, await_that, pid, repository, script, signal, talk};
use rustix::process::Signal;
use serde_json::{Value, json};

const ALL: &str = "train --all experts --device cpu --engine ray";

fn refused(arguments: &str) -> (Option<i32>, Value) {
    let world = World::shelf_without_pages(&["a"]);
    let (output, document) = world.json(arguments, "die=9");
    (output.status.code(), document["error"].clone())
}

#[test]
fn without_its_packages_the_command_says_how_to_install_them() {
    let stored = format!("{ALL} --storage s3://bucket/x");
    for (package, arguments, said) in [
        ("ray", ALL, "pip install 'expert-worker[ray]'"),
        ("s3fs", &stored, "pip install 'expert-worker[s3]'"),
        ("fsspec", &stored, "Install fsspec"),
    ] {
        let world = World::shelf_without_pages(&["a"]);
        let absent = world.path("absent");
        std::fs::create_dir(&absent).unwrap();
        let hidden = format!("import sys\nsys.modules['{package}'] = None\n");
        std::fs::write(absent.join("sitecustomize.py"), hidden).unwrap();
        let places = [absent, repository().join("worker/python")];
        let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), "die=9");
        let output = command.env("PYTHONPATH", std::env::join_paths(places).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{package}: {}", talk(&output));
        assert!(talk(&output).contains(said), "{package}: {}", talk(&output));
    }
}

#[test]
fn without_credentials_the_command_names_their_variables() {
    let world = World::shelf_without_pages(&["a"]);
    let arguments = format!("{ALL} --storage s3://bucket/x");
    let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), "die=9");
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    // Nor those of the user or of the machine.
    command.env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null").env("AWS_CONFIG_FILE", "/dev/null");
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    let said = talk(&output);
    assert!(said.contains("s3://bucket/x") && said.contains("AWS_ACCESS_KEY_ID"), "{said}");
}

#[test]
fn options_without_effect_are_refused() {
    let (code, error) = refused("train --all experts --device cpu --ray-address 127.0.0.2:1");
    assert_eq!((code, &error["code"]), (Some(2), &json!("engine-options")));
    let (code, error) = refused(&format!("{ALL} --separate"));
    assert_eq!((code, &error["code"]), (Some(2), &json!("engine-options")));
    let (code, error) = refused("train --all experts --device cpu --storage s3://bucket/x");
    assert_eq!((code, &error["code"]), (Some(2), &json!("engine-options")));
    let (code, error) = refused(&format!("{ALL} --storage s3://bucket/x --resume experts/a/weights"));
    assert_eq!((code, &error["code"]), (Some(2), &json!("checkpoint-of-one")));
}

#[test]
fn shared_storage_is_looked_at_before_the_cluster() {
    for url in ["sftp://host/x", "s3://key:secret@bucket/x"] {
        let (code, error) = refused(&format!("{ALL} --storage {url}"));
        assert_eq!(code, Some(2), "{error}");
        assert!(error["code"].as_str().unwrap().starts_with("storage-"), "{error}");
        assert!(!error["message"].as_str().unwrap().contains("secret"), "{error}");
    }
    let world = World::shelf_without_pages(&["a"]);
    std::fs::write(world.path("full"), "").unwrap();
    let url = format!("file://{}", world.path("full/store").display());
    let mut command = world.expert_cli(&ALL.split(' ').collect::<Vec<_>>(), "die=9");
    let output = command.env("EXPERT_STORAGE", &url).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", talk(&output));
    assert!(talk(&output).contains(&url), "{}", talk(&output));
}

#[test]
fn how_long_to_wait_for_a_node_is_a_number_of_seconds() {
    let world = World::shelf_without_pages(&["a"]);
    let mut command = world.expert_cli(&ALL.split(' ').collect::<Vec<_>>(), "die=9");
    let output = command.env("EXPERT_NODE_TIMEOUT", "soon").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("EXPERT_NODE_TIMEOUT is soon"), "{}", talk(&output));
    assert!(talk(&output).contains("unset it for 600"), "{}", talk(&output));
}

/// A Python that runs `driver` in the place of the cluster's.
fn with_driver(world: &World, driver: &str) -> PathBuf {
    let python = world.path("with-driver");
    std::fs::write(world.path("driver.py"), driver).unwrap();
    let pages = world.path("python");
    let body = format!(
        "case \"$*\" in *ray_engine*) exec '{}' driver.py;; *) exec '{}' \"$@\";; esac",
        common::python().display(),
        pages.display()
    );
    script(&python, &body);
    python
}

/// Keeps what is to be sent to the store, and ends the expert.
const ASKED: &str = r#"
import json, sys

sys.stdin.readline()
print(json.dumps({"ready": {"nodes": 1, "with_gpu": []}}), flush=True)
submit = json.loads(sys.stdin.readline())["submit"]
with open("stored", "w") as stored:
    json.dump(submit["stored"], stored)
failure = {"exit": 1, "code": "failed", "message": "no node is here", "hint": None}
print(json.dumps({"task": {"id": submit["id"], "node": "n", "line": {"failed": failure}}}), flush=True)
sys.stdin.read()
"#;

/// Below the world's folder.
fn inputs(world: &World) -> Vec<String> {
    let arguments = format!("{ALL} --storage file:///not-used");
    let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), "die=9");
    command.env("EXPERT_PYTHON", with_driver(world, ASKED)).env("HF_HUB_CACHE", world.path("hub"));
    let output = command.output().unwrap();
    assert!(talk(&output).contains("no node is here"), "{}", talk(&output));
    let stored: Value = serde_json::from_slice(&std::fs::read(world.path("stored")).unwrap()).unwrap();
    let inputs = stored["inputs"].as_array().unwrap().iter();
    let root = world.path("");
    let below = |path: &Value| {
        Path::new(path.as_str().unwrap()).strip_prefix(&root).unwrap().to_str().unwrap().to_owned()
    };
    inputs.map(below).collect()
}

/// In the expert `a`.
fn change_manifest(world: &World, change: impl FnOnce(&mut Value)) {
    let manifest = world.path("experts/a/manifest.json");
    let mut document = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    change(&mut document);
    std::fs::write(manifest, document.to_string()).unwrap();
}

#[test]
fn files_of_further_test_sets_are_sent_to_the_store() {
    let world = World::shelf_without_pages(&["a"]);
    let files = ["folder/first.jsonl", "folder/second.jsonl", "pattern/third.jsonl"];
    let files = files.map(|name| format!("experts/a/{name}"));
    for file in &files {
        std::fs::create_dir_all(world.path(file).parent().unwrap()).unwrap();
        std::fs::copy(world.path("experts/a/datasets/test.jsonl"), world.path(file)).unwrap();
    }
    let sets = json!({"all": "folder", "some": "pattern/t*.jsonl"});
    change_manifest(&world, |manifest| manifest["evaluation"]["test_sets"] = sets);
    let sent = inputs(&world);
    assert!(files.iter().all(|file| sent.contains(file)), "{sent:?}");
}

/// What stands in other texts, such as a description, is not.
#[test]
fn files_that_keys_of_the_manifest_name_are_sent_to_the_store() {
    let world = World::shelf_without_pages(&["a"]);
    let write = |name: &str, text: &str| std::fs::write(world.path(name), text).unwrap();
    write("experts/a/own.jinja", "{% for message in messages %}{{ message.content }}{% endfor %}");
    write("experts/a/answer.gbnf", "root ::= \"yes\" | \"no\"\n");
    write("experts/a/scorer.py", "def score(row, answer):\n    return 1.0\n");
    write("experts/a/notes.txt", "not for others");
    change_manifest(&world, |manifest| {
        manifest["description"] = json!("notes.txt");
        manifest["base_models"][0]["prompt_template"] = json!("custom");
        manifest["base_models"][0]["template_path"] = json!("own.jinja");
        manifest["training"]["decoding"] = json!({"grammar_file": "answer.gbnf"});
        manifest["evaluation"]["scorer"] = json!({"python": "scorer.py:score"});
    });
    let sent = inputs(&world);
    for name in ["own.jinja", "answer.gbnf", "scorer.py", "datasets/train.jsonl"] {
        assert!(sent.contains(&format!("experts/a/{name}")), "{name}: {sent:?}");
    }
    assert!(!sent.iter().any(|path| path.ends_with("notes.txt")), "{sent:?}");
}

#[test]
fn a_base_in_a_folder_is_sent_to_the_store_and_one_of_the_hub_is_not() {
    let world = World::shelf_without_pages(&["a"]);
    let snapshot = "hub/models--someone--mine/snapshots/abc";
    let shape = json!({
        "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "head_dim": 16
    });
    for folder in ["base", snapshot] {
        std::fs::create_dir_all(world.path(folder)).unwrap();
        std::fs::write(world.path(folder).join("config.json"), shape.to_string()).unwrap();
        std::fs::write(world.path(folder).join("model.safetensors"), "").unwrap();
    }
    std::fs::create_dir(world.path("hub/models--someone--mine/refs")).unwrap();
    std::fs::write(world.path("hub/models--someone--mine/refs/main"), "abc\n").unwrap();
    for (name, place) in [("../../base", "base"), ("someone/mine", snapshot)] {
        change_manifest(&world, |manifest| manifest["base_models"][0]["name"] = json!(name));
        let inputs = inputs(&world);
        assert!(inputs.iter().any(|path| path.ends_with("train.jsonl")), "{inputs:?}");
        assert_eq!(inputs.iter().any(|path| path.ends_with(place)), place == "base", "{inputs:?}");
    }
}

/// The driver's place: it keeps what it is asked in `asked`, waits once `stop` and Ctrl-C are sent for a message that should
/// not come, and ends both experts.
const DRIVER: &str = r#"
import json, select, sys

def say(line):
    print(json.dumps(line), flush=True)

def heard():
    line = sys.stdin.readline()
    with open("asked", "a") as asked:
        asked.write(line)
    return json.loads(line)

sys.stdin.readline()
say({"ready": {"nodes": 1, "with_gpu": []}})
names = {}
while len(names) < 2:
    submit = json.loads(sys.stdin.readline())["submit"]
    names[submit["stored"]["expert"]] = submit["id"]
with open("ids", "w") as ids:
    json.dump(names, ids)
heard()
heard()
if select.select([sys.stdin], [], [], 1)[0]:
    heard()
failure = {"exit": 130, "code": "interrupted", "message": "it was saved", "hint": None}
for number in names.values():
    say({"task": {"id": number, "node": "n", "line": {"failed": failure}}})
sys.stdin.read()
"#;

#[test]
fn a_stop_reaches_the_node_that_has_another_folder_and_only_once() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let python = with_driver(&world, DRIVER);
    let arguments = format!("{ALL} --storage file:///not-used --json");
    let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), "die=9");
    let mut cli = command.env("EXPERT_PYTHON", &python).spawn().unwrap();
    let read = |file: &str| std::fs::read_to_string(world.path(file)).unwrap_or_default();
    let ids: Value = await_some(|| serde_json::from_str(&read("ids")).ok());
    let stop = |expert: &str| {
        let id = &ids[format!("{expert}/smollm2-135m-instruct")];
        format!("{}\n", json!({"stop": {"id": id, "signal": "interrupt"}}))
    };
    let output = world.expert_cli(&["stop", "experts/a"], "").output().unwrap();
    assert!(talk(&output).contains("a: asked to save and end"), "{}", talk(&output));
    await_that(|| read("asked") == stop("a"));
    signal(pid(&cli), Signal::INT);
    await_that(|| cli.try_wait().unwrap().is_some());
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    assert_eq!(read("asked"), stop("a") + &stop("b"));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for expert in document["experts"].as_array().unwrap() {
        assert_eq!(expert["error"]["message"], "it was saved (on node n)", "{document}");
    }
}

/// Once it is asked to stop both experts, it says that the first one's run is in the store, and nothing more.
const AWAY: &str = r#"
import json, sys

def say(line):
    print(json.dumps(line), flush=True)

sys.stdin.readline()
say({"ready": {"nodes": 1, "with_gpu": []}})
names = {}
while len(names) < 2:
    submit = json.loads(sys.stdin.readline())["submit"]
    names[submit["stored"]["expert"][0]] = submit["id"]
open("begun", "w").close()
sys.stdin.readline()
sys.stdin.readline()
say({"task": {"id": names["a"], "node": "n", "line": {"stored": 1}}})
sys.stdin.read()
"#;

#[test]
fn where_the_grace_ends_a_run_that_is_in_the_store_is_not_called_lost() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let arguments = format!("{ALL} --storage file:///not-used --json");
    let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), "die=9");
    command.env("EXPERT_PYTHON", with_driver(&world, AWAY)).env("EXPERT_STOP_GRACE", "2");
    let cli = command.spawn().unwrap();
    await_that(|| world.path("begun").exists());
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (number, said) in [(0, "saved in the store"), (1, "since its last checkpoint in the store is lost")] {
        let error = &document["experts"][number]["error"];
        assert!(error["message"].as_str().unwrap().contains(said), "{document}");
    }
}

fn task(world: &World) -> Command {
    let mut command = world.expert_cli(&["ray-task"], "steps=2,wait");
    command.stdin(Stdio::piped());
    command
}

fn answer(mut command: Command, order: &str) -> (Output, Value) {
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.as_ref().unwrap(), "{order}").unwrap();
    // Its input stays open until it has ended.
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned).unwrap_or_default();
    let last = serde_json::from_str(&last).unwrap_or(Value::Null);
    (output, last)
}

/// The code of this checkout, as a plan records it.
fn code(world: &World) -> Value {
    let (output, document) = world.json("train -m experts/a --device cpu --dry-run", "die=9");
    assert!(output.status.success(), "{}", talk(&output));
    document["plan"]["inputs"]["code"].clone()
}

#[test]
fn a_node_with_other_code_is_refused_and_the_difference_named() {
    let world = World::shelf_without_pages(&["a"]);
    let here = code(&world);
    let (output, last) = answer(task(&world), &json!({"code": here, "training": null}).to_string());
    assert_eq!((output.status.code(), &last), (Some(0), &json!("same_code")), "{}", talk(&output));
    let mut other = here;
    other["worker"] = json!("0".repeat(64));
    let (output, last) = answer(task(&world), &json!({"code": other, "training": null}).to_string());
    assert_eq!((output.status.code(), &last["failed"]["code"]), (Some(3), &json!("node-differs")));
    assert!(last["failed"]["message"].as_str().unwrap().contains("\n  worker: 000000000000 -> "), "{last}");
    let (output, last) = answer(task(&world), "no order");
    assert_eq!((output.status.code(), &last), (Some(2), &Value::Null), "{}", talk(&output));
}

fn training(world: &World) -> Value {
    let manifest = world.path("experts/a/manifest.json");
    let options = json!({
        "expert": null, "manifest": manifest, "model": null, "data": null, "test": null, "output": null, "set": [],
        "max_memory": null, "device": "Cpu", "mixed_precision": null, "allow_path": []
    });
    let run = json!({
        "resume": "auto", "fresh": false, "extend": false, "evaluate": false, "locked": false, "profile": false,
        "no_background_upload": false
    });
    json!({"options": options, "run": run, "no_evaluate": true, "threads": 1, "stall_seconds": null, "succeeds": null})
}

#[test]
fn a_task_passes_on_events_and_ends_with_its_result() {
    let world = World::shelf_without_pages(&["a"]);
    let order = json!({"code": code(&world), "training": training(&world)}).to_string();
    let mut command = world.expert_cli(&["ray-task"], "steps=2,final=w");
    command.stdin(Stdio::piped());
    let (output, last) = answer(command, &order);
    assert_eq!(
        (output.status.code(), &last["trained"]["before"]),
        (Some(0), &json!(false)),
        "{}",
        talk(&output)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.contains("\"type\":\"progress\"")), "{text}");
    assert!(world.path("experts/a/expert.lock").is_file());
}

#[test]
fn a_task_ends_with_the_process_that_started_it() {
    let world = World::shelf_without_pages(&["a"]);
    let order = json!({"code": code(&world), "training": training(&world)}).to_string();
    let mut command = world.expert_cli(&["ray-task"], "stall=600");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    writeln!(child.stdin.as_ref().unwrap(), "{order}").unwrap();
    let worker = world.worker();
    drop(child.stdin.take());
    await_that(|| child.try_wait().unwrap().is_some());
    await_that(|| !alive(worker));
}
