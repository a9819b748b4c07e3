//! Ten thousand damaged manifests: none panics or hangs, and every rejection says what, where and in which value.
//! `EXPERT_FULL_TESTS=1` tries all of them, else every fifth.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Severity, Style};
use expert_contract::manifest::Options;
use expert_contract::read::{Loaded, from_bytes};
use serde_json::{Map, Value, json};

const TYPED: u64 = 5_000;
const BYTES: u64 = 5_000;

/// The numbers of the documents to try, of this many.
fn tried(all: u64) -> Vec<u64> {
    let every = std::env::var("EXPERT_FULL_TESTS").is_ok_and(|value| value == "1");
    (0..all).step_by(if every { 1 } else { 5 }).collect()
}

/// Small and repeatable: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll() >> 11).unwrap() % sides.max(1)
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/manifests/valid")
}

fn seeds() -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn load(bytes: &[u8]) -> Loaded {
    from_bytes(bytes.to_vec(), &folder().join("mutated.json"), &Options::default())
}

/// What holds for every document, however broken.
fn judge(bytes: &[u8]) -> Loaded {
    let loaded = load(bytes);
    let has_error = loaded.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(loaded.ok(), !has_error);
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.split('\n').collect();
    for found in &loaded.diagnostics {
        let line = lines.get(found.place.line - 1).unwrap_or_else(|| panic!("no line {}", found.place.line));
        assert!((1..=line.chars().count() + 1).contains(&found.place.column), "{found:?}");
        assert!(!found.message.is_empty() && !found.code.as_str().is_empty());
        assert!(found.pointer.is_empty() || found.pointer.starts_with('/'), "{found:?}");
    }
    assert!(
        loaded.rendered(Style { colour: true, width: 40, columns: Some(60) }).len()
            >= loaded.diagnostics.len()
    );
    if let Some(manifest) = &loaded.manifest {
        assert!(manifest.all_effective().all(|effective| !effective.shown().is_empty()));
    }
    loaded
}

fn any_value(dice: &mut Dice) -> Value {
    let words = ["", "lora", "true", "../x", "a::b", "\u{0}", "é😂", "{expert-name}", "C:\\x", "0.5", "none"];
    match dice.below(9) {
        0 => Value::Null,
        1 => (dice.below(2) == 0).into(),
        2 => dice.below(100).into(),
        3 => json!(*dice.pick(&[-1.0, 0.0, 1.5, 1e-300, 1e300, 0.1])),
        4 => json!(i64::MAX),
        5 | 6 => (*dice.pick(&words)).into(),
        7 => json!([any_scalar(dice), any_scalar(dice)]),
        _ => json!({"name": any_scalar(dice), "_comment": 1, "x": {}}),
    }
}

fn any_scalar(dice: &mut Dice) -> Value {
    dice.pick(&[json!(null), json!(1), json!("q_proj"), json!(true), json!(-0.5)]).clone()
}

/// Goes down a random path and changes what it ends at.
fn mutate(value: &mut Value, dice: &mut Dice) {
    let descend = dice.below(10) > 1;
    match value {
        Value::Object(object) if descend && !object.is_empty() => {
            let keys: Vec<_> = object.keys().cloned().collect();
            let key = dice.pick(&keys).clone();
            mutate_member(object, &key, dice);
        }
        Value::Array(items) if descend && !items.is_empty() => {
            let index = dice.below(items.len());
            match dice.below(6) {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                _ => mutate(&mut items[index], dice),
            }
        }
        other => *other = any_value(dice),
    }
}

fn mutate_member(object: &mut Map<String, Value>, key: &str, dice: &mut Dice) {
    match dice.below(8) {
        0 => drop(object.remove(key)),
        1 => {
            let value = object.remove(key).unwrap_or_default();
            let mut renamed: Vec<char> = key.chars().collect();
            renamed.swap(0, key.len() / 2);
            object.insert(renamed.into_iter().collect(), value);
        }
        2 => drop(object.insert(format!("{key}{}", dice.below(3)), any_value(dice))),
        3 => {
            let known = [
                "rank",
                "packing",
                "optim",
                "fp16",
                "bf16",
                "tasks",
                "overrides",
                "rope_scaling",
                "base_model",
            ];
            object.insert((*dice.pick(&known)).to_owned(), any_value(dice));
        }
        _ => mutate(&mut object[key], dice),
    }
}

