//! What a command says of what to do next.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{World, await_that, pid, signal, talk};
use rustix::process::Signal;
use serde_json::{Value, json};

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
    let settings = ["--max-steps", "9", "--set", "training.config.seed=7"];
    let command = [&["train", "experts/a", "--fresh"][..], &settings].concat();
    let cli = world.expert_cli(&command, "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let again = format!("to continue: expert-cli train experts/a {} --resume", settings.join(" "));
    assert!(talk(&output).contains(&again), "{}", talk(&output));
}

/// Each command of the guide's first page leads to the one after it.
#[test]
fn every_command_says_which_one_follows() {
    let world = World::shelf(&["a"]);
    for (words, acts, next) in [
        (&["validate", "experts/a"][..], "", "next: expert-cli plan experts/a\n"),
        (&["validate", "experts"], "", "next: expert-cli plan experts/a\n"),
        (&["plan", "experts/a"], "", "next: expert-cli train experts/a\n"),
        (&["pretokenize", "experts/a"], "steps=1", "next: expert-cli train experts/a\n"),
        (&["pretokenize", "--all"], "steps=1", "next: expert-cli train --all experts\n"),
        (&["evaluate", "experts/a", "--base-only"], "steps=1", ASK),
        (&["generate", "experts/a", "--prompt", "x"], "steps=1", "next: expert-cli train experts/a\n"),
    ] {
        let output = world.expert_cli(words, acts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", talk(&output));
        assert!(talk(&output).ends_with(next), "{words:?}: {}", talk(&output));
    }
}

/// With its settings: without them it would train, prepare or score something else.
#[test]
fn the_next_command_has_the_settings_of_this_one() {
    let world = World::shelf(&["a"]);
    let rank = "--set training.config.rank=4";
    let seed = "--set training.config.seed=7";
    let data = "--data experts/a/datasets/train.jsonl";
    let typed = [rank, "--max-steps 7", "--preset cpu", data, "--device cpu", "--max-memory 3GB"].join(" ");
    for (words, starts, ends) in [
        (
            format!("plan experts/a {typed}"),
            "train",
            format!("{data} --preset cpu --max-steps 7 {rank} --device cpu --max-memory 3GB"),
        ),
        (
            format!("pretokenize experts/a {data} {rank} --mixed-precision no"),
            "train",
            format!("{data} {rank} --mixed-precision no"),
        ),
        (format!("train experts/a {rank} --max-steps 7"), "evaluate", rank.to_owned()),
        (
            format!("evaluate experts/a --base-only {rank} {seed} --data experts/a/datasets/test.jsonl"),
            "generate",
            format!("{seed} --prompt '...'"),
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = world.expert_cli(&words, if words[0] == "train" { "final=x" } else { "steps=1" });
        let talk = talk(&command.output().unwrap());
        assert!(
            talk.ends_with(&format!("next: expert-cli {starts} experts/a {ends}\n")),
            "{words:?}: {talk}"
        );
    }
    let prepare = ["plan", "experts/a", "--preset", "cpu", "--max-steps", "7", "--max-seq-length", "64"];
    let output = world.expert_cli(&prepare, "").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let command = shown.split("expert-cli pretokenize ").nth(1).unwrap().split('`').next().unwrap();
    assert!(command.contains("--set training.config.packing=") && !command.contains("steps"), "{command}");
    assert!(command.ends_with("--set training.config.max_seq_length=64"), "{command}");
}

const ASK: &str = "next: expert-cli generate experts/a --prompt '...'\n";

/// Whatever uses a run names its report, and then what the run still lacks.
#[test]
fn every_command_after_a_training_names_the_report_and_the_next_one() {
    let world = World::shelf(&["a", "b"]);
    let run = "experts/a/weights/smollm2-135m-instruct";
    let last_lines = |words: &[&str], acts: &str| {
        let output = world.expert_cli(words, acts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", talk(&output));
        let talk = talk(&output);
        let lines: Vec<&str> = talk.lines().collect();
        lines[lines.len().saturating_sub(2)..].join("\n") + "\n"
    };
    last_lines(&["train", "experts/a"], "final=x");
    std::fs::write(world.path(&format!("{run}/report.html")), "").unwrap();
    let report = format!("report: {run}/report.html\n");
    let ask = ["generate", "experts/a", "--prompt", "x"];
    assert_eq!(last_lines(&ask, "steps=1"), format!("{report}next: expert-cli evaluate experts/a\n"));
    assert_eq!(last_lines(&["evaluate", "experts/a"], "score"), format!("{report}{ASK}"));
    assert_eq!(last_lines(&ask, "steps=1"), format!("{report}next: expert-cli export experts/a --merge\n"));
    let left = world.path(&format!("{run}/evaluation.json"));
    let scores = std::fs::read(&left).unwrap();
    let mut of_few: Value = serde_json::from_slice(&scores).unwrap();
    of_few["other_rows"] = "few".into();
    std::fs::write(&left, of_few.to_string()).unwrap();
    assert_eq!(last_lines(&ask, "steps=1"), format!("{report}next: expert-cli evaluate experts/a\n"));
    std::fs::write(&left, scores).unwrap();
    // The adapter that was typed, and a form that the kind has.
    let named = format!("{run}/final");
    assert_eq!(
        last_lines(&["evaluate", "experts/a", "--adapter", &named], "score"),
        format!("{report}next: expert-cli generate experts/a --adapter {named} --prompt '...'\n")
    );
    let kind = [
        "--set",
        "training.config.adapter_type=prompt",
        "--set",
        "soft_prompts=[{\"name\": \"s\", \"tokens\": 4}]",
    ];
    let of_prompt = last_lines(&[&ask[..], &kind, &["--adapter", &named]].concat(), "steps=1");
    assert!(of_prompt.ends_with(&format!(" --adapter --from {named}\n")), "{of_prompt}");
    assert_eq!(
        last_lines(&["export", "experts/a", "--merge", "--to", "out"], "steps=1"),
        format!("{report}next: expert-cli evaluate experts/a --base-only --model out\n")
    );
    assert_eq!(
        last_lines(&["export", "experts/a", "--adapter"], "steps=1"),
        format!("{report}next: expert-cli evaluate experts/a --adapter {run}/export/adapter\n")
    );
    assert_eq!(last_lines(&["runs"], ""), format!("{report}next: expert-cli report experts\n"));
    let again = world.path("experts/a/weights/again");
    std::fs::create_dir(&again).unwrap();
    std::fs::copy(world.path(&format!("{run}/plan.json")), again.join("plan.json")).unwrap();
    std::fs::write(world.path("experts/report.html"), "").unwrap();
    assert_eq!(
        last_lines(&["runs"], ""),
        format!(
            "report: experts/report.html\nnext: expert-cli runs --compare experts/a/weights/again {run}\n"
        )
    );
    let all = ["train", "--all", "--no-evaluate", "--separate"];
    assert_eq!(last_lines(&all, "final=x"), "all runs: experts/report.html\nnext: expert-cli runs experts\n");
}

#[test]
fn runs_of_two_experts_of_one_name_are_not_compared() {
    let world = World::shelf(&["a", "b"]);
    for expert in ["a", "b"] {
        let run = world.path(&format!("experts/{expert}/weights/tiny"));
        std::fs::create_dir_all(&run).unwrap();
        let scored = json!({"adapter": {"accuracy": 0.5}, "scorer_sha256": expert.repeat(64)});
        std::fs::write(run.join("plan.json"), json!({"recipe": {"expert": "same"}}).to_string()).unwrap();
        std::fs::write(run.join("evaluation.json"), scored.to_string()).unwrap();
    }
    let output = world.expert_cli(&["runs"], "").output().unwrap();
    assert_eq!(talk(&output), "next: expert-cli report experts\n");
}

#[test]
fn a_shelf_in_place_of_an_expert_says_what_takes_it() {
    let world = World::shelf(&["a", "b"]);
    let (output, document) = world.json("plan experts", "");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &json!("no-manifest")));
    assert_eq!(document["error"]["message"], "experts holds 2 experts, and has no manifest.json itself");
    let hint = "name an expert, such as experts/a, or train all by `train --all experts`";
    assert_eq!(document["error"]["hint"], hint);
}

#[test]
fn a_shelf_with_failures_says_how_to_train_those() {
    let world = World::shelf(&["a", "b"]);
    let output = world.expert_cli(&["train", "--all", "--separate"], "refuse=a,final=x").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).ends_with("next, for what failed: expert-cli train --all --separate\n"),
        "{}",
        talk(&output)
    );
}

