//! Runs the slots: each takes the next waiting expert, until there is none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use expert_contract::resolve::Resolved;

use super::engine::Engine;
use super::order::longest_first;
use super::runner::Trained;
use super::slots::Slots;
use crate::failure::Failure;
use crate::plan::Prepared;
use crate::ui::{Console, Live};
use crate::worker::{self, Board};

/// How one expert of the queue ended; None if the queue was stopped before its turn.
pub struct Ended {
    pub expert: String,
    pub outcome: Option<Result<Trained, Failure>>,
}

/// An expert that waits for its turn, or cannot be trained at all.
pub struct Waiting {
    pub expert: String,
    pub prepared: Result<Prepared, Failure>,
    /// How long its training takes, where a run of its shape was measured here: the longest ones start first.
    pub seconds: Option<f64>,
}

impl Waiting {
    pub fn resolved(&self) -> Option<&Resolved> {
        self.prepared.as_ref().ok().map(|prepared| &prepared.resolved)
    }
}

/// What a queue's owner learns and decides while it is worked off.
pub struct Watch<'a> {
    /// Called with the place of each entry as soon as it has ended.
    pub ended: &'a (dyn Fn(usize, &Result<Trained, Failure>) + Sync),
    /// Asked before each entry.
    pub may_start: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'_> {
    pub const NONE: Watch<'static> = Watch { ended: &|_, _| {}, may_start: &|| true };
}

struct Shift<'a> {
    names: Vec<String>,
    /// Taken out when its turn comes.
    waiting: Vec<Mutex<Option<Result<Prepared, Failure>>>>,
    /// Places of `waiting`, in the order in which they start.
    order: Vec<usize>,
    next: AtomicUsize,
    engine: &'a dyn Engine,
    slots: &'a Slots,
    console: &'a Console,
    watch: &'a Watch<'a>,
    live: Option<Live>,
}

/// Each thread starts a worker and waits for its end: a worker ends with the thread that started it.
pub fn work(
    waiting: Vec<Waiting>,
    slots: &Slots,
    engine: &dyn Engine,
    console: &Console,
    watch: &Watch,
) -> Vec<Ended> {
    let names: Vec<String> = waiting.iter().map(|one| one.expert.clone()).collect();
    let ended: Vec<Mutex<Option<Result<Trained, Failure>>>> =
        waiting.iter().map(|_| Mutex::new(None)).collect();
    let live = Live::new(console, &names);
    for (row, one) in waiting.iter().enumerate() {
        if let (Some(live), Err(failure)) = (&live, &one.prepared) {
            live.end(row, &failed(failure));
        }
    }
    let seconds: Vec<Option<f64>> = waiting.iter().map(|one| one.seconds).collect();
    let shift = Shift {
        order: longest_first(&seconds),
        live,
        names: names.clone(),
        waiting: waiting.into_iter().map(|one| Mutex::new(Some(one.prepared))).collect(),
        next: AtomicUsize::new(0),
        engine,
        slots,
        console,
        watch,
    };
    thread::scope(|scope| {
        for job in 0..slots.jobs {
            let (shift, ended) = (&shift, &ended);
            scope.spawn(move || shift.serve(job, ended));
        }
    });
    drop(shift);
    let outcomes = ended.into_iter().map(|place| place.into_inner().unwrap_or_default());
    names.into_iter().zip(outcomes).map(|(expert, outcome)| Ended { expert, outcome }).collect()
}

const STARTING: &str = "starting the worker";

pub fn failed(failure: &Failure) -> String {
    format!("failed ({})", failure.cause())
}

impl Shift<'_> {
    fn serve(&self, job: usize, ended: &[Mutex<Option<Result<Trained, Failure>>>]) {
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = self.order.get(turn) else { break };
            let place = &self.waiting[index];
            if worker::interrupted().is_some() || !(self.watch.may_start)() {
                break;
            }
            let taken = place.lock().ok().and_then(|mut place| place.take());
            let outcome = taken.map(|prepared| prepared.and_then(|expert| self.train(index, job, expert)));
            self.report(index, outcome.as_ref());
            if let Some(outcome) = &outcome {
                (self.watch.ended)(index, outcome);
            }
            if let Ok(mut place) = ended[index].lock() {
                *place = outcome;
            }
        }
    }

    fn train(&self, index: usize, job: usize, expert: Prepared) -> Result<Trained, Failure> {
        // No event arrives until the worker has loaded its libraries.
        match &self.live {
            Some(live) => live.begin(index, STARTING),
            None => self.console.say(&format!("{}: {STARTING}", self.names[index])),
        }
        let resolved = expert.resolved.on(&self.slots.share(job));
        let mut board = Board::of_several(self.console, self.live.as_ref(), index, &self.names[index]);
        let trained = self.engine.train(&resolved, &mut |notice| board.notify(notice));
        board.finish();
        if let Err(failure) = &trained {
            self.aside(|| self.console.trouble(&self.names[index], failure));
        }
        trained
    }

    /// Failures before the turn were reported already.
    fn report(&self, index: usize, outcome: Option<&Result<Trained, Failure>>) {
        let word = match outcome {
            Some(Ok(Trained::Now(_))) => "done".to_owned(),
            Some(Ok(Trained::Before(_))) => "finished before: nothing changed".to_owned(),
            Some(Err(failure)) => failed(failure),
            None => return,
        };
        match &self.live {
            Some(live) => live.end(index, &word),
            None if matches!(outcome, Some(Ok(_))) => {
                self.console.say(&format!("{}: {word}", self.names[index]));
            }
            None => {}
        }
    }

    fn aside(&self, speak: impl FnOnce()) {
        match &self.live {
            Some(live) => live.above(speak),
            None => speak(),
        }
    }
}
