//! `train --all` trains new experts, skips finished ones and retrains changed ones.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};

use common::{World, await_that, signal, talk};
use rustix::process::Signal;
use serde_json::{Value, json};

const ALL: &str = "train --all --device cpu --jobs 1";
const TWO: &str = "train --all --device cpu --jobs 2";
const RUN: &str = "experts/a/weights/smollm2-135m-instruct";
/// A worker that must not be started.
const NOBODY: &str = "die=9";

/// Each expert with the word for how it ended.
#[expect(clippy::print_stderr, reason = "shown where a test fails")]
fn ends(world: &World, arguments: &str, acts: &str) -> Vec<(String, &'static str)> {
    let (output, document) = world.json(arguments, acts);
    let experts = document["experts"].as_array().unwrap_or_else(|| panic!("{}", talk(&output)));
    let how = |one: &Value| match (one["ok"] == true, one["finished_before"] == true) {
        (true, false) => "done",
        (true, true) => "before",
        _ if one["skipped"] == true => "skipped",
        _ => {
            eprintln!("{}", talk(&output));
            "failed"
        }
    };
    experts.iter().map(|one| (one["expert"].as_str().unwrap().to_owned(), how(one))).collect()
}

fn each(found: &[(String, &'static str)]) -> Vec<&'static str> {
    found.iter().map(|(_, word)| *word).collect()
}

fn edit(world: &World, file: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(world.path(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(world.path(file), text.replace(from, to)).unwrap();
}

fn lock(world: &World, expert: &str) -> Value {
    let text = std::fs::read(world.path(&format!("experts/{expert}/expert.lock"))).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["adapters"]["smollm2-135m-instruct"].clone()
}

#[test]
fn a_shelf_continues_after_a_failure_and_skips_finished_experts() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let (output, document) =
        world.json("train --all --device cpu --jobs 2", "steps=2,refuse=b,final=w,score");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(document["experts"][1]["error"]["message"], "no such device");
    let found: Vec<_> = document["experts"].as_array().unwrap().iter().map(|it| it["ok"] == true).collect();
    assert_eq!(found, [true, false, true]);

    let (output, document) = world.json(ALL, "final=w,score");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let before = |index: usize| document["experts"][index]["finished_before"].as_bool();
    assert_eq!([before(0), before(1), before(2)], [Some(true), Some(false), Some(true)]);
    assert_eq!(document["experts"][1]["result"]["request"]["resume"]["from"], "newest");
    assert_eq!(document["experts"][0]["result"]["evaluation"]["rows"], 5, "its score is kept");

    let (output, _) = world.json(ALL, NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn a_broken_manifest_leaves_the_others_and_is_named_in_the_summary() {
    let world = World::shelf_without_pages(&["a", "b", "c", "d"]);
    edit(&world, "experts/c/manifest.json", "\"sft\"", "\"magic\"");
    let output = world.expert_cli(&ALL.split(' ').collect::<Vec<_>>(), "final=w,score").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    let states: Vec<&str> =
        table.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(states, ["done", "done", "failed", "done"], "{table}");
    let diagnostic = table.lines().nth(3).unwrap().split(['(', ')']).nth(1).unwrap();
    assert!(talk(&output).contains(&format!("error[{diagnostic}]")), "{table}{}", talk(&output));
    assert!(table.contains("20.0%") && table.contains("80.0%"), "{table}");
}

#[test]
fn notes_of_the_plans_are_given_once_with_the_names_of_their_experts() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    let another = format!("{ALL} --model Qwen/Qwen3-0.6B --dry-run");
    let (output, document) = world.json(&another, NOBODY);
    let text = talk(&output);
    assert_eq!(text.matches("is not in the manifest").count(), 1, "{text}");
    assert!(text.contains("warning: a, b and c: Qwen/Qwen3-0.6B is not in the manifest"), "{text}");
    for one in document["experts"].as_array().unwrap() {
        assert_eq!(one["notes"][0]["code"], "base-not-in-manifest", "{one}");
    }
}

#[test]
fn a_dry_run_fails_where_an_expert_cannot_be_trained() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let (output, document) = world.json(&format!("{ALL} --dry-run"), NOBODY);
    assert_eq!((output.status.code(), &document["ok"]), (Some(0), &json!(true)), "{document}");
    edit(&world, "experts/b/manifest.json", "\"sft\"", "\"magic\"");
    let (output, document) = world.json(&format!("{ALL} --dry-run"), NOBODY);
    assert_eq!((output.status.code(), &document["ok"]), (Some(2), &json!(false)), "{document}");
    let [a, b] = [0, 1].map(|index| document["experts"][index].clone());
    assert_eq!((&a["state"], a.get("error")), (&json!("to train"), None));
    assert_eq!((&b["state"], &b["exit"]), (&json!("cannot be trained"), &json!(2)));
    assert!(b["error"]["message"].is_string() && b["diagnostics"][0]["code"].is_string(), "{document}");
    // An adapter of another program.
    let theirs = world.path(RUN).join("final");
    std::fs::create_dir_all(&theirs).unwrap();
    std::fs::write(theirs.join("adapter_config.json"), "{}").unwrap();
    let (output, document) = world.json(&format!("{ALL} --dry-run --only a"), NOBODY);
    let a = &document["experts"][0];
    assert_eq!((output.status.code(), &document["ok"]), (Some(2), &json!(false)), "{document}");
    assert_eq!((&a["state"], &a["error"]["code"]), (&json!("cannot be trained"), &json!("not-a-run")));
}

#[test]
fn a_dry_run_says_what_is_left_of_each_expert() {
    let world = World::shelf_without_pages(&["a", "b", "c", "d"]);
    let (finished, stopped) = ("final=w,score", "steps=2,checkpoint=2,missing");
    ends(&world, &format!("{ALL} --only a,b"), finished);
    ends(&world, &format!("{ALL} --only c"), stopped);
    edit(&world, "experts/b/manifest.json", "\"rank\": 8", "\"rank\": 4");
    let dry_run = format!("{ALL} --dry-run");
    let states = |more: &str| {
        let (output, document) = world.json(&format!("{dry_run}{more}"), NOBODY);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        // Of a finished training nothing is left.
        let is_over = |one: &Value| ["finished", "to score"].contains(&one["state"].as_str().unwrap());
        let experts = document["experts"].as_array().unwrap();
        assert!(experts.iter().all(|one| !is_over(one) || one["seconds"].is_null()), "{document}");
        let part = |one: &Value| json!([one["state"], one["step"], one["reason"]]);
        document["experts"].as_array().unwrap().iter().map(part).collect::<Vec<_>>()
    };
    let retrained = json!(["to retrain", null, "rank changed"]);
    let (resumed, new) = (json!(["to resume", 2, null]), json!(["to train", null, null]));
    assert_eq!(states(""), [json!(["finished", null, null]), retrained, resumed, new.clone()]);
    let to_score = states(" --set evaluation.scorer=contains --only a");
    assert_eq!(to_score, [json!(["to score", null, null])]);
    assert_eq!(states(" --fresh --only a"), [new]);
    let output = world.expert_cli(&dry_run.split(' ').collect::<Vec<_>>(), NOBODY).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("to retrain: rank changed") && table.contains("to resume from step 2"), "{table}");
    let (output, _) = world.json(&format!("{ALL} --only a"), NOBODY);
    let said = talk(&output);
    assert!(said.contains("a: finished before") && !said.contains("starting the worker"), "{said}");
    let (output, _) = world.json(&format!("{ALL} --only b"), finished);
    assert!(talk(&output).contains("b: retraining: rank changed"), "{}", talk(&output));
}

#[test]
fn only_the_named_experts_are_trained() {
    let world = World::shelf_without_pages(&["a", "b", "c"]);
    edit(&world, "experts/c/manifest.json", "\"name\": \"c\"", "\"name\": \"expert-sea\"");
    let found = ends(&world, &format!("{ALL} --only expert-sea,a"), "final=w,score");
    assert_eq!(found, [("a".to_owned(), "done"), ("c".to_owned(), "done")]);
    let (output, document) = world.json(&format!("{ALL} --only expert-see"), NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"unknown-expert".into()));
    let (output, _) = world.json("train -m experts/a --only a", NOBODY);
    assert_eq!(output.status.code(), Some(2), "without --all it has no meaning");
}

#[test]
fn only_changed_experts_are_retrained() {
    let world = World::shelf_without_pages(&["a", "b"]);
    assert_eq!(each(&ends(&world, ALL, "final=one,score")), ["done", "done"]);
    edit(&world, "experts/a/manifest.json", "Keys that begin", "Each key that begins");
    edit(&world, "experts/b/manifest.json", "\"save_total_limit\": 2", "\"save_total_limit\": 3");
    assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before", "before"]);

    let first = lock(&world, "a");
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    let (output, document) = world.json(ALL, "final=two,score");
    assert!(talk(&output).contains("a: retraining: datasets/train.jsonl changed"), "{}", talk(&output));
    assert_eq!(document["experts"][0]["finished_before"], false, "{document}");
    assert_eq!(document["experts"][1]["finished_before"], true);
    let second = lock(&world, "a");
    assert_ne!(first["inputs"]["data"], second["inputs"]["data"]);
    assert_ne!(first["result"]["adapter"], second["result"]["adapter"]);
    let kept = world.path(RUN).join("previous/final/adapter_model.safetensors");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "one", "the earlier adapter stays beside the new one");

    edit(&world, "experts/b/manifest.json", "\"rank\": 8", "\"rank\": 4");
    assert_eq!(each(&ends(&world, ALL, "final=three,score")), ["before", "done"]);
    assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before", "before"]);
}

#[test]
fn another_scorer_scores_again_and_trains_nothing() {
    let world = World::shelf_without_pages(&["a"]);
    let manifest = std::fs::read_to_string(world.path("experts/a/manifest.json")).unwrap();
    let begin = manifest.find("\"scorer\": \"").unwrap();
    let end = begin + manifest[begin..].find('\n').unwrap();
    edit(
        &world,
        "experts/a/manifest.json",
        &manifest[begin..end],
        "\"scorer\": {\"python\": \"score.py:score\"}",
    );
    let script = world.path("experts/a/score.py");
    std::fs::write(&script, "def score(answer, expected): return answer == expected\n").unwrap();
    assert_eq!(each(&ends(&world, ALL, "final=one,score")), ["done"]);
    assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before"]);

    let first = lock(&world, "a");
    std::fs::write(&script, "def score(answer, expected): return expected in answer\n").unwrap();
    let (output, document) = world.json(ALL, "score");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(document["experts"][0]["finished_before"], true, "{document}");
    let second = lock(&world, "a");
    assert_eq!(first["inputs"], second["inputs"]);
    assert_eq!(first["result"]["adapter"], second["result"]["adapter"]);
    assert_eq!(second["result"]["score"]["scorer"].as_str().unwrap().len(), 64);
    assert_ne!(first["result"]["score"]["scorer"], second["result"]["score"]["scorer"]);
    assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before"]);
}

#[test]
fn other_settings_of_scores_and_answers_score_again_and_train_nothing() {
    let world = World::shelf_without_pages(&["a"]);
    assert_eq!(each(&ends(&world, ALL, "final=one,score")), ["done"]);
    let run = "experts/a/weights/smollm2-135m-instruct/evaluation.json";
    let scored = || std::fs::read(world.path(run)).unwrap();
    let first = lock(&world, "a");
    for setting in ["evaluation.scorer=contains", "training.decoding.temperature=0.5"] {
        let before = scored();
        let one = format!("train experts/a --device cpu --set {setting}");
        let (output, _) = world.json(&one, NOBODY);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert!(talk(&output).contains(&format!("next: expert-cli evaluate experts/a --set {setting}")));
        let all = format!("{ALL} --set {setting}");
        let (output, document) = world.json(&all, "score");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert_eq!(document["experts"][0]["finished_before"], true, "{document}");
        let second = lock(&world, "a");
        assert_eq!((&first["inputs"], scored() != before), (&second["inputs"], true), "{setting}");
        assert_eq!(first["result"]["adapter"], second["result"]["adapter"]);
        assert_eq!(each(&ends(&world, &all, NOBODY)), ["before"], "{setting}");
    }
}

#[test]
fn other_test_rows_score_again_and_train_nothing() {
    let world = World::shelf_without_pages(&["a"]);
    assert_eq!(each(&ends(&world, ALL, "final=one,score")), ["done"]);
    let first = lock(&world, "a");
    let manifest = "experts/a/manifest.json";
    for (file, from, to) in [
        ("experts/a/datasets/test.jsonl", "Monday", "Sunday"),
        (manifest, "datasets/test.jsonl", "datasets/validation.jsonl"),
        (manifest, "\"test_path\": \"datasets/validation.jsonl\",", ""),
    ] {
        edit(&world, file, from, to);
        if to.is_empty() {
            let cases = "\"evaluation\": {\n    \"test_cases\": [{\"prompt\": \"q\", \"expected\": \"a\"}],";
            edit(&world, manifest, "\"evaluation\": {", cases);
        }
        let (output, _) = world.json("train experts/a --device cpu", NOBODY);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        let next = "next: expert-cli evaluate experts/a --device cpu\n";
        assert!(talk(&output).ends_with(next), "{}", talk(&output));
        let (output, document) = world.json(&format!("{ALL} --dry-run"), NOBODY);
        assert_eq!(document["experts"][0]["state"], "to score", "{}", talk(&output));
        let (output, document) = world.json(ALL, "score");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert_eq!(document["experts"][0]["finished_before"], true, "{document}");
        let second = lock(&world, "a");
        assert_eq!(first["inputs"], second["inputs"]);
        assert_eq!(first["result"]["adapter"], second["result"]["adapter"]);
        assert_ne!(first["result"]["score"]["data"], second["result"]["score"]["data"], "{second}");
        assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before"], "{file}");
    }
    assert_eq!(lock(&world, "a")["result"]["score"].get("data"), None, "cases of the manifest alone");
    edit(&world, "experts/a/datasets/validation.jsonl", "Saturday", "Sunday");
    let (output, _) = world.json(ALL, "final=two,score");
    assert!(talk(&output).contains("retraining: datasets/validation.jsonl changed"), "{}", talk(&output));
}

/// The commit of a Hub dataset in the cache of this machine.
fn commit_of(world: &World, dataset: &str, letter: &str) {
    let refs = world.path("hub").join(format!("datasets--{}", dataset.replace('/', "--"))).join("refs");
    std::fs::create_dir_all(&refs).unwrap();
    std::fs::write(refs.join("main"), letter.repeat(40)).unwrap();
}

#[test]
fn another_commit_of_a_test_set_of_the_hub_scores_again_and_trains_nothing() {
    for (place, from, to) in [
        (
            "test_sets",
            "\"evaluation\": {",
            "\"evaluation\": {\n \"test_sets\": { \"hub\": \"some/rows::test\" },",
        ),
        ("test_path", "datasets/test.jsonl", "some/rows::test"),
    ] {
        let world = World::shelf_without_pages(&["a"]);
        edit(&world, "experts/a/manifest.json", ",\n      \"format\": \"jsonl\"", "");
        edit(&world, "experts/a/manifest.json", from, to);
        let all = |acts: &str| {
            let words: Vec<&str> = ALL.split(' ').chain(["--json"]).collect();
            let output =
                world.expert_cli(&words, acts).env("HF_HUB_CACHE", world.path("hub")).output().unwrap();
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{place}: {}", talk(&output));
            assert_eq!(
                document["experts"][0]["finished_before"] == true,
                acts != "final=one,score",
                "{document}"
            );
            let entry = lock(&world, "a");
            (entry["inputs"].clone(), entry["result"]["score"].clone())
        };
        commit_of(&world, "some/rows", "a");
        let first = all("final=one,score");
        assert_eq!(all(NOBODY), first, "{place}");
        commit_of(&world, "some/rows", "b");
        let (inputs, score) = all("score");
        assert_eq!(inputs, first.0, "{place}");
        let data = if place == "test_sets" { &score["test_sets"]["hub"]["data"] } else { &score["data"] };
        assert_eq!(data["some/rows::test"], format!("revision:{}", "b".repeat(40)), "{place}: {score}");
        assert_eq!(all(NOBODY), (inputs, score), "{place}");
    }
}

#[test]
fn scores_of_evaluate_are_locked_and_not_repeated() {
    let world = World::shelf_without_pages(&["a"]);
    assert_eq!(each(&ends(&world, &format!("{ALL} --no-evaluate"), "final=one")), ["done"]);
    let first = lock(&world, "a");
    let score = |more: &str| {
        let (output, _) = world.json(&format!("evaluate experts/a --device cpu{more}"), "score");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        lock(&world, "a")
    };
    assert_eq!(score(" --data experts/a/datasets/test.jsonl"), first, "not the manifest's rows");
    assert_eq!(score(" --set training.config.rank=4"), first, "not what was trained");
    assert_eq!(score(" --rows 4"), first, "not all of the manifest's rows");
    let second = score("");
    assert_eq!(score(" --rows 5"), second, "all of the manifest's rows");
    assert_eq!((&first["result"]["score"], &second["result"]["score"]["rows"]), (&Value::Null, &json!(5)));
    assert_eq!(
        (&first["inputs"], &first["result"]["adapter"]),
        (&second["inputs"], &second["result"]["adapter"])
    );
    assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before"]);
}

#[test]
fn another_test_set_scores_again_and_trains_nothing() {
    let world = World::shelf_without_pages(&["a"]);
    assert_eq!(each(&ends(&world, ALL, "final=one,score")), ["done"]);
    let first = lock(&world, "a");
    let people = world.path("experts/a/datasets/people.jsonl");
    std::fs::write(&people, "{\"prompt\": \"q\", \"completion\": \"a\"}\n").unwrap();
    let named = "\"evaluation\": {\n    \"test_sets\": { \"people\": \"datasets/people.jsonl\" },";
    edit(&world, "experts/a/manifest.json", "\"evaluation\": {", named);

    let scored_again = || {
        let (output, document) = world.json(ALL, "score");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert_eq!(document["experts"][0]["finished_before"], true, "{document}");
        let sets = &document["experts"][0]["result"]["evaluation"]["test_sets"];
        assert_eq!(sets["people"]["adapter"]["accuracy"], 0.3, "{document}");
        assert_eq!(each(&ends(&world, ALL, NOBODY)), ["before"]);
        lock(&world, "a")
    };
    let second = scored_again();
    assert_eq!(
        (&first["inputs"], &first["result"]["adapter"]),
        (&second["inputs"], &second["result"]["adapter"])
    );
    let (before, now) = (&first["result"]["score"], &second["result"]["score"]);
    assert_eq!((&before["adapter"], before.get("test_sets")), (&now["adapter"], None));
    assert_eq!(
        (&now["test_sets"]["people"]["base"], &now["test_sets"]["people"]["adapter"]),
        (&json!(0.1), &json!(0.3))
    );

    // The same name, other questions.
    std::fs::write(&people, "{\"prompt\": \"r\", \"completion\": \"a\"}\n").unwrap();
    let third = scored_again();
    assert_eq!(second["inputs"], third["inputs"]);
    let data = |lock: &Value| lock["result"]["score"]["test_sets"]["people"]["data"].clone();
    assert_ne!(data(&second), data(&third));

    // And without it again.
    edit(&world, "experts/a/manifest.json", named, "\"evaluation\": {");
    assert_eq!(each(&ends(&world, ALL, "score")), ["before"]);
    assert_eq!(lock(&world, "a")["result"]["score"], first["result"]["score"]);
    let table = world.expert_cli(&ALL.split(' ').collect::<Vec<_>>(), NOBODY).output().unwrap();
    assert!(!String::from_utf8_lossy(&table.stdout).contains("people"));
}

#[test]
fn a_longer_recipe_extends_finished_runs_if_asked_to() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let all = format!("{ALL} --no-evaluate");
    ends(&world, &all, "steps=2,checkpoint=2,final=w");
    edit(&world, "experts/b/datasets/train.jsonl", "Monday", "Sunday");
    let (output, document) =
        world.json(&format!("{all} --extend --epochs 50"), "steps=3,checkpoint=3,final=x");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let resume = |index: usize| document["experts"][index]["result"]["request"]["resume"]["from"].clone();
    assert_eq!([resume(0), resume(1)], ["newest", "nothing"], "other data is no longer recipe: {document}");
    assert!(world.path(RUN).join("checkpoint-2").exists() && !world.path(RUN).join("previous").exists());
    assert!(talk(&output).contains("b: retraining: datasets/train.jsonl changed"), "{}", talk(&output));
    let (output, document) = world.json(&format!("{all} --extend --epochs 40"), "steps=1,final=y");
    assert!(talk(&output).contains("a: retraining: epochs changed"), "{}", talk(&output));
    assert_eq!(document["experts"][0]["result"]["request"]["resume"]["from"], "nothing");
}

