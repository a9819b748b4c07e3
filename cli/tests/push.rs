//! `export --push` up to the upload, which is tested beside the worker.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;
#[path = "common/packages.rs"]
mod packages;

use std::path::{Path, PathBuf};

use common::World;
use packages::{RUN, refused, run, talk, trained};
use serde_json::{Map, Value, json};

const PUSH: [&str; 5] = ["export", "experts/a", "--adapter", "--push", "me/a"];

/// With an export of the run's adapter in its usual folder.
fn exported() -> World {
    let world = trained();
    export_to(
        &world,
        "export/adapter",
        &["README.md", "adapter_config.json", "adapter_model.safetensors"],
        &[],
    );
    world
}

/// An export as the worker leaves it: copies of files in `final/`, files that only it has, and what they are.
fn export_to(world: &World, folder: &str, copied: &[&str], written: &[&str]) -> PathBuf {
    let (adapter, target) = (world.path(RUN).join("final"), world.path(RUN).join(folder));
    std::fs::create_dir_all(&target).unwrap();
    for name in copied.iter().chain(&["expert.json"]) {
        std::fs::copy(adapter.join(name), target.join(name)).unwrap();
    }
    for name in written {
        std::fs::write(target.join(name), name).unwrap();
    }
    let digest = |path: &Path| {
        let content = std::fs::read(path).unwrap();
        json!({"sha256": packages::sha256(&content), "bytes": content.len()})
    };
    let weights = digest(&adapter.join("adapter_model.safetensors"));
    let listed = copied.iter().chain(written).filter(|name| **name != "README.md");
    let files: Map<String, Value> =
        listed.map(|name| ((*name).to_owned(), digest(&target.join(name)))).collect();
    packages::edit(&target.join("expert.json"), |record| {
        record["files"] = json!(files);
        record["exported_from"] = weights;
    });
    target
}

