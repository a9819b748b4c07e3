//! What may be done with the run that a folder holds: resumed only with the inputs that it started with, skipped only where it is
//! whole.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::LazyLock;

use common::{BASE, Kept, World, pid, signal, talk};
use rustix::process::Signal;
use serde_json::{Value, json};

const RUN: &str = "experts/a/weights/smollm2-135m-instruct";
const TRAIN: &str = "train -m experts/a --device cpu";
const ALL: &str = "train --all --device cpu --jobs 1 --no-evaluate";
/// A worker that must not be started.
const NOBODY: &str = "die=9";

fn edit(world: &World, file: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(world.path(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(world.path(file), text.replace(from, to)).unwrap();
}

fn change(file: &Path, edit: impl Fn(&mut Value)) {
    let mut document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    edit(&mut document);
    std::fs::write(file, document.to_string()).unwrap();
}

/// Every file of the run's folder with its content; the lock is there to be taken.
fn contents(world: &World) -> Vec<(String, Vec<u8>)> {
    fn walk(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.file_name().unwrap() != "lock" {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&world.path(RUN), &mut found);
    found.sort();
    found
}

fn interrupted() -> World {
    static KEPT: LazyLock<Kept> = LazyLock::new(|| {
        let world = World::shelf(&["a"]);
        world.json(TRAIN, "steps=2,checkpoint=2,missing");
        assert!(world.path(RUN).join("checkpoint-2/state.json").is_file());
        world.keep("experts")
    });
    World::restore(&KEPT)
}

fn finished() -> World {
    static KEPT: LazyLock<Kept> = LazyLock::new(|| {
        let world = World::shelf_without_pages(&["a"]);
        let (output, _) = world.json(ALL, "steps=2,checkpoint=2,final=whole");
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        world.keep("experts")
    });
    World::restore(&KEPT)
}

fn refused(world: &World, arguments: &str, code: &str) -> String {
    let before = contents(world);
    let (output, document) = world.json(arguments, NOBODY);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {}", talk(&output));
    assert_eq!(document["error"]["code"], code, "{arguments}: {document}");
    assert_eq!(contents(world), before, "a refused command writes nothing");
    document["error"]["message"].as_str().unwrap().to_owned()
}

/// Lower settings would be another recipe, with which no step counts.
#[test]
fn what_is_proposed_after_a_kill_keeps_the_steps() {
    let world = World::shelf_without_pages(&["a"]);
    let (output, _) =
        world.json(&format!("{TRAIN} --set training.config.batch_size=4"), "steps=2,checkpoint=2,die=9");
    let said = talk(&output);
    assert!(
        said.contains("--max-memory SIZE") && said.contains("smaller batch_size and as many more"),
        "{said}"
    );
    assert!(!said.contains("max_seq_length"), "{said}");
    let fewer = "--set training.config.batch_size=2 --set training.config.gradient_accumulation_steps=2";
    for smaller in [fewer, "--set training.config.batch_size=4 --max-memory 3GB"] {
        let (output, document) = world.json(&format!("{TRAIN} --resume {smaller}"), "missing");
        assert_eq!(
            (output.status.code(), &document["error"]["message"]),
            (Some(3), &"no such device".into())
        );
    }
}

#[test]
fn other_data_is_refused_with_and_without_extend() {
    let world = interrupted();
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    for flags in ["--resume", "--resume --extend", "--extend --epochs 50", "--resume=NAMED"] {
        let flags = flags.replace("NAMED", &format!("{RUN}/checkpoint-2"));
        let message = refused(&world, &format!("{TRAIN} {flags}"), "inputs-changed");
        assert!(message.contains("\n  datasets/train.jsonl: ") && message.contains(" -> "), "{message}");
        assert!(!message.contains("base"), "{message}");
    }
}

/// An adapter in the expert's folder, of which the CLI reads the kind alone.
fn leave_adapter(world: &World, name: &str, weights: &str) {
    let folder = world.path("experts/a").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("adapter_config.json"), r#"{"peft_type": "LORA"}"#).unwrap();
    std::fs::write(folder.join("adapter_model.safetensors"), weights).unwrap();
}

#[test]
fn a_run_resumes_with_the_adapter_that_it_started_from() {
    let starting = format!("{TRAIN} --set training.config.initial_adapter=first");
    let world = World::shelf(&["a"]);
    leave_adapter(&world, "first", "one");
    let (_, document) = world.json(&starting, "steps=2,checkpoint=2,missing");
    let state = std::fs::read_to_string(world.path(RUN).join("checkpoint-2/state.json")).unwrap();
    assert!(state.contains("\"first\""), "{document}");
    let (output, document) = world.json(&format!("{starting} --resume"), "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let folder = world.path("experts/a/first");
    let plan: Value =
        serde_json::from_slice(&std::fs::read(world.path(RUN).join("plan.json")).unwrap()).unwrap();
    assert_eq!(plan["machine"]["paths"]["initial_adapter"], folder.to_str().unwrap(), "{document}");
    assert_eq!(plan["recipe"]["adapter"]["initial"], "first");

    let world = World::shelf(&["a"]);
    leave_adapter(&world, "first", "one");
    world.json(&starting, "steps=2,checkpoint=2,missing");
    leave_adapter(&world, "first", "two");
    let message = refused(&world, &format!("{starting} --resume"), "inputs-changed");
    assert!(message.contains("\n  first: ") && message.contains("/experts/a/first)"), "{message}");
    // Without it, it is another run.
    let message = refused(&world, &format!("{TRAIN} --resume"), "recipe-changed");
    assert!(message.contains("initial_adapter"), "{message}");
}

#[test]
fn an_adapter_that_the_run_would_replace_or_that_is_gone_is_refused() {
    let world = World::shelf(&["a"]);
    leave_adapter(&world, "weights/smollm2-135m-instruct/final", "one");
    let own = format!("{TRAIN} --set training.config.initial_adapter=weights/smollm2-135m-instruct/final");
    for flags in ["", "--fresh", "--resume"] {
        let message = refused(&world, &format!("{own} {flags}"), "initial-adapter");
        assert!(message.contains("where this run writes its own adapter"), "{message}");
    }
    let elsewhere = format!("{own} -o {}", world.path("experts/a/weights/second").display());
    let (output, _) = world.json(&elsewhere, "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let gone = format!("{TRAIN} --fresh --set training.config.initial_adapter=gone");
    let message = refused(&world, &gone, "initial-adapter");
    assert!(message.contains("there is no adapter at ") && message.contains("/gone, which"), "{message}");
}

#[test]
fn what_concerns_scores_alone_does_not_keep_a_run_from_resuming() {
    let world = interrupted();
    // As older versions recorded it.
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| {
        state["facts"]["recipe_digest"] = "0".repeat(64).into();
        state["facts"]["inputs"]["data"]["datasets/test.jsonl"] = "0".repeat(64).into();
    });
    edit(&world, "experts/a/datasets/test.jsonl", "Monday", "Sunday");
    let flags = "--set evaluation.scorer=contains --set training.dataset.test_path=datasets/validation.jsonl";
    let (output, document) = world.json(&format!("{TRAIN} --resume {flags}"), "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(document["request"]["resume"]["from"], "newest", "{document}");
}

#[test]
fn other_weights_or_another_tokenizer_of_the_base_are_refused() {
    for (file, what) in [("model.safetensors", "base: "), ("tokenizer.json", "tokenizer: ")] {
        let world = interrupted();
        std::fs::write(world.path(BASE).join(file), "{ }").unwrap();
        let message = refused(&world, &format!("{TRAIN} --resume"), "inputs-changed");
        assert!(message.contains(&format!("\n  {what}")), "{message}");
    }
}

#[test]
fn other_code_is_reported_and_the_run_keeps_its_recorded_code() {
    let world = interrupted();
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| {
        state["facts"]["inputs"]["code"]["worker"] = "0".repeat(64).into();
    });
    let (output, document) = world.json(&format!("{TRAIN} --resume"), "steps=3,missing");
    assert_eq!(output.status.code(), Some(3), "{document}");
    let said = talk(&output);
    assert!(
        said.contains("expert-cli changed since this run started")
            && said.contains("worker: 000000000000 -> "),
        "{said}"
    );
    // A shelf does not mix two versions.
    let (output, _) = world.json(ALL, "final=w");
    assert!(talk(&output).contains("retraining: worker changed"), "{}", talk(&output));
}

/// Its digest was made of other parts of the recipe.
#[test]
fn a_run_that_an_earlier_version_began_is_resumed_and_one_that_it_finished_is_done() {
    let of_before = |facts: &mut Value| {
        facts["recipe_digest"] = "0".repeat(64).into();
        facts["inputs"]["recipe"] = "0".repeat(64).into();
    };
    let world = interrupted();
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| of_before(&mut state["facts"]));
    let (output, document) = world.json(&format!("{TRAIN} --resume"), "steps=3,missing");
    assert_eq!(output.status.code(), Some(3), "{document}");
    let message = refused(&world, &format!("{TRAIN} --resume --lora-rank 4"), "recipe-changed");
    assert!(message.contains("\n  rank: 8 -> 4"), "{message}");

    let world = finished();
    change(&world.path(RUN).join("run.json"), of_before);
    for command in [TRAIN, ALL] {
        let (output, document) = world.json(command, NOBODY);
        assert!(output.status.success(), "{command}: {document}");
    }
}

#[test]
fn a_run_that_another_version_finished_is_done_and_a_shelf_retrains_it() {
    let world = finished();
    let by_another = |facts: &mut Value| facts["inputs"]["code"]["worker"] = "0".repeat(64).into();
    change(&world.path(RUN).join("run.json"), by_another);
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| by_another(&mut state["facts"]));
    let before = contents(&world);
    for flags in ["", "--resume", "--extend", "--resume=NAMED"] {
        let flags = flags.replace("NAMED", &format!("{RUN}/checkpoint-2"));
        let (output, document) = world.json(&format!("{TRAIN} {flags}"), NOBODY);
        assert!(output.status.success(), "{flags}: {document}");
        let said = talk(&output);
        assert!(said.contains("expert-cli changed since this run was trained"), "{flags}: {said}");
        assert!(said.contains("worker: 000000000000 -> ") && said.contains("--fresh trains it"), "{said}");
        assert_eq!(contents(&world), before, "{flags}: nothing is written");
    }
    let lock = std::fs::read_to_string(world.path("experts/a/expert.lock")).unwrap();
    assert!(lock.contains(&"0".repeat(64)), "the lock names the code that trained it: {lock}");
    refused(&world, &format!("{TRAIN} --locked"), "lock-differs");
    let (output, _) = world.json(ALL, "final=w");
    assert!(talk(&output).contains("retraining: worker changed"), "{}", talk(&output));
}

#[test]
fn a_refused_recipe_is_shown_field_by_field_and_writes_nothing() {
    let world = interrupted();
    let message = refused(&world, &format!("{TRAIN} --resume --lora-rank 4"), "recipe-changed");
    assert!(message.contains("\n  rank: 8 -> 4"), "{message}");
    let message = refused(&world, &format!("{TRAIN} --resume --extend --lora-rank 4"), "recipe-changed");
    assert!(message.contains("\n  rank: "), "{message}");
    let changed = |setting: &str| {
        let message = refused(&world, &format!("{TRAIN} --resume {setting}"), "recipe-changed");
        message.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(changed("--set training.config.bf16=true"), ["bf16: null -> true"]);
    assert_eq!(changed("--mixed-precision bf16"), ["bf16: null -> true"]);
    assert_eq!(changed("--set training.config.fp16=true"), ["fp16: false -> true"]);
    refused(&world, &format!("{TRAIN} --resume --epochs 50"), "recipe-changed");
    refused(&world, &format!("{TRAIN} --resume --extend --epochs 0.5"), "recipe-changed");
    for other in ["--max-steps 500", "--epochs 0.5"] {
        let (_, document) = world.json(&format!("{TRAIN} --resume {other}"), NOBODY);
        let hint = document["error"]["hint"].as_str().unwrap();
        assert_eq!(hint, "add --epochs 3, as when the run started, or start over with --fresh", "{other}");
    }
    let (output, document) = world.json(&format!("{TRAIN} --extend --epochs 50"), "missing");
    assert_eq!(output.status.code(), Some(3), "longer is what --extend is for: {document}");
}

#[test]
fn choosing_the_best_checkpoint_is_one_changed_setting() {
    let world = World::shelf_without_pages(&["a"]);
    let best = |chosen: bool| format!("--set training.config.load_best_model_at_end={chosen}");
    world.json(&format!("{TRAIN} {}", best(false)), "checkpoint=1,missing");
    let changed = |settings: &str| {
        let message = refused(&world, &format!("{TRAIN} --resume {settings}"), "recipe-changed");
        message.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&best(true)), ["load_best_model_at_end: false -> true"]);
    assert_eq!(
        changed(&format!("{} --set training.config.greater_is_better=true", best(true))),
        ["greater_is_better: null -> true", "load_best_model_at_end: false -> true"]
    );
}

#[test]
fn a_run_is_extended_with_the_option_that_sets_its_length() {
    let world = interrupted();
    let arguments = format!("{TRAIN} --resume --extend --max-steps 500");
    let (_, document) = world.json(&arguments, NOBODY);
    assert_eq!(document["error"]["code"], "recipe-changed");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.ends_with(":\n  epochs: 3 -> null\n  max_steps: null -> 500"), "{message}");
    let hint = document["error"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("the length of this run is set by --epochs: extend it with that"), "{hint}");
}

#[test]
fn a_finished_run_without_a_checkpoint_is_not_extended_from_step_0() {
    let world = finished();
    std::fs::remove_dir_all(world.path(RUN).join("checkpoint-2")).unwrap();
    let message = refused(&world, &format!("{TRAIN} --resume --extend --epochs 50"), "no-checkpoint");
    assert!(message.contains("no checkpoint is left to resume from"), "{message}");
    let (_, document) = world.json(&format!("{TRAIN} --epochs 50"), NOBODY);
    assert_eq!(document["error"]["hint"], "--fresh starts over, -o names another folder");
}

#[test]
fn a_plain_start_over_a_longer_recipe_says_how_to_train_for_longer() {
    let world = finished();
    let before = contents(&world);
    let output = world.expert_cli(&["train", "-m", "experts/a", "--device", "cpu", "--epochs", "50"], NOBODY);
    let output = { output }.output().unwrap();
    let said = talk(&output);
    assert!(said.contains("\n  epochs: ") && said.contains("--resume --extend"), "{said}");
    assert_eq!((output.status.code(), contents(&world)), (Some(2), before));
}

#[test]
fn a_run_without_recorded_inputs_is_not_taken_for_the_same() {
    let world = interrupted();
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| state["facts"]["inputs"] = Value::Null);
    refused(&world, &format!("{TRAIN} --resume"), "inputs-unknown");
    let (output, _) = world.json(ALL, "final=w");
    assert!(talk(&output).contains("does not record its run's inputs"), "{}", talk(&output));

    let world = finished();
    change(&world.path(RUN).join("run.json"), |record| record["inputs"] = Value::Null);
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    let (_, document) = world.json(ALL, "final=new");
    assert_eq!(document["experts"][0]["finished_before"], false, "{document}");
}

