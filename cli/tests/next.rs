//! What a command says of what to do next.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{World, pid, signal, talk};
use rustix::process::Signal;

#[test]
fn a_training_ends_with_its_report_and_the_next_command() {
    let world = World::shelf(&["a"]);
    let run = world.path("experts/a/weights/smollm2-135m-instruct");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("report.html"), "").unwrap();
    let output = world.expert_cli(&["train", "experts/a"], "final=x").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let talk = talk(&output);
    assert!(talk.contains("report: experts/a/weights/smollm2-135m-instruct/report.html\n"), "{talk}");
    assert!(talk.ends_with("next: expert-cli evaluate experts/a\n"), "{talk}");
    let quiet = world.expert_cli(&["train", "experts/a", "--quiet"], "final=x").output().unwrap();
    assert_eq!(common::talk(&quiet), "");
}

#[test]
fn a_stop_says_how_to_continue() {
    let world = World::shelf(&["a"]);
    let cli = world.expert_cli(&["train", "experts/a"], "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(talk(&output).contains("to continue: expert-cli train experts/a --resume"), "{}", talk(&output));
}

/// Each command of the guide's first page leads to the one after it.
#[test]
fn every_command_says_which_one_follows() {
    let world = World::shelf(&["a"]);
    for (words, acts, next) in [
        (&["validate", "experts/a"][..], "", "next: expert-cli plan experts/a\n"),
        (&["plan", "experts/a"], "", "next: expert-cli train experts/a\n"),
        (&["pretokenize", "experts/a"], "steps=1", "next: expert-cli train experts/a\n"),
        (
            &["evaluate", "experts/a", "--base-only"],
            "steps=1",
            "next: expert-cli generate experts/a --prompt '...'\n",
        ),
    ] {
        let output = world.expert_cli(words, acts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", talk(&output));
        assert!(talk(&output).ends_with(next), "{words:?}: {}", talk(&output));
    }
}

#[test]
fn a_stopped_queue_says_how_to_continue() {
    let world = World::shelf(&["a"]);
    let cli = world.expert_cli(&["train", "--all", "experts"], "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(talk(&output).ends_with("to continue: expert-cli train --all experts\n"), "{}", talk(&output));
}

#[test]
fn an_expert_is_not_taken_for_a_checkpoint() {
    let world = World::shelf(&["a"]);
    let output = world.expert_cli(&["train", "--resume", "experts/a"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("hint: expert-cli train experts/a --resume"), "{}", talk(&output));
}
