//! Supervises one worker from its start to its end.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use expert_contract::event::{Body, Event};
use expert_contract::plan::CONTRACT_VERSION;
use serde_json::Value;

use super::ending::Interrupt;
use super::feed::Feed;
use super::inbox::{self, Message};
use super::interrupt::{self, Watched};
use super::launch::{Launch, Started};
use super::outcome::{Facts, judge};
use super::process::{Group, Worker};
use super::silence::{Quiet, Silence};
use super::spawn;
use super::warm::Warm;
use crate::failure::Failure;
use crate::sys::env;

const ROUND: Duration = Duration::from_millis(100);
/// A round that took longer, because this process was stopped (Ctrl-Z, `docker pause`, a job that Slurm suspends).
const PAUSED: Duration = Duration::from_secs(2);
/// A worker may still shut down libraries after its last event.
const FAREWELL: Duration = Duration::from_secs(10);
/// For the lines of a worker that has ended, where a child that left its group keeps the pipe open.
const LAST_LINES: Duration = Duration::from_secs(2);
const DEFAULT_GRACE: Duration = Duration::from_mins(2);

/// Notices to the caller while the worker runs.
pub enum Notice<'a> {
    Event(&'a Event),
    /// A line that is not an event; it is skipped.
    UnparsedLine(&'a str),
    Quiet(Quiet),
    /// A message for the user.
    Remark(&'a str),
    Stopping(Stopping),
}

/// The worker was asked to exit.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    pub signal: Interrupt,
    /// Before it is killed.
    pub grace: Duration,
    /// Whether it writes a checkpoint first.
    pub saves: bool,
}

pub struct Limits {
    /// From the first signal to the kill.
    pub grace: Duration,
    /// Time without progress after which the worker is ended; never without it.
    pub stall: Option<Duration>,
}

impl Limits {
    pub fn new(stall: Option<Duration>) -> Result<Self, Failure> {
        Ok(Self { grace: stop_grace()?, stall })
    }
}

/// From the first signal to the kill.
pub fn stop_grace() -> Result<Duration, Failure> {
    env::STOP_GRACE.seconds(DEFAULT_GRACE)
}

/// Blocks until the worker has ended, and returns its result.
pub fn supervise(
    launch: &Launch,
    warm: Option<&Warm>,
    limits: &Limits,
    notify: &mut dyn FnMut(Notice),
) -> Result<Value, Failure> {
    let one = [String::new()];
    let results = supervise_several(launch, warm, limits, &one, &mut |_, notice| notify(notice))?;
    results
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map(|values| values.into_iter().next().unwrap_or_default())
}

/// The same for a worker that trains several experts: the result of each. A notice is of the expert with this number, or
/// of all.
pub fn supervise_several(
    launch: &Launch,
    warm: Option<&Warm>,
    limits: &Limits,
    experts: &[String],
    notify: &mut dyn FnMut(Option<usize>, Notice),
) -> Result<Vec<Result<Value, Failure>>, Failure> {
    let Started { mut worker, stdin, stdout } = spawn::start(launch, warm)?;
    let group = Group::adopt(&worker).map_err(|error| Failure::supervising("take charge of", &error))?;
    let watched =
        Watched::new(group, launch.saves()).map_err(|error| Failure::supervising("watch over", &error))?;
    let inbox = stdout.map(inbox::read);
    let feed = Feed::new(stdin, launch.stdin);
    let mut run = Run {
        watched,
        limits,
        may_finish: launch.may_finish,
        saves: launch.saves(),
        silence: Silence::new(Instant::now()),
        looked: Instant::now(),
        facts: Facts::default(),
        experts,
        ends: vec![None; experts.len()],
        ticks: vec![0; experts.len()],
        deadline: None,
        feed,
    };
    if let Some(inbox) = inbox {
        run.listen(&inbox, &mut worker, notify);
    }
    // The worker's remaining child processes are ended too.
    run.watched.group.kill();
    let status = worker.wait().map_err(|error| Failure::supervising("wait for", &error))?;
    let facts = Facts { input: run.feed.fault(), ..run.facts };
    Ok(run.ends.into_iter().map(|last| judge(Facts { last, ..facts.clone() }, status, launch)).collect())
}

struct Run<'a> {
    watched: Watched,
    limits: &'a Limits,
    may_finish: bool,
    saves: bool,
    silence: Silence,
    /// The end of the round before.
    looked: Instant,
    facts: Facts,
    experts: &'a [String],
    /// The last event of each expert, once it has come.
    ends: Vec<Option<Body>>,
    /// Of each expert's heartbeats.
    ticks: Vec<u64>,
    /// When the worker is killed if it is still there.
    deadline: Option<Instant>,
    feed: Feed,
}

