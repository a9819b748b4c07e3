//! The commands that look at a shelf of experts: runs, datasets, clean, report.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{World, talk};
use serde_json::{Value, json};

const RUN: &str = "experts/a/weights/smollm2-135m-instruct";
const CACHES: &str = "experts/a/datasets_optimized/a/tokenized";

fn shelf() -> World {
    let world = World::new();
    std::fs::create_dir(world.path("experts")).unwrap();
    for expert in ["a", "b"] {
        assert!(world.expert_cli(&["init", expert], "").output().unwrap().status.success());
    }
    world
}

fn document(world: &World, arguments: &[&str]) -> Value {
    let output = world.expert_cli(arguments, "").arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", talk(&output)))
}

fn train(world: &World, acts: &str) {
    world.expert_cli(&["train", "-m", "experts/a", "--device", "cpu", "--resume"], acts).output().unwrap();
}

fn write(world: &World, name: &str, text: &str) {
    let path = world.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn runs_are_listed_with_their_state() {
    let world = shelf();
    assert_eq!(document(&world, &["runs"])["runs"], json!([]));
    train(&world, "steps=3,missing");
    let run = &document(&world, &["runs"])["runs"][0];
    assert_eq!((&run["expert"], &run["state"], &run["steps"]), (&"a".into(), &"ended".into(), &3.into()));
    write(&world, &format!("{RUN}/checkpoint-2/state.json"), "{}");
    assert_eq!(document(&world, &["runs", "experts/a"])["runs"][0]["state"], "resumable");

    let mut cli = world
        .expert_cli(&["train", "-m", "experts/a", "--device", "cpu", "--resume"], "steps=4,hang")
        .spawn()
        .unwrap();
    common::await_that(|| document(&world, &["runs"])["runs"][0]["state"] == "running");
    cli.kill().unwrap();
    cli.wait().unwrap();

    train(&world, "final");
    let run = &document(&world, &["runs"])["runs"][0];
    assert_eq!(
        (&run["state"], &run["steps"], &run["eval_loss"]),
        (&"finished".into(), &7.into(), &0.5.into())
    );
}

#[test]
fn datasets_are_listed_here_or_absent() {
    let world = shelf();
    std::fs::remove_file(world.path("experts/b/datasets/test.jsonl")).unwrap();
    let found = document(&world, &["datasets"]);
    let row = |index: usize| found["datasets"][index].clone();
    assert_eq!(found["datasets"].as_array().unwrap().len(), 6);
    assert_eq!(
        (&row(0)["expert"], &row(0)["split"], &row(0)["rows"]),
        (&"a".into(), &"train".into(), &320.into())
    );
    assert_eq!((&row(2)["here"], &row(5)["here"]), (&true.into(), &false.into()));
    let output = world.expert_cli(&["datasets"], "").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("datasets/test.jsonl (absent)"));
}

#[test]
fn clean_takes_only_caches_that_no_run_refers_to() {
    let world = shelf();
    let keys = ["1", "2", "3"].map(|digit| digit.repeat(32));
    for key in &keys {
        write(&world, &format!("{CACHES}/{key}/cache.json"), "{}");
        write(&world, &format!("{CACHES}/{key}/train/data.arrow"), "0123456789");
    }
    write(&world, &format!("{CACHES}/mine/data.jsonl"), "{}");
    write(&world, &format!("{CACHES}/{}/data.jsonl", "4".repeat(32)), "{}");
    write(&world, &format!("{RUN}/plan.json"), "{}");
    write(&world, &format!("{RUN}/run.json"), &json!({"cache_key": keys[0]}).to_string());
    write(
        &world,
        &format!("{RUN}/checkpoint-3/state.json"),
        &json!({"facts": {"cache_key": keys[1]}}).to_string(),
    );

    let planned = document(&world, &["clean", "--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["bytes"]), (&true.into(), &12.into()));
    assert!(world.path(&format!("{CACHES}/{}", keys[2])).exists());
    let removed = document(&world, &["clean"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1);
    let mut left: Vec<_> = names(&world.path(CACHES));
    left.sort();
    assert_eq!(left, [keys[0].clone(), keys[1].clone(), "4".repeat(32), "mine".to_owned()]);
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_report_of_nothing_is_refused_in_the_workers_words() {
    let world = shelf();
    let found = document(&world, &["report", "nowhere"]);
    assert_eq!(found["ok"], false);
    assert!(found["error"]["message"].as_str().unwrap().contains("nowhere"), "{found}");
    assert!(!found["error"]["message"].as_str().unwrap().contains("Traceback"));
}