#[test]
fn a_damaged_adapter_is_named_and_rebuilt_from_a_checkpoint_and_never_signed() {
    let world = finished();
    let weights = world.path(RUN).join("final/adapter_model.safetensors");
    let lock = || std::fs::read(world.path("experts/a/expert.lock")).unwrap();
    let signed = lock();
    std::fs::write(&weights, "whole!").unwrap();
    // Whatever ends the rebuilding, the lock is not signed for what is damaged.
    world.json(ALL, "missing");
    assert_eq!(lock(), signed);
    let (output, _) = world.json(TRAIN, "final=whole");
    let said = talk(&output);
    assert!(
        said.contains("final/adapter_model.safetensors is damaged: rebuilding it from the newest"),
        "{said}"
    );
    let plan = std::fs::read(world.path(RUN).join("plan.json")).unwrap();
    let plan: Value = serde_json::from_slice(&plan).unwrap();
    assert_eq!(plan["request"]["resume"]["from"], "newest");
    assert_eq!((std::fs::read_to_string(&weights).unwrap().as_str(), lock()), ("whole", signed));
    assert_eq!(world.json(ALL, NOBODY).0.status.code(), Some(0), "and then it is whole");
}

#[test]
fn a_damaged_adapter_without_a_whole_checkpoint_is_retrained() {
    let world = finished();
    std::fs::write(world.path(RUN).join("final/adapter_model.safetensors"), "").unwrap();
    std::fs::write(world.path(RUN).join("checkpoint-2/trainer.json"), "").unwrap();
    let (output, _) = world.json(ALL, "final=whole");
    assert!(talk(&output).contains("damaged, and no checkpoint is left"), "{}", talk(&output));
    assert!(!world.path(RUN).join("checkpoint-2").exists());
}