#[test]
fn a_dry_run_lists_the_files_of_the_export_and_uploads_nothing() {
    let world = exported();
    let listed = |more: &[&str]| {
        let words = [&PUSH[..], &["--dry-run"], more].concat();
        let mut command = world.expert_cli(&words, "");
        command.env("HF_HOME", world.path("hub")).env_remove("HF_TOKEN").output().unwrap()
    };
    let shown: Value = serde_json::from_slice(&listed(&["--json"]).stdout).unwrap();
    let push = &shown["push"];
    assert_eq!((&push["repository"], &push["url"]), (&json!("me/a"), &json!(null)));
    assert_eq!(push["deleted"], json!(null), "without a token nobody is asked");
    let files = push["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["README.md", "adapter_config.json", "adapter_model.safetensors", "expert.json"]);
    let output = listed(&[]);
    assert!(talk(&output).contains("nothing was uploaded"), "{}", talk(&output));
    assert!(
        talk(&output).contains("which of its files the upload deletes is not known"),
        "{}",
        talk(&output)
    );
    assert!(talk(&output).contains("is the export of this adapter already"), "{}", talk(&output));
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
    let already = "is the export of this adapter already";
    assert!(!said(&merged).contains(already));
    let listed = [&PUSH[..], &["--dry-run"]].concat();
    assert!(said(&listed).contains(already));
    let why = |listed: &[&str]| refused(&world, listed);
    // Scored since then, so the model card is another one.
    packages::edit(&world.path(RUN).join("final/expert.json"), |record| record["score"] = json!({"rows": 3}));
    let (code, message) = why(&listed);
    assert_eq!(code, "target-in-use");
    assert!(message.contains("expert.json of the adapter has changed since"), "{message}");
    packages::edit(&target.join("expert.json"), |record| record["score"] = json!({"rows": 3}));
    assert!(said(&listed).contains(already));
    for (key, value) in [("recipe_digest", json!("1")), ("data", json!({"rows.jsonl": null}))] {
        let before = std::fs::read(target.join("expert.json")).unwrap();
        packages::edit(&target.join("expert.json"), |record| record[key] = value);
        assert!(why(&listed).1.contains("expert.json of the adapter has changed since"));
        std::fs::write(target.join("expert.json"), before).unwrap();
    }
}

/// `train --fresh` on other rows under the same names: no digest of the recipe differs.
#[test]
fn the_export_of_an_older_training_is_refused() {
    let world = exported();
    let merged = export_to(&world, "export/merged", &[], &["config.json", "model.safetensors"]);
    let weights = packages::safetensors([9.0, 9.0, 9.0, 9.0]);
    std::fs::write(world.path(RUN).join("final/adapter_model.safetensors"), &weights).unwrap();
    packages::edit(&world.path(RUN).join("run.json"), |record| {
        record["final"]["adapter_model.safetensors"]["sha256"] = json!(packages::sha256(&weights));
    });
    for kind in ["--adapter", "--merge"] {
        let words = ["export", "experts/a", kind, "--push", "me/a", "--dry-run"];
        let (code, message) = refused(&world, &words);
        assert_eq!(code, "target-in-use");
        assert!(message.contains("it was made of other weights"), "{message}");
    }
    assert!(merged.is_dir());
}

/// The upload that failed, or that `--dry-run` listed, is repeated with the same words.
#[test]
fn the_export_of_a_named_adapter_is_uploaded_as_it_is_too() {
    let world = exported();
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    for file in std::fs::read_dir(world.path(RUN).join("final")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
    }
    let target = world.path(RUN).join("export/adapter");
    let words = [&PUSH[..], &["--from", "other", "--to", target.to_str().unwrap(), "--dry-run"]].concat();
    let said = talk(&run(&world, &words));
    assert!(said.contains("is the export of this adapter already"), "{said}");
    assert!(said.contains("next: expert-cli export experts/a --adapter --from other --to "), "{said}");
    std::fs::write(other.join("adapter_model.safetensors"), packages::safetensors([9.0; 4])).unwrap();
    let (code, message) = refused(&world, &words);
    assert_eq!(code, "target-in-use");
    assert!(message.contains("it was made of other weights"), "{message}");
}

/// Known before the worker starts, and before an export of it is compared with it.
#[test]
fn an_adapter_that_is_damaged_is_not_exported() {
    let world = exported();
    let weights = packages::safetensors([9.0; 4]);
    std::fs::write(world.path(RUN).join("final/adapter_model.safetensors"), weights).unwrap();
    let from = format!("{RUN}/final");
    for words in [&PUSH[..], &PUSH[..3], &["export", "experts/a", "--merge", "--from", &from, "--to", "out"]]
    {
        let (code, message) = refused(&world, words);
        assert_eq!(code, "damaged-run");
        assert!(message.contains("final/adapter_model.safetensors is damaged"), "{message}");
    }
}

/// As versions before `exported_from` wrote it.
#[test]
fn an_export_that_does_not_say_of_which_weights_it_was_made_is_refused() {
    let world = exported();
    let record = world.path(RUN).join("export/adapter/expert.json");
    packages::edit(&record, |record| drop(record.as_object_mut().unwrap().remove("exported_from")));
    let (code, message) = refused(&world, &[&PUSH[..], &["--dry-run"]].concat());
    assert_eq!(code, "target-in-use");
    assert!(message.contains("does not say of which weights it was made"), "{message}");
    assert!(!message.contains("other weights"), "{message}");
}

#[test]
fn an_export_that_is_damaged_is_refused() {
    let world = exported();
    let merged =
        export_to(&world, "export/merged", &["chat_template.jinja"], &["config.json", "model.safetensors"]);
    let words = ["export", "experts/a", "--merge", "--push", "me/a", "--dry-run"];
    assert!(talk(&run(&world, &words)).contains("is the export of this adapter already"));
    std::fs::write(merged.join("model.safetensors"), "half").unwrap();
    assert!(refused(&world, &words).1.contains("model.safetensors is damaged"));
    std::fs::write(merged.join("chat_template.jinja"), "{{ other }}").unwrap();
    assert!(refused(&world, &words).1.contains("chat_template.jinja is not that of the adapter"));
}

#[test]
fn gguf_files_are_taken_as_they_are_too() {
    let world = exported();
    let target = export_to(&world, "export/gguf", &[], &["Modelfile", "base.gguf", "a.gguf"]);
    let words = ["export", "experts/a", "--gguf", "--push", "me/a", "--dry-run"];
    let said = |words: &[&str]| talk(&world.expert_cli(words, "steps=1").output().unwrap());
    let shown = said(&words);
    assert!(
        shown.contains("is the export of this adapter already") && shown.contains("base.gguf"),
        "{shown}"
    );
    let merged = [&words[..], &["--merge", "--to", target.to_str().unwrap()]].concat();
    assert!(!said(&merged).contains("is the export of this adapter already"));
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
