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
fn a_manifest_stands_for_its_folder() {
    let world = World::shelf_without_pages(&["a"]);
    let (output, _) = world.json("train --all --device cpu", "final=w,score");
    assert!(output.status.success(), "{}", talk(&output));
    for words in [&["runs"][..], &["datasets"], &["clean", "--dry-run"], &["matrix"], &["stop"]] {
        let of = |expert: &str| document(&world, &[words, &[expert]].concat());
        assert_eq!(of("experts/a/manifest.json"), of("experts/a"), "{words:?}");
    }
}

#[test]
fn runs_are_listed_with_their_state() {
    let world = shelf();
    assert_eq!(document(&world, &["runs"])["runs"], json!([]));
    train(&world, "missing");
    let run = &document(&world, &["runs"])["runs"][0];
    assert_eq!((&run["state"], &run["failure"]), (&"failed".into(), &"no such device".into()));
    let listed = world.expert_cli(&["runs"], "").output().unwrap();
    assert!(talk(&listed).contains("failed: no such device"), "{}", talk(&listed));
    train(&world, "steps=3,missing");
    let run = &document(&world, &["runs"])["runs"][0];
    assert_eq!((&run["expert"], &run["state"], &run["steps"]), (&"a".into(), &"failed".into(), &3.into()));
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
fn a_data_file_that_is_a_git_lfs_pointer_is_named_as_one() {
    let world = shelf();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
    write(&world, "experts/b/datasets/test.jsonl", pointer);
    let output = world.expert_cli(&["datasets"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("datasets/test.jsonl (Git LFS pointer)"));
    let output = world.expert_cli(&["datasets", "--json"], "").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["ok"], &found["datasets"][5]["lfs_pointer"]), (&false.into(), &true.into()));
    assert_eq!(found["datasets"][0].get("lfs_pointer"), None);
}