#[test]
fn a_model_card_may_be_edited() {
    let world = finished();
    std::fs::write(world.path(RUN).join("final/README.md"), "mine").unwrap();
    let (output, _) = world.json(ALL, NOBODY);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn a_resumed_run_keeps_how_its_products_are_formed() {
    let world = interrupted();
    let plan = || -> Value {
        serde_json::from_slice(&std::fs::read(world.path(RUN).join("plan.json")).unwrap()).unwrap()
    };
    let other = !plan()["machine"]["fp32_products"].as_bool().unwrap();
    change(&world.path(RUN).join("checkpoint-2/state.json"), |state| {
        state["facts"]["fp32_products"] = other.into();
    });
    world.json(&format!("{TRAIN} --resume"), "missing");
    assert_eq!(plan()["machine"]["fp32_products"], other);
    world.json(&format!("{TRAIN} --fresh"), "steps=1,missing");
    assert_eq!(plan()["machine"]["fp32_products"], !other);
}

#[test]
fn a_resumed_run_keeps_the_chunks_of_its_batches() {
    let world = interrupted();
    let chunk = || -> Value {
        let plan = std::fs::read(world.path(RUN).join("plan.json")).unwrap();
        serde_json::from_slice::<Value>(&plan).unwrap()["machine"]["piece_tokens"].clone()
    };
    let planned = chunk().as_u64().unwrap();
    let state = world.path(RUN).join("checkpoint-2/state.json");
    let layers = |piece: Value| {
        let layers = json!({"path": "fast", "attention": "sdpa", "compiled": null, "piece_tokens": piece});
        change(&state, |state| state["facts"]["layers"] = layers.clone());
    };
    layers(Value::Null);
    world.json(&format!("{TRAIN} --resume"), "missing");
    assert_eq!(chunk(), planned);
    layers((planned / 2).into());
    world.json(&format!("{TRAIN} --resume"), "missing");
    assert_eq!(chunk(), planned / 2, "as it was begun");
}

#[test]
fn a_mirror_continues_its_run_in_an_empty_folder() {
    let world = interrupted();
    let mirror = world.path("mirror");
    std::fs::create_dir(&mirror).unwrap();
    std::fs::rename(world.path(RUN).join("checkpoint-2"), mirror.join("checkpoint-2")).unwrap();
    std::fs::remove_dir_all(world.path(RUN)).unwrap();
    let resume = format!("{TRAIN} --resume {}", mirror.display());
    let state = mirror.join("checkpoint-2/state.json");
    let saved: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    let other = !saved["facts"]["fp32_products"].as_bool().unwrap_or_default();
    change(&state, |state| state["facts"]["fp32_products"] = other.into());
    let damaged = mirror.join("checkpoint-3");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::copy(&state, damaged.join("state.json")).unwrap();
    std::fs::write(damaged.join("trainer.json"), "another").unwrap();
    let (output, _) = world.json(&resume, "missing");
    let said = talk(&output);
    assert!(said.contains("checkpoint-3: trainer.json is damaged; resuming from "), "{said}");
    let plan = std::fs::read(world.path(RUN).join("plan.json")).unwrap();
    let plan: Value = serde_json::from_slice(&plan).unwrap();
    let asked = plan["request"]["resume"].clone();
    assert!(asked["path"].as_str().unwrap().ends_with("mirror/checkpoint-2"), "{asked}");
    assert_eq!(plan["machine"]["fp32_products"], other, "as it was begun");
    std::fs::remove_dir_all(world.path(RUN)).unwrap();
    let (output, document) = world.json(&format!("{resume} --max-steps 9"), NOBODY);
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &"recipe-changed".into()));
}

