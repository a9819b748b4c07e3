//! `plan --all --cluster`: a shelf on machines that are not here, and the queue that starts experts in the same order.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::thread;

use common::{PATIENCE, World, talk};
use serde_json::{Value, json};

const STEPS: [(&str, u32); 4] = [("a", 15), ("b", 40), ("c", 20), ("d", 30)];
/// Of what the stand-in reports: 10 steps of 200 tokens at 100 tokens per second.
const SECONDS_PER_STEP: f64 = 2.0;
const PLAN: &str = "plan --all experts --cluster cluster.json --device cpu";

/// One expert is made; the others are copies of it with other names and steps.
fn shelf() -> World {
    let world = World::shelf(&["a"]);
    let copied =
        ["manifest.json", "datasets/train.jsonl", "datasets/validation.jsonl", "datasets/test.jsonl"];
    for (name, steps) in STEPS {
        std::fs::create_dir_all(world.path(&format!("experts/{name}/datasets"))).unwrap();
        for file in copied.iter().filter(|_| name != "a") {
            let place = |expert: &str| world.path(&format!("experts/{expert}/{file}"));
            std::fs::copy(place("a"), place(name)).unwrap();
        }
        let file = world.path(&format!("experts/{name}/manifest.json"));
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        manifest["name"] = name.into();
        let config = manifest.pointer_mut("/training/config").unwrap().as_object_mut().unwrap();
        config.remove("epochs");
        config.insert("max_steps".to_owned(), steps.into());
        std::fs::write(&file, manifest.to_string()).unwrap();
    }
    world
}

/// The experts differ in their steps only, so that one run measures them all.
fn measured() -> World {
    let world = shelf();
    let (output, _) = world.json("train experts/a --device cpu --max-steps 10 -o measured", "final=w,speed");
    assert!(output.status.success(), "{}", talk(&output));
    world
}

fn cluster(world: &World, nodes: &Value) {
    std::fs::write(world.path("cluster.json"), json!({"nodes": nodes}).to_string()).unwrap();
}

fn plan(world: &World) -> Value {
    let (output, document) = world.json(PLAN, "die=9");
    assert!(output.status.success(), "{}", talk(&output));
    document
}

