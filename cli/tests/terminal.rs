//! Whatever a manifest, a folder's name, a worker or a model says, it cannot steer the terminal.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::script;
use common::terminal::{run, without_own_sequences};
use serde_json::{Value, json};

/// Writes the clipboard, sets the title, clears the screen (both forms of each), recolours, turns the text round,
/// goes back over the line, and ends what a line shows.
const HOSTILE: &str = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}2J\u{9d}0;x\u{9c}\u{1b}[31mINK\u{1b}[0m\
    \u{1b}P1$r\u{1b}\\\u{202e}\u{2066}\u{200f}\u{61c}\rOVER\u{8}\u{7f}\u{b}\u{c}\u{0}evil";

struct Shelf {
    folder: tempfile::TempDir,
}

impl Shelf {
    /// An expert whose every name is hostile, and a run of it.
    fn new() -> Self {
        let shelf = Self { folder: tempfile::tempdir().unwrap() };
        let name = named();
        let folder = shelf.path(&format!("experts/{name}"));
        std::fs::create_dir_all(folder.join("data")).unwrap();
        let base = folder.join(format!("base{name}"));
        std::fs::create_dir_all(&base).unwrap();
        std::fs::write(base.join("config.json"), "{}").unwrap();
        std::fs::write(folder.join(format!("data/{name}.jsonl")), "{\"text\": \"a\"}\n").unwrap();
        let manifest = json!({
            "name": "ash",
            "base_models": [{"name": format!("./base{name}")}],
            "training": {
                "dataset": {"path": format!("data/{name}.jsonl")},
                "config": {"rank": 8, "alpha": 16, "target_modules": [format!("q_proj{name}")], "max_steps": 3},
            },
        });
        std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        let run = folder.join("weights").join(&name);
        std::fs::create_dir_all(run.join("final")).unwrap();
        std::fs::write(run.join("final/adapter_config.json"), "{}").unwrap();
        std::fs::write(run.join("events.jsonl"), "").unwrap();
        let record = json!({"recipe_digest": "d", "expert": HOSTILE, "recipe": {"expert": HOSTILE, HOSTILE: HOSTILE}, "result": {"ok": true, "steps": 7}});
        std::fs::write(run.join("run.json"), record.to_string()).unwrap();
        std::fs::write(
            run.join("plan.json"),
            json!({"recipe": {"expert": HOSTILE}, "machine": {HOSTILE: HOSTILE}}).to_string(),
        )
        .unwrap();
        shelf
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn expert(&self) -> PathBuf {
        self.path(&format!("experts/{}", named()))
    }

    /// With a worker that says `lines` on its standard output and hostile words on its standard error.
    fn command(&self, arguments: &[String], lines: &[Value]) -> Command {
        let said = self.path("said");
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(&said, text.join("\n") + "\n").unwrap();
        std::fs::write(self.path("complaint"), HOSTILE).unwrap();
        let python = self.path("python");
        if !python.exists() {
            let body = format!("cat '{}'; cat '{}' >&2", said.display(), self.path("complaint").display());
            script(&python, &body);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        command.args(arguments).current_dir(self.folder.path()).env("EXPERT_PYTHON", &python);
        command.env("EXPERT_HOME", self.path("home"));
        command
    }

    /// What a terminal gets, which must be the program's own sequences and text that can be seen.
    fn shows(&self, words: &[&str], lines: &[Value]) -> String {
        self.seen(words, lines, |_| {})
    }

    /// The same with another worker.
    fn shows_with(&self, words: &[&str], change: impl Fn(&mut Command)) -> String {
        self.seen(words, &[], change)
    }

    fn seen(&self, words: &[&str], lines: &[Value], change: impl Fn(&mut Command)) -> String {
        let words: Vec<String> =
            words.iter().map(|word| word.replace("{expert}", self.expert().to_str().unwrap())).collect();
        let mut command = self.command(&words, lines);
        change(&mut command);
        let (_, text) = run(&mut command, 200);
        let plain = without_own_sequences(&text);
        for c in plain.chars() {
            let allowed = matches!(c, '\n' | '\t' | '\r') || expert_contract::diagnostic::is_visible(c);
            assert!(allowed, "{words:?}: {c:?} reached the terminal in\n{text:?}");
        }
        assert!(!text.contains("\u{1b}[31mINK"), "{words:?}: {text:?}");
        assert!(!text.contains("\rOVER"), "{words:?}: {text:?}");
        assert!(!plain.contains("panicked"), "{words:?}: {text}");
        text
    }
}

/// As a file's name, which holds neither NUL nor a slash of any kind.
fn named() -> String {
    HOSTILE.replace(['\u{0}', '/', '\\'], "")
}

fn event(body: &Value) -> Value {
    json!({"time": 1.0, "attempt": 1, "body": body})
}

/// A worker's whole talk, with hostile words wherever it says words.
fn talk(last: &Value) -> Vec<Value> {
    let started = json!({"type": "started", "contract": 1, "stage": "train", "pid": 1, "recipe_digest": "", "resumed_from": 0});
    let bodies = [
        started,
        json!({"type": "stage", "name": "load base", "detail": HOSTILE, "quiet_budget": 5.0}),
        json!({"type": "advance", "stage": "tokenize", "done": 1, "total": 2, "unit": HOSTILE, "rate": 1.0}),
        json!({"type": "warning", "code": HOSTILE, "message": HOSTILE, "hint": HOSTILE}),
        json!({"type": "applied", "key": HOSTILE, "value": HOSTILE, "note": HOSTILE}),
        json!({"type": "checkpoint", "step": 1, "path": HOSTILE, "bytes": 1, "seconds": 1.0}),
        json!({"type": "best", "step": 1, "metric": HOSTILE, "value": 1.0}),
        json!({"type": "evaluated", "step": 1, "metrics": {HOSTILE: 1.0}, "seconds": 1.0}),
        json!({"type": "recovered", "kind": "tracker", "step": 1, "detail": HOSTILE}),
        json!({"type": "text", "source": "base", "text": "one \u{1b}", "done": false}),
        json!({"type": "text", "source": "base", "text": "[2J\u{9b}", "done": false}),
        json!({"type": "text", "source": HOSTILE, "text": HOSTILE, "done": false}),
        json!({"type": "text", "source": HOSTILE, "text": "", "done": true}),
        last.clone(),
    ];
    bodies.iter().map(event).collect()
}

fn finished(result: &Value) -> Value {
    json!({"type": "finished", "result": result})
}

#[test]
fn hostile_names_reach_no_terminal() {
    let shelf = Shelf::new();
    for words in [
        &["validate", "{expert}"][..],
        &["validate", "experts"],
        &["plan", "-m", "{expert}", "--device", "cpu"],
        &["plan", "-m", "{expert}", "--device", "cpu", "--all"],
        &["datasets", "{expert}"],
        &["datasets"],
        &["runs"],
        &["runs", "{expert}"],
        &["clean", "--dry-run"],
        &["matrix"],
        &["train", "--dry-run", "-m", "{expert}"],
        &["report", "{expert}"],
        &["plan", "-m", "{expert}/absent"],
        &["validate", "{expert}/absent"],
        &["report", "{expert}/absent"],
        &["runs", "{expert}/absent"],
        &["evaluate", "-m", "{expert}", "--adapter", "{expert}/absent"],
        &["doctor"],
        &["completions", "bash"],
    ] {
        let text = shelf.shows(words, &[Value::String(HOSTILE.to_owned())]);
        assert!(
            text.contains("evil") || ["clean", "completions"].contains(&words[0]),
            "{words:?} shows no name: {text}"
        );
    }
    for words in [
        &["plan", "-m", "{expert}", "--model", HOSTILE][..],
        &["plan", "-m", "{expert}", "--set", HOSTILE],
        &["plan", "-m", "{expert}", "--set", &format!("{HOSTILE}=1")],
        &["init", HOSTILE],
        &["matrix", "--changed-since", HOSTILE],
        &[HOSTILE],
        &["train", &format!("--{}", HOSTILE.replace('=', ""))],
        &["train", "--device", HOSTILE],
        &["runs", "--compare", HOSTILE, HOSTILE],
        &["package", HOSTILE],
        &["package", "{expert}", "--sign", HOSTILE],
        &["verify", HOSTILE],
        &["install", HOSTILE, "--registry", "registry"],
    ] {
        // A program's argument holds no NUL.
        let words: Vec<String> = words.iter().map(|word| word.replace('\u{0}', "")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(shelf.shows(&words, &[]).contains("evil"), "{words:?}");
    }
}

#[test]
fn a_workers_words_reach_no_terminal() {
    let shelf = Shelf::new();
    let result = json!({
        "ok": true, "steps": 7, "adapter": HOSTILE, "best_checkpoint": HOSTILE, HOSTILE: HOSTILE, "cache": HOSTILE,
        "scorer": HOSTILE, "rows": 3, "base": {"accuracy": 0.5}, "adapter_": HOSTILE,
        "by_tag": [{"name": HOSTILE, "base": {"accuracy": 0.1, "total": 2}}],
        "preview": [{"spans": [{"text": HOSTILE, "learned": true}], "tokens": 1, "error": HOSTILE}],
        "splits": {HOSTILE: {"documents": 1}},
    });
    let failed = json!({"type": "failed", "exit": 1, "code": HOSTILE, "message": HOSTILE, "hint": HOSTILE});
    for last in [finished(&result), failed] {
        for words in [
            &["train", "-m", "{expert}", "--device", "cpu", "-o", "out", "--fresh"][..],
            &["pretokenize", "-m", "{expert}", "--preview", "1"],
            &["evaluate", "-m", "{expert}", "--base-only"],
            &["generate", "-m", "{expert}", "--prompt", "x"],
            &["export", "-m", "{expert}", "--adapter", "--from", "{expert}/weights"],
            &["train", "--all", "--fresh"],
            &["train", "-m", "{expert}", "--device", "cpu", "-o", "quiet", "--fresh", "--quiet"],
        ] {
            if words[0] == "export" {
                std::fs::write(shelf.expert().join("weights/adapter_config.json"), "{}").unwrap();
            }
            let text = shelf.shows(words, &talk(&last));
            assert!(text.contains("evil"), "{words:?}: {text}");
        }
    }
}

/// These write to the terminal by themselves.
#[test]
fn what_bench_draws_reaches_no_terminal_unescaped() {
    let shelf = Shelf::new();
    let run = shelf.expert().join("weights").join(named());
    let progress = json!({"type": "progress", "step": 1, "total_steps": 2, "epoch": 0.5, "loss": 1.0, "lr": 0.1, "tokens": 9,
        "supervised_tokens": 9, "tokens_per_second": 9.0, "seconds": 0.5, "data_wait": 0.1, "memory_allocated": 1,
        "memory_reserved": 1});
    std::fs::write(run.join("events.jsonl"), format!("{}\n", event(&progress))).unwrap();
    let run = run.to_str().unwrap();
    let absent = format!("{run}/absent");
    let watch = ["bench", "watch", "--duration", "0.2", "--interval", "0.1", "--quiet", "--run"];
    for words in [
        &["bench", "timeline", "--run", run][..],
        &["bench", "timeline", "--run", run, "--against", run],
        &["bench", "timeline", "--run", &absent],
        &[&watch[..], &[run]].concat(),
        &[&watch[..], &[&absent]].concat(),
    ] {
        let text = shelf.shows_with(words, |command| {
            let root = common::repository();
            command.env("EXPERT_PYTHON", common::python()).env("PYTHONPATH", root.join("worker/python"));
        });
        assert!(text.contains("evil"), "{words:?}: {text}");
    }
}

/// The same data, escaped as JSON does.
#[test]
fn a_document_is_safe_and_holds_every_character() {
    let shelf = Shelf::new();
    let result = json!({"ok": true, "answer": HOSTILE});
    let words = ["generate", "-m", "{expert}", "--prompt", "x", "--json", "--quiet"];
    let text = shelf.shows(&words, &talk(&finished(&result)));
    let line = text.lines().find(|line| line.starts_with('{')).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap(), result);
}

/// Where no terminal is, the program writes no sequence at all.
#[test]
fn a_pipe_gets_no_sequence() {
    let shelf = Shelf::new();
    let words = ["generate", "-m", "{expert}", "--prompt", "x"]
        .map(|word| word.replace("{expert}", shelf.expert().to_str().unwrap()));
    let output = shelf.command(&words, &talk(&finished(&json!({"ok": true})))).output().unwrap();
    for stream in [output.stdout, output.stderr] {
        let text = String::from_utf8(stream).unwrap();
        assert!(
            text.contains("evil")
                && text.chars().all(|c| c == '\n' || expert_contract::diagnostic::is_visible(c)),
            "{text:?}"
        );
    }
}
