//! `search` finds a planted best rate, resumes after a kill, and never touches test rows.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{World, alive, await_that, pid, signal, talk, terminal};
use rustix::process::Signal;
use serde_json::{Value, json};

const SEARCH: &str = "search experts/a --device cpu --jobs 1 --space lr=1e-5..1e-2,rank=4|8 --budget 9";
/// Of seven trainings.
const SHORT: &str = "search experts/a --device cpu --jobs 1 --space lr=1e-5..1e-2,rank=4|8 --budget 3";
const FOLDER: &str = "experts/a/weights/smollm2-135m-instruct-search";
const BEST: f64 = 3e-3;
const PLANTED: &str = "planted=3e-3";
/// A worker that must not be started.
const NOBODY: &str = "die=9";

fn rate(trial: &Value) -> Option<f64> {
    let settings = trial["settings"].as_array().unwrap();
    settings.iter().find(|it| it["key"] == "learning_rate").and_then(|it| it["value"].as_f64())
}

/// How often each run was trained.
fn trained(world: &World) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(world.path("pid.trained")).unwrap_or_default();
    text.lines().fold(BTreeMap::new(), |mut found, line| {
        *found.entry(line.to_owned()).or_default() += 1;
        found
    })
}

fn manifest(world: &World) -> String {
    std::fs::read_to_string(world.path("experts/a/manifest.json")).unwrap()
}