fn placed(document: &Value) -> Vec<(String, u64, f64, f64)> {
    let one = |it: &Value| {
        let number = |key: &str| it[key].as_f64().unwrap();
        (
            it["expert"].as_str().unwrap().to_owned(),
            it["number"].as_u64().unwrap(),
            number("begin"),
            number("end"),
        )
    };
    document["experts"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn a_measured_shelf_is_simulated_and_priced() {
    let world = measured();
    cluster(
        &world,
        &json!([
            {"name": "here", "count": 2, "price_per_hour": 36.0},
            {"name": "fast", "count": 0, "device": "h100", "speed": 10, "price_per_hour": 360.0},
            {"name": "tiny", "count": 3, "memory": "1GB"},
        ]),
    );
    let document = plan(&world);
    let of = |name: &str| f64::from(STEPS.iter().find(|it| it.0 == name).unwrap().1) * SECONDS_PER_STEP;
    let (a, b, c, d) = (of("a"), of("b"), of("c"), of("d"));
    let expected = [("b", 0, 0.0, b), ("d", 1, 0.0, d), ("c", 1, d, d + c), ("a", 0, b, b + a)];
    let expected: Vec<_> = expected.into_iter().map(|it| (it.0.to_owned(), it.1, it.2, it.3)).collect();
    assert_eq!(placed(&document), expected);
    assert_eq!((&document["makespan_seconds"], &document["last"]), (&json!(b + a), &json!("a")));
    assert!((document["cost"].as_f64().unwrap() - (a + b + c + d) / 100.0).abs() < 1e-9);
    let nodes = document["nodes"].as_array().unwrap();
    assert!((nodes[0]["busy"].as_f64().unwrap() - (a + b + c + d) / (2.0 * (a + b))).abs() < 1e-9);
    assert_eq!((&nodes[1]["used"], &nodes[2]["used"]), (&json!(0), &json!(0)));
    assert!(nodes[1]["one_more"]["seconds_saved"].as_f64().unwrap() > 0.0, "{}", nodes[1]);
    assert_eq!(nodes[2]["one_more"]["seconds_saved"], 0.0);
    // All four lack memory on the small nodes, which is not an error.
    assert_eq!(document["does_not_fit"].as_array().unwrap().len(), 4);
    assert_eq!(document["does_not_fit"][0]["lacks"][0]["node"], "tiny");
    let output = world.expert_cli(&PLAN.split(' ').collect::<Vec<_>>(), "die=9").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "1m50s for 2.10: 4 experts of experts",
        "a ends last",
        "buy: one more here",
        "not needed: 3 of 3 tiny",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        talk(&output).contains("too large for tiny, and not placed there: a, b, c, d"),
        "{}",
        talk(&output)
    );
    a_speed_is_the_ratio_of_two_measurements(&world);
    what_only_an_absent_node_can_train_is_a_reason_to_buy_it(&world);
    mistakes_in_the_file_are_shown_where_they_are(&world);
}

#[test]
fn what_was_not_measured_is_named_with_the_command_that_measures_it() {
    let world = shelf();
    cluster(&world, &json!([{"name": "here"}]));
    let document = plan(&world);
    assert_eq!((&document["experts"], &document["makespan_seconds"]), (&json!([]), &json!(0.0)));
    let first = &document["not_measured"][0];
    assert_eq!(
        first["measure"],
        "expert-cli train experts/a/manifest.json --device cpu --max-steps 10 -o DIR"
    );
    assert_eq!(document["not_measured"].as_array().unwrap().len(), 4);

    std::fs::write(world.path("experts/b/manifest.json"), "{}").unwrap();
    let (output, document) = world.json(PLAN, "die=9");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert_eq!((&document["ok"], &document["failed"][0]["expert"]), (&json!(false), &json!("b")));
    assert_eq!(document["not_measured"].as_array().unwrap().len(), 3);
}

fn what_only_an_absent_node_can_train_is_a_reason_to_buy_it(world: &World) {
    cluster(
        world,
        &json!([{"name": "laptop", "memory": "1GB"}, {"name": "big", "count": 0, "memory": "64GB"}]),
    );
    let document = plan(world);
    assert_eq!((&document["buy"], &document["not_measured"]), (&json!("big"), &json!([])));
    assert_eq!(
        document["nodes"][1]["one_more"],
        json!({"experts_added": 4, "seconds_saved": 0.0, "cost_added": 0.0})
    );
    assert!(document["cost"].as_f64().unwrap().is_sign_positive());
    let lack = &document["does_not_fit"][0]["lacks"][0]["memory"];
    assert!(lack["needed_bytes"].as_u64() > lack["usable_bytes"].as_u64(), "{lack}");
    let output = world.expert_cli(&PLAN.split(' ').collect::<Vec<_>>(), "die=9").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "no node that is there trains any of the 4 measured experts of experts",
        "buy: one more big trains 4 experts that no node trains now",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn mistakes_in_the_file_are_shown_where_they_are(world: &World) {
    for (node, said) in [
        (json!({"name": "a", "device": "h10", "speed": 1}), "error[unknown-word]: `h10` is not a device"),
        (json!({"name": "a", "device": "heer", "speed": 1}), "did you mean `here`?"),
        (json!({"name": "a", "memory": "many"}), "error[wrong-type]: `many` is not a size of memory"),
        (json!({"name": "a", "cuont": 1}), "did you mean `count`?"),
        (json!({"name": "a", "memory": "1GB"}), "no expert fits the memory of any node"),
    ] {
        cluster(world, &json!([node]));
        let (output, document) = world.json(PLAN, "die=9");
        assert_eq!((output.status.code(), &document["ok"]), (Some(2), &json!(false)), "{said}");
        assert!(talk(&output).contains(said), "{said}: {}", talk(&output));
    }
    for (arguments, said) in [
        ("plan --cluster cluster.json", "--all"),
        ("plan --all experts --cluster nowhere.json", "docs/cluster.md"),
        ("plan --all experts --cluster cluster.json --for h100", "cannot be used with"),
    ] {
        let (output, _) = world.json(arguments, "die=9");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(talk(&output).contains(said), "{arguments}: {}", talk(&output));
    }
}

fn a_speed_is_the_ratio_of_two_measurements(world: &World) {
    let measurement = |name: &str, speed: f64| {
        let text = json!({"planned": {"tokens_per_second": speed}}).to_string();
        std::fs::write(world.path(name), text).unwrap();
    };
    measurement("here.json", 50.0);
    measurement("there.json", 200.0);
    let text =
        json!({"bench": "here.json", "nodes": [{"name": "l4", "device": "l4", "bench": "there.json"}]});
    std::fs::write(world.path("cluster.json"), text.to_string()).unwrap();
    let document = plan(world);
    assert_eq!(document["nodes"][0]["speed"], 4.0);
    assert_eq!(placed(&document)[0], ("b".to_owned(), 0, 0.0, 20.0));
    std::fs::remove_file(world.path("there.json")).unwrap();
    let (output, document) = world.json(PLAN, "die=9");
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(2), &json!("no-measurement")));
}

/// Each worker ends when the test says so, in the order of the simulated ends: whichever expert then starts is the one that
/// the simulation has next on that place.
#[test]
fn the_queue_starts_experts_as_they_are_simulated() {
    let world = measured();
    cluster(&world, &json!([{"name": "here", "count": 2}]));
    let simulated = placed(&plan(&world));
    let gate = |name: &str| world.path(&format!("may-end-{name}"));
    let acts = STEPS.map(|(name, _)| format!("only={name},await={}", gate(name).display())).join(",");
    let command = ["train", "--all", "--device", "cpu", "--jobs", "2", "--no-evaluate"];
    let mut child = world.expert_cli(&command, &format!("{acts},all,final=w")).spawn().unwrap();
    let (starts, started) = mpsc::channel();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reader = thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(name) = line.strip_suffix(": starting the worker") {
                let _ = starts.send(name.to_owned());
            }
        }
    });
    let next = || started.recv_timeout(PATIENCE).unwrap();
    let mut first = [next(), next()];
    first.sort();
    assert_eq!(first, ["b", "d"]);
    let mut ends = simulated.clone();
    ends.sort_by(|a, b| a.3.total_cmp(&b.3));
    for (name, number, _, end) in ends {
        std::fs::write(gate(&name), "").unwrap();
        if let Some(after) = simulated.iter().find(|it| it.1 == number && (it.2 - end).abs() < 1e-9) {
            assert_eq!(next(), after.0, "after {name}");
        }
    }
    assert!(child.wait().unwrap().success());
    reader.join().unwrap();
    assert!(started.recv().is_err(), "no further expert starts");
}