#[test]
fn typed_damage() {
    let seeds: Vec<Value> = seeds().iter().filter_map(|seed| serde_json::from_slice(seed).ok()).collect();
    let rounds = tried(TYPED);
    let mut rejected = 0;
    for &round in &rounds {
        let mut dice = Dice::new(round + 1);
        let mut document = dice.pick(&seeds).clone();
        for _ in 0..=dice.below(4) {
            mutate(&mut document, &mut dice);
        }
        let loaded = judge(serde_json::to_string_pretty(&document).unwrap().as_bytes());
        for found in &loaded.diagnostics {
            assert!(document.pointer(&found.pointer).is_some(), "round {round}: {found:?} points nowhere");
        }
        rejected += usize::from(!loaded.ok());
    }
    assert!(
        (rounds.len() / 10..rounds.len()).contains(&rejected),
        "{rejected} of {} were rejected",
        rounds.len()
    );
}

const FRAGMENTS: [&[u8]; 18] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"\0",
    b"\xff",
    b"\xe2\x82",
    b"\n",
    b"//",
    b"/*",
    b"NaN",
    b"1e999",
];

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    match dice.below(7) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => drop(bytes.remove(at)),
        2 => bytes.truncate(at),
        3 => {
            let end = (at + dice.below(200)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = dice.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        4 => {
            let open = vec![*dice.pick(b"[{"); dice.below(300)];
            bytes.splice(at..at, open);
        }
        _ => {
            let fragment = *dice.pick(&FRAGMENTS);
            bytes.splice(at..at, fragment.iter().copied());
        }
    }
}

#[test]
fn damage_of_bytes() {
    let seeds = seeds();
    let rounds = tried(BYTES);
    let mut rejected = 0;
    for &round in &rounds {
        let mut dice = Dice::new(round + 1_000_003);
        let mut bytes = dice.pick(&seeds).clone();
        for _ in 0..=dice.below(3) {
            damage(&mut bytes, &mut dice);
        }
        rejected += usize::from(!judge(&bytes).ok());
    }
    assert!(
        (rounds.len() / 2..rounds.len()).contains(&rejected),
        "{rejected} of {} were rejected",
        rounds.len()
    );
}

#[test]
fn large_documents_end_soon() {
    let wide = format!(
        "{{\"name\": \"x\", {}}}",
        (0..20_000).map(|n| format!("\"k{n}\": [{n}]")).collect::<Vec<_>>().join(",")
    );
    judge(wide.as_bytes());
    let unknown = (0..5_000).map(|n| format!("\"k{n}\": 1")).collect::<Vec<_>>().join(",");
    let strict = format!("{{\"name\": \"x\", \"training\": {{\"config\": {{{unknown}}}}}}}");
    assert!(!judge(strict.as_bytes()).ok());
    let bases = (0..2_000).map(|n| format!("\"a/b{n}\"")).collect::<Vec<_>>().join(",");
    assert!(!judge(format!("{{\"name\": \"x\", \"base_models\": [{bases}]}}").as_bytes()).ok());
    judge(format!("[{}1]", "1,".repeat(200_000)).as_bytes());
    judge(&b"[".repeat(1_000_000));
    judge("{\"a\":".repeat(200_000).as_bytes());
    judge(&b"\"".repeat(1_000_000));
    judge(&b",".repeat(1_000_000));
    judge(format!("{{\"name\": \"{}\"}}", "\\ud800".repeat(100_000)).as_bytes());
    judge(format!("{{\"name\": {}}}", "9".repeat(1_000_000)).as_bytes());
}
