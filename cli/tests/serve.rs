//! `serve` up to the process that serves.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use common::{World, talk};

#[test]
fn other_machines_need_a_token_and_an_expert_must_be_trained() {
    let world = World::shelf(&["a"]);
    let output = world.expert_cli(&["serve", "experts/a"], "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("train it first: expert-cli train experts/a"), "{}", talk(&output));
    // Without a folder `experts` the working directory is searched.
    let world = World::shelf(&["a", "b"]);
    let here = world.path("experts");
    let output = world.expert_cli(&["serve"], "").current_dir(&here).output().unwrap();
    let words = "none of the 2 experts in the working directory is trained: a, b";
    assert!(talk(&output).contains(words), "{}", talk(&output));
    let adapter = world.path("adapter");
    std::fs::create_dir(&adapter).unwrap();
    std::fs::write(adapter.join("expert.json"), "{}").unwrap();
    let (output, document) = world.json("serve adapter --host 0.0.0.0", "");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert_eq!(document["error"]["code"], "token-missing", "{document}");
    let (output, document) = world.json("serve adapter --port 0", "");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(document["error"]["message"].as_str().unwrap().contains("adapter_config.json"), "{document}");
}
