//! Runs the slots: each takes the next waiting expert, or group of experts that train fused, until there is none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use expert_contract::resolve::Resolved;

use super::engine::{Engine, Turn};
use super::order::longest_first;
use super::runner::Trained;
use super::slots::Slots;
use crate::failure::Failure;
use crate::plan::Prepared;
use crate::ui::{Console, Live};
use crate::worker::{self, Board, FusedGroup};

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
    /// Those with the same number train fused, in one worker.
    pub group: Option<usize>,
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
    /// An expert that cannot be trained keeps the others of its group from starting.
    pub group_needs_all: bool,
}

impl Watch<'_> {
    pub const NONE: Watch<'static> = Watch { ended: &|_, _| {}, may_start: &|| true, group_needs_all: false };
}

struct Shift<'a> {
    /// As the user sees them.
    names: Vec<String>,
    /// As the worker calls them.
    experts: Vec<String>,
    /// Taken out when its turn comes.
    waiting: Vec<Mutex<Option<Result<Prepared, Failure>>>>,
    /// By the place of `waiting`.
    ended: Vec<Mutex<Option<Result<Trained, Failure>>>>,
    /// Places of `waiting`, in the order in which they start; those of a group are one unit.
    units: Vec<Vec<usize>>,
    next: AtomicUsize,
    /// Held from a unit's turn until it has begun: they begin in their order.
    beginning: Mutex<()>,
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
    let live = Live::new(console, &names);
    for (row, one) in waiting.iter().enumerate() {
        if let (Some(live), Err(failure)) = (&live, &one.prepared) {
            live.end(row, &failed(failure));
        }
    }
    let shift = Shift {
        units: in_order(&waiting),
        live,
        names: names.clone(),
        experts: waiting.iter().map(name_in_manifest).collect(),
        ended: waiting.iter().map(|_| Mutex::new(None)).collect(),
        waiting: waiting.into_iter().map(|one| Mutex::new(Some(one.prepared))).collect(),
        next: AtomicUsize::new(0),
        beginning: Mutex::default(),
        engine,
        slots,
        console,
        watch,
    };
    thread::scope(|scope| {
        for job in 0..slots.jobs {
            let shift = &shift;
            scope.spawn(move || shift.serve(job));
        }
    });
    let Shift { ended, .. } = shift;
    let outcomes = ended.into_iter().map(|place| place.into_inner().unwrap_or_default());
    names.into_iter().zip(outcomes).map(|(expert, outcome)| Ended { expert, outcome }).collect()
}

fn name_in_manifest(one: &Waiting) -> String {
    one.resolved().map_or_else(|| one.expert.clone(), |it| it.recipe.expert.clone())
}

/// A group takes the time of all its experts, where each of them is known.
fn in_order(waiting: &[Waiting]) -> Vec<Vec<usize>> {
    let mut units: Vec<Vec<usize>> = Vec::new();
    let mut groups: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, one) in waiting.iter().enumerate() {
        let begun = one.group.and_then(|group| groups.get(&group));
        if let Some(&unit) = begun {
            units[unit].push(index);
            continue;
        }
        groups.extend(one.group.map(|group| (group, units.len())));
        units.push(vec![index]);
    }
    let seconds: Vec<Option<f64>> =
        units.iter().map(|unit| unit.iter().map(|&index| waiting[index].seconds).sum()).collect();
    longest_first(&seconds).into_iter().map(|unit| units[unit].clone()).collect()
}

const STARTING: &str = "starting the worker";

pub fn failed(failure: &Failure) -> String {
    format!("failed ({})", failure.cause())
}