impl Run<'_> {
    fn listen(
        &mut self,
        inbox: &Receiver<Message>,
        worker: &mut Worker,
        notify: &mut dyn FnMut(Option<usize>, Notice),
    ) {
        loop {
            match inbox.recv_timeout(ROUND) {
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break self.await_end(worker),
                Ok(message) => self.hear(message, notify),
                // No more input, and no writer left.
                Err(RecvTimeoutError::Timeout) if self.watched.group.leader_ended(worker) => {
                    break self.drain(inbox, notify);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look_after(notify);
        }
    }

    fn hear(&mut self, message: Message, notify: &mut dyn FnMut(Option<usize>, Notice)) {
        match message {
            Message::Event(expert, event) => {
                let whose = expert.and_then(|name| self.experts.iter().position(|it| *it == name));
                self.listen_for_life(whose, &event.body);
                self.note(whose, &event.body);
                notify(whose, Notice::Event(&event));
                self.feed.hear(&event.body);
            }
            Message::UnparsedLine(text) => notify(None, Notice::UnparsedLine(&text)),
            Message::End => {}
        }
    }

    /// One expert that makes progress is a sign of life for all: they share a process.
    fn listen_for_life(&mut self, whose: Option<usize>, body: &Body) {
        let now = Instant::now();
        match (whose, body) {
            (Some(index), Body::Heartbeat { ticks }) => {
                self.ticks[index] = *ticks;
                self.silence.hear(&Body::Heartbeat { ticks: self.ticks.iter().sum() }, now);
            }
            _ => self.silence.hear(body, now),
        }
    }

    fn note(&mut self, whose: Option<usize>, body: &Body) {
        match body {
            Body::Started { contract, .. } => {
                self.facts.started = true;
                if *contract != CONTRACT_VERSION {
                    self.facts.contract = Some(*contract);
                    self.watched.group.kill();
                }
            }
            Body::Finished { .. } | Body::Failed { .. } => {
                for (index, last) in self.ends.iter_mut().enumerate() {
                    if last.is_none() && whose.is_none_or(|whose| whose == index) {
                        *last = Some(body.clone());
                    }
                }
                if self.all_ended() {
                    self.deadline = Some(Instant::now() + FAREWELL);
                }
            }
            _ => {}
        }
    }

    fn all_ended(&self) -> bool {
        self.ends.iter().all(Option::is_some)
    }

    fn look_after(&mut self, notify: &mut dyn FnMut(Option<usize>, Notice)) {
        let now = Instant::now();
        let paused = now.saturating_duration_since(self.looked);
        if paused > PAUSED {
            self.silence.restart(now);
            self.deadline = self.deadline.map(|deadline| deadline + paused);
        }
        self.looked = now;
        if self.facts.asked.is_none()
            && let Some(signal) = interrupt::requested()
        {
            self.facts.asked = Some(signal);
            self.feed.stop();
            if self.may_finish {
                self.deadline = Some(now + self.limits.grace);
                self.watched.group.ask(signal);
                let grace = self.limits.grace;
                notify(None, Notice::Stopping(Stopping { signal, grace, saves: self.saves }));
            } else {
                self.watched.group.kill();
            }
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            if !self.all_ended() {
                self.facts.killed_after_grace = Some(self.limits.grace);
            }
            self.watched.group.kill();
        } else if self.deadline.is_none() && !self.feed.is_awaited() {
            self.mind_silence(now, notify);
        }
    }

    fn mind_silence(&mut self, now: Instant, notify: &mut dyn FnMut(Option<usize>, Notice)) {
        if let Some(quiet) = self.silence.check(now) {
            notify(None, Notice::Quiet(quiet));
        }
        if self.limits.stall.is_some_and(|stall| self.silence.stalled(stall, now)) {
            self.facts.stalled = Some(self.silence.quiet(now));
            self.watched.group.kill();
        }
    }

    /// Standard output is closed, so the worker is exiting; if it takes too long, it is killed.
    fn await_end(&mut self, worker: &mut Worker) {
        let deadline = Instant::now() + FAREWELL;
        while !self.watched.group.leader_ended(worker) && Instant::now() < deadline {
            thread::sleep(ROUND / 5);
        }
    }

    /// The worker has ended, and its lines may still be on their way: on a busy machine the thread that reads them waits for a
    /// core. Its children, which could keep the pipe open, are ended first; one that left the group is not waited for.
    /// Without its last event it has failed, so that one is waited for longer.
    fn drain(&mut self, inbox: &Receiver<Message>, notify: &mut dyn FnMut(Option<usize>, Notice)) {
        self.watched.group.kill();
        let begun = Instant::now();
        loop {
            let patience = if self.all_ended() { LAST_LINES } else { FAREWELL };
            match inbox.recv_timeout((begun + patience).saturating_duration_since(Instant::now())) {
                Ok(Message::End) | Err(_) => break,
                Ok(message) => self.hear(message, notify),
            }
        }
    }
}