#[test]
fn an_expert_with_data_elsewhere_does_not_hide_the_others() {
    let world = shelf();
    write(&world, "elsewhere/train.jsonl", "{\"input\": \"a\", \"output\": \"b\"}\n");
    std::fs::remove_file(world.path("experts/a/datasets/train.jsonl")).unwrap();
    let link = world.path("experts/a/datasets/train.jsonl");
    std::os::unix::fs::symlink(world.path("elsewhere/train.jsonl"), link).unwrap();
    let output = world.expert_cli(&["datasets", "--json"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert!(talk(&output).contains("--allow-path"), "{}", talk(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((found["datasets"].as_array().unwrap().len(), &found["ok"]), (3, &false.into()));
    assert_eq!(found["failed"][0]["path"], "experts/a");
    assert_eq!(found["failed"][0]["diagnostics"][0]["code"], "path-outside");
    let alone = world.expert_cli(&["datasets", "experts/a"], "").output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    let allowed = document(&world, &["datasets", "--allow-path", "elsewhere"]);
    assert_eq!((allowed["datasets"].as_array().unwrap().len(), &allowed["ok"]), (6, &true.into()));
    assert_eq!((&allowed["datasets"][0]["rows"], &allowed["failed"]), (&1.into(), &json!([])));
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

    // Of the name that the expert had before.
    let earlier = format!("{}/earlier/tokenized/{}", CACHES.rsplitn(3, '/').nth(2).unwrap(), "5".repeat(32));
    write(&world, &format!("{earlier}/cache.json"), "{}");

    let planned = document(&world, &["clean", "--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["bytes"]), (&true.into(), &14.into()));
    assert!(world.path(&format!("{CACHES}/{}", keys[2])).exists());
    let removed = document(&world, &["clean"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 2);
    assert!(!world.path(&earlier).exists());
    let mut left: Vec<_> = names(&world.path(CACHES));
    left.sort();
    assert_eq!(left, [keys[0].clone(), keys[1].clone(), "4".repeat(32), "mine".to_owned()]);
}

/// Beside a cache that a run refers to, and one that is being built.
#[test]
fn clean_takes_what_killed_builds_left() {
    let world = shelf();
    let [kept, killed, building, mine] = ["1", "2", "3", "4"].map(|digit| digit.repeat(32));
    write(&world, &format!("{CACHES}/{kept}/cache.json"), "{}");
    write(&world, &format!("{RUN}/plan.json"), "{}");
    write(&world, &format!("{RUN}/run.json"), &json!({"cache_key": kept}).to_string());
    for key in [&kept, &killed, &building] {
        write(&world, &format!("{CACHES}/.{key}.lock"), "");
    }
    let left = [
        format!("{kept}.trash"),
        format!("{killed}.partial"),
        format!("{killed}.trash"),
        format!("{killed}.0a1b2c3d.partial"),
    ];
    let stays = [format!("{building}.partial"), format!("{mine}.partial"), format!("{killed}.mine")];
    for name in left.iter().chain(&stays) {
        write(&world, &format!("{CACHES}/{name}/train/data.arrow"), "0123456789");
    }

    let held =
        std::fs::File::options().write(true).open(world.path(&format!("{CACHES}/.{building}.lock"))).unwrap();
    held.try_lock().unwrap();
    let removed = document(&world, &["clean"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), left.len(), "{removed}");
    let there = names(&world.path(CACHES));
    assert!(left.iter().all(|name| !there.contains(name)), "{there:?}");
    assert!(stays.iter().chain([&kept]).all(|name| there.contains(name)), "{there:?}");
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_report_of_nothing_is_refused_by_its_cause() {
    let world = shelf();
    let found = document(&world, &["report", "nowhere"]);
    assert_eq!((&found["ok"], &found["error"]["code"]), (&json!(false), &json!("no-folder")));
    assert_eq!(found["error"]["message"], "there is no folder nowhere");
    // What the worker refuses keeps the worker's code.
    write(&world, "file", "");
    let found = document(&world, &["report", "file"]);
    assert_eq!(found["error"]["code"], "no-run", "{found}");
    assert!(!found["error"]["message"].as_str().unwrap().contains("Traceback"));
}

fn finished(world: &World, run: &str, rank: u64, accuracy: f64) {
    let plan: Value = serde_json::from_slice(&std::fs::read(world.path("plan.json")).unwrap()).unwrap();
    let mut recipe = plan["recipe"].clone();
    recipe["adapter"]["rank"] = rank.into();
    let result = json!({"steps": 80, "train_loss": 0.5, "tokens_per_second": 1234.5, "seconds": 90.0});
    write(world, &format!("{run}/run.json"), &json!({"recipe": recipe, "result": result}).to_string());
    write(world, &format!("{run}/plan.json"), &plan.to_string());
    let event = json!({"time": 1_795_260_127.9, "attempt": 1, "body": {"type": "progress", "step": 80, "loss": 0.25}});
    write(world, &format!("{run}/events.jsonl"), &format!("{event}\n"));
    let scores = json!({"base": {"accuracy": 0.1}, "adapter": {"accuracy": accuracy}});
    write(world, &format!("{run}/evaluation.json"), &scores.to_string());
}

#[test]
fn runs_outside_of_an_expert_are_listed_with_scores_speed_and_date() {
    let world = World::new();
    finished(&world, "runs/one", 8, 0.5);
    let run = &document(&world, &["runs", "runs"])["runs"][0];
    let told = (&run["accuracy"], &run["base_accuracy"], &run["tokens_per_second"], &run["state"]);
    assert_eq!(told, (&json!(0.5), &json!(0.1), &json!(1234.5), &json!("finished")));
    assert_eq!(document(&world, &["runs", "runs/one"])["runs"][0]["path"], "runs/one");
    let output = world.expert_cli(&["runs", "runs"], "").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["50.0%", "10.0%", "1.23k", "2026-11-21 11:22", "runs/one"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn scores_of_other_rows_or_another_adapter_are_named() {
    let world = World::new();
    let mut scores = json!({"rows": 1, "base": {"accuracy": 0.0}, "adapter": {"accuracy": 1.0}});
    for (run, other, said) in [
        ("runs/few", json!({"other_rows": "few"}), "1 row"),
        ("runs/file", json!({"other_rows": "file"}), "other rows"),
        ("runs/settings", json!({"other_rows": "settings"}), "other settings"),
        (
            "runs/both",
            json!({"other_rows": "file", "other_adapter": "checkpoint-50"}),
            "checkpoint-50, other rows",
        ),
    ] {
        finished(&world, run, 8, 0.5);
        assert_eq!(document(&world, &["runs", run])["runs"][0].get("scores_of"), None);
        scores.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        write(&world, &format!("{run}/evaluation.json"), &scores.to_string());
        assert_eq!(document(&world, &["runs", run])["runs"][0]["scores_of"], said);
        for arguments in [&["runs", run][..], &["runs", "--compare", run, run]] {
            let text = String::from_utf8(world.expert_cli(arguments, "").output().unwrap().stdout).unwrap();
            assert!(text.contains("scores of") && text.contains(said), "{text}");
        }
    }
}

#[test]
fn scores_of_different_scorers_are_not_compared_in_silence() {
    let world = World::new();
    for (run, digest) in [("runs/one", "1".repeat(64)), ("runs/two", "2".repeat(64))] {
        finished(&world, run, 8, 0.5);
        let scores =
            json!({"scorer": "score.py:score", "scorer_sha256": digest, "adapter": {"accuracy": 0.5}});
        write(&world, &format!("{run}/evaluation.json"), &scores.to_string());
    }
    let listed = world.expert_cli(&["runs", "runs"], "").output().unwrap();
    let warning = String::from_utf8(listed.stderr).unwrap();
    assert!(warning.contains("were scored by different scorers"), "{warning}");
    let both = ["runs", "--compare", "runs/one", "runs/two"];
    let text = String::from_utf8(world.expert_cli(&both, "").output().unwrap().stdout).unwrap();
    assert!(
        text.contains("score.py:score (11111111)") && text.contains("score.py:score (22222222)"),
        "{text}"
    );
    assert!(text.contains("were scored by different scorers: do not compare"), "{text}");
    std::fs::copy(world.path("runs/one/evaluation.json"), world.path("runs/two/evaluation.json")).unwrap();
    for arguments in [&["runs", "runs"][..], &both] {
        let output = world.expert_cli(arguments, "").output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains("do not compare"), "{said}");
    }
}

#[test]
fn scores_of_other_settings_or_test_rows_are_not_compared_in_silence() {
    let world = World::new();
    let scores =
        json!({"scorer": "exact", "evaluation_digest": "1", "test_set": [{"sha256": "2"}], "adapter": {}});
    let said = |other: Value| {
        for (run, change) in [("runs/one", json!({})), ("runs/two", other)] {
            finished(&world, run, 8, 0.5);
            let mut scores = scores.clone();
            scores.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            write(&world, &format!("{run}/evaluation.json"), &scores.to_string());
        }
        [&["runs", "runs"][..], &["runs", "--compare", "runs/one", "runs/two"]].map(|arguments| {
            let output = world.expert_cli(arguments, "").output().unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        })
    };
    for other in [json!({"evaluation_digest": "3"}), json!({"test_set": [{"sha256": "3"}]})] {
        for said in said(other) {
            assert!(said.contains("were scored with different settings or on different test rows"), "{said}");
        }
    }
    // These are named as what they are.
    for said in said(json!({"evaluation_digest": "3", "other_rows": "settings"})) {
        assert!(!said.contains("do not compare"), "{said}");
    }
}

#[test]
fn records_of_a_run_that_cannot_be_read_are_named() {
    let world = World::new();
    finished(&world, "runs/one", 8, 0.5);
    finished(&world, "runs/two", 8, 0.5);
    let said = |words: &[&str]| talk(&world.expert_cli(words, "").output().unwrap());
    let both = ["runs", "--compare", "runs/one", "runs/two"];
    for words in [&["runs", "runs"][..], &both] {
        assert!(!said(words).contains("cannot be read"), "{}", said(words));
    }
    write(&world, "runs/one/evaluation.json", "{\"adapter\": {\"accu");
    write(&world, "runs/two/run.json", "");
    for words in [&["runs", "runs"][..], &both] {
        let said = said(words);
        assert!(said.contains("runs/one/evaluation.json cannot be read"), "{said}");
        assert!(said.contains("score the run again with `evaluate`"), "{said}");
        assert!(said.contains("runs/two/run.json cannot be read"), "{said}");
        assert!(said.contains("train again with --fresh"), "{said}");
    }
    let runs = &document(&world, &["runs", "runs"])["runs"];
    assert_eq!(runs[0]["unreadable"], json!(["evaluation.json"]));
    assert_eq!(runs[1]["unreadable"], json!(["run.json"]));
}

#[test]
fn a_report_is_of_the_run_that_exists() {
    let world = shelf();
    let report = |words: &[&str]| document(&world, &[&["report", "-m", "experts/a"], words].concat());
    assert_eq!(report(&[])["error"]["code"], "no-runs");
    finished(&world, "experts/a/weights/other", 8, 0.5);
    let page = report(&[])["report"].as_str().unwrap().to_owned();
    assert!(page.ends_with("experts/a/weights/other/report.html"), "{page}");
    let named = report(&["--model", "smollm2-135m"])["error"]["message"].to_string();
    assert!(named.contains("other runs: experts/a/weights/other"), "{named}");
    finished(&world, "experts/a/weights/another", 8, 0.5);
    let several = report(&[])["error"]["message"].to_string();
    assert!(several.contains("another") && several.contains("weights/other"), "{several}");
    finished(&world, RUN, 8, 0.5);
    let page = report(&[])["report"].as_str().unwrap().to_owned();
    assert!(page.ends_with(&format!("{RUN}/report.html")), "of the first base: {page}");
}

#[test]
fn compared_runs_show_differences_and_results() {
    let world = World::new();
    finished(&world, "runs/one", 8, 0.5);
    finished(&world, "runs/two", 16, 0.75);
    let both = ["runs", "--compare", "runs/one", "runs/two"];
    let compared = document(&world, &both);
    assert_eq!(compared["settings"], json!({"adapter.rank": [8, 16]}));
    assert_eq!((&compared["same_recipe"], &compared["machine"]), (&json!(false), &json!({})));
    let text = String::from_utf8(world.expert_cli(&both, "").output().unwrap().stdout).unwrap();
    for part in ["rank  ", "one", "two", "75.0%"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let same = String::from_utf8(
        world.expert_cli(&["runs", "--compare", "runs/one", "runs/one"], "").output().unwrap().stdout,
    );
    assert!(same.unwrap().contains("The recipes are the same."));
    // An expert stands for its only run.
    finished(&world, "experts/one/weights/base", 16, 0.75);
    let only = document(&world, &["runs", "--compare", "runs/one", "experts/one"]);
    assert_eq!(only["settings"], json!({"adapter.rank": [8, 16]}));
    finished(&world, "experts/one/weights/other", 16, 0.75);
    let several = world.expert_cli(&["runs", "--compare", "runs/one", "experts/one"], "").output().unwrap();
    assert!(talk(&several).contains("name one: experts/one/weights/base, "), "{}", talk(&several));
    let output = world.expert_cli(&["runs", "--compare", "runs/one", "runs"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("runs holds no run"));
}

/// With other rows, another base or other code, equal settings make another adapter.
#[test]
fn compared_runs_show_other_data_base_and_code() {
    let world = World::new();
    let inputs = |rows: &str, base: &str, native: &str| {
        json!({
            "recipe": "r", "data": {"train.jsonl": rows.repeat(64), "test.jsonl": "0".repeat(64)},
            "base": format!("sha256:{}", base.repeat(64)), "tokenizer": null, "template": "t",
            "code": {"version": "0.1.0", "worker": "w", "native": native},
        })
    };
    for (run, inputs) in [("runs/one", inputs("1", "a", "m")), ("runs/two", inputs("2", "b", "n"))] {
        finished(&world, run, 8, 0.5);
        let path = world.path(&format!("{run}/run.json"));
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        record["inputs"] = inputs;
        std::fs::write(path, record.to_string()).unwrap();
    }
    let compared = document(&world, &["runs", "--compare", "runs/one", "runs/two"]);
    let differing: Vec<&String> = compared["inputs"].as_object().unwrap().keys().collect();
    assert_eq!(differing, ["base", "code.native", "data.train.jsonl"]);
    let text = |runs: [&str; 2]| {
        let output = world.expert_cli(&["runs", "--compare", runs[0], runs[1]], "").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let both = text(["runs/one", "runs/two"]);
    for part in [
        "The recipes are the same.",
        "data, base and code",
        "data.train.jsonl     111111111111  222222222222",
    ] {
        assert!(both.contains(part), "{part} in {both}");
    }
    // A run in progress has its plan alone, and one whose records are damaged has nothing to compare.
    std::fs::remove_file(world.path("runs/two/run.json")).unwrap();
    let plan: Value = serde_json::from_slice(&std::fs::read(world.path("plan.json")).unwrap()).unwrap();
    let mut planned = plan.clone();
    planned["inputs"] = inputs("3", "a", "m");
    write(&world, "runs/two/plan.json", &planned.to_string());
    assert!(text(["runs/one", "runs/two"]).contains("data.train.jsonl     111111111111  333333333333"));
    write(&world, "runs/two/plan.json", &plan.to_string()[..99]);
    let broken = text(["runs/one", "runs/two"]);
    assert!(broken.contains("No recipe is recorded in two.\n"), "{broken}");
    assert!(broken.contains("No digest of data, base and code is recorded in two.\n"), "{broken}");
    assert!(!broken.contains("The recipes are the same"), "{broken}");
    let compared = document(&world, &["runs", "--compare", "runs/one", "runs/two"]);
    assert_eq!((&compared["same_recipe"], &compared["settings"]), (&Value::Null, &json!({})));
}

#[test]
fn a_page_of_all_runs_is_in_the_folder_and_a_folder_without_runs_is_refused() {
    let world = shelf();
    let output = world.expert_cli(&["report", "--all"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("there is no run in experts"));
    finished(&world, RUN, 8, 0.5);
    for arguments in [&["report", "--all"][..], &["report", "experts"], &["report", "--all", "experts"]] {
        let _ = std::fs::remove_file(world.path("experts/report.html"));
        let told = document(&world, arguments);
        let page = std::fs::canonicalize(world.path("experts/report.html")).unwrap();
        assert_eq!(std::fs::canonicalize(told["report"].as_str().unwrap()).unwrap(), page);
        assert!(
            std::fs::read_to_string(page).unwrap().contains("a/weights/smollm2-135m-instruct/report.html")
        );
        assert!(world.path(&format!("{RUN}/report.html")).is_file());
    }
}

#[test]
fn a_shelf_that_was_trained_has_its_page() {
    let world = shelf();
    let train = ["train", "--all", "--device", "cpu", "--no-evaluate", "--jobs", "1"];
    let output = world.expert_cli(&train, "steps=2,final").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("all runs: "), "{}", talk(&output));
    let page = std::fs::read_to_string(world.path("experts/report.html")).unwrap();
    assert!(page.contains("a/weights/") && page.contains("b/weights/"));
    std::fs::remove_file(world.path("experts/report.html")).unwrap();
    let output = world.expert_cli(&train, "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(!world.path("experts/report.html").exists(), "nothing was trained, so no Python was started");
}

#[test]
fn a_shelf_that_was_only_scored_says_so_and_has_a_new_page() {
    let world = shelf();
    let trained = |more: &[&str], acts: &str| {
        let train = [&["train", "--all", "--device", "cpu", "--jobs", "1"], more].concat();
        let output = world.expert_cli(&train, acts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        talk(&output)
    };
    trained(&["--no-evaluate"], "steps=2,final=whole");
    let page = world.path("experts/report.html");
    std::fs::write(&page, "without scores").unwrap();
    let said = trained(&[], "score");
    assert!(said.contains("a: finished before: scored"), "{said}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("a/weights/"), "{said}");
    std::fs::write(&page, "the same").unwrap();
    let said = trained(&[], "die=9");
    assert!(said.contains("a: finished before: nothing changed"), "{said}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "the same");
}

#[test]
fn clean_of_one_expert_keeps_what_another_ones_runs_use() {
    let world = shelf();
    let keys = ["1", "2", "3"].map(|digit| digit.repeat(32));
    for key in &keys {
        write(&world, &format!("{CACHES}/{key}/cache.json"), "{}");
    }
    // `b` trains from the cache folder of `a`, with --allow-path.
    let other = "experts/b/weights/x";
    let plan = json!({"machine": {"paths": {"cache": world.path(CACHES)}}});
    write(&world, &format!("{other}/plan.json"), &plan.to_string());
    write(
        &world,
        &format!("{other}/checkpoint-1/state.json"),
        &json!({"facts": {"cache_key": keys[1]}}).to_string(),
    );
    let held = std::fs::File::open(world.path(other)).unwrap();
    held.try_lock().unwrap();
    let during = document(&world, &["clean", "experts/a"]);
    assert_eq!(during["removed"], json!([]), "a run that has no checkpoint yet may use any of them");
    drop(held);
    document(&world, &["clean", "experts/a"]);
    assert_eq!(names(&world.path(CACHES)), [keys[1].clone()]);
}

#[test]
fn clean_keeps_what_the_trials_of_a_search_use() {
    let world = shelf();
    let keys = ["1", "2", "3"].map(|digit| digit.repeat(32));
    for key in &keys {
        write(&world, &format!("{CACHES}/{key}/cache.json"), "{}");
    }
    let (search, trial) = ("experts/a/weights/x-search", "experts/a/weights/x-search/trial-0/rung-1");
    write(&world, &format!("{search}/search.json"), "{}");
    write(&world, &format!("{trial}/plan.json"), "{}");
    write(&world, &format!("{trial}/run.json"), &json!({"cache_key": keys[0]}).to_string());
    let unfinished = "experts/a/weights/x-search/trial-1/rung-2";
    write(&world, &format!("{unfinished}/plan.json"), "{}");
    write(
        &world,
        &format!("{unfinished}/checkpoint-1/state.json"),
        &json!({"facts": {"cache_key": keys[1]}}).to_string(),
    );
    document(&world, &["clean", "experts/a"]);
    let mut left = names(&world.path(CACHES));
    left.sort();
    assert_eq!(left, keys[..2]);
    // Between two trials only the search's folder is locked.
    write(&world, &format!("{CACHES}/{}/cache.json", keys[2]), "{}");
    let held = std::fs::File::open(world.path(search)).unwrap();
    held.try_lock().unwrap();
    let during = document(&world, &["clean", "experts/a"]);
    assert_eq!(during["removed"], json!([]), "the next trial may use any of them");
}

#[test]
fn clean_looks_at_caches_of_experts_with_data_elsewhere_and_leaves_caches_elsewhere() {
    let world = shelf();
    let (own, other) = ("1".repeat(32), "2".repeat(32));
    write(&world, &format!("{CACHES}/{own}/cache.json"), "{}");
    write(&world, &format!("caches/{other}/cache.json"), "{}");
    let rows = world.path("experts/a/datasets/train.jsonl");
    write(&world, "elsewhere/train.jsonl", &std::fs::read_to_string(&rows).unwrap());
    std::fs::remove_file(&rows).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere/train.jsonl"), rows).unwrap();
    document(&world, &["clean", "experts/a"]);
    assert!(names(&world.path(CACHES)).is_empty());
    let manifest = world.path("experts/b/manifest.json");
    let mut edited: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    edited["training"]["config"]["pretokenized_cache"] = json!("../../caches");
    std::fs::write(&manifest, edited.to_string()).unwrap();
    let output = world.expert_cli(&["clean", "experts/b"], "").output().unwrap();
    assert!(talk(&output).contains("allow it with --allow-path"), "{}", talk(&output));
    assert_eq!(names(&world.path("caches")), [other]);
    document(&world, &["clean", "experts/b", "--allow-path", "caches"]);
    assert!(names(&world.path("caches")).is_empty());
}

#[test]
fn clean_takes_copies_of_rows_of_another_tool_that_no_run_refers_to() {
    let world = shelf();
    let copies = "home/foreign";
    let keys = ["1", "2", "3"].map(|digit| format!("foreign-{}", digit.repeat(24)));
    for key in keys.iter().map(String::as_str).chain(["foreign-mine"]) {
        write(&world, &format!("{copies}/{key}/cache.json"), "{}");
    }
    write(&world, "experts/a/weights/x/plan.json", "{}");
    write(&world, "experts/a/weights/x/run.json", &json!({"cache_key": keys[0]}).to_string());
    let read = std::fs::File::open(world.path(&format!("{copies}/{}", keys[1]))).unwrap();
    read.try_lock_shared().unwrap();
    let said = document(&world, &["clean", "experts/a", "--dry-run"]);
    assert!(said["removed"][0]["path"].as_str().unwrap().ends_with(&keys[2]), "{said}");
    document(&world, &["clean", "experts/a"]);
    let mut left = names(&world.path(copies));
    left.sort();
    assert_eq!(left, [&keys[0], &keys[1], "foreign-mine"]);
}

/// A run that was started with `-o` is in no folder that `clean` looks at.
#[test]
fn clean_keeps_what_a_training_reads_wherever_its_run_is() {
    let world = shelf();
    let keys = ["1", "2"].map(|digit| digit.repeat(32));
    for key in &keys {
        write(&world, &format!("{CACHES}/{key}/cache.json"), "{}");
    }
    let read = std::fs::File::open(world.path(&format!("{CACHES}/{}", keys[0]))).unwrap();
    read.try_lock_shared().unwrap();
    let output = world.expert_cli(&["clean", "experts/a"], "").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    assert!(talk(&output).contains("is used by a running training and is skipped"), "{}", talk(&output));
    assert_eq!(names(&world.path(CACHES)), [keys[0].clone()]);
    drop(read);
    document(&world, &["clean", "experts/a"]);
    assert!(names(&world.path(CACHES)).is_empty());
}

#[test]
fn clean_takes_only_gguf_files_that_no_expert_needs_and_no_server_holds() {
    let world = shelf();
    let file = |kind: &str, digit: &str| format!("home/gguf/{kind}-{}", digit.repeat(32));
    let made = |name: &str, base: &str, adapter: Option<&str>| {
        write(&world, &format!("{name}.gguf"), "0123456789");
        let mut about = json!({"experts": [world.path("gone"), world.path("final")], "base": {"m": base}});
        if let Some(adapter) = adapter {
            about["adapter"] = json!({"a": adapter});
        }
        write(&world, &format!("{name}.json"), &about.to_string());
    };
    let digest = |text: &str| json!({"sha256": text, "bytes": 1});
    let record = json!({"base": {"files": {"m": digest("base")}}, "files": {"a": digest("new")}});
    write(&world, "final/expert.json", &record.to_string());
    made(&file("base", "1"), "base", None);
    made(&file("base", "2"), "another base", None);
    made(&file("adapter", "3"), "base", Some("new"));
    made(&file("adapter", "4"), "base", Some("old"));
    made(&file("adapter", "5"), "base", Some("old"));
    // Without a note nobody is known to need it; other names are the user's.
    write(&world, &format!("{}.gguf", file("base", "6")), "0123456789");
    for mine in ["home/gguf/mine.gguf", "home/gguf/base-1.gguf", "home/gguf/base-mine.json"] {
        write(&world, mine, "mine");
    }
    let served = std::fs::File::open(world.path(&format!("{}.gguf", file("adapter", "5")))).unwrap();
    served.try_lock_shared().unwrap();

    let planned = document(&world, &["clean", "--dry-run"]);
    assert_eq!(planned["bytes"], 30, "{planned}");
    assert!(world.path(&format!("{}.gguf", file("base", "2"))).exists());
    document(&world, &["clean"]);
    let mut left = names(&world.path("home/gguf"));
    left.sort();
    let kept = [file("adapter", "3"), file("adapter", "5"), file("base", "1")];
    let mut expected: Vec<String> = kept
        .iter()
        .flat_map(|name| [format!("{name}.gguf"), format!("{name}.json")])
        .map(|path| path.trim_start_matches("home/gguf/").to_owned())
        .chain(["base-1.gguf", "base-mine.json", "mine.gguf"].map(str::to_owned))
        .collect();
    expected.sort();
    assert_eq!(left, expected);
    drop(served);
    document(&world, &["clean"]);
    assert!(!world.path(&format!("{}.gguf", file("adapter", "5"))).exists());
}

#[test]
fn a_cache_folder_of_two_experts_is_cleaned_once() {
    let world = shelf();
    write(&world, &format!("{CACHES}/{}/cache.json", "1".repeat(32)), "{}");
    // The same expert by two names.
    std::fs::remove_dir_all(world.path("experts/b")).unwrap();
    std::os::unix::fs::symlink("a", world.path("experts/b")).unwrap();
    let removed = document(&world, &["clean"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1, "{removed}");
}

#[test]
fn more_entries_than_github_accepts_are_reported_with_a_way_to_split_them() {
    let world = World::new();
    for number in 0..300 {
        let folder = world.path(&format!("experts/e{number:03}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("manifest.json"), "{}").unwrap();
    }
    let list = |arguments: &[&str]| {
        let output = world.expert_cli(&[&["matrix"], arguments].concat(), "").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["include"].as_array().unwrap().clone(), talk(&output))
    };
    let (all, said) = list(&[]);
    assert_eq!(all.len(), 300);
    assert!(said.contains("has 300 entries") && said.contains("--shard 1/2 to --shard 2/2"), "{said}");
    let (one, said) = list(&["--shard", "1/2"]);
    assert_eq!(said, "");
    let (two, _) = list(&["--shard", "2/2"]);
    assert_eq!([one, two].concat(), all);
}
