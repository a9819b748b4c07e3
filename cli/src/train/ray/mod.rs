//! A shelf on a Ray cluster: one task per expert.
//!
//! A Python driver on this machine submits the tasks and passes on what they say. Each task runs `expert-cli ray-task` on its node,
//! which decides, trains, scores and writes `expert.lock` as `train --all` does here.

mod order;
mod task;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use expert_contract::event::{Body, Event};
use expert_contract::exit::Exit;
use expert_contract::plan::DeviceKind;
use expert_contract::resolve::Resolved;
use serde::Deserialize;
use serde_json::json;
use tempfile::NamedTempFile;

use order::{Failed, Line, Order, Resources, StoredPaths, Training};
pub use task::run as run_task;

use super::engine::{Engine, Turn, Turned};
use super::runner::Trained;
use super::trainer::{Trainer, Unscored};
use crate::args::{DeviceChoice, PlanOptions};
use crate::failure::Failure;
use crate::lock::code;
use crate::run::RunFolder;
use crate::sys::env;
use crate::sys::files::{remove, without_following};
use crate::sys::lease;
use crate::sys::paths::{absolute, file_name};
use crate::ui::Console;
use crate::worker::{self, Found, FusedGroup, Helper, Interrupt, Notice, Search, Stopping};

const MODULE: &str = "expert_worker.ray_engine";
const ROUND: Duration = Duration::from_millis(100);
/// For the file of `expert-cli stop`: a look at a network file system takes a millisecond or more.
const LOOK: Duration = Duration::from_secs(1);
/// To connect to the cluster and to look at each of its nodes; the driver's own limits are shorter.
const START: Duration = Duration::from_mins(5);
/// For a new node, where the last one with room was lost.
const NODE_TIMEOUT: Duration = Duration::from_mins(10);

/// The cluster, as long as a shelf trains on it.
pub struct Cluster<'a> {
    trainer: &'a Trainer<'a>,
    options: &'a PlanOptions,
    python: PathBuf,
    helper: Helper,
    desk: Arc<Desk>,
    next: AtomicUsize,
    log: Log,
    /// From the first signal to the kill.
    grace: Duration,
    given: ClusterOptions,
    /// In the experts' folder: a node sees it only where it sees that folder. None where nodes share something else.
    _mark: Option<NamedTempFile>,
}

/// The cluster that trains a shelf, and what its nodes share.
pub struct ClusterOptions {
    pub address: Option<String>,
    /// The experts'.
    pub folder: PathBuf,
    /// The URL of an object store; None where the nodes see the folder.
    pub storage: Option<String>,
    /// The kind of device that the plans are for.
    pub planned: DeviceKind,
}

/// What the driver says of one expert.
struct Said {
    node: Option<String>,
    line: Line,
}

/// Who waits for lines of which expert.
#[derive(Default)]
struct Desk {
    open: Mutex<HashMap<usize, Sender<Said>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Ready(Ready),
    Failed(Failed),
    Task { id: usize, node: Option<String>, line: Line },
}

#[derive(Deserialize)]
struct Ready {
    nodes: usize,
    /// The names of those that offer a GPU.
    with_gpu: Vec<String>,
}

impl<'a> Cluster<'a> {
    /// Connects to the cluster, and refuses nodes that do not see what is shared or that would train by other code.
    pub fn connect(
        cluster: ClusterOptions,
        trainer: &'a Trainer<'a>,
        options: &'a PlanOptions,
        console: &Console,
    ) -> Result<Self, Failure> {
        let python = Search::here(trainer.runner.global.python.as_deref(), None).find()?.of_this_version()?;
        let log = Log::new()?;
        let grace = worker::stop_grace()?;
        let node_timeout = env::NODE_TIMEOUT.seconds(NODE_TIMEOUT)?;
        let mark = cluster.storage.is_none().then(|| mark(&cluster.folder)).transpose()?;
        let desk = Arc::new(Desk::default());
        let (first, begun) = channel();
        let hear = {
            let desk = Arc::clone(&desk);
            move |line: Option<&[u8]>| match line.map(serde_json::from_slice::<Message>) {
                None => desk.close(),
                Some(Ok(Message::Task { id, node, line })) => desk.pass(id, Said { node, line }),
                Some(Ok(message)) => drop(first.send(message)),
                Some(Err(_)) => {}
            }
        };
        let helper = Helper::start(&python, MODULE, &[], log.open()?, hear)?;
        let shelf = json!({
            "cli": absolute(&std::env::current_exe().unwrap_or_default()),
            "folder": mark.as_ref().map(|_| absolute(&cluster.folder)),
            "mark": mark.as_ref().map(|mark| file_name(mark.path())),
            "storage": cluster.storage,
            "address": cluster.address,
            "node_seconds": node_timeout.as_secs_f64(),
            "check": Order { code: code::of(Some(&python.python)), training: None },
        });
        helper.send(&shelf).map_err(|_| log.lost())?;
        let Ready { nodes, with_gpu } = await_ready(&begun).unwrap_or_else(|| Err(log.lost()))?;
        refuse_unused_gpus(cluster.planned, options.device, &with_gpu)?;
        let next = AtomicUsize::new(0);
        let Found { python, .. } = python;
        let plural = if nodes == 1 { "node" } else { "nodes" };
        console.say(&format!("training on a Ray cluster of {nodes} {plural}"));
        Ok(Self { trainer, options, python, helper, desk, next, log, grace, given: cluster, _mark: mark })
    }

