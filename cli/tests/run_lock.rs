//! One writer for a run: its folder stays locked as long as the CLI or its worker lives, whatever becomes of the other and of
//! the file `lock`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{World, alive, await_that, pid, signal, talk};
use rustix::process::Signal;

const RUN: &str = "experts/a/weights/smollm2-135m-instruct";

fn refused(world: &World, arguments: &[&str], holder: &str) {
    let output = world.expert_cli(arguments, "die=9").output().unwrap();
    let said = talk(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains(&format!("is in use by {holder}")), "{said}");
}

#[test]
fn a_worker_that_outlives_its_cli_keeps_the_run() {
    let world = World::new();
    let mut cli = world.work("outlive,hang").spawn().unwrap();
    let worker = world.worker();
    cli.kill().unwrap();
    cli.wait().unwrap();
    let holder = format!("process {worker}, a worker whose expert-cli has ended\n  hint: ");
    refused(&world, &["work", "plan.json"], &holder);
    std::fs::remove_file(world.path("out/lock")).unwrap();
    refused(&world, &["work", "plan.json"], &holder);
    let (_, runs) = world.json("runs out", "");
    assert_eq!(runs["runs"][0]["state"], "running", "{runs}");
    assert!(alive(worker));
    signal(worker, Signal::KILL);
    await_that(|| !alive(worker));
    assert_eq!(world.work("steps=1").output().unwrap().status.code(), Some(0));
}

#[test]
fn a_deleted_lock_lets_nobody_in() {
    let world = World::new();
    let mut cli = world.work("hang").spawn().unwrap();
    let worker = world.worker();
    std::fs::remove_file(world.path("out/lock")).unwrap();
    refused(&world, &["work", "plan.json"], &format!("process {}\n", pid(&cli)));
    assert!(alive(worker));
    cli.kill().unwrap();
    cli.wait().unwrap();
}

#[test]
fn a_forked_worker_keeps_its_run_and_no_other() {
    let world = World::shelf(&["a", "b"]);
    let all = ["train", "--all", "--device", "cpu", "--no-evaluate", "--jobs", "1"];
    let mut cli = world.expert_cli(&all, "only=a,outlive,hang,all,final=w").spawn().unwrap();
    let worker = world.worker();
    assert!(std::fs::read_to_string(format!("/proc/{worker}/cmdline")).unwrap().contains("warm"));
    cli.kill().unwrap();
    cli.wait().unwrap();
    let alone = |expert| ["train", expert, "--device", "cpu", "--resume"];
    refused(&world, &alone("experts/a"), &format!("process {worker}, a worker whose expert-cli has ended"));
    std::fs::remove_file(world.path(RUN).join("lock")).unwrap();
    refused(&world, &alone("experts/a"), &format!("process {worker}, a worker whose expert-cli has ended"));
    let other = world.expert_cli(&alone("experts/b"), "final=w").output().unwrap();
    assert_eq!(other.status.code(), Some(0), "{}", talk(&other));
    signal(worker, Signal::KILL);
}

#[test]
fn what_a_worker_leaves_running_does_not_keep_the_run() {
    let world = World::new();
    let output = world.work("outlive,daemon").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let daemon = world.pid_in("pid.child");
    assert!(alive(daemon));
    let output = world.work("steps=1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    signal(daemon, Signal::KILL);
}
