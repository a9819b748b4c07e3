//! `expert-cli ray-task`: one task of a shelf on a Ray cluster, on the node where it runs.

use std::io::{Read, Write, stdin, stdout};
use std::path::Path;
use std::process::exit;
use std::thread;
use std::time::Duration;

use expert_contract::exit::Exit;
use expert_contract::resolve::Share;

use super::order::{Line, Order, Training};
use crate::args::{Global, Supervision};
use crate::failure::Failure;
use crate::lock::{code, inputs};
use crate::plan::{Reads, prepare_here};
use crate::sys::digests::Digests;
use crate::sys::host;
use crate::sys::lease::Lease;
use crate::train::options::ShelfOptions;
use crate::train::runner::{Runner, Trained};
use crate::train::trainer::Trainer;
use crate::ui::Console;
use crate::worker::{Notice, Search};

pub fn run(global: &Global) -> Result<Exit, Failure> {
    let order = read_order()?;
    thread::spawn(end_with_the_task);
    let outcome = carry_out(order, global);
    let exit = outcome.as_ref().map_or_else(|failure| failure.exit, |_| Exit::Done);
    say(&outcome.unwrap_or_else(|failure| Line::Failed(failure.into())));
    Ok(exit)
}

fn read_order() -> Result<Order, Failure> {
    let mut line = String::new();
    let read = stdin().read_line(&mut line).map_err(|error| error.to_string());
    let order = read.and_then(|_| serde_json::from_str(&line).map_err(|error| error.to_string()));
    order.map_err(|reason| {
        Failure::bad_input("bad-order", format!("standard input holds no order of a task: {reason}"))
            .hint("`train --all --engine ray` starts this command on the nodes of a cluster")
    })
}

/// The process of the task holds the other end: it ends with its node or with the driver. The worker ends with this process.
fn end_with_the_task() {
    let _ = stdin().lock().read_to_end(&mut Vec::new());
    exit(Exit::Failed.code().into());
}

fn carry_out(order: Order, global: &Global) -> Result<Line, Failure> {
    let found = Search::here(global.python.as_deref(), None).find()?;
    let differences = inputs::code_differences(&order.code, &code::of(Some(&found.python)));
    if !differences.is_empty() {
        let listed = inputs::listed(&differences);
        return Err(Failure::missing(
            "node-differs",
            format!("this node has other code than the driver:{listed}"),
        )
        .hint("install the same expert-cli and expert-worker on every node"));
    }
    match order.training {
        None => Ok(Line::SameCode),
        Some(training) => train(&training, global),
    }
}

fn train(training: &Training, global: &Global) -> Result<Line, Failure> {
    let console = Console { warns: false, ..Console::new(false, true) };
    let Training { options, run, no_evaluate, threads, stall_seconds, succeeds } = training;
    let prepared = prepare_here(options, Reads::TrainingData, run.here(), &console)?;
    let resolved = prepared.resolved.on(&Share { device: None, threads: *threads });
    let stall_timeout = stall_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let supervision = Supervision { stall_timeout };
    let digests = Digests::open(&host::home());
    let runner = Runner { supervision: &supervision, global, digests: &digests, warm: None, rank: None };
    let shelf = ShelfOptions::of_one(*no_evaluate);
    let trainer = Trainer { options: run, shelf: Some(&shelf), runner };
    let paths = &resolved.machine.paths;
    let (run, expert) = (Path::new(&paths.output), Path::new(&paths.expert_dir));
    let lease = Lease::take(run, expert, *succeeds, || {
        say(&Line::Failed(taken_over().into()));
        exit(Exit::Locked.code().into());
    })?;
    say(&Line::Lease(lease.token));
    let outcome = trainer.train(&resolved, &mut |notice| pass_on(&notice))?;
    let before = outcome.was_finished_before();
    let scored = matches!(outcome, Trained::AlreadyDone { scored: true, .. });
    Ok(Line::Trained { before, scored, result: outcome.document().clone() })
}

fn taken_over() -> Failure {
    Failure::new(Exit::Locked, "lease-lost", "another task has taken over this expert")
        .hint("its node was paused or cut off from the others; what it had saved is kept")
}

fn pass_on(notice: &Notice) {
    match notice {
        Notice::Event(event) => say(&Line::Event(Box::new((*event).clone()))),
        Notice::UnparsedLine(text) => say(&Line::Unparsed((*text).to_owned())),
        Notice::Remark(text) => say(&Line::Remark((*text).to_owned())),
        Notice::Quiet(quiet) => say(&Line::Quiet(quiet.clone())),
        // The driver's machine has said so.
        Notice::Stopping(..) => {}
    }
}

/// Nobody is there to train for where nobody listens.
fn say(line: &Line) {
    let written = serde_json::to_string(line).map(|text| writeln!(stdout(), "{text}"));
    if !matches!(written, Ok(Ok(()))) {
        exit(Exit::Failed.code().into());
    }
}
