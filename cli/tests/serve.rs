//! `serve` up to the process that serves.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/packages.rs"]
mod packages;

use common::{World, talk};
use packages::{RUN, constrained_by, edit, trained};
use serde_json::{Value, json};

const GRAMMAR: &str = "root ::= \"yes\"\n";

/// A trained expert whose run recorded a grammar and settings of answers; the manifest names the same.
fn with_answers() -> World {
    let world = trained();
    let decoding = json!({"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop_sequences": [], "max_new_tokens": 20});
    edit(&world.path(RUN).join("run.json"), |record| record["recipe"]["decoding"] = decoding.clone());
    constrained_by(&world, GRAMMAR);
    std::fs::write(world.path("experts/a/answer.gbnf"), GRAMMAR).unwrap();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["decoding"] = decoding;
        manifest["training"]["decoding"]["grammar_file"] = json!("answer.gbnf");
    });
    world
}

/// What the command says before the worker begins: its Python is not there.
fn before_the_worker(world: &World, words: &[&str]) -> String {
    let output = world.expert_cli(words, "").env("EXPERT_PYTHON", "/nowhere/python").output().unwrap();
    assert!(!output.status.success());
    talk(&output)
}

#[test]
fn answers_that_the_manifest_names_otherwise_than_the_run_are_named() {
    let world = with_answers();
    let manifest = world.path("experts/a/manifest.json");
    let set = |key: &str, value: Value| {
        edit(&manifest, |manifest| manifest["training"]["decoding"][key] = value);
    };
    let commands: [(&[&str], &str); 4] = [
        (&["serve", "experts/a"], "served"),
        (&["serve", "experts"], "served"),
        (&["serve", "experts/a/weights/smollm2-135m-instruct/final"], "served"),
        (&["export", "experts/a", "--merge"], "exported"),
    ];
    for (words, _) in commands {
        let said = before_the_worker(&world, words);
        assert!(!said.contains("names another"), "{words:?}: {said}");
    }
    set("max_new_tokens", json!(30));
    set("stop_sequences", json!([";"]));
    std::fs::write(world.path("experts/a/answer.gbnf"), "root ::= \"no\"\n").unwrap();
    for (words, done) in commands {
        let said = before_the_worker(&world, words);
        let message = "manifest.json names another grammar, max_new_tokens, stop_sequences than the run in";
        assert!(said.contains(message), "{words:?}: {said}");
        assert!(said.contains(&format!("it is {done} as the run has it")), "{words:?}: {said}");
        assert!(said.contains("expert-cli evaluate experts/a"), "{words:?}: {said}");
    }
    // A manifest of another expert says nothing of this run.
    edit(&manifest, |manifest| manifest["name"] = json!("b"));
    for (words, _) in commands {
        let said = before_the_worker(&world, words);
        assert!(!said.contains("names another"), "{words:?}: {said}");
    }
}

#[test]
fn mistakes_that_show_at_once_are_refused_before_the_worker_begins() {
    let world = trained();
    let said =
        before_the_worker(&world, &["serve", "experts/a", "--engine", "transformers", "--quantize", "q8_0"]);
    assert!(said.contains("--quantize is for llama.cpp"), "{said}");
    let output = world.expert_cli(&["serve", "experts/a", "--base", "experts"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("no base model in experts") && talk(&output).contains("--base"));
    let target = world.path("out");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("mine"), "").unwrap();
    let export = |to: &str| before_the_worker(&world, &["export", "experts/a", "--merge", "--to", to]);
    let said = export("out");
    assert!(said.contains("out exists and is not an empty folder") && said.contains("--to"), "{said}");
    assert!(export("out/mine").contains("out/mine exists and is not an empty folder"));
    std::os::unix::fs::symlink("elsewhere", world.path("link")).unwrap();
    assert!(export("link").contains("link is a symbolic link"));
    std::fs::remove_file(target.join("mine")).unwrap();
    assert!(!export("out").contains("not an empty folder"));
}