#[test]
fn a_stopped_queue_says_how_to_continue() {
    let world = World::shelf(&["a"]);
    let command = ["train", "--all", "experts", "--max-steps", "9"];
    let cli = world.expert_cli(&command, "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(
        talk(&output).ends_with("to continue: expert-cli train --all experts --max-steps 9\n"),
        "{}",
        talk(&output)
    );
}

/// Interrupted as soon as `expert` has made a step; the text is after "to continue: ".
fn stopped_after_a_step(world: &World, words: &[&str], acts: &str, expert: &str) -> String {
    let events = world.path(&format!("experts/{expert}/weights/smollm2-135m-instruct/events.jsonl"));
    let before = std::fs::read_to_string(&events).unwrap_or_default();
    let cli = world.expert_cli(words, acts).spawn().unwrap();
    await_that(|| {
        let now = std::fs::read_to_string(&events).unwrap_or_default();
        now != before && now.contains("\"progress\"")
    });
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    talk(&output).split("to continue: ").nth(1).unwrap().trim_end().to_owned()
}

/// Runs a line as it was printed.
fn type_in(world: &World, line: &str, acts: &str) {
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let output = world.expert_cli(&words, acts).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}: {}", talk(&output));
}

fn weights(world: &World, expert: &str) -> String {
    let run = format!("experts/{expert}/weights/smollm2-135m-instruct");
    std::fs::read_to_string(world.path(&format!("{run}/final/adapter_model.safetensors"))).unwrap()
}