#[test]
fn the_shape_of_an_adapter_to_start_from_is_not_searched() {
    let world = World::shelf(&["a"]);
    let folder = world.path("experts/a/first");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("adapter_config.json"), r#"{"peft_type": "LORA"}"#).unwrap();
    std::fs::write(folder.join("adapter_model.safetensors"), "weights").unwrap();
    let search =
        "search experts/a --device cpu --jobs 1 --budget 3 --set training.config.initial_adapter=first";
    for space in ["rank=4|8", "lr,alpha", "lr,rank"] {
        let (output, document) = world.json(&format!("{search} --space {space}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("cannot be searched: it is that of `initial_adapter`"), "{message}");
    }
    let (output, found) = world.json(search, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("rank is not searched"), "{}", talk(&output));
    let names: Vec<_> = found["space"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["lr", "steps"]);
}

#[test]
fn an_adapter_without_a_rank_is_searched_without_it() {
    let world = World::shelf(&["a"]);
    let ia3 =
        ["adapter_type=ia3", "rank=null", "alpha=null"].map(|it| format!(" --set training.config.{it}"));
    let search = format!("search experts/a --device cpu --jobs 1 --budget 3{}", ia3.concat());
    for space in ["rank=4|8", "lr,alpha", "dropout", "lr,rank,steps"] {
        let (output, document) = world.json(&format!("{search} --space {space}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("cannot be searched: the adapter type `ia3` has none"), "{message}");
    }
    let (output, found) = world.json(&search, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("rank is not searched: the adapter type `ia3` has none"));
    let trials = found["trials"].as_array().unwrap();
    assert!(trials.iter().all(|it| it["scores"][0]["failure"].is_null()), "{found}");
}

#[test]
fn the_planted_best_rate_is_found_and_written() {
    let world = World::shelf(&["a"]);
    // Nothing can read these rows.
    std::fs::write(world.path("experts/a/datasets/test.jsonl"), b"\xff no row").unwrap();
    let (output, found) = world.json(SEARCH, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("9 trials: about"), "{}", talk(&output));
    let trials = found["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 9);
    let distance = |trial: &Value| rate(trial).map_or(f64::MAX, |rate| (rate / BEST).ln().abs());
    let nearest = (1..9).min_by(|one, other| distance(&trials[*one]).total_cmp(&distance(&trials[*other])));
    assert_eq!(found["winner"].as_u64(), nearest.map(|it| it as u64), "{found}");
    assert_eq!(found["winner_rung"], 2);
    let reached =
        |rungs: usize| trials.iter().filter(|it| it["scores"].as_array().unwrap().len() == rungs).count();
    let own = trials[0]["scores"].as_array().unwrap().len();
    assert_eq!((own, reached(1), reached(3)), (3, 9 - 2 - reached(2), 2), "{found}");
    assert!(trained(&world).values().all(|times| *times == 1), "{:?}", trained(&world));
    for run in trained(&world).keys() {
        let plan = std::fs::read_to_string(std::path::Path::new(run).join("plan.json")).unwrap();
        assert!(plan.contains("validation.jsonl") && !plan.contains("test.jsonl"), "{run}");
        assert!(plan.contains("\"without_base\": true"), "trials are compared with each other: {run}");
    }
    assert!(!world.path("experts/a/expert.lock").exists(), "a trial is not the expert's run");

    let before = manifest(&world);
    let words: Vec<&str> = SEARCH.split(' ').collect();
    let (status, text) = terminal::run(&mut world.expert_cli(&words, NOBODY), 80);
    assert!(status.success(), "nothing is trained again: {text}");
    let shown = terminal::without_own_sequences(&text);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("this difference is within noise"), "{shown}");
    assert_eq!(manifest(&world), before);
    let page = std::fs::read_to_string(world.path(FOLDER).join("report.html")).unwrap();
    assert!(page.contains("Accuracy by length of training") && page.contains("within noise"), "{page}");

    let (output, _) = world.json(&format!("{SEARCH} --write"), NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("own recipe is within noise"), "{}", talk(&output));
    let after = manifest(&world);
    let changed: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    let wanted = ["\"learning_rate\": ", "\"rank\": ", "\"alpha\": "];
    assert!(
        !changed.is_empty() && changed.iter().all(|line| wanted.iter().any(|it| line.contains(it))),
        "{changed:?}"
    );
    let best = trials[found["winner"].as_u64().unwrap() as usize].clone();
    assert!(changed.iter().any(|line| line.contains(&rate(&best).unwrap().to_string())), "{changed:?}");
    assert!(
        before.lines().filter(|line| line.contains("\"_")).all(|line| after.contains(line)),
        "comments stay"
    );
    for again in [format!("{SEARCH} --write"), SEARCH.to_owned()] {
        let (output, ended) = world.json(&again, NOBODY);
        assert_eq!(output.status.code(), Some(0), "the search is over: {}", talk(&output));
        assert_eq!(ended["trials"], found["trials"]);
        assert!(talk(&output).contains("the manifest has these settings already"), "{}", talk(&output));
        assert_eq!(manifest(&world), after);
    }
    std::fs::write(world.path("experts/a/manifest.json"), &before).unwrap();
    let (output, _) = world.json(&format!("{SEARCH} --write"), NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(manifest(&world), after, "written again where they were taken out");
    for other in ["--rows 3", "--search-seed 5"] {
        let (output, refused) = world.json(&format!("{SEARCH} {other}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{other} is another search: {}", talk(&output));
        assert_eq!(refused["error"]["code"], "search-changed");
    }
    edit(&world, |manifest| manifest["training"]["config"]["seed"] = json!(7));
    let (output, refused) = world.json(SEARCH, NOBODY);
    assert_eq!(output.status.code(), Some(2), "the manifest's own recipe is another one: {}", talk(&output));
    assert_eq!(refused["error"]["code"], "search-changed");
}

/// The record as if the time had ended before the winner was trained in full.
fn end_early(world: &World, winner: u64) {
    let mut early = record(world);
    early["seconds"] = json!(1e7);
    early["winner"] = Value::Null;
    early["winner_rung"] = Value::Null;
    early["comparison"] = Value::Null;
    early["trials"][winner as usize]["scores"].as_array_mut().unwrap().pop();
    std::fs::write(world.path(FOLDER).join("search.json"), early.to_string()).unwrap();
}

#[test]
fn a_winner_that_was_not_trained_in_full_is_named_with_its_length_and_not_written() {
    let world = World::shelf(&["a"]);
    let timed = SHORT.replace("--budget 3", "--budget 8m");
    let (output, found) = world.json(&timed, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let winner = found["winner"].as_u64().unwrap();
    assert!(winner > 0 && found["winner_rung"] == 2, "{found}");
    end_early(&world, winner);
    let before = manifest(&world);
    let written = format!("{timed} --write");
    let words: Vec<&str> = written.split(' ').collect();
    let output = world.expert_cli(&words, PLANTED).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let shown = String::from_utf8_lossy(&output.stdout).replace("\n  ", " ");
    assert!(shown.contains(&format!("best at a third of their steps: trial {winner}")), "{shown}");
    assert!(shown.contains("the budget ended before each trial") && shown.contains("full length"), "{shown}");
    assert!(!shown.contains("no trial is better"), "{shown}");
    assert!(talk(&output).contains("nothing is written to"), "{}", talk(&output));
    assert!(!talk(&output).contains("with --write puts"), "{}", talk(&output));
    assert_eq!(manifest(&world), before);
    let longer = timed.replace("--budget 8m", "--budget 9000h");
    let (output, found) = world.json(&longer, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!((found["winner"].as_u64(), &found["winner_rung"]), (Some(winner), &json!(2)));
}

#[test]
fn the_own_recipe_is_trained_again_where_it_failed() {
    let world = World::shelf(&["a"]);
    let (_, plan) = world.json("plan experts/a", NOBODY);
    let own = &plan["plan"]["recipe"]["adapter"]["rank"];
    let (output, refused) = world.json(SHORT, &format!("poison={own},planted=3e-3"));
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert_eq!(refused["error"]["code"], "own-recipe-failed", "{refused}");
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(found["trials"][0]["scores"].as_array().unwrap().len(), 3, "{found}");
    assert!(found["trials"][0]["scores"][0]["failure"].is_null(), "{found}");
}

/// As where it ran out of memory at full length.
#[test]
fn a_winner_is_not_written_where_the_own_recipe_failed_at_its_length() {
    let world = World::shelf(&["a"]);
    let (_, plan) = world.json("plan experts/a", NOBODY);
    let own = &plan["plan"]["recipe"]["adapter"]["rank"];
    let failing = format!("poison={own},planted=3e-3");
    let wider = SHORT.replace("rank=4|8", "rank=3|5");
    let (output, mut found) = world.json(&wider, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(found["winner"].as_u64() > Some(0) && found["winner_rung"] == 2, "{found}");
    found["trials"][0]["scores"][2] = json!({"rung": 2, "failure": "no memory"});
    found["comparison"] = Value::Null;
    std::fs::write(world.path(FOLDER).join("search.json"), found.to_string()).unwrap();
    std::fs::remove_dir_all(world.path(FOLDER).join("trial-0/rung-3")).unwrap();
    let before = manifest(&world);
    let (output, _) = world.json(&format!("{wider} --write"), &failing);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("own recipe failed at full length"), "{}", talk(&output));
    assert_eq!(manifest(&world), before);
    let (output, _) = world.json(&wider, &failing);
    assert!(talk(&output).contains("trains the manifest's own recipe again"), "{}", talk(&output));
    assert!(!talk(&output).contains("with --write puts"), "{}", talk(&output));
    let (output, found) = world.json(&format!("{wider} --write"), PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(found["trials"][0]["scores"][2]["failure"].is_null(), "{found}");
    assert!(found["comparison"].is_object(), "{found}");
    assert_ne!(manifest(&world), before);
}

#[test]
fn scores_of_two_scorers_are_not_mixed() {
    let world = World::shelf(&["a"]);
    let (output, _) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let refused = |command: &str, changed: &str| {
        let (output, refused) = world.json(command, NOBODY);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert_eq!(refused["error"]["code"], "search-changed", "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(changed), "{refused}");
    };
    refused(&format!("{SHORT} --set evaluation.scorer=contains"), "how answers are made and scored");
    let place = world.path(FOLDER).join("search.json");
    let first = record(&world);
    for (key, what) in [("scorer_sha256", "scorer"), ("grammar_sha256", "grammar")] {
        let mut other = first.clone();
        other["scoring"][key] = json!("0".repeat(64));
        std::fs::write(&place, other.to_string()).unwrap();
        refused(SHORT, &format!("since then changed: {what}"));
    }
    // A record of an older version says nothing of the scorer; the next one keeps it.
    let mut older = first;
    older.as_object_mut().unwrap().remove("scoring");
    std::fs::write(&place, older.to_string()).unwrap();
    let (output, found) = world.json(SHORT, NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(found["scoring"]["evaluation_digest"].is_string(), "{found}");
}

#[test]
fn a_manifest_that_changes_during_a_search_ends_it() {
    let world = World::shelf(&["a"]);
    let words: Vec<&str> = SHORT.split(' ').collect();
    let cli = world.expert_cli(&words, "stall=1,planted=3e-3").spawn().unwrap();
    await_that(|| world.path("pid.stalled").exists());
    let before = manifest(&world);
    edit(&world, |manifest| manifest["training"]["config"]["weight_decay"] = json!(0.5));
    std::fs::write(world.path("pid.released"), "").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("these changed since it began: manifest"), "{}", talk(&output));
    assert_eq!(trained(&world).len(), 3, "what was prepared before is finished");
    let first = record(&world);
    std::fs::write(world.path("experts/a/manifest.json"), before).unwrap();
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &first, &found);
}

/// Of the trial that ran meanwhile nobody knows which rows it was trained and scored with.
#[test]
fn data_that_changes_while_a_trial_is_trained_leaves_no_score_of_it() {
    let world = World::shelf(&["a"]);
    let words: Vec<&str> = SHORT.split(' ').collect();
    let cli = world.expert_cli(&words, "stall=1,planted=3e-3").spawn().unwrap();
    await_that(|| world.path("pid.stalled").exists());
    let data = world.path("experts/a/datasets/train.jsonl");
    let before = std::fs::read_to_string(&data).unwrap();
    std::fs::write(&data, before.replacen("Monday", "Sunday", 1)).unwrap();
    std::fs::write(world.path("pid.released"), "").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let said = talk(&output);
    assert!(said.contains("these changed since it began") && said.contains("train.jsonl"), "{said}");
    assert_eq!(trained(&world).len(), 2, "no further trial is started");
    let scores = |record: &Value, trial: usize| record["trials"][trial]["scores"].as_array().unwrap().len();
    let first = record(&world);
    assert_eq!((scores(&first, 0), scores(&first, 1)), (1, 0), "{first}");
    assert!(!world.path(FOLDER).join("trial-1/rung-1").exists());
    std::fs::write(&data, before).unwrap();
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(found["winner_rung"], 2, "{found}");
    let again: Vec<String> =
        trained(&world).into_iter().filter(|(_, times)| *times > 1).map(|(run, _)| run).collect();
    assert!(again.len() == 1 && again[0].ends_with("trial-1/rung-1"), "{again:?}");
}

#[test]
fn a_linked_manifest_stays_a_link_and_keeps_its_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let world = World::shelf(&["a"]);
    let (link, real) = (world.path("experts/a/manifest.json"), world.path("experts/a/shared.json"));
    std::fs::rename(&link, &real).unwrap();
    symlink("shared.json", &link).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = manifest(&world);
    let (output, _) = world.json(&format!("{SHORT} --write"), PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(link.symlink_metadata().unwrap().is_symlink() && manifest(&world) != before);
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);

    let outside = world.path("outside.json");
    std::fs::rename(&real, &outside).unwrap();
    std::fs::remove_file(&link).unwrap();
    symlink(&outside, &link).unwrap();
    let (output, refused) = world.json(&format!("{SHORT} --fresh --write"), NOBODY);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(refused["error"]["code"], "link-out", "{refused}");
}

fn edit(world: &World, change: impl FnOnce(&mut Value)) {
    let mut document: Value = serde_json::from_str(&manifest(world)).unwrap();
    change(&mut document);
    let text = serde_json::to_string_pretty(&document).unwrap();
    std::fs::write(world.path("experts/a/manifest.json"), text).unwrap();
}

#[test]
fn settings_are_written_where_adapters_describe_them() {
    let world = World::shelf(&["a"]);
    edit(&world, |manifest| {
        let config = manifest["training"]["config"].as_object_mut().unwrap();
        let (rank, alpha) = (config.remove("rank").unwrap(), config.remove("alpha").unwrap());
        let adapter = json!({"type": "lora", "r": rank, "alpha": alpha});
        let base = manifest["base_models"][0].as_object_mut().unwrap();
        base.insert("adapters".to_owned(), json!([adapter]));
    });
    let (output, found) = world.json(&format!("{SHORT} --write"), PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let winner = &found["trials"][found["winner"].as_u64().unwrap() as usize];
    let value = |key: &str| {
        let settings = winner["settings"].as_array().unwrap();
        settings.iter().find(|it| it["key"] == key).unwrap()["value"].as_f64()
    };
    let written: Value = serde_json::from_str(&manifest(&world)).unwrap();
    let adapter = &written["base_models"][0]["adapters"][0];
    assert_eq!((adapter["r"].as_f64(), adapter["alpha"].as_f64()), (value("rank"), value("alpha")));
    let config = &written["training"]["config"];
    assert_eq!((config["learning_rate"].as_f64(), config.get("rank")), (value("learning_rate"), None));
}

#[test]
fn a_searched_warm_up_takes_the_place_of_warm_up_steps() {
    let world = World::shelf(&["a"]);
    edit(&world, |manifest| {
        let config = manifest["training"]["config"].as_object_mut().unwrap();
        config.remove("warmup_ratio");
        config.insert("warmup_steps".to_owned(), json!(3));
    });
    let command = "search experts/a --device cpu --jobs 1 --space warmup=0.05|0.1,lr=3e-3 --budget 3 --write";
    let (output, found) = world.json(command, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let trials = found["trials"].as_array().unwrap();
    assert!(trials.iter().all(|it| it["scores"][0]["failure"].is_null()), "{found}");
    let warmup = |trial: usize| {
        let plan = world.path(FOLDER).join(format!("trial-{trial}/rung-1/plan.json"));
        let plan: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
        plan["recipe"]["schedule"]["warmup"]["unit"].clone()
    };
    assert_eq!((warmup(0), warmup(1)), (json!("steps"), json!("ratio")));
    let written: Value = serde_json::from_str(&manifest(&world)).unwrap();
    let config = &written["training"]["config"];
    assert!(config["warmup_steps"] == 0 && config["warmup_ratio"].as_f64() > Some(0.0), "{config}");
}

#[test]
fn settings_that_cannot_be_written_are_refused_before_the_search() {
    let world = World::shelf(&["a"]);
    edit(&world, |manifest| {
        manifest["training"]["config"].as_object_mut().unwrap().remove("rank");
    });
    let command = "search experts/a --device cpu --space lr=1e-5..1e-2 --set training.config.rank=8 --write";
    let before = manifest(&world);
    let (output, refused) = world.json(command, NOBODY);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(refused["diagnostics"][0]["code"], "rank-missing", "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("--set"), "{refused}");
    assert!(talk(&output).contains("needs `rank`"), "{}", talk(&output));
    assert!(manifest(&world) == before && trained(&world).is_empty());
}

#[test]
#[ignore = "in `make test-all`; a unit test stands for it"]
fn the_validation_loss_decides_between_equal_scores() {
    let world = World::shelf(&["a"]);
    let (output, found) = world.json(SHORT, "planted=3e-3,even");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let trials = found["trials"].as_array().unwrap();
    let (winner, rung) = (found["winner"].as_u64().unwrap() as usize, found["winner_rung"].as_u64().unwrap());
    assert!(winner > 0, "the order of drawing decided: {found}");
    let loss = |trial: &Value, rung: u64| trial["scores"][rung as usize]["validation_loss"].as_f64();
    let least = trials.iter().filter_map(|it| loss(it, rung)).min_by(f64::total_cmp);
    assert_eq!(loss(&trials[winner], rung), least);
    let (first, own) = (loss(&trials[winner], 0).unwrap(), loss(&trials[0], rung).unwrap());
    assert!(trials.iter().filter_map(|it| loss(it, 0)).all(|it| first <= it), "{found}");
    let words: Vec<&str> = SHORT.split(' ').collect();
    let shown = world.expert_cli(&words, NOBODY).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let decided = format!(
        "the manifest's own recipe answers as many of them right: the validation loss decided ({:.4} against {own:.4})",
        least.unwrap()
    );
    assert!(shown.replace("\n  ", " ").contains(&decided), "{shown}");
    assert!(shown.lines().next().unwrap().contains("loss"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_search_with_a_full_disk_continues_when_there_is_room() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    // A trial finds the disk full, and trains again.
    let world = World::shelf(&["a"]);
    let (output, refused) = world.json(SHORT, "full=1,planted=3e-3");
    assert_eq!(output.status.code(), Some(4), "{}", talk(&output));
    assert!(refused["error"]["message"].as_str().unwrap().contains("no space left"), "{refused}");
    assert_eq!(trained(&world).len(), 1);
    // Then search.json has no room, after a trial that is finished.
    let words: Vec<&str> = SHORT.split(' ').collect();
    let cli = world.expert_cli(&words, "stall=2,planted=3e-3").spawn().unwrap();
    await_that(|| world.path("pid.stalled").exists());
    let room = Rlimit { current: Some(0), maximum: None };
    prlimit(Pid::from_raw(pid(&cli)), Resource::Fsize, room).unwrap();
    std::fs::write(world.path("pid.released"), "").unwrap();
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", talk(&output));
    assert!(talk(&output).contains("search.json"), "{}", talk(&output));
    let before = record(&world);
    let scored = |record: &Value| -> usize {
        record["trials"].as_array().unwrap().iter().map(|it| it["scores"].as_array().unwrap().len()).sum()
    };
    assert_eq!((scored(&before), trained(&world).len()), (2, 3), "the third was trained and not recorded");
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &before, &found);
}

#[test]
fn a_search_whose_judge_is_away_stops_and_continues_without_training_twice() {
    let world = World::shelf(&["a"]);
    let (output, refused) = world.json(SHORT, "planted=3e-3,unjudged=2");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert_eq!(refused["error"]["code"], "judge-failed", "{refused}");
    let before = record(&world);
    assert_eq!(trained(&world).len(), 2);
    assert!(before["trials"][1]["scores"].as_array().unwrap().is_empty(), "{before}");
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &before, &found);
}

#[test]
#[ignore = "in `make test-all`; a kill and a full disk stand for Ctrl-C"]
fn an_interrupted_search_continues_with_the_same_command() {
    let world = World::shelf(&["a"]);
    let words: Vec<&str> = SHORT.split(' ').collect();
    let cli = world.expert_cli(&words, "stall=2,planted=3e-3").spawn().unwrap();
    await_that(|| world.path("pid.stalled").exists());
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    assert!(
        talk(&output).contains("to continue, repeat the command: expert-cli search"),
        "{}",
        talk(&output)
    );
    let before = record(&world);
    assert!(before["winner"].is_null() && trained(&world).len() == 2, "{before}");
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &before, &found);
}

fn record(world: &World) -> Value {
    serde_json::from_slice(&std::fs::read(world.path(FOLDER).join("search.json")).unwrap()).unwrap()
}

fn spent(world: &World) -> f64 {
    record(world)["seconds"].as_f64().unwrap()
}

/// Named by its expert, its folder or one of its trials.
#[test]
fn a_search_is_stopped_from_outside_and_continues_with_the_same_command() {
    let world = World::shelf(&["a"]);
    let words: Vec<&str> = SHORT.split(' ').collect();
    for (trial, named) in
        [(0, "experts"), (1, FOLDER), (2, "experts/a/weights/smollm2-135m-instruct-search/trial-2/rung-1")]
    {
        let _ = std::fs::remove_file(world.path("pid.stalled"));
        let cli = world.expert_cli(&words, &format!("stall={trial},planted=3e-3")).spawn().unwrap();
        await_that(|| world.path("pid.stalled").exists());
        let before = spent(&world);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let output = world.expert_cli(&["stop", named], "").output().unwrap();
        assert!(
            talk(&output).contains("asked to save and end; the same `search` command continues it"),
            "{named}: {}",
            talk(&output)
        );
        let output = cli.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{named}: {}", talk(&output));
        assert!(talk(&output).contains("to continue, repeat the command"), "{}", talk(&output));
        assert_eq!(trained(&world).len(), trial, "no further trial is trained");
        let output = world.expert_cli(&["stop", named], "").output().unwrap();
        assert!(talk(&output).contains("no training is running in"), "{}", talk(&output));
        assert!(spent(&world) - before > 0.3, "the time of the trial that was stopped counts");
    }
    let before = record(&world);
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &before, &found);
}

/// The trials are those that were drawn, each with the scores it had, and no run was trained twice.
fn ends_whole(world: &World, before: &Value, found: &Value) {
    assert!(trained(world).values().all(|times| *times == 1), "{:?}", trained(world));
    let trials = |record: &Value| record["trials"].as_array().unwrap().clone();
    assert!(trials(before).len() <= trials(found).len());
    for (before, found) in trials(before).iter().zip(trials(found)) {
        assert_eq!(before["settings"], found["settings"]);
        let [before, found] = [before, &found].map(|it| it["scores"].as_array().unwrap().clone());
        assert_eq!(before[..], found[..before.len()]);
    }
    let scores: usize = trials(found).iter().map(|it| it["scores"].as_array().unwrap().len()).sum();
    assert_eq!((found["winner_rung"].as_u64(), scores), (Some(2), trained(world).len()));
}

#[test]
fn a_killed_search_continues_and_trains_nothing_twice() {
    let world = World::shelf(&["a"]);
    let words: Vec<&str> = SHORT.split(' ').collect();
    let mut cli = world.expert_cli(&words, "stall=2,planted=3e-3").spawn().unwrap();
    await_that(|| world.path("pid.stalled").exists());
    assert_eq!(trained(&world).len(), 2);
    signal(pid(&cli), Signal::KILL);
    cli.wait().unwrap();
    await_that(|| !alive(world.worker()));
    let first = record(&world);
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    ends_whole(&world, &first, &found);
}

/// Each trial is planned for all of the memory, by steps of more rows than it holds.
#[test]
fn trials_that_do_not_fit_at_once_are_warned_of() {
    let world = World::shelf(&["a"]);
    let large = "--set training.config.batch_size=4096 --set training.config.max_seq_length=8192";
    let said = |jobs: &str| {
        let beside = SHORT.replace("--jobs 1", jobs);
        talk(&world.json(&format!("{beside} {large}"), NOBODY).0)
    };
    let warning = "3 trials at once may need";
    assert!(!said("--jobs 1").contains(warning));
    let several = said("--jobs 8");
    assert!(several.contains(warning) && several.contains("lower --jobs"), "{several}");
    assert!(!said("--jobs 8 --max-memory 8GB").contains(warning));
}

#[test]
fn fewer_trials_than_jobs_share_the_cores() {
    let world = World::shelf(&["a"]);
    let words = SHORT.replace("--jobs 1", "--jobs 64").replace("--budget 3", "--budget 2");
    let (output, _) = world.json(&words, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let plan = std::fs::read(world.path(FOLDER).join("trial-0/rung-1/plan.json")).unwrap();
    let plan: Value = serde_json::from_slice(&plan).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(plan["machine"]["threads"]["compute"], (cores / 2).max(1), "{}", plan["machine"]);
    assert!(talk(&output).contains("2 trials, 2 at once"), "{}", talk(&output));
}

/// Both slots train from the beginning: what a trial costs is known when the own recipe has ended.
#[test]
fn each_slot_begins_with_a_trial() {
    let world = World::shelf(&["a"]);
    let beside = SHORT.replace("--jobs 1", "--jobs 2");
    let words: Vec<&str> = beside.split(' ').collect();
    let cli = world.expert_cli(&words, "stall=0,planted=3e-3").spawn().unwrap();
    let begun = |trial: u32| world.path(FOLDER).join(format!("trial-{trial}/rung-1/plan.json")).exists();
    await_that(|| world.path("pid.stalled").exists() && begun(0) && begun(1));
    let before = record(&world);
    assert_eq!((before["trials"].as_array().unwrap().len(), &before["is_drawn"]), (2, &Value::Bool(false)));
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    assert!(!talk(&output).contains("3 trials"), "{}", talk(&output));
    // One slot finishes what two have begun.
    let (output, found) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(talk(&output).contains("3 trials: about"), "{}", talk(&output));
    assert_eq!((found["trials"].as_array().unwrap().len(), &found["is_drawn"]), (3, &Value::Bool(true)));
    ends_whole(&world, &before, &found);
}

#[test]
fn a_trial_that_fails_is_recorded_and_the_search_continues() {
    let world = World::shelf(&["a"]);
    let (output, found) = world.json(SEARCH, "poison=4,planted=3e-3");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let failed = |trial: &&Value| trial["scores"][0]["failure"].is_string();
    let trials = found["trials"].as_array().unwrap();
    let failures: Vec<&Value> = trials.iter().filter(failed).collect();
    assert!(!failures.is_empty() && failures.len() < 9, "{found}");
    assert!(failures.iter().all(|it| it["scores"][0]["failure"].as_str().unwrap().contains("not finite")));
    assert!(failures.iter().all(|it| it["scores"].as_array().unwrap().len() == 1), "it goes no further");
    let (output, again) = world.json(SEARCH, NOBODY);
    assert_eq!((output.status.code(), &again["trials"]), (Some(0), &found["trials"]), "{}", talk(&output));

    let data = world.path("experts/a/datasets/train.jsonl");
    let text = std::fs::read_to_string(&data).unwrap();
    std::fs::write(&data, text.replacen("Monday", "Sunday", 1)).unwrap();
    let (output, refused) = world.json(SEARCH, NOBODY);
    assert_eq!(output.status.code(), Some(2));
    assert!(refused["error"]["message"].as_str().unwrap().contains("train.jsonl"), "{refused}");
    let (output, fresh) = world.json(&format!("{SEARCH} --fresh"), PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(fresh["trials"].as_array().unwrap().iter().all(|it| !failed(&it)));
}

#[test]
fn fresh_begins_again_where_the_state_is_gone() {
    let world = World::shelf(&["a"]);
    let (output, _) = world.json(SHORT, PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    std::fs::remove_file(world.path(FOLDER).join("search.json")).unwrap();
    let mine = world.path(FOLDER).join("trial-9/notes.txt");
    std::fs::create_dir(mine.parent().unwrap()).unwrap();
    std::fs::write(&mine, "mine").unwrap();
    let other = SHORT.replace("lr=1e-5..1e-2", "lr=2e-5..2e-2");
    let (output, found) = world.json(&format!("{other} --fresh"), PLANTED);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let trials = found["trials"].as_array().unwrap();
    assert!(trials.iter().all(|it| it["scores"][0]["failure"].is_null()), "{found}");
    assert!(mine.is_file(), "only trials of a search are removed");
}

#[test]
fn what_cannot_be_searched_is_refused_in_words() {
    let world = World::shelf(&["a"]);
    let (_, plan) = world.json("plan experts/a", NOBODY);
    let own = plan["plan"]["recipe"]["adapter"]["rank"].to_string();
    for (arguments, code, words) in [
        ("--space speed", "bad-space", "lr, rank, steps"),
        ("--space lr=1..x", "bad-space", "lr=1e-4..5e-3"),
        ("--space lr,lr", "bad-space", "once"),
        ("--space rank=0", "bad-space", "8|16|32"),
        ("--space rank=OWN", "bad-space", "further values"),
    ] {
        let arguments = arguments.replace("OWN", &own);
        let (output, refused) = world.json(&format!("search experts/a {arguments}"), NOBODY);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", talk(&output));
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["hint"].as_str().unwrap().contains(words), "{refused}");
    }
    let (output, _) = world.json("search experts/a --budget 2d", NOBODY);
    assert_eq!(output.status.code(), Some(2));
    let (output, refused) = world.json(&SEARCH.replace("--budget 9", "--budget 5s"), PLANTED);
    assert_eq!(
        (output.status.code(), &refused["error"]["code"]),
        (Some(2), &"budget-too-short".into()),
        "{}",
        talk(&output)
    );
}
