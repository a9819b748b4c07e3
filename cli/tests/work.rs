//! `work PLAN` takes up a run by the same rules as `train`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{BASE, World, talk};
use serde_json::Value;

/// A worker that must not be started.
const NOBODY: &str = "die=9";
const RUN: &str = "experts/a/weights/smollm2-135m-instruct";

/// With a plan of `train --dry-run`.
fn planned() -> World {
    let world = World::shelf(&["a"]);
    let (output, document) = world.json("train -m experts/a --device cpu --dry-run", NOBODY);
    assert!(document["plan"]["inputs"]["base"].is_string(), "{document} {}", talk(&output));
    write(&world, &document["plan"]);
    world
}

fn write(world: &World, plan: &Value) {
    std::fs::write(world.path("plan.json"), plan.to_string()).unwrap();
}

fn change(world: &World, edit: impl Fn(&mut Value)) {
    let mut plan = serde_json::from_slice(&std::fs::read(world.path("plan.json")).unwrap()).unwrap();
    edit(&mut plan);
    write(world, &plan);
}

fn refused(world: &World, code: &str) -> String {
    let events = || std::fs::read(world.path(RUN).join("events.jsonl")).unwrap_or_default();
    let before = events();
    let (output, document) = world.json("work plan.json", NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &code.into()), "{document}");
    assert_eq!(before, events(), "a refused command writes nothing");
    document["error"]["message"].as_str().unwrap().to_owned()
}

fn changed_data(world: &World) {
    let file = world.path("experts/a/datasets/train.jsonl");
    let rows = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, rows.replace("Monday", "Sunday")).unwrap();
}

fn resumes(plan: &mut Value) {
    plan["request"]["resume"]["from"] = "newest".into();
}

#[test]
fn what_dry_run_prints_is_a_plan_as_it_is() {
    let world = World::shelf(&["a"]);
    let (_, document) = world.json("train -m experts/a --device cpu --dry-run", NOBODY);
    assert!(document["plan"].is_object());
    write(&world, &document);
    changed_data(&world);
    let message = refused(&world, "inputs-changed");
    assert!(message.contains("\n  datasets/train.jsonl: "), "{message}");
}

#[test]
fn data_or_a_base_that_changed_since_the_plan_was_written_is_refused() {
    let world = planned();
    changed_data(&world);
    let message = refused(&world, "inputs-changed");
    assert!(message.contains("\n  datasets/train.jsonl: "), "{message}");

    let world = planned();
    std::fs::write(world.path(BASE).join("model.safetensors"), "{ }").unwrap();
    assert!(refused(&world, "inputs-changed").contains("\n  base: "));
}

#[test]
fn a_run_is_resumed_only_with_the_inputs_that_it_started_with() {
    let world = planned();
    assert_eq!(world.json("work plan.json", "steps=2,checkpoint=2,missing").0.status.code(), Some(3));
    changed_data(&world);
    // The plan does not say what it was written for, and the run does.
    change(&world, |plan| plan["inputs"] = Value::Null);
    change(&world, resumes);
    let message = refused(&world, "inputs-changed");
    assert!(message.contains("started:\n  datasets/train.jsonl: "), "{message}");
}

#[test]
fn a_run_is_never_begun_over_another_one() {
    let world = planned();
    assert_eq!(world.json("work plan.json", "steps=2,checkpoint=2,missing").0.status.code(), Some(3));
    refused(&world, "output-used");
    change(&world, resumes);
    let (output, result) = world.json("work plan.json", "steps=3,final=w");
    assert_eq!(result["request"]["resume"]["from"], "newest", "{}", talk(&output));
    let (output, result) = world.json("work plan.json", NOBODY);
    assert_eq!((output.status.code(), &result["steps"]), (Some(0), &7.into()), "{}", talk(&output));
    assert!(talk(&output).contains("this recipe is finished in"), "{}", talk(&output));
}

#[test]
fn the_run_record_has_current_values_and_other_code_is_reported() {
    let world = planned();
    change(&world, |plan| plan["inputs"]["code"]["worker"] = "0".repeat(64).into());
    let (output, _) = world.json("work plan.json", "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(
        talk(&output).contains("another version of the program:\n  worker: 000000000000 -> "),
        "{}",
        talk(&output)
    );
    let record: Value =
        serde_json::from_slice(&std::fs::read(world.path(RUN).join("run.json")).unwrap()).unwrap();
    assert_ne!(record["inputs"]["code"]["worker"], "0".repeat(64));
}

#[test]
fn a_plan_from_a_machine_without_the_base_runs_here() {
    let world = planned();
    change(&world, |plan| plan["inputs"]["base"] = Value::Null);
    let (output, _) = world.json("work plan.json", "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn an_edited_recipe_is_not_taken_for_the_planned_one() {
    let world = planned();
    change(&world, |plan| plan["recipe"]["optimizer"]["learning_rate"] = 0.5.into());
    assert!(refused(&world, "bad-plan").contains("was edited"));
}