/// What the command hands over to the server, whose Python is a stand-in.
fn handed_over(world: &World, words: &[&str]) -> String {
    let python = world.path("noting-python");
    let (real, noted) = (common::python(), world.path("words"));
    let body = "case \"$*\" in *expert_worker.endpoint*) echo \"$*\" >";
    common::script(
        &python,
        &format!("{body}'{}';; *) exec '{}' \"$@\";; esac", noted.display(), real.display()),
    );
    let output = world.expert_cli(words, "").env("EXPERT_PYTHON", &python).output().unwrap();
    std::fs::read_to_string(&noted).unwrap_or_else(|_| panic!("{}", talk(&output)))
}

#[test]
fn folders_with_test_questions_are_handed_over_whole() {
    let world = trained();
    assert!(!handed_over(&world, &["serve", "experts/a"]).contains("--allow-path"));
    let words = ["serve", "experts/a", "--allow-path", "data", "--allow-path", "/elsewhere"];
    let said = handed_over(&world, &words);
    let data = world.path("data");
    assert!(said.contains(&format!("--allow-path {} --allow-path /elsewhere", data.display())), "{said}");
}

#[test]
fn the_base_of_the_training_is_named_only_where_it_is_there() {
    let world = trained();
    let words = || handed_over(&world, &["serve", "experts/a"]);
    let base = world.path("recorded-base");
    let recorded = base.to_str().unwrap().to_owned();
    let plan = json!({"machine": {"paths": {"base": recorded}}});
    std::fs::write(world.path(RUN).join("plan.json"), plan.to_string()).unwrap();
    assert!(!words().contains("--base-folder"), "it is looked for by its name");
    std::fs::create_dir(&base).unwrap();
    std::fs::write(base.join("config.json"), "{}").unwrap();
    assert!(words().contains(&format!("--base-folder {recorded}")), "{}", words());
}

#[test]
fn an_unfinished_run_elsewhere_has_a_command_that_finishes_it() {
    let world = World::shelf(&["a"]);
    world.json("train -m experts/a --device cpu -o out", "steps=2,checkpoint=2,missing");
    let finish = |command: &str| {
        let (_, document) = world.json("serve out", "");
        let hint = document["error"]["hint"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned();
        assert_eq!(hint, format!("finish it: expert-cli {command}"));
    };
    finish("train experts/a -o out --resume");
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["base_models"].as_array_mut().unwrap().push(json!({"name": "Qwen/Qwen3-0.6B"}));
    });
    let command = "train experts/a --model smollm2-135m-instruct -o out --resume";
    finish(command);
    let (output, _) = world.json(&format!("{command} --device cpu"), "final=whole");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn an_expert_that_is_named_twice_is_named_once_by_a_warning() {
    let world = trained();
    let final_folder = format!("{RUN}/final");
    let said = before_the_worker(&world, &["serve", "experts/a", "experts", &final_folder]);
    assert!(!said.contains("two experts are named"), "{said}");
    assert!(said.matches("left out of the router").count() < 2, "{said}");
}

#[test]
fn other_machines_need_a_token_and_an_expert_must_be_trained() {
    let world = World::shelf(&["a"]);
    let output = world.expert_cli(&["serve", "experts/a"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("train it first: expert-cli train experts/a"), "{}", talk(&output));
    // Without a folder `experts` the working directory is searched.
    let world = World::shelf(&["a", "b"]);
    let here = world.path("experts");
    let output = world.expert_cli(&["serve"], "").current_dir(&here).output().unwrap();
    let words = "none of the 2 experts in the working directory is trained: a, b";
    assert!(talk(&output).contains(words), "{}", talk(&output));
    let adapter = world.path("adapter");
    std::fs::create_dir(&adapter).unwrap();
    std::fs::write(adapter.join("expert.json"), "{}").unwrap();
    std::fs::write(adapter.join("adapter_model.safetensors"), "weights").unwrap();
    let (output, document) = world.json("serve adapter --host 0.0.0.0", "");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(document["error"]["code"], "token-missing", "{document}");
    let (output, document) = world.json("serve adapter --port 0", "");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(document["error"]["message"].as_str().unwrap().contains("adapter_config.json"), "{document}");
}