    fn order(&self, resolved: &Resolved) -> Order {
        let machine = &resolved.machine;
        let own = |path: &PathBuf| PathBuf::from(absolute(path));
        let model = self.options.model.as_ref();
        let options = PlanOptions {
            expert: None,
            manifest: Some(machine.paths.manifest.clone().into()),
            model: model
                .map(|name| if Path::new(name).is_dir() { absolute(Path::new(name)) } else { name.clone() }),
            allow_path: self.options.allow_path.iter().map(own).collect(),
            ..self.options.clone()
        };
        let training = Training {
            options,
            run: self.trainer.options.clone(),
            no_evaluate: self.trainer.shelf.is_some_and(|shelf| shelf.no_evaluate),
            threads: machine.threads.compute,
            succeeds: None,
            stall_seconds: self.trainer.runner.supervision.stall_timeout.map(|it| it.as_secs_f64()),
        };
        Order { code: code::of(Some(&self.python)), training: Some(training) }
    }

    /// Until the task's last line. `held`: the run on this machine, where the node has another folder than `stop` writes to.
    fn follow(
        &self,
        id: usize,
        said: &Receiver<Said>,
        held: Option<&RunFolder>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure> {
        // A node that is sent a second signal ends without a save.
        let mut stop = Some(|word| self.helper.send(&json!({"stop": {"id": id, "signal": word}})));
        let mut deadline: Option<Instant> = None;
        let mut looked = Instant::now();
        let mut is_stored = false;
        loop {
            if let (None, Some(signal)) = (deadline, worker::interrupted()) {
                deadline = Some(Instant::now() + self.grace);
                let word = if signal == Interrupt::CtrlC { "interrupt" } else { "terminate" };
                let _ = stop.take().map(|stop| stop(word));
                notify(Notice::Stopping(Stopping { signal, grace: self.grace, saves: true }));
            }
            if let Some(run) = held.filter(|_| looked.elapsed() >= LOOK) {
                looked = Instant::now();
                if run.is_asked_to_stop() {
                    let _ = stop.take().map(|stop| stop("interrupt"));
                }
            }
            match said.recv_timeout(ROUND) {
                Ok(Said { node, line }) => {
                    is_stored =
                        matches!(line, Line::Stored(_)) || is_stored && !matches!(line, Line::Lost(_));
                    if let Some(outcome) = pass_on(line, node.as_deref(), notify) {
                        return outcome;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.log.lost()),
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|it| Instant::now() >= it) => {
                    return Err(silent(worker::interrupted(), held.is_some(), is_stored));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Whether a node has something to do. A task that was killed at its end leaves a lease that nobody released: a task waits
/// until it expires, where this process would be refused.
pub fn needs_task(trainer: &Trainer, resolved: &Resolved) -> bool {
    !trainer.is_done(resolved) || lease::holder(Path::new(&resolved.machine.paths.output)).is_some()
}

impl Engine for Cluster<'_> {
    fn train(
        &self,
        resolved: &Resolved,
        turn: Option<Turn>,
        _group: Option<&FusedGroup>,
        _postpones: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Turned, Failure> {
        if !needs_task(self.trainer, resolved) {
            drop(turn);
            return self.trainer.train(resolved, notify).map(Turned::Finished);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let said = self.desk.open(id);
        let order = self.order(resolved);
        let resources = Resources::of(&resolved.machine);
        let stored = self.given.storage.as_ref().map(|_| StoredPaths::of(resolved, &self.given.folder));
        // What a store has comes into this folder at the end.
        let claim = || RunFolder::claim(Path::new(&resolved.machine.paths.output));
        let claimed = stored.is_some().then(claim).transpose()?;
        let submit = json!({"submit": {"id": id, "resources": resources, "order": order, "stored": stored}});
        self.helper.send(&submit).map_err(|_| self.log.lost())?;
        drop(turn);
        let outcome = self.follow(id, &said, claimed.as_ref(), notify);
        self.desk.close_one(id);
        outcome.map(Turned::Finished)
    }

    /// A task scores what it trains.
    fn score(&self, unscored: Unscored, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        self.trainer.finish(unscored, notify)
    }

    /// Each task trains one expert.
    fn conduct(&self, _group: &FusedGroup) {}
}

impl Desk {
    fn open(&self, id: usize) -> Receiver<Said> {
        let (sender, receiver) = channel();
        self.held().insert(id, sender);
        receiver
    }

    fn pass(&self, id: usize, said: Said) {
        if let Some(sender) = self.held().get(&id) {
            let _ = sender.send(said);
        }
    }

    fn close_one(&self, id: usize) {
        self.held().remove(&id);
    }

    /// The driver has ended: whoever waits learns it.
    fn close(&self) {
        self.held().clear();
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Sender<Said>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plan for a CPU takes no GPU of a node: the shelf would train on CPUs beside idle GPUs.
fn refuse_unused_gpus(planned: DeviceKind, asked: DeviceChoice, with_gpu: &[String]) -> Result<(), Failure> {
    if planned == DeviceKind::Cuda || asked != DeviceChoice::Auto || with_gpu.is_empty() {
        return Ok(());
    }
    let nodes = with_gpu.join(", ");
    let message =
        format!("the plans are for this machine, which has no NVIDIA GPU, but the cluster has some: {nodes}");
    Err(Failure::missing("plan-device", message)
        .hint("run the command on a node with such a GPU, or add --device cpu to train on the nodes' CPUs"))
}

/// None where the driver ended without a word.
fn await_ready(begun: &Receiver<Message>) -> Option<Result<Ready, Failure>> {
    let deadline = Instant::now() + START;
    loop {
        if let Some(signal) = worker::interrupted() {
            return Some(Err(Failure::new(
                signal.exit(),
                "interrupted",
                "stopped on request before anything was trained",
            )));
        }
        match begun.recv_timeout(ROUND) {
            Ok(Message::Ready(ready)) => return Some(Ok(ready)),
            Ok(Message::Failed(failed)) => return Some(Err(failed.into())),
            Ok(Message::Task { .. }) => {}
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => return None,
        }
    }
}

/// The outcome, where this line is the last one.
fn pass_on(
    line: Line,
    node: Option<&str>,
    notify: &mut dyn FnMut(Notice),
) -> Option<Result<Trained, Failure>> {
    match line {
        Line::Event(event) => notify(Notice::Event(&event)),
        Line::Unparsed(text) => notify(Notice::UnparsedLine(&text)),
        Line::Remark(text) => notify(Notice::Remark(&text)),
        Line::Quiet(quiet) => notify(Notice::Quiet(quiet)),
        Line::Lost(message) => notify(Notice::Event(&warning(message))),
        Line::Trained { before: true, scored, result } => {
            return Some(Ok(Trained::AlreadyDone { result, scored }));
        }
        Line::Trained { before: false, result, .. } => return Some(Ok(Trained::Trained(result))),
        Line::Failed(failed) => return Some(Err(on_node(failed.into(), node))),
        Line::Lease(_) | Line::Stored(_) | Line::SameCode => {}
    }
    None
}

fn warning(message: String) -> Event {
    let body = Body::Warning { code: "node-lost".to_owned(), message, hint: None };
    Event { time: 0.0, attempt: 0, body }
}

fn on_node(failure: Failure, node: Option<&str>) -> Failure {
    match node {
        Some(node) => Failure { message: format!("{} (on node {node})", failure.message), ..failure },
        None => failure,
    }
}

/// The driver's standard error, kept where a failure names it.
struct Log {
    path: PathBuf,
    is_named: AtomicBool,
}

impl Log {
    fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir();
        let file = tempfile::Builder::new().prefix("expert-cli-ray-").suffix(".log").tempfile();
        let kept = file.and_then(|file| file.keep().map_err(|error| error.error));
        let (_, path) = kept.map_err(|error| Failure::writing("write to", &folder, &error))?;
        Ok(Self { path, is_named: AtomicBool::new(false) })
    }

    fn open(&self) -> Result<std::fs::File, Failure> {
        let opened = without_following().append(true).open(&self.path);
        opened.map(fs_err::File::into_file).map_err(|error| Failure::writing("write", &self.path, &error))
    }

    fn lost(&self) -> Failure {
        self.is_named.store(true, Ordering::Relaxed);
        let log = self.path.display();
        let message = format!("the connection to the Ray cluster is lost; the driver's log is {log}");
        Failure::new(Exit::Failed, "ray-lost", message).hint(
            "start the cluster again if its head has ended, and repeat the command: it resumes each expert from its newest checkpoint",
        )
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.is_named.load(Ordering::Relaxed) {
            let _ = remove(&self.path);
        }
    }
}

/// A node reads it by its name and compares the content.
fn mark(folder: &Path) -> Result<NamedTempFile, Failure> {
    let refused = |error: io::Error| Failure::writing("write to", folder, &error);
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut mark = builder.prefix(".expert-cli-").tempfile_in(folder).map_err(refused)?;
    let name = file_name(mark.path());
    mark.write_all(name.as_bytes()).and_then(|()| mark.as_file().sync_all()).map_err(refused)?;
    Ok(mark)
}

/// Stopped, and a task did not say in time how it ended.
fn silent(signal: Option<Interrupt>, has_store: bool, is_stored: bool) -> Failure {
    let exit = signal.map_or(Exit::Interrupted, Interrupt::exit);
    let message = match (has_store, is_stored) {
        (_, true) => "the run is saved in the store, but was not back in time; the same command continues it",
        (true, false) => {
            "the task did not stop in time; progress since its last checkpoint in the store is lost"
        }
        (false, false) => "the task did not stop in time; progress since its last checkpoint is lost",
    };
    Failure::new(exit, "interrupted", message)
}