/// Without `--fresh` the experts that it has not reached would be skipped, and with it the one that has begun would start over.
#[test]
fn a_stopped_queue_of_fresh_runs_is_continued_by_what_it_prints() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let shelf = "expert-cli train --all --no-evaluate --separate --jobs 1";
    type_in(&world, shelf, "final=old");
    let words: Vec<&str> = shelf.split(' ').skip(1).chain(["--fresh", "--only", "a,b"]).collect();
    let printed = stopped_after_a_step(&world, &words, "steps=2,obey", "a");
    assert_eq!(printed, format!("{shelf} --fresh --only b, then {shelf} --only a,b"));
    let (first, rest) = printed.split_once(", then ").unwrap();
    type_in(&world, first, "final=new");
    assert_eq!(["b", "c"].map(|expert| weights(&world, expert)), ["new", "old"]);
    type_in(&world, rest, "final=new");
    assert_eq!(["a", "b", "c"].map(|expert| weights(&world, expert)), ["new", "new", "old"]);
    // What failed before its first step has its earlier run again.
    let words: Vec<&str> = shelf.split(' ').skip(1).chain(["--fresh"]).collect();
    let output = world.expert_cli(&words, "refuse=b,final=newest").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let next = format!("next, for what failed: {shelf} --fresh --only b\n");
    assert!(talk(&output).ends_with(&next), "{}", talk(&output));
}

#[test]
fn a_fresh_run_that_was_stopped_before_its_first_step_is_begun_again() {
    let world = World::shelf_without_pages(&["a"]);
    let train = "expert-cli train experts/a";
    type_in(&world, train, "final=old");
    std::fs::remove_file(world.path("pid")).unwrap();
    let cli = world.expert_cli(&["train", "experts/a", "--fresh"], "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    let line = format!("{train} --fresh");
    assert!(talk(&output).trim_end().ends_with(&format!("to continue: {line}")), "{}", talk(&output));
    type_in(&world, &line, "final=new");
    assert_eq!(weights(&world, "a"), "new");
    let printed = stopped_after_a_step(&world, &["train", "experts/a", "--fresh"], "steps=2,obey", "a");
    assert_eq!(printed, format!("{train} --resume"));
}

#[test]
fn a_run_that_has_left_a_named_checkpoint_is_not_sent_back_to_it() {
    let world = World::shelf_without_pages(&["a"]);
    let train = "expert-cli train experts/a";
    let output = world.expert_cli(&["train", "experts/a"], "steps=2,checkpoint=2,missing").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    let checkpoint = "experts/a/weights/smollm2-135m-instruct/checkpoint-2";
    let words = ["train", "experts/a", "--resume", checkpoint];
    std::fs::remove_file(world.path("pid")).unwrap();
    let cli = world.expert_cli(&words, "obey").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    let said = talk(&cli.wait_with_output().unwrap());
    assert!(said.contains(&format!("to continue: {train} --resume {checkpoint}\n")), "before a step: {said}");
    let printed = stopped_after_a_step(&world, &words, "steps=3,obey", "a");
    assert_eq!(printed, format!("{train} --resume"));
}

#[test]
fn an_expert_is_not_taken_for_a_checkpoint() {
    let world = World::shelf(&["a"]);
    let output = world.expert_cli(&["train", "--resume", "experts/a"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("hint: expert-cli train experts/a --resume"), "{}", talk(&output));
}
