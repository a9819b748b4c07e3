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
    let report = run.join("report.html").canonicalize().unwrap();
    let talk = talk(&output);
    assert!(talk.contains(&format!("report: {}", report.display())), "{talk}");
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

#[test]
fn an_expert_is_not_taken_for_a_checkpoint() {
    let world = World::shelf(&["a"]);
    let output = world.expert_cli(&["train", "--resume", "experts/a"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("hint: expert-cli train experts/a --resume"), "{}", talk(&output));
}
