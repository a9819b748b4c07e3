//! Several experts in one worker. Each is trained by its own thread of the caller, as alone; the threads meet here, and the
//! worker starts when every expert is ready or has nothing to do.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use expert_contract::event::Event;
use expert_contract::exit::Exit;
use expert_contract::plan::{Plan, Task};
use fs_err as fs;
use serde_json::Value;

use super::interrupt;
use super::launch::{Launch, Stdin};
use super::locate::Search;
use super::outcome::end;
use super::silence::Quiet;
use super::supervise::{Limits, Notice, Stopping, supervise_several};
use crate::args::{Global, Supervision};
use crate::failure::Failure;
use crate::run::RunFolder;
use crate::run::names::{LOG, PLAN};
use crate::sys::durable;

/// What an expert's thread hears of its run.
enum Told {
    Event(Box<Event>),
    Stopping(Stopping),
    Quiet(Quiet),
    UnparsedLine(String),
    End(Result<Value, Failure>),
}

/// What an expert's thread says before the worker starts.
enum Report {
    Ready(Ready),
    /// It was finished before.
    NothingToDo,
    Refused {
        expert: String,
    },
}

/// Where the threads of `experts` meet.
pub struct FusedGroup {
    experts: Vec<String>,
    reports: Sender<Report>,
    reported: Mutex<Receiver<Report>>,
    /// Those that have reported.
    heard: Mutex<Vec<String>>,
    needs_all: bool,
}

impl FusedGroup {
    /// Names are distinct. `needs_all`: where one cannot be trained, none of them is.
    pub fn new(experts: Vec<String>, needs_all: bool) -> Self {
        let (reports, reported) = mpsc::channel();
        Self { experts, reports, reported: Mutex::new(reported), heard: Mutex::default(), needs_all }
    }

    /// Called by an expert's thread: its part of the one worker's work.
    pub(super) fn carry_out(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Value, Failure> {
        let expert = plan.recipe.expert.clone();
        durable::write_json(&folder.path().join(PLAN), plan)?;
        let (told, hears) = mpsc::channel();
        let home = PathBuf::from(&plan.machine.paths.expert_dir);
        let ready = Ready { expert: expert.clone(), home, folder: folder.clone(), told };
        self.report(&expert, Report::Ready(ready));
        for told in hears {
            match told {
                Told::Event(event) => notify(Notice::Event(&event)),
                Told::Stopping(it) => notify(Notice::Stopping(it)),
                Told::Quiet(quiet) => notify(Notice::Quiet(quiet)),
                Told::UnparsedLine(text) => notify(Notice::UnparsedLine(&text)),
                Told::End(result) => return result,
            }
        }
        Err(Failure::new(
            Exit::Failed,
            "worker-lost",
            format!("the group of {expert} ended without a result"),
        ))
    }

    /// An expert's thread is through; without effect where it was ready before.
    pub fn left(&self, expert: &str, is_refused: bool) {
        let report =
            if is_refused { Report::Refused { expert: expert.to_owned() } } else { Report::NothingToDo };
        self.report(expert, report);
    }

    fn report(&self, expert: &str, report: Report) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if !heard.iter().any(|name| name == expert) {
            heard.push(expert.to_owned());
            let _ = self.reports.send(report);
        }
    }

    /// Waits for every expert, and supervises the worker that trains those that are ready. The worker ends with the thread
    /// that calls this.
    pub fn conduct(&self, supervision: &Supervision, global: &Global) {
        let mut ready = Vec::new();
        let mut refused = None;
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        // After a stop, too: each expert's thread reports at its end, and one that is ready waits for an answer.
        for report in reported.iter().take(self.experts.len()) {
            match report {
                Report::Ready(one) => ready.push(one),
                Report::Refused { expert } => refused = Some(expert),
                Report::NothingToDo => {}
            }
        }
        if let Some(expert) = refused.filter(|_| self.needs_all) {
            return end_all(&ready, || {
                let message = format!("not started: {expert} cannot be trained with it");
                Failure::new(Exit::Failed, "group-refused", message)
                    .hint(format!("do what is said of {expert}, or leave it out of --fuse"))
            });
        }
        if let Some(signal) = interrupt::requested() {
            let message = "stopped on request before the worker was started";
            return end_all(&ready, || Failure::new(signal.exit(), "interrupted", message));
        }
        if let Err(failure) = train(&ready, supervision, global) {
            end_all(&ready, || failure.clone());
        }
    }
}

/// An expert whose folder is claimed and whose plan is written.
struct Ready {
    expert: String,
    /// The expert's own folder.
    home: PathBuf,
    folder: RunFolder,
    told: Sender<Told>,
}

impl Ready {
    /// The first end counts.
    fn end(&self, result: Result<Value, Failure>) {
        self.send(Told::End(result));
    }

    /// A thread that has ended hears nothing more.
    fn send(&self, what: Told) {
        let _ = self.told.send(what);
    }
}

fn end_all(ready: &[Ready], failure: impl Fn() -> Failure) {
    for one in ready {
        one.end(Err(failure()));
    }
}

fn train(ready: &[Ready], supervision: &Supervision, global: &Global) -> Result<(), Failure> {
    let Some(first) = ready.first() else { return Ok(()) };
    let places: Vec<PathBuf> = ready.iter().map(|one| one.folder.path().to_owned()).collect();
    let launch = Launch {
        python: Search::here(global.python.as_deref(), Some(&first.home)).find()?.of_this_version()?,
        task: Task::Train,
        plans: places.iter().map(|place| place.join(PLAN)).collect(),
        log: places[0].join(LOG),
        stdin: Stdin::Quiet,
        may_finish: true,
        run_locks: ready.iter().map(|one| one.folder.lock()).collect(),
        rank: None,
    };
    let experts: Vec<String> = ready.iter().map(|one| one.expert.clone()).collect();
    let limits = Limits::new(supervision.stall_timeout)?;
    // The events of a single run have no name.
    let alone = (ready.len() == 1).then_some(0);
    let results = supervise_several(&launch, None, &limits, &experts, &mut |whose, notice| {
        match (whose.or(alone), notice) {
            (Some(index), Notice::Event(event)) => ready[index].hear(event),
            (_, Notice::Stopping(it)) => {
                for one in ready {
                    one.send(Told::Stopping(it));
                }
            }
            // Once is enough.
            (_, Notice::Quiet(quiet)) => first.send(Told::Quiet(quiet)),
            (_, Notice::UnparsedLine(text)) => first.send(Told::UnparsedLine(text.to_owned())),
            // An event of all is the worker's end, before any run has begun.
            (None, Notice::Event(_)) | (_, Notice::Remark(_)) => {}
        }
    })?;
    // Each run has the log, as after a separate worker.
    for place in &places[1..] {
        let _ = fs::copy(&launch.log, place.join(LOG));
    }
    for (one, result) in ready.iter().zip(results) {
        one.end(result);
    }
    Ok(())
}

impl Ready {
    /// Its thread continues as soon as its own run has ended, while the others still train.
    fn hear(&self, event: &Event) {
        self.send(Told::Event(Box::new(event.clone())));
        if let Some(result) = end(&event.body) {
            self.end(result);
        }
    }
}