/// The run of another learning rate is in the folder, and the manifest is again that of the checkpoint.
#[test]
fn a_checkpoint_of_elsewhere_is_not_resumed_in_the_folder_of_another_run() {
    let world = interrupted();
    let mirror = world.path("mirror");
    std::fs::create_dir(&mirror).unwrap();
    std::fs::rename(world.path(RUN).join("checkpoint-2"), mirror.join("checkpoint-2")).unwrap();
    let resume = format!("{TRAIN} --resume {}", mirror.display());
    let other = "--fresh --set training.config.learning_rate=0.5";
    world.json(&format!("{TRAIN} {other}"), "steps=2,checkpoint=2,final=whole");
    let message = refused(&world, &resume, "output-used");
    assert!(message.contains("\n  learning_rate: 0.5 -> "), "{message}");
    let elsewhere = format!("{resume} -o experts/a/weights/other");
    let (output, _) = world.json(&elsewhere, "final=whole");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));

    let world = interrupted();
    std::fs::rename(world.path(RUN).join("checkpoint-2"), world.path("checkpoint-2")).unwrap();
    let rows = std::fs::read(world.path("experts/a/datasets/train.jsonl")).unwrap();
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    world.json(&format!("{TRAIN} --fresh"), "steps=2,checkpoint=2,missing");
    std::fs::write(world.path("experts/a/datasets/train.jsonl"), rows).unwrap();
    let resume = format!("{TRAIN} --resume {}", world.path("checkpoint-2").display());
    let message = refused(&world, &resume, "output-used");
    assert!(message.contains("\n  datasets/train.jsonl: "), "{message}");
}

