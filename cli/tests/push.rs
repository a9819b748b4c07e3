//! `export --push` up to the upload, which is tested beside the worker.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;
#[path = "common/packages.rs"]
mod packages;

use common::World;
use packages::{RUN, document, refused, run, talk, trained};
use serde_json::json;

const PUSH: [&str; 5] = ["export", "experts/a", "--adapter", "--push", "me/a"];

/// With an export of the run's adapter in its usual folder.
fn exported() -> World {
    let world = trained();
    let target = world.path(RUN).join("export/adapter");
    std::fs::create_dir_all(&target).unwrap();
    for name in ["README.md", "adapter_config.json", "adapter_model.safetensors", "expert.json"] {
        std::fs::copy(world.path(RUN).join("final").join(name), target.join(name)).unwrap();
    }
    world
}

#[test]
fn a_dry_run_lists_the_files_of_the_export_and_uploads_nothing() {
    let world = exported();
    let shown = document(&world, &[&PUSH[..], &["--dry-run"]].concat());
    let push = &shown["push"];
    assert_eq!((&push["repository"], &push["url"]), (&json!("me/a"), &json!(null)));
    let files = push["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["README.md", "adapter_config.json", "adapter_model.safetensors", "expert.json"]);
    let output = run(&world, &[&PUSH[..], &["--dry-run"]].concat());
    assert!(talk(&output).contains("nothing was uploaded"), "{}", talk(&output));
    assert!(talk(&output).contains("is the export of this run already"), "{}", talk(&output));
    let again = "next: expert-cli export experts/a --adapter --push me/a\n";
    assert!(talk(&output).contains(again), "{}", talk(&output));
}

#[test]
fn without_a_token_the_message_says_how_to_get_one() {
    let world = exported();
    let mut command = world.expert_cli(&PUSH, "");
    let output = command.env("HF_HOME", world.path("hub")).env_remove("HF_TOKEN").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    assert!(talk(&output).contains("hf auth login"), "{}", talk(&output));
}

/// The export of another run, or of another kind, is not uploaded in place of the one that was asked for.
#[test]
fn only_the_export_of_this_run_is_taken() {
    let world = exported();
    let target = world.path(RUN).join("export/adapter");
    let to = target.to_str().unwrap();
    let merged = ["export", "experts/a", "--merge", "--to", to, "--push", "me/a", "--dry-run"];
    let said = |words: &[&str]| talk(&world.expert_cli(words, "steps=1").output().unwrap());
    let already = "is the export of this run already";
    assert!(!said(&merged).contains(already));
    let listed = [&PUSH[..], &["--dry-run"]].concat();
    assert!(said(&listed).contains(already));
    // Scored since then, so the model card is another one.
    packages::edit(&world.path(RUN).join("final/expert.json"), |record| record["score"] = json!({"rows": 3}));
    assert!(!said(&listed).contains(already));
    packages::edit(&target.join("expert.json"), |record| record["score"] = json!({"rows": 3}));
    assert!(said(&listed).contains(already));
    packages::edit(&target.join("expert.json"), |record| record["recipe_digest"] = json!("1"));
    assert!(!said(&listed).contains(already));
}

#[test]
fn gguf_files_are_taken_as_they_are_too() {
    let world = exported();
    let target = world.path(RUN).join("export/gguf");
    std::fs::create_dir_all(&target).unwrap();
    std::fs::copy(world.path(RUN).join("final/expert.json"), target.join("expert.json")).unwrap();
    for name in ["Modelfile", "base.gguf", "a.gguf"] {
        std::fs::write(target.join(name), name).unwrap();
    }
    let words = ["export", "experts/a", "--gguf", "--push", "me/a", "--dry-run"];
    let said = |words: &[&str]| talk(&world.expert_cli(words, "steps=1").output().unwrap());
    let shown = said(&words);
    assert!(shown.contains("is the export of this run already") && shown.contains("base.gguf"), "{shown}");
    let merged = [&words[..], &["--merge", "--to", target.to_str().unwrap()]].concat();
    assert!(!said(&merged).contains("is the export of this run already"));
}

#[test]
fn names_and_options_are_checked_first() {
    let world = exported();
    for name in ["expert", "../x", "a/b/c", "https://huggingface.co/a/b"] {
        let (code, message) = refused(&world, &["export", "experts/a", "--adapter", "--push", name]);
        assert_eq!(code, "bad-usage", "{message}");
    }
    for option in ["--dry-run", "--private"] {
        let (code, message) = refused(&world, &["export", "experts/a", "--adapter", option]);
        assert_eq!(code, "bad-usage", "{message}");
    }
}
