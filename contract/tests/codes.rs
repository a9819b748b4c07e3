//! Every diagnostic code is reached: by a case of `tests/manifests`, or by one of the few below that need more than a file.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Code, Diagnostic};
use expert_contract::manifest::{MAX_BYTES, Options, Set};
use expert_contract::plan::DeviceKind;
use expert_contract::read::{from_bytes, load};
use expert_contract::rules::{MachineFacts, check_machine};
use expert_contract::sample_rows::{Split, rows};

fn codes(diagnostics: &[Diagnostic]) -> impl Iterator<Item = Code> + '_ {
    diagnostics.iter().map(|found| found.code)
}

fn from_cases() -> BTreeSet<Code> {
    let mut reached = BTreeSet::new();
    for kind in ["valid", "invalid"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/manifests").join(kind);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "json") {
                reached.extend(codes(&load(&path, &Options::default()).diagnostics));
            }
        }
    }
    reached
}

fn minimal(config: &str) -> Vec<u8> {
    format!(
        r#"{{"name": "x", "base_models": ["Qwen/Qwen3-0.6B"],
            "training": {{"dataset": "a.jsonl", "config": {{"rank": 8, "alpha": 16, {config}}}}}}}"#
    )
    .into_bytes()
}

fn from_machine(config: &str, device: DeviceKind, launched: Option<u32>) -> BTreeSet<Code> {
    let path = PathBuf::from("/nowhere/manifest.json");
    let manifest = from_bytes(minimal(config), &path, &Options::default()).manifest.unwrap();
    let problems =
        check_machine(&manifest.effective(0).unwrap(), MachineFacts { device, devices: 1, launched });
    manifest.locate(problems).iter().map(|found| found.code).collect()
}

/// Of a base that has 128 positions.
fn from_base(config: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let base = r#"{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 128, "vocab_size": 8}"#;
    std::fs::create_dir(folder.path().join("base")).unwrap();
    std::fs::write(folder.path().join("base/config.json"), base).unwrap();
    let text = String::from_utf8(minimal(config)).unwrap().replace("Qwen/Qwen3-0.6B", "base");
    from_bytes(text.into_bytes(), &folder.path().join("manifest.json"), &Options::default()).diagnostics
}

/// The sample rows of `init` as test data, beside these training rows.
fn from_sample_rows(train: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.jsonl"), train).unwrap();
    std::fs::write(folder.path().join("test.jsonl"), rows(Split::Test)).unwrap();
    let text = String::from_utf8(minimal(r#""seed": 1"#)).unwrap();
    let text = text.replace(r#""a.jsonl""#, r#"{"path": "train.jsonl", "test_path": "test.jsonl"}"#);
    from_bytes(text.into_bytes(), &folder.path().join("manifest.json"), &Options::default()).diagnostics
}

#[test]
fn every_code_is_reached() {
    let mut reached = from_cases();
    let absent = Path::new("/nowhere/manifest.json");
    reached.extend(codes(&load(absent, &Options::default()).diagnostics));
    let large = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
    reached.extend(codes(&from_bytes(large, absent, &Options::default()).diagnostics));
    let sets = vec![Set::new("training.config.no_such_key", "1")];
    let options = Options { sets, ..Options::default() };
    reached.extend(codes(&from_bytes(minimal(r#""seed": 1"#), absent, &options).diagnostics));
    reached.extend(from_machine(r#""fp16": true"#, DeviceKind::Cpu, None));
    reached.extend(from_machine(r#""optim": "paged_adamw_8bit""#, DeviceKind::Mps, None));
    reached.extend(from_machine(r#""distributed": {"processes": 2}"#, DeviceKind::Cuda, None));
    reached.extend(from_machine(r#""distributed": {"processes": 2}"#, DeviceKind::Cpu, Some(3)));
    reached.extend(codes(&from_base(r#""max_seq_length": 129"#)));
    reached.extend(codes(&from_sample_rows("{\"text\": \"a\"}\n")));
    let missed: Vec<_> = Code::ALL.iter().filter(|code| !reached.contains(code)).collect();
    assert!(missed.is_empty(), "no test reaches {missed:?}");
}

#[test]
fn a_machine_that_fits_is_not_complained_of() {
    assert!(from_machine(r#""fp16": true, "optim": "paged_adamw_8bit""#, DeviceKind::Cuda, None).is_empty());
    assert!(from_machine(r#""bf16": true"#, DeviceKind::Cpu, None).is_empty());
    assert!(from_machine(r#""distributed": {"processes": 2}"#, DeviceKind::Cpu, None).is_empty());
    assert!(from_machine(r#""distributed": "ddp""#, DeviceKind::Cuda, None).is_empty());
}

#[test]
fn the_sample_as_it_was_written_is_not_complained_of() {
    let found = from_sample_rows(&rows(Split::Train));
    assert!(!codes(&found).any(|code| code == Code::DataSample), "{found:?}");
}

#[test]
fn codes_are_distinct_words() {
    let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(words.len(), Code::ALL.len());
    for word in words {
        assert!(
            word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{word}"
        );
    }
}