/// A mirror's, after the run was trained for longer.
#[test]
fn a_checkpoint_of_the_same_run_is_resumed_whatever_the_length_was() {
    let world = interrupted();
    let copied = world.path("checkpoint-2");
    std::fs::create_dir(&copied).unwrap();
    for entry in std::fs::read_dir(world.path(RUN).join("checkpoint-2")).unwrap().flatten() {
        std::fs::copy(entry.path(), copied.join(entry.file_name())).unwrap();
    }
    for length in ["", " --extend --epochs 50"] {
        let (_, document) = world.json(&format!("{TRAIN} --resume {}{length}", copied.display()), "missing");
        assert_ne!(document["error"]["code"], "output-used", "{length}: {document}");
    }
    world.json(&format!("{TRAIN} --extend --epochs 50"), "steps=4,checkpoint=4,final=whole");
    let again = format!("{TRAIN} --resume {} --extend --epochs 50", copied.display());
    let (_, document) = world.json(&again, "missing");
    assert!(document["error"]["code"] != "output-used", "{document}");
}

#[test]
fn a_resumed_run_keeps_its_threads_though_its_plan_is_lost() {
    let world = World::shelf_without_pages(&["a"]);
    let threads = |count: &str, acts: &str| {
        let mut command =
            world.expert_cli(&[TRAIN, "--resume"].join(" ").split(' ').collect::<Vec<_>>(), acts);
        command.env("OMP_NUM_THREADS", count).output().unwrap();
        let plan = std::fs::read(world.path(RUN).join("plan.json")).unwrap();
        serde_json::from_slice::<Value>(&plan).unwrap()["machine"]["threads"]["compute"].clone()
    };
    assert_eq!(threads("3", "checkpoint=1,missing"), 3);
    std::fs::remove_file(world.path(RUN).join("plan.json")).unwrap();
    assert_eq!(threads("5", "missing"), 3, "its own");
}

