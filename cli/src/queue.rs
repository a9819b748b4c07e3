//! `train --all`: every expert of a shelf, past those that fail, and one summary.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use expert_contract::exit::Exit;
use serde_json::{Value, json};

use crate::commands::train::{Args, Trained, train};
use crate::experts;
use crate::failure::Failure;
use crate::prepare::prepare;
use crate::render::{Board, Console, summary};
use crate::usage::Global;
use crate::worker;

/// How one expert of the queue ended; None where the queue was stopped before its turn.
pub struct Ended {
    pub expert: String,
    pub outcome: Option<Result<Trained, Failure>>,
}

pub fn run(shelf: &Path, args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let manifests = experts::below(shelf)?;
    if manifests.is_empty() {
        return Err(Failure::bad_input("no-experts", format!("there is no expert in {}", shelf.display()))
            .hint("name the folder that holds them; `expert-cli init NAME` makes one"));
    }
    let ended = work(&manifests, args, global, console);
    if console.json {
        let experts: Vec<Value> = ended.iter().map(document).collect();
        console.document(&json!({"ok": exit_of(&ended) == Exit::Done, "experts": experts}));
    } else {
        console.data(&summary::shelf(&ended));
    }
    Ok(exit_of(&ended))
}

/// Each thread starts a worker and stays with it to its end: a worker dies with the thread that started it.
fn work(manifests: &[PathBuf], args: &Args, global: &Global, console: &Console) -> Vec<Ended> {
    let next = AtomicUsize::new(0);
    let ended: Vec<Mutex<Option<Result<Trained, Failure>>>> =
        manifests.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..manifests.len().min(args.jobs as usize) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(manifest) = manifests.get(index) else { break };
                    if worker::interrupted().is_some() {
                        break;
                    }
                    let outcome = train_one(manifest, args, global, console);
                    if let Ok(mut place) = ended[index].lock() {
                        *place = Some(outcome);
                    }
                }
            });
        }
    });
    let outcomes = ended.into_iter().map(|place| place.into_inner().unwrap_or_default());
    manifests
        .iter()
        .zip(outcomes)
        .map(|(manifest, outcome)| Ended { expert: name(manifest), outcome })
        .collect()
}

fn train_one(manifest: &Path, args: &Args, global: &Global, console: &Console) -> Result<Trained, Failure> {
    let name = name(manifest);
    let mut args = args.clone();
    args.options.manifest = Some(manifest.to_owned());
    // A queue that was stopped goes on where it was.
    if args.resume.is_none() && !args.fresh {
        args.resume = Some(PathBuf::from("auto"));
    }
    let mut board = Board::named(console, &name);
    let result = prepare(&args.options, args.request(), console)
        .and_then(|prepared| train(&prepared, &args, global, &mut |notice| board.notify(notice)));
    board.finish();
    match &result {
        Ok(Trained::Now(_)) => console.say(&format!("{name}: done")),
        Ok(Trained::Before(_)) => console.say(&format!("{name}: finished before")),
        Err(failure) => console.trouble(&name, failure),
    }
    result
}

fn name(manifest: &Path) -> String {
    let folder = manifest.parent().unwrap_or(manifest);
    folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}

fn document(ended: &Ended) -> Value {
    match &ended.outcome {
        Some(Ok(trained)) => {
            let before = matches!(trained, Trained::Before(_));
            json!({"expert": ended.expert, "ok": true, "finished_before": before, "result": trained.result()})
        }
        Some(Err(failure)) => json!({
            "expert": ended.expert,
            "ok": false,
            "exit": failure.exit.code(),
            "error": {"code": failure.code, "message": failure.message, "hint": failure.hint},
        }),
        None => json!({"expert": ended.expert, "ok": false, "skipped": true}),
    }
}

/// An interrupt tells its own code; otherwise one failure is a failure of the whole.
fn exit_of(ended: &[Ended]) -> Exit {
    if let Some(signal) = worker::interrupted() {
        return signal.exit();
    }
    let all_done = ended.iter().all(|it| matches!(it.outcome, Some(Ok(_))));
    if all_done { Exit::Done } else { Exit::Failed }
}
