//! `route`: which expert a prompt is for, learnt once, and what is left out.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::{World, talk};
use serde_json::{Value, json};

const OWN: &str = "Lunch with Ada on Monday, 12:15 please.";
const FOREIGN: &str = "What is the capital of Norway?";

fn world() -> World {
    let world = World::shelf(&["appointments", "films"]);
    let rows: String = (0..60)
        .map(|year| {
            let prompt =
                format!("CREATE TABLE films (id INT, year INT); Count the films after {}.", 1900 + year);
            json!({"prompt": prompt, "completion": format!("SELECT COUNT(*) FROM films WHERE year > {year}")})
                .to_string()
                + "\n"
        })
        .collect();
    for split in ["train", "validation", "test"] {
        std::fs::write(world.path(&format!("experts/films/datasets/{split}.jsonl")), &rows).unwrap();
    }
    world
}

#[test]
fn a_prompt_goes_to_its_expert_and_the_router_is_learnt_once() {
    let world = world();
    let first = world.expert_cli(&["route", OWN], "").output().unwrap();
    assert!(String::from_utf8_lossy(&first.stdout).starts_with("appointments "), "{}", talk(&first));
    assert!(
        talk(&first).contains("learning the router from the training rows of 2 experts"),
        "{}",
        talk(&first)
    );
    assert!(talk(&first).contains("appointments 100.0%"), "{}", talk(&first));

    let mut child =
        world.expert_cli(&["route", "-", "experts", "--json"], "").stdin(Stdio::piped()).spawn().unwrap();
    let lines = format!("{FOREIGN}\n\nCREATE TABLE cars (id INT); Count the cars.\n");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let second = child.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&second.stdout).unwrap();
    let chosen: Vec<_> = found["routes"].as_array().unwrap().iter().map(|it| &it["expert"]).collect();
    assert_eq!(found["routes"][1]["prompt"], "CREATE TABLE cars (id INT); Count the cars.");
    assert_eq!((chosen, &found["learnt"]), (vec![&Value::Null, &json!("films")], &json!(false)));
    assert!(!talk(&second).contains("learning"), "{}", talk(&second));

    let mut child = world.expert_cli(&["route", "-", "experts"], "").stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ncaf\xe9\n").unwrap();
    let refused = child.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", talk(&refused));
    assert!(talk(&refused).contains("line 2 of standard input is not UTF-8"), "{}", talk(&refused));
}

#[test]
fn changed_rows_and_keywords_are_learnt_again() {
    let world = world();
    let learnt = || world.json("route hello", "").1["learnt"].clone();
    assert_eq!((learnt(), learnt()), (json!(true), json!(false)));
    let rows = world.path("experts/films/datasets/train.jsonl");
    let text = std::fs::read_to_string(&rows).unwrap();
    std::fs::write(&rows, text.replace("Count the films", "How many films are there")).unwrap();
    assert_eq!((learnt(), learnt()), (json!(true), json!(false)));
    let manifest = world.path("experts/films/manifest.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    document["routing"] = json!({"keywords": ["cinema"]});
    std::fs::write(&manifest, document.to_string()).unwrap();
    assert_eq!((learnt(), learnt()), (json!(true), json!(false)));
}

#[test]
fn experts_without_data_are_left_out_and_none_at_all_is_an_error() {
    let world = world();
    std::fs::remove_file(world.path("experts/films/datasets/train.jsonl")).unwrap();
    let output = world.expert_cli(&["route", OWN], "").output().unwrap();
    assert!(talk(&output).contains("films is left out"), "{}", talk(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("appointments "), "{}", talk(&output));
    std::fs::remove_dir_all(world.path("experts/appointments/datasets")).unwrap();
    let output = world.expert_cli(&["route", OWN], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("has no expert to choose from"), "{}", talk(&output));
}

#[test]
fn experts_of_one_name_are_named_with_their_folders() {
    let world = world();
    let manifest = world.path("experts/films/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"films\"", "\"appointments\"")).unwrap();
    let said = "two experts are named appointments: experts/appointments and experts/films";
    let (output, document) = world.json("route hello", "");
    assert_eq!((output.status.code(), &document["error"]["message"]), (Some(2), &json!(said)));

    let run = world.path("experts/films/weights/base");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("events.jsonl"), "").unwrap();
    let output = world.expert_cli(&["report", "--all", "experts"], "").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    assert!(talk(&output).contains(&format!("left out: the router: {said}")), "{}", talk(&output));
}

