//! `validate`: verdicts, exit codes, and the JSON document.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use std::process::Command;
use tempfile::TempDir;

fn expert_cli(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    command.current_dir(folder).env("NO_COLOR", "1");
    command
}

fn samples(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/manifests").join(kind)
}

fn expert(folder: &Path, name: &str, config: &Value) {
    let manifest = json!({
        "name": name, "base_models": ["Qwen/Qwen3-0.6B"],
        "training": {"dataset": "data.jsonl", "config": config},
    });
    std::fs::create_dir_all(folder.join(name)).unwrap();
    std::fs::write(folder.join(name).join("data.jsonl"), "{\"text\": \"a\"}\n").unwrap();
    std::fs::write(folder.join(name).join("manifest.json"), manifest.to_string()).unwrap();
}

fn shelf() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    expert(&folder.path().join("experts"), "good", &json!({"rank": 8, "alpha": 16}));
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = expert_cli(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_folder_of_experts_is_found_without_being_named() {
    let shelf = shelf();
    expert(&shelf.path().join("experts"), "also-good", &json!({"rank": 8, "alpha": 16}));
    let (code, out, err) = run(shelf.path(), &["validate"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "experts/also-good/manifest.json: ok\nexperts/good/manifest.json: ok\n");
    let (code, out, _) = run(&shelf.path().join("experts/good"), &["validate"]);
    assert_eq!((code, out.as_str()), (0, "manifest.json: ok\n"));
}

#[test]
fn a_mistake_is_shown_with_its_place_and_ends_in_2() {
    let shelf = shelf();
    expert(&shelf.path().join("experts"), "bad", &json!({"rank": 8, "alpha": 16, "batchsize": 4}));
    let (code, out, err) = run(shelf.path(), &["validate", "experts"]);
    assert_eq!(code, 2);
    assert_eq!(out, "experts/bad/manifest.json: 1 error\nexperts/good/manifest.json: ok\n");
    assert!(err.starts_with("error[unknown-key]: `batchsize` is not a key of training.config\n"), "{err}");
    assert!(err.contains("hint: did you mean `batch_size`?"), "{err}");
    assert!(!err.contains('\u{1b}'), "{err}");
}

#[test]
fn the_document_has_the_promised_shape() {
    let (code, out, err) =
        run(&samples("invalid"), &["validate", "--json", "unknown-key-config.json", "empty.json"]);
    assert_eq!((code, err.as_str()), (2, ""));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        document["files"][0],
        json!({"path": "unknown-key-config.json", "ok": false, "diagnostics": [{
            "code": "unknown-key", "severity": "error", "pointer": "/training/config/batchsize", "line": 17, "column": 7,
            "message": "`batchsize` is not a key of training.config", "hint": "did you mean `batch_size`?",
        }]})
    );
    assert_eq!(document["ok"], json!(false));
    assert_eq!(document["files"][1]["diagnostics"][0]["code"], json!("file-empty"));
    assert_eq!(document["files"][1]["diagnostics"][0]["line"], json!(1));
}

#[test]
fn warnings_and_advice_do_not_fail() {
    let (code, out, err) = run(&samples("valid"), &["validate", "optimized-block.json"]);
    assert_eq!((code, out.as_str()), (0, "optimized-block.json: ok, 2 warnings\n"));
    assert!(err.contains("warning[packing-over-grouping]") && err.contains("advice[loader-unused]"), "{err}");
    let (_, _, err) = run(&samples("valid"), &["validate", "--quiet", "optimized-block.json"]);
    assert!(err.contains("warning[packing-over-grouping]") && !err.contains("advice["), "{err}");
}

#[test]
fn strict_makes_what_is_absent_an_error() {
    let (code, ..) = run(&samples("valid"), &["validate", "windows-base.json"]);
    assert_eq!(code, 0);
    let (code, ..) = run(&samples("valid"), &["validate", "--strict", "windows-base.json"]);
    assert_eq!(code, 3, "only the base model is missing on this machine");
    let (code, ..) = run(&samples("valid"), &["validate", "--strict", "data-absent.json"]);
    assert_eq!(code, 2);
}

#[test]
fn nothing_to_validate_is_said() {
    let empty = tempfile::tempdir().unwrap();
    let (code, out, err) = run(empty.path(), &["validate"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("there is no manifest.json here"), "{err}");
    let (code, out, err) = run(empty.path(), &["validate", "absent.json"]);
    assert_eq!((code, out.as_str()), (2, "absent.json: 1 error\n"));
    assert!(err.contains("error[file-unreadable]: there is no such file"), "{err}");
}

/// In the folder of the experts too, where hidden folders hold backups.
#[test]
fn the_usual_folder_is_the_same_for_every_command() {
    let shelf = shelf();
    let experts = shelf.path().join("experts");
    expert(&experts, ".backup", &json!({"batchsize": 4}));
    for folder in [shelf.path().to_owned(), experts.clone(), experts.join("good")] {
        let (code, out, err) = run(&folder, &["validate"]);
        assert_eq!((code, out.lines().count()), (0, 1), "{}: {out}{err}", folder.display());
        let (_, out, _) = run(&folder, &["matrix"]);
        assert!(out.contains("\"good\""), "{out}");
        let (code, out, err) = run(&folder, &["train", "--all", "--dry-run"]);
        assert!(code == 0 && !out.contains("backup"), "{}: {out}{err}", folder.display());
    }
}

#[test]
fn an_allowed_folder_is_named_on_the_command_line() {
    let shelf = shelf();
    std::fs::create_dir(shelf.path().join("shared")).unwrap();
    std::fs::write(shelf.path().join("shared/data.jsonl"), "{}\n").unwrap();
    let manifest = shelf.path().join("experts/good/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("data.jsonl", "../../shared/data.jsonl");
    std::fs::write(&manifest, text).unwrap();
    assert_eq!(run(shelf.path(), &["validate"]).0, 2);
    assert_eq!(run(shelf.path(), &["validate", "--allow-path", "shared"]).0, 0);
}

#[test]
fn a_format_names_that_of_a_text_file_with_another_ending_for_plan_as_well() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["rows.txt", "more.log", "sheet.xlsx"] {
        std::fs::write(folder.path().join(name), "{\"prompt\": \"a\", \"completion\": \"b\"}\n").unwrap();
    }
    for (dataset, code) in [
        (json!({"path": "rows.txt", "format": "jsonl"}), 0),
        (json!({"path": "rows.txt", "validation_path": "more.log", "format": "jsonl"}), 0),
        (json!({"tasks": [{"path": "rows.txt", "format": "jsonl"}]}), 0),
        (json!({"path": "rows.txt"}), 2),
        (json!({"path": "rows.txt", "format": "parquet"}), 2),
        (json!({"path": "sheet.xlsx", "format": "jsonl"}), 2),
    ] {
        let manifest = json!({
            "name": "named", "base_models": ["smollm2-135m-instruct"],
            "training": {"dataset": dataset, "config": {"rank": 8, "alpha": 16}},
        });
        std::fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
        for command in [&["validate"][..], &["plan", "--device", "cpu", "."]] {
            let (found, _, err) = run(folder.path(), command);
            assert_eq!(found, code, "{command:?} of {dataset}: {err}");
            assert_eq!(err.contains("is not a format of data"), code == 2, "{command:?} of {dataset}: {err}");
        }
    }
}