impl Shift<'_> {
    fn serve(&self, job: usize) {
        loop {
            let turn = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(next) else { break };
            if worker::interrupted().is_some() || !(self.watch.may_start)() {
                break;
            }
            if let [index] = unit[..] {
                self.carry_out(index, job, Some(turn), None);
            } else {
                drop(turn);
                self.carry_out_fused(unit, job);
            }
        }
    }

    /// The worker ends with the thread that conducts the group.
    fn carry_out_fused(&self, unit: &[usize], job: usize) {
        let experts: Vec<String> = unit.iter().map(|&index| self.experts[index].clone()).collect();
        let group = FusedGroup::new(experts, self.watch.group_needs_all);
        thread::scope(|scope| {
            for &index in unit {
                let group = &group;
                scope.spawn(move || self.carry_out(index, job, None, Some(group)));
            }
            self.engine.conduct(&group);
        });
    }

    fn carry_out(&self, index: usize, job: usize, turn: Option<Turn>, group: Option<&FusedGroup>) {
        let taken = self.waiting[index].lock().ok().and_then(|mut place| place.take());
        let outcome =
            taken.map(|prepared| prepared.and_then(|expert| self.train(index, job, expert, turn, group)));
        if let Some(group) = group {
            group.left(&self.experts[index], matches!(outcome, Some(Err(_))));
        }
        self.report(index, outcome.as_ref());
        if let Some(outcome) = &outcome {
            (self.watch.ended)(index, outcome);
        }
        if let Ok(mut place) = self.ended[index].lock() {
            *place = outcome;
        }
    }

    fn train(
        &self,
        index: usize,
        job: usize,
        expert: Prepared,
        turn: Option<Turn>,
        group: Option<&FusedGroup>,
    ) -> Result<Trained, Failure> {
        // No event arrives until the worker has loaded its libraries.
        match &self.live {
            Some(live) => live.begin(index, STARTING),
            None => self.console.say(&format!("{}: {STARTING}", self.names[index])),
        }
        let resolved = expert.resolved.on(&self.slots.share(job));
        let mut board = Board::of_several(self.console, self.live.as_ref(), index, &self.names[index]);
        let trained = self.engine.train(&resolved, turn, group, &mut |notice| board.notify(notice));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use expert_contract::exit::Exit;

    use super::*;
    use crate::args::PlanOptions;
    use crate::plan::resolved;
    use crate::worker::Notice;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: PlanOptions,
    }

    fn waiting(place: u64, seconds: Option<f64>, group: Option<usize>) -> Waiting {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../experts/expert-sql/manifest.json");
        let words = Words::parse_from(["train", "-m", manifest, "--device", "cpu"]);
        let quiet = Console { warns: false, ..Console::new(true, true) };
        let mut prepared = resolved(&words.options, &quiet).ok();
        if let Some(prepared) = &mut prepared {
            prepared.resolved.recipe.seed = place;
        }
        let prepared = prepared.ok_or_else(|| Failure::new(Exit::Failed, "not-planned", "it has no plan"));
        Waiting { expert: place.to_string(), prepared, seconds, group }
    }

    #[test]
    fn a_group_is_one_unit_with_the_time_of_all_its_experts() {
        let queue = [
            waiting(0, Some(3.0), Some(7)),
            waiting(1, Some(5.0), None),
            waiting(2, Some(3.0), Some(7)),
            waiting(3, None, Some(8)),
            waiting(4, Some(1.0), Some(8)),
        ];
        assert_eq!(in_order(&queue), [vec![3, 4], vec![0, 2], vec![1]]);
    }

    /// Takes longest to begin with the first.
    #[derive(Default)]
    struct Slow {
        begun: Mutex<Vec<u64>>,
    }

    impl Engine for Slow {
        fn train(
            &self,
            resolved: &Resolved,
            turn: Option<Turn>,
            _group: Option<&FusedGroup>,
            _notify: &mut dyn FnMut(Notice),
        ) -> Result<Trained, Failure> {
            let place = resolved.recipe.seed;
            thread::sleep(Duration::from_millis(20 * place));
            self.begun.lock().unwrap().push(place);
            drop(turn);
            Err(Failure::new(Exit::Failed, "ended", "it ends at once"))
        }

        fn conduct(&self, _group: &FusedGroup) {}
    }

    #[test]
    fn experts_begin_in_their_order_however_long_each_takes_to_begin() {
        let queue = (0..5).map(|place| waiting(place, Some(place as f64), None)).collect();
        let (engine, console) = (Slow::default(), Console::new(true, true));
        let slots = Slots { jobs: 5, threads: None, devices: Vec::new() };
        let ended = work(queue, &slots, &engine, &console, &Watch::NONE);
        assert!(
            ended.iter().all(|one| matches!(&one.outcome, Some(Err(failure)) if failure.code == "ended"))
        );
        assert_eq!(*engine.begun.lock().unwrap(), [4, 3, 2, 1, 0]);
    }
}