#[test]
fn experts_with_data_elsewhere_are_chosen_where_it_is_allowed() {
    let world = world();
    let rows = world.path("experts/films/datasets/train.jsonl");
    std::fs::create_dir(world.path("shared")).unwrap();
    std::fs::rename(&rows, world.path("shared/films.jsonl")).unwrap();
    std::os::unix::fs::symlink(world.path("shared/films.jsonl"), &rows).unwrap();
    let output = world.expert_cli(&["route", OWN], "").output().unwrap();
    assert!(talk(&output).contains("films is left out of the router"), "{}", talk(&output));
    assert!(talk(&output).contains("allow its folder with --allow-path"), "{}", talk(&output));
    let words = ["route", "CREATE TABLE films (id INT); Count the films.", "--allow-path", "shared"];
    let output = world.expert_cli(&words, "").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("films "), "{}", talk(&output));
    assert!(!talk(&output).contains("left out"), "{}", talk(&output));
}

#[test]
fn the_index_of_a_shelf_shows_its_router() {
    let world = world();
    let run = world.path("experts/films/weights/base");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("events.jsonl"), "").unwrap();
    let output = world.expert_cli(&["report", "--all", "experts"], "").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    let page = std::fs::read_to_string(world.path("experts/report.html")).unwrap();
    assert!(page.contains("<h2>Router</h2>") && page.contains("appointments"), "{page}");
}

/// A finished run whose adapter cannot be read: the server itself fails.
fn finish(run: &Path, name: &str) {
    std::fs::create_dir_all(run.join("final")).unwrap();
    std::fs::write(run.join("final/expert.json"), json!({"name": name}).to_string()).unwrap();
    std::fs::write(run.join("final/adapter_model.safetensors"), "").unwrap();
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let files = json!({"adapter_model.safetensors": {"sha256": empty, "bytes": 0}});
    std::fs::write(run.join("plan.json"), "{}").unwrap();
    std::fs::write(run.join("run.json"), json!({"recipe_digest": "d", "final": files}).to_string()).unwrap();
}

#[test]
fn serve_passes_on_the_served_experts_whose_rows_are_here() {
    let world = world();
    finish(&world.path("experts/films/weights/tiny"), "films");
    let copied = world.path("experts/copied/final");
    std::fs::create_dir_all(&copied).unwrap();
    std::fs::write(copied.join("expert.json"), json!({"name": "copied"}).to_string()).unwrap();
    let output = world.expert_cli(&["serve", "experts", "--port", "0"], "").output().unwrap();
    assert!(!output.status.success());
    let written = std::fs::read_dir(world.path("home/routers")).map(|entries| {
        let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        std::fs::read(&paths[0]).unwrap()
    });
    let shelf: Value =
        serde_json::from_slice(&written.unwrap_or_else(|_| panic!("{}", talk(&output)))).unwrap();
    let names: Vec<_> = shelf["experts"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("films")]);
    let said = talk(&output);
    assert!(said.contains("copied is left out of the router: its training rows are not here"), "{said}");
    assert!(!said.contains("no model `auto`"), "{said}");
}

#[test]
fn serve_names_each_expert_that_auto_cannot_choose_with_the_reason() {
    let world = world();
    for name in ["films", "appointments"] {
        finish(&world.path(&format!("experts/{name}/weights/tiny")), name);
    }
    std::fs::remove_file(world.path("experts/films/datasets/train.jsonl")).unwrap();
    std::fs::write(world.path("experts/appointments/manifest.json"), "{}").unwrap();
    let output = world.expert_cli(&["serve", "experts", "--port", "0"], "").output().unwrap();
    let said = talk(&output);
    for reason in [
        "films is left out of the router: its training data datasets/train.jsonl is not here",
        "appointments is left out of the router: its manifest has errors",
        "there is no model `auto`: the router has no expert to choose from",
    ] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    assert!(!world.path("home/routers").exists());
}