#[test]
fn a_base_that_is_not_here_yet_is_fetched_before_it_is_compared() {
    let world = World::shelf_without_pages(&["a"]);
    std::fs::remove_dir_all(world.path(BASE)).unwrap();
    world.json(TRAIN, "checkpoint=2,missing");
    let state: Value =
        serde_json::from_slice(&std::fs::read(world.path(RUN).join("checkpoint-2/state.json")).unwrap())
            .unwrap();
    assert!(state["facts"]["inputs"]["base"].is_string(), "{state}");
    // The converted base can be made again, and is the same.
    std::fs::remove_dir_all(world.path(BASE)).unwrap();
    let (output, document) = world.json(&format!("{TRAIN} --resume"), "missing");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(3), &json!("missing")));
}

#[test]
fn the_lock_names_the_data_that_the_run_started_with() {
    let world = World::shelf_without_pages(&["a"]);
    let gate = world.path("gate");
    let words = [TRAIN, "--json"].join(" ");
    let acts = format!("await={},final=w", gate.display());
    let cli = world.expert_cli(&words.split(' ').collect::<Vec<_>>(), &acts).spawn().unwrap();
    world.worker();
    edit(&world, "experts/a/datasets/train.jsonl", "Monday", "Sunday");
    std::fs::write(gate, "").unwrap();
    assert_eq!(cli.wait_with_output().unwrap().status.code(), Some(0));
    let (_, document) = world.json(ALL, "final=new");
    assert_eq!(document["experts"][0]["finished_before"], false, "{document}");
}

#[test]
fn a_fresh_run_that_cannot_start_leaves_the_finished_one_and_one_that_starts_keeps_it() {
    let world = finished();
    let before = contents(&world);
    let without_log = |all: Vec<(String, Vec<u8>)>| {
        all.into_iter().filter(|(name, _)| !name.ends_with("worker.log")).collect::<Vec<_>>()
    };
    let (output, _) = world.json(&format!("{TRAIN} --fresh"), "missing");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(without_log(contents(&world)), without_log(before));

    let (output, _) = world.json(&format!("{TRAIN} --fresh"), "steps=1,missing");
    assert_eq!(output.status.code(), Some(3));
    let run = world.path(RUN);
    assert!(!run.join("final").exists() && !run.join("replaced").exists());
    assert_eq!(
        std::fs::read_to_string(run.join("previous/final/adapter_model.safetensors")).unwrap(),
        "whole"
    );
}

#[test]
fn a_folder_that_is_not_a_run_is_not_touched() {
    let world = World::shelf_without_pages(&["a"]);
    std::fs::create_dir_all(world.path("mine/final")).unwrap();
    for file in ["mine/final/thesis.tex", "mine/movie.mkv.partial"] {
        std::fs::write(world.path(file), "mine").unwrap();
    }
    for flags in ["", "--fresh", "--resume"] {
        let (output, document) = world.json(&format!("{TRAIN} -o mine {flags}"), NOBODY);
        assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &json!("not-a-run")));
    }
    assert_eq!(std::fs::read_to_string(world.path("mine/final/thesis.tex")).unwrap(), "mine");
}

