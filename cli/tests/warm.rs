//! Workers forked from one warm parent: they live, die and are stopped like those that were started by themselves.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{BETWEEN_TWO, World, alive, await_some, await_that, pid, signal, talk};
use rustix::process::Signal;
use serde_json::Value;

const ALL: [&str; 7] = ["train", "--all", "--device", "cpu", "--no-evaluate", "--json", "--jobs"];

fn train(world: &World, jobs: &str, acts: &str) -> std::process::Command {
    let words: Vec<&str> = ALL.into_iter().chain([jobs]).collect();
    world.expert_cli(&words, acts)
}

fn experts(stdout: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(stdout).unwrap();
    document["experts"].as_array().unwrap().clone()
}

/// Processes whose parent is this one, and that have not ended.
fn children(parent: i32) -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |number: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let state = fields.next().unwrap_or("Z");
        state != "Z" && fields.next() == Some(parent.to_string().as_str())
    };
    numbers.filter(is_child).collect()
}

/// The parent of the workers: the one of the CLI's children that is none of them.
fn server(cli: i32, worker: i32) -> i32 {
    await_some(|| children(cli).into_iter().find(|child| *child != worker))
}

#[test]
fn each_worker_is_forked_and_reports_as_ever() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let output = train(&world, "2", "stray-print,steps=2,final=w").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let found = experts(&output.stdout);
    assert!(found.iter().all(|one| one["result"]["forked"] == true), "{found:?}");
    let run = "experts/b/weights/smollm2-135m-instruct";
    assert!(
        std::fs::read_to_string(world.path(&format!("{run}/worker.log")))
            .unwrap()
            .contains("a library talks")
    );
    let events = std::fs::read_to_string(world.path(&format!("{run}/events.jsonl"))).unwrap();
    assert!(events.contains("\"type\":\"started\"") && events.contains("\"type\":\"finished\""));
}

#[test]
fn one_expert_or_separate_workers_need_no_parent() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let alone = train(&world, "1", "final=w").args(["--only", "a"]).output().unwrap();
    assert_eq!(experts(&alone.stdout)[0]["result"]["forked"], false);
    let separate = train(&world, "1", "final=w").args(["--fresh", "--separate"]).output().unwrap();
    let found = experts(&separate.stdout);
    assert!(found.iter().all(|one| one["result"]["forked"] == false), "{found:?}");
}

#[test]
fn a_crash_of_one_leaves_the_others() {
    for (act, code) in
        [("crash=11", "worker-crashed"), ("crash=9", "worker-killed"), ("crash=0", "worker-ended")]
    {
        let world = World::shelf_without_pages(&["a", "b", "c"]);
        let output = train(&world, "1", &format!("only=b,{act},all,final=w")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        let found = experts(&output.stdout);
        assert_eq!(found[1]["error"]["code"], code, "{found:?}");
        assert!(found[0]["result"]["forked"] == true && found[2]["result"]["forked"] == true, "{found:?}");
    }
}

#[test]
fn an_interrupt_saves_all_that_run() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let cli = train(&world, "2", "obey").spawn().unwrap();
    await_that(|| children(pid(&cli)).len() == 3 && world.path("pid").exists());
    // Both are in their stage once their records have begun.
    for expert in ["a", "b"] {
        let record = format!("experts/{expert}/weights/smollm2-135m-instruct/events.jsonl");
        await_that(|| {
            std::fs::read_to_string(world.path(&record)).is_ok_and(|text| text.contains("started"))
        });
    }
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    let found = experts(&output.stdout);
    for one in &found[..2] {
        assert_eq!(one["exit"], 130, "{one}");
        assert_eq!(one["error"]["message"], "saved checkpoint-3");
    }
    assert_eq!(found[2]["skipped"], true);
}

#[test]
fn killing_the_cli_ends_parent_and_workers() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let mut cli = train(&world, "1", "ignore-signals,hang").spawn().unwrap();
    let worker = world.worker();
    let server = server(pid(&cli), worker);
    cli.kill().unwrap();
    cli.wait().unwrap();
    await_that(|| !alive(worker) && !alive(server));
}

#[test]
fn a_second_interrupt_ends_everything_at_once() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let mut cli = train(&world, "1", "ignore-signals,hang").spawn().unwrap();
    let worker = world.worker();
    let server = server(pid(&cli), worker);
    signal(pid(&cli), Signal::INT);
    std::thread::sleep(BETWEEN_TWO);
    signal(pid(&cli), Signal::INT);
    assert_eq!(cli.wait().unwrap().code(), Some(130));
    await_that(|| !alive(worker) && !alive(server));
}

#[test]
fn without_its_parent_a_worker_continues_and_the_next_starts_by_itself() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let gate = world.path("gate");
    let acts = format!("await={},final=w", gate.display());
    let cli = train(&world, "1", &acts).spawn().unwrap();
    let worker = world.worker();
    signal(server(pid(&cli), worker), Signal::KILL);
    std::fs::write(gate, "").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let forked: Vec<_> = experts(&output.stdout).iter().map(|one| one["result"]["forked"].clone()).collect();
    assert_eq!(forked, [true, false, false]);
}

#[test]
fn a_stuck_worker_is_ended_by_the_stall_timeout() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let output = train(&world, "1", "only=a,quiet-stage=0.1,hang,all,final=w")
        .args(["--stall-timeout", "1"])
        .output()
        .unwrap();
    let found = experts(&output.stdout);
    assert_eq!(found[0]["error"]["code"], "stalled", "{found:?}");
    assert_eq!(found[1]["ok"], true, "{found:?}");
}