#[test]
fn a_checkpoint_is_not_applied_to_several_experts() {
    let world = World::shelf_without_pages(&["a", "b"]);
    ends(&world, ALL, "steps=2,checkpoint=2,missing");
    let named = format!("--resume {RUN}/checkpoint-2");
    for command in [format!("{ALL} {named}"), format!("train --fuse a,b --device cpu {named}")] {
        let (output, document) = world.json(&command, NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert_eq!(document["error"]["code"], "checkpoint-of-one");
    }
    assert!(world.path(RUN).join("checkpoint-2").exists() && !world.path(RUN).join("replaced").exists());
}

#[test]
fn a_group_does_not_start_over_runs_that_it_must_not_touch() {
    let world = World::shelf_without_pages(&["a", "b"]);
    ends(&world, ALL, "final=w,score");
    let other = "train --fuse a,b --device cpu --lora-rank 2";
    for flags in ["", "--dry-run"] {
        let (output, document) = world.json(&format!("{other} {flags}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let error = &document["error"];
        assert_eq!(error["code"], "output-used", "{document}");
        let message = error["message"].as_str().unwrap();
        assert_eq!(message.matches("holds an earlier run").count(), 2, "{message}");
        let hint = error["hint"].as_str().unwrap();
        assert!(
            hint.starts_with("--fresh starts over with all of them") && !hint.contains("-o names"),
            "{hint}"
        );
        assert!(!talk(&output).contains("to continue"), "{}", talk(&output));
    }
}

#[test]
fn refusals_of_different_kinds_each_have_their_hint() {
    let world = World::shelf_without_pages(&["a", "b"]);
    ends(&world, ALL, "final=w,score");
    edit(&world, "experts/b/manifest.json", "\"rank\":", "\"initial_adapter\": \"gone\", \"rank\":");
    for order in ["a,b", "b,a"] {
        let command = format!("train --fuse {order} --device cpu --set training.config.seed=7");
        let (output, document) = world.json(&command, NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let message = document["error"]["message"].as_str().unwrap();
        for part in ["holds an earlier run", "--fresh starts over", "there is no adapter at", "restore it"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[test]
fn an_unfinished_run_of_other_data_is_not_resumed() {
    let world = World::shelf_without_pages(&["a"]);
    ends(&world, ALL, "steps=2,checkpoint=2,missing");
    let goes_on = world.json(ALL, "steps=3,missing").1;
    assert_eq!(goes_on["experts"][0]["error"]["code"], "missing");
    assert!(world.path(RUN).join("checkpoint-2").exists());
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    assert_eq!(each(&ends(&world, ALL, "final=w,score")), ["done"]);
    assert!(!world.path(RUN).join("checkpoint-2").exists());
}

#[test]
fn the_lock_is_sorted_and_says_what_was_made_of_what() {
    let world = World::shelf_without_pages(&["a"]);
    ends(&world, ALL, "final=w,score");
    let entry = lock(&world, "a");
    let inputs = &entry["inputs"];
    assert_eq!(inputs["data"].as_object().unwrap().len(), 2, "training and validation rows");
    assert_eq!(inputs["recipe"].as_str().unwrap().len(), 64);
    assert_eq!(inputs["code"]["worker"].as_str().unwrap().len(), 64);
    let score = &entry["result"]["score"];
    assert_eq!((&score["adapter"], &score["base"], &score["rows"]), (&json!(0.8), &json!(0.2), &json!(5)));
    assert_eq!(score["evaluation_digest"].as_str().unwrap().len(), 64);
    assert_eq!(score["data"]["datasets/test.jsonl"].as_str().unwrap().len(), 64);
    let text = std::fs::read_to_string(world.path("experts/a/expert.lock")).unwrap();
    world.json("train -m experts/a --device cpu --fresh --evaluate", "final=w,score");
    assert_eq!(std::fs::read_to_string(world.path("experts/a/expert.lock")).unwrap(), text);
    world.json("train -m experts/a --device cpu -o out --lora-rank 2", "final=v");
    assert_eq!(std::fs::read_to_string(world.path("experts/a/expert.lock")).unwrap(), text, "an experiment");
}

#[test]
fn the_lock_says_how_a_finished_expert_was_trained_and_not_how_it_would_be_now() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let made_by = |jobs: &str| {
        let words = ["train", "--all", "--device", "cpu", "--no-evaluate", "--no-fuse", "--jobs", jobs];
        let mut command = world.expert_cli(&words, "steps=1,final=w");
        let output = command.env("OMP_NUM_THREADS", "4").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        let result = &lock(&world, "a")["result"];
        (result["device"].clone(), result["threads"].clone())
    };
    assert_eq!(made_by("2"), (json!("cpu"), json!(2)));
    assert_eq!(made_by("1"), (json!("cpu"), json!(2)));
    std::fs::remove_file(world.path("experts/a/expert.lock")).unwrap();
    let record = world.path(RUN).join("run.json");
    let mut run: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    run["machine"] = json!({"device": {"kind": "cuda"}, "threads": 8});
    std::fs::write(&record, run.to_string()).unwrap();
    assert_eq!(made_by("1").0, json!("cuda"));
}

#[test]
fn locked_refuses_what_differs_and_shows_it() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let [one, both] = ["-m experts/a", "--fuse a,b"].map(|it| format!("train {it} --device cpu"));
    for command in [ALL, &format!("{one} --dry-run"), &format!("{both} --dry-run")] {
        let (output, document) = world.json(&format!("{command} --locked"), NOBODY);
        assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"not-locked".into()));
    }

    ends(&world, ALL, "final=w,score");
    assert_eq!(each(&ends(&world, &format!("{ALL} --locked --fresh"), "final=w,score")), ["done", "done"]);
    let (output, _) = world.json(&format!("{one} --dry-run --locked"), NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    edit(&world, "experts/b/datasets/validation.jsonl", "Saturday", "Sunday");
    edit(&world, "experts/b/datasets/test.jsonl", "Friday", "Sunday");
    edit(&world, "experts/b/manifest.json", "\"rank\": 8", "\"rank\": 4");
    let b = "train -m experts/b --device cpu";
    for command in [ALL, &format!("{b} --resume"), &format!("{b} --dry-run")] {
        let (output, document) = world.json(&format!("{command} --locked"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let message = document["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("\n  datasets/validation.jsonl: ") && message.contains("\n  rank: 8 -> 4"),
            "{message}"
        );
        assert!(!message.contains("train.jsonl") && !message.contains("test.jsonl"), "{message}");
    }
    // Where the run is not, the lock alone says that the settings are others.
    std::fs::rename(world.path("experts/b/weights"), world.path("weights")).unwrap();
    let (_, document) = world.json("train -m experts/b --device cpu --locked", NOBODY);
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("\n  manifest: ") && !message.contains("rank"), "{message}");
    std::fs::rename(world.path("weights"), world.path("experts/b/weights")).unwrap();
    assert_eq!(lock(&world, "b")["result"]["adapter"], lock(&world, "a")["result"]["adapter"]);

    std::fs::remove_file(world.path("experts/a/expert.lock")).unwrap();
    let (_, document) = world.json(&format!("{ALL} --locked"), NOBODY);
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("\n  train it once without --locked"), "{message}");
    assert!(message.contains("\n  train without --locked to update the lock"), "{message}");
    assert_eq!(document["error"]["hint"], Value::Null);
}

#[test]
fn a_lock_with_a_merge_conflict_is_refused_by_locked_and_kept_by_a_training() {
    let world = World::shelf_without_pages(&["a"]);
    let file = world.path("experts/a/expert.lock");
    let conflict = "{\n  \"adapters\": {\n<<<<<<< HEAD\n    \"other\": {}\n=======\n>>>>>>> x\n";
    std::fs::write(&file, conflict).unwrap();
    let (output, document) = world.json(&format!("{ALL} --locked"), NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"lock-unreadable".into()));
    assert!(document["error"]["message"].as_str().unwrap().contains("line 3"), "{document}");
    assert!(document["error"]["hint"].as_str().unwrap().contains("merge conflict"), "{document}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), conflict);

    let (output, _) = world.json(&format!("{ALL} --quiet"), "final=w,score");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(
        talk(&output).contains("warning") && talk(&output).contains("expert.lock.unreadable"),
        "{}",
        talk(&output)
    );
    assert_eq!(std::fs::read_to_string(world.path("experts/a/expert.lock.unreadable")).unwrap(), conflict);
    assert_eq!(lock(&world, "a")["result"]["score"]["rows"], 5);
}

#[test]
fn a_single_training_names_what_changed_since_the_earlier_run() {
    let world = World::shelf_without_pages(&["a"]);
    world.json("train -m experts/a --device cpu", "steps=1,final=w");
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    let (output, document) = world.json("train -m experts/a --device cpu", NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"output-used".into()));
    assert!(
        document["error"]["message"]
            .as_str()
            .unwrap()
            .contains("since then changed:\n  datasets/train.jsonl: ")
    );
}

#[test]
fn a_resumed_run_keeps_its_number_of_threads() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let threads = |arguments: &str, acts: &str| {
        let mut command = world.expert_cli(&arguments.split(' ').collect::<Vec<_>>(), acts);
        command.env("OMP_NUM_THREADS", "4").output().unwrap();
        let plan = std::fs::read(world.path(RUN).join("plan.json")).unwrap();
        serde_json::from_slice::<Value>(&plan).unwrap()["machine"]["threads"]["compute"].clone()
    };
    assert_eq!(threads("train --all --device cpu --jobs 2", "checkpoint=1,missing"), 2);
    assert_eq!(threads("train --all --device cpu --jobs 1", "missing"), 2, "its own");
    assert_eq!(threads("train --all --device cpu --jobs 1 --fresh", "steps=1,missing"), 4);
}

/// `train --all` on four cores.
fn on_four_cores(world: &World, acts: &str) -> Command {
    let mut command = world.expert_cli(&["train", "--all", "--device", "cpu", "--no-evaluate"], acts);
    command.env("OMP_NUM_THREADS", "4");
    command
}

fn threads_of(world: &World, expert: &str) -> Value {
    let plan = world.path("experts").join(expert).join("weights/smollm2-135m-instruct/plan.json");
    let plan: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    plan["machine"]["threads"]["compute"].clone()
}

#[test]
fn an_expert_that_is_trained_alone_has_all_cores() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let train = |expert: &str| {
        let output = on_four_cores(&world, "steps=1,final=w").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        threads_of(&world, expert)
    };
    let beside = train("a");
    assert!(beside.as_u64() < Some(4), "{beside}");
    edit(&world, "experts/b/datasets/train.jsonl", "Monday", "Sunday");
    assert_eq!(train("b"), 4);
    assert_eq!(train("a"), beside, "untouched");
}

/// Its experts get the threads, and with them the bytes, of a queue that was not disturbed.
#[test]
fn a_killed_queue_keeps_its_division_of_the_cores() {
    let world = World::shelf_without_pages(&["a", "b"]);
    for end in [Signal::KILL, Signal::INT] {
        let mut cli = on_four_cores(&world, "only=a,steps=1,final=w,only=b,obey").spawn().unwrap();
        await_that(|| {
            world.path(RUN).join("run.json").exists() && world.path("experts/a/expert.lock").exists()
        });
        signal(common::pid(&cli), end);
        cli.wait().unwrap();
        let beside = threads_of(&world, "a");
        let output = on_four_cores(&world, "steps=1,final=w").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert_eq!((threads_of(&world, "b"), beside.as_u64() < Some(4)), (beside, true), "{end:?}");
        edit(&world, "experts/b/datasets/train.jsonl", "Monday", "Sunday");
        on_four_cores(&world, "steps=1,final=w").output().unwrap();
        assert_eq!(threads_of(&world, "b"), 4, "a new queue");
        for expert in ["a", "b"] {
            std::fs::remove_dir_all(world.path("experts").join(expert).join("weights")).unwrap();
            std::fs::remove_file(world.path("experts").join(expert).join("expert.lock")).unwrap();
        }
        edit(&world, "experts/b/datasets/train.jsonl", "Sunday", "Monday");
    }
}

/// The rest of a killed queue is trained by other commands, and nothing takes the queue off the record.
#[test]
fn a_killed_queue_that_was_finished_otherwise_divides_no_later_one() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let mut cli = on_four_cores(&world, "only=a,steps=1,final=w,only=b,obey").spawn().unwrap();
    await_that(|| world.path(RUN).join("run.json").exists() && world.path("experts/a/expert.lock").exists());
    signal(common::pid(&cli), Signal::KILL);
    cli.wait().unwrap();
    let (output, _) = world.json("train experts/b --device cpu --resume", "steps=1,final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    edit(&world, "experts/b/datasets/train.jsonl", "Monday", "Sunday");
    let output = on_four_cores(&world, "steps=1,final=w").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(threads_of(&world, "b"), 4);
}

#[test]
fn only_what_changed_since_a_revision_is_trained() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let git = |arguments: &str| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let mut command = std::process::Command::new("git");
        command.args(identity).args(arguments.split(' ')).current_dir(world.path(""));
        assert!(command.output().unwrap().status.success(), "{arguments}");
    };
    git("init --quiet");
    git("add experts");
    git("commit --quiet --message x");
    let since = format!("{ALL} --changed-since HEAD");
    let (output, document) = world.json(&since, NOBODY);
    assert_eq!((output.status.code(), document), (Some(0), json!({"ok": true, "experts": []})));
    edit(&world, "experts/b/datasets/train.jsonl", "Monday", "Sunday");
    assert_eq!(ends(&world, &since, "final=w,score"), [("b".to_owned(), "done")]);
}