/// Whoever opens a pipe waits for the one who writes into it.
#[test]
fn a_pipe_with_a_name_of_a_run_is_refused_and_not_opened() {
    let world = World::shelf(&["a"]);
    for name in ["events.jsonl", "plan.json", "run.json", "worker.log"] {
        let pipe = world.path(&format!("{RUN}/{name}"));
        std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (output, document) = world.json(TRAIN, NOBODY);
        assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &json!("not-a-run")));
        assert!(world.json("runs experts", NOBODY).0.status.success(), "{name}");
        std::fs::remove_file(&pipe).unwrap();
    }
}

#[test]
fn data_in_a_pipe_is_refused_and_not_opened() {
    let world = World::shelf_without_pages(&["a"]);
    let pipe = world.path("rows");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["pretokenize -m experts/a", "plan -m experts/a", TRAIN] {
        let (output, document) = world.json(&format!("{command} --data rows"), NOBODY);
        assert_eq!(
            (output.status.code(), &document["error"]["code"]),
            (Some(2), &json!("data-pipe")),
            "{command}"
        );
        let hint = document["error"]["hint"].as_str().unwrap();
        assert!(hint.contains("`cat 'rows' > rows.jsonl`, and write --data 'rows.jsonl'"), "{hint}");
    }
}