#[test]
fn a_test_file_that_is_missing_is_refused_before_one_expert_is_trained_to_be_scored() {
    let world = World::shelf_without_pages(&["a"]);
    std::fs::remove_file(world.path("experts/a/datasets/test.jsonl")).unwrap();
    for more in ["--evaluate --dry-run", "--evaluate"] {
        let (output, document) = world.json(&format!("train experts/a --device cpu {more}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert_eq!(document["error"]["code"], "data-missing");
        assert!(talk(&output).contains("train without scores (leave --evaluate out)"), "{}", talk(&output));
    }
    assert!(!world.path(RUN).exists());
    let dry = world.json("train experts/a --device cpu --dry-run", NOBODY).0;
    assert_eq!(dry.status.code(), Some(0), "{}", talk(&dry));
}

#[test]
fn a_folder_without_an_expert_cannot_be_prepared() {
    let world = World::shelf_without_pages(&["a"]);
    let (output, document) = world.json("pretokenize --all experts/a/datasets --device cpu", NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &json!("no-experts")));
}

#[test]
fn a_test_set_that_cannot_be_scored_is_refused_before_anything_is_trained() {
    let world = World::shelf_without_pages(&["a", "b", "c", "d"]);
    std::fs::remove_file(world.path("experts/a/datasets/test.jsonl")).unwrap();
    std::fs::write(world.path("experts/b/datasets/test.jsonl"), "<<<<<<< ours\n").unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
    std::fs::write(world.path("experts/c/datasets/test.jsonl"), pointer).unwrap();
    let (output, document) = world.json(&format!("{ALL} --dry-run"), NOBODY);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let code = |index: usize| document["experts"][index]["error"]["code"].clone();
    assert_eq!([code(0), code(1), code(2)], ["data-missing", "bad-row", "lfs-pointer"]);
    assert!(talk(&output).contains("train without scores (--no-evaluate)"), "{}", talk(&output));
    assert_eq!(each(&ends(&world, ALL, "final=w,score")), ["failed", "failed", "failed", "done"]);
    assert!(!world.path(RUN).exists());
    assert_eq!(
        each(&ends(&world, &format!("{ALL} --no-evaluate"), "final=w")),
        ["done", "done", "done", "before"]
    );
}

#[test]
fn an_interrupt_ends_the_whole_shelf() {
    let world = World::shelf_without_pages(&["a", "b"]);
    let mut command = world.expert_cli(&ALL.split(' ').collect::<Vec<_>>(), "obey");
    let cli = command.arg("--json").spawn().unwrap();
    world.worker();
    signal(common::pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["experts"][1], json!({"expert": "b", "ok": false, "skipped": true}));
}

/// Two are being scored, two wait for it: `stop` ends each of them by itself, also where they were trained before.
#[test]
fn what_is_scored_or_waits_for_it_is_stopped_by_itself() {
    let world = World::shelf_without_pages(&["a", "b", "c", "d"]);
    stop_each_that_is_scored(&world, "steps=2,final=w,obey-scoring");
    stop_each_that_is_scored(&world, "obey-scoring");
    let (output, document) = world.json(TWO, "score");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    for expert in document["experts"].as_array().unwrap() {
        assert_eq!(
            (&expert["finished_before"], &expert["result"]["evaluation"]["rows"]),
            (&json!(true), &json!(5))
        );
    }
}

fn stop_each_that_is_scored(world: &World, acts: &str) {
    let experts = ["a", "b", "c", "d"].map(|expert| format!("experts/{expert}"));
    let file =
        |expert: &String, file: &str| world.path(&format!("{expert}/weights/smollm2-135m-instruct/{file}"));
    let has = |expert: &String, name: &str| file(expert, name).exists();
    for expert in &experts {
        let _ = std::fs::remove_file(file(expert, "scoring"));
    }
    let mut command = world.expert_cli(&TWO.split(' ').collect::<Vec<_>>(), acts);
    let mut cli = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_that(|| experts.iter().filter(|expert| has(expert, "scoring")).count() == 2);
    let (scored, waiting): (Vec<_>, Vec<_>) = experts.iter().partition(|expert| has(expert, "scoring"));
    // Those that wait first: their turn comes when another one ends.
    for expert in waiting.into_iter().chain(scored) {
        let output = world.expert_cli(&["stop", expert], "").output().unwrap();
        assert!(
            talk(&output).contains("asked to save and end; train --resume or --all continues"),
            "{}",
            talk(&output)
        );
    }
    await_that(|| cli.try_wait().unwrap().is_some());
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for expert in document["experts"].as_array().unwrap() {
        assert_eq!(
            (&expert["error"]["code"], &expert["exit"]),
            (&json!("interrupted"), &json!(130)),
            "{document}"
        );
    }
    assert_eq!(
        experts.iter().filter(|expert| has(expert, "scoring")).count(),
        2,
        "the others were not scored"
    );
}

/// Four experts and two slots: the last one to train is scored by its worker, one of the others in the other slot, and two wait.
#[test]
fn an_interrupt_while_experts_are_scored_loses_no_training() {
    let world = World::shelf_without_pages(&["a", "b", "c", "d"]);
    let mut command = world.expert_cli(&TWO.split(' ').collect::<Vec<_>>(), "steps=2,final=w,obey-scoring");
    let cli = command.spawn().unwrap();
    let runs = ["a", "b", "c", "d"].map(|expert| format!("experts/{expert}/weights/smollm2-135m-instruct"));
    let with = |file: &str| runs.iter().filter(|run| world.path(&format!("{run}/{file}")).exists()).count();
    await_that(|| with("scoring") == 2);
    assert_eq!(with("run.json"), 4, "all are trained before one is scored");
    signal(common::pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(table.matches("not scored").count(), 2, "{table}{}", talk(&output));
    assert_eq!(talk(&output).matches("trained, waits to be scored").count(), 3);
    assert!(talk(&output).contains("to continue: expert-cli train"), "{}", talk(&output));

    for expert in ["a", "b", "c", "d"] {
        let locked = lock(&world, expert);
        assert!(locked["result"]["adapter"].is_string() && locked["result"]["score"].is_null(), "{locked}");
    }

    let (output, document) = world.json(TWO, "refuse=a,score");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let failed = &document["experts"][0];
    assert_eq!(failed["error"]["message"], "no such device", "its scoring fails");
    assert_eq!((&failed["unscored"], &failed["result"]["steps"]), (&json!(true), &json!(7)));
    assert_eq!(lock(&world, "b")["result"]["score"]["rows"], 5);
    for expert in &document["experts"].as_array().unwrap()[1..] {
        assert_eq!(expert["finished_before"], true);
        assert_eq!(expert["result"]["evaluation"]["rows"], 5);
    }
    assert_eq!(each(&ends(&world, TWO, "score")), ["before"; 4]);
    edit(&world, "experts/d/manifest.json", "\"seed\": 42", "\"seed\": 43");
    let (output, document) = world.json(TWO, "only=d,final=other,score");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(
        !talk(&output).contains("waits to be scored"),
        "what is finished has its scores: {}",
        talk(&output)
    );
    assert_eq!(document["experts"][3]["result"]["evaluation"]["rows"], 5);
    assert_eq!(each(&ends(&world, TWO, NOBODY)), ["before"; 4]);
}