/// What git keeps of a repository, an expert may bring along.
#[test]
fn nothing_is_written_through_a_link_that_leads_out_of_the_experts_folder() {
    let names = ["lock", "worker.log", "events.jsonl", "plan.json", "final", "previous", "checkpoint-3"];
    let links = names.map(|name| format!("{RUN}/{name}")).into_iter().chain(
        [RUN, "experts/a/weights", "experts/a/datasets_optimized", "experts/a/expert.lock"]
            .map(str::to_owned),
    );
    for link in links {
        let world = World::shelf(&["a"]);
        let outside = world.path("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("mine"), "mine").unwrap();
        let target = if link.contains('.') { outside.join("mine") } else { outside.clone() };
        let place = world.path(&link);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&target, &place).unwrap();
        for flags in ["", "--fresh"] {
            let (output, document) = world.json(&format!("{TRAIN} {flags}"), NOBODY);
            assert_eq!(output.status.code(), Some(2), "{link}: {}", talk(&output));
            // A cache outside is the manifest's error before it is the link's.
            let code = if link.ends_with("datasets_optimized") { "bad-manifest" } else { "link-out" };
            assert_eq!(document["error"]["code"], code, "{link}: {document}");
        }
        assert_eq!(std::fs::read_to_string(outside.join("mine")).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{link}");
    }
}

#[test]
fn a_link_may_be_allowed_and_a_named_output_folder_may_be_one() {
    let world = World::shelf_without_pages(&["a"]);
    std::fs::create_dir(world.path("large-disk")).unwrap();
    std::os::unix::fs::symlink(world.path("large-disk"), world.path("experts/a/weights")).unwrap();
    let (output, _) = world.json(&format!("{TRAIN} --allow-path large-disk"), "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    std::os::unix::fs::symlink(world.path("large-disk"), world.path("out")).unwrap();
    let (output, _) = world.json(&format!("{TRAIN} -o out"), "final=w");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(world.path("large-disk/final").is_dir());
}

/// Without them it would be another recipe, which only --fresh could train.
#[test]
fn what_continues_an_interrupted_run_has_the_settings_that_it_was_started_with() {
    let world = World::shelf_without_pages(&["a"]);
    let settings = "--data rows/own.jsonl --max-steps 9 --set training.config.seed=7";
    std::fs::create_dir(world.path("rows")).unwrap();
    std::fs::copy(world.path("experts/a/datasets/train.jsonl"), world.path("rows/own.jsonl")).unwrap();
    world.json(&format!("train experts/a {settings} --device cpu"), "steps=2,checkpoint=2,missing");
    assert!(world.path(RUN).join("checkpoint-2/state.json").is_file());
    let again = format!("expert-cli train experts/a {settings} --resume");
    let said = |words: &str, code: i32| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = world.expert_cli(&words, "steps=1").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", talk(&output));
        talk(&output)
    };
    for words in ["plan experts/a", "generate experts/a --prompt x", "runs experts"] {
        let said = said(words, 0);
        assert!(said.ends_with(&format!("next: {again}\n")), "{words}: {said}");
    }
    assert!(
        said("generate experts/a --prompt x", 0)
            .contains("was interrupted: it has checkpoints, and no adapter yet")
    );
    for words in ["evaluate experts/a", "export experts/a --merge", "package experts/a", "serve experts/a"] {
        let said = said(words, 2);
        assert!(said.contains(&again), "{words}: {said}");
    }
    // As they are typed in another folder.
    let mut elsewhere = world.expert_cli(&["plan"], "");
    let output = elsewhere.current_dir(world.path("experts/a")).output().unwrap();
    let from_there = settings.replace("rows/own.jsonl", world.path("rows/own.jsonl").to_str().unwrap());
    assert!(talk(&output).ends_with(&format!("train {from_there} --resume\n")), "{}", talk(&output));
    // An option of the machine replaces none of them; a setting of the result replaces all.
    let on_cpu = said("plan experts/a --device cpu", 0);
    let with_device = format!("train experts/a --device cpu {settings} --resume\n");
    assert!(on_cpu.ends_with(&with_device), "{on_cpu}");
    let other = said("plan experts/a --lora-rank 4", 0);
    assert!(other.ends_with("next: expert-cli train experts/a --lora-rank 4 --resume\n"), "{other}");
    for (words, code) in
        [("train experts/a --resume", "recipe-changed"), ("train experts/a --lora-rank 4", "output-used")]
    {
        let before = contents(&world);
        let said = said(words, 2);
        assert!(said.contains(settings), "{words}, {code}: {said}");
        assert_eq!(contents(&world), before);
    }
    let resumed = again.trim_start_matches("expert-cli ").to_owned();
    let (output, _) = world.json(&resumed, "final=x");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

/// Nothing that was typed would bring an edited manifest back.
#[test]
fn settings_are_not_proposed_where_the_same_are_typed() {
    let world = interrupted();
    change(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["config"]["seed"] = 7.into();
    });
    for (words, hint) in [
        ("train experts/a --device cpu --resume", "undo the change, or start over with --fresh"),
        ("train experts/a --device cpu", "--fresh starts over, -o names another folder"),
    ] {
        let (_, document) = world.json(words, NOBODY);
        assert_eq!(document["error"]["hint"], hint, "{document}");
    }
    // Nor where the path of the same data is relative to another folder now.
    let world = World::shelf_without_pages(&["a"]);
    std::fs::copy(world.path("experts/a/datasets/train.jsonl"), world.path("own.jsonl")).unwrap();
    world.json("train experts/a --device cpu --data own.jsonl", "steps=2,checkpoint=2,missing");
    let mut again = world.expert_cli(&["train", "--data", "../../own.jsonl", "--lora-rank", "4"], NOBODY);
    let output = again.current_dir(world.path("experts/a")).output().unwrap();
    assert!(talk(&output).contains("rank: ") && !talk(&output).contains("last: "), "{}", talk(&output));
}

/// A run may come from elsewhere: only options of `train` are printed for a shell.
#[test]
fn settings_that_are_none_of_train_are_not_repeated() {
    let world = interrupted();
    let said = |typed: Value| {
        change(&world.path(RUN).join("plan.json"), |plan| plan["typed"] = typed.clone());
        let output = world.expert_cli(&["package", "experts/a"], NOBODY).output().unwrap();
        talk(&output)
    };
    let plain = "finish it first: expert-cli train experts/a --resume\n";
    let foreign = [
        json!(["--python", "evil"]),
        json!(["x; rm -rf ~"]),
        json!(["--epochs"]),
        json!(["--allow-path", "/"]),
        json!(["--data", "a\nnext: evil"]),
        json!("--epochs 2"),
        json!([]),
    ];
    for typed in foreign {
        let said = said(typed.clone());
        assert!(said.ends_with(plain), "{typed}: {said}");
    }
    let quoted = said(json!(["--data", "a;b $(c)"]));
    assert!(quoted.ends_with("train experts/a --data 'a;b $(c)' --resume\n"), "{quoted}");
    change(&world.path(RUN).join("plan.json"), |plan| plan["machine"]["paths"]["output"] = "/theirs".into());
    assert!(said(json!(["--epochs", "2"])).ends_with(plain));
}

/// It has no adapter either, and is not to be started again.
#[test]
fn a_run_that_is_being_trained_is_not_called_interrupted() {
    let world = interrupted();
    let cli =
        world.expert_cli(&["train", "experts/a", "--device", "cpu", "--resume"], "obey").spawn().unwrap();
    world.worker();
    let said = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        talk(&world.expert_cli(&words, "steps=1").output().unwrap())
    };
    for words in ["evaluate experts/a", "export experts/a --merge", "generate experts/a --prompt x"] {
        let said = said(words);
        assert!(said.contains("is being trained, and has no adapter yet"), "{words}: {said}");
        assert!(!said.contains("--resume"), "{words}: {said}");
    }
    assert!(said("plan experts/a").ends_with(&format!("next: expert-cli runs {RUN}\n")));
    signal(pid(&cli), Signal::INT);
    cli.wait_with_output().unwrap();
}
