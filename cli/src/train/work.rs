//! Runs the slots: each takes the next waiting expert, or group of experts that train fused, until there is none.
//!
//! An expert is not scored while others wait to be trained: short work at the end divides better among the slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use expert_contract::resolve::Resolved;
use serde_json::Value;

use super::engine::{Engine, Turn, Turned};
use super::order::longest_first;
use super::runner::Trained;
use super::slots::Slots;
use super::trainer::Unscored;
use crate::failure::Failure;
use crate::plan::{self, Prepared};
use crate::ui::{Console, Live};
use crate::worker::{self, Board, FusedGroup, Notice};

/// How one expert of the queue ended; None if the queue was stopped before its turn.
pub struct Ended {
    pub expert: String,
    pub outcome: Option<Result<Trained, Failure>>,
    /// The queue was stopped between its training and its scores.
    pub unscored: bool,
}

impl Ended {
    /// As the worker reported the training, whether it was scored or not.
    pub fn result(&self) -> Option<&Value> {
        match self.outcome.as_ref()? {
            Ok(trained) => Some(trained.document()),
            Err(failure) => failure.result.as_deref(),
        }
    }
}

/// An expert that waits for its turn, or cannot be trained at all.
pub struct Waiting {
    pub expert: String,
    pub prepared: Result<Prepared, Failure>,
    /// How long its training takes, where a run of its shape was measured here: the longest ones start first.
    pub seconds: Option<f64>,
    /// Its folder says that there is nothing to do.
    pub is_done: bool,
    /// Those with the same number train fused, in one worker.
    pub group: Option<usize>,
}

impl Waiting {
    pub fn resolved(&self) -> Option<&Resolved> {
        self.prepared.as_ref().ok().map(|prepared| &prepared.resolved)
    }

    /// At most, in all steps; 0 where they cannot be counted before the data is tokenized.
    fn tokens(&self) -> u64 {
        let counted = |resolved: &Resolved| {
            let batch = &resolved.recipe.batch;
            Some(plan::steps(resolved)?.steps * batch.rows_per_step * u64::from(batch.max_seq_length))
        };
        self.resolved().and_then(counted).unwrap_or(0)
    }

    pub fn is_to_train(&self) -> bool {
        self.prepared.is_ok() && !self.is_done
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
    /// Those whose folders say that there is nothing to do.
    done: Vec<bool>,
    /// Taken out when its turn comes.
    waiting: Vec<Mutex<Option<Result<Prepared, Failure>>>>,
    /// By the place of `waiting`.
    ended: Vec<Mutex<Option<Result<Trained, Failure>>>>,
    /// Places of `waiting`, in the order in which they start; those of a group are one unit.
    units: Vec<Vec<usize>>,
    next: AtomicUsize,
    /// Held from a unit's turn until it has begun: they begin in their order.
    beginning: Mutex<()>,
    /// The place of the last unit that has something to train.
    last: Option<usize>,
    scoring: Mutex<Scoring>,
    /// A unit has ended, or left an expert to be scored.
    trained: Condvar,
    engine: &'a dyn Engine,
    slots: &'a Slots,
    console: &'a Console,
    watch: &'a Watch<'a>,
    live: Option<Live>,
}

/// What is left of experts that were trained.
#[derive(Default)]
struct Scoring {
    /// By the place of `waiting`.
    unscored: VecDeque<(usize, Unscored)>,
    /// Units that train.
    training: usize,
}

/// Counts a unit that trains. Slots that wait for what it leaves are woken in any case.
struct Training<'a>(&'a Shift<'a>);

impl<'a> Training<'a> {
    fn begun(shift: &'a Shift<'a>) -> Self {
        shift.scoring().training += 1;
        Self(shift)
    }
}

impl Drop for Training<'_> {
    fn drop(&mut self) {
        self.0.scoring().training -= 1;
        self.0.trained.notify_all();
    }
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
    let units = in_order(&waiting);
    let shift = Shift {
        last: units.iter().rposition(|unit| unit.iter().any(|&index| waiting[index].is_to_train())),
        scoring: Mutex::default(),
        trained: Condvar::new(),
        units,
        live,
        names: names.clone(),
        experts: waiting.iter().map(name_in_manifest).collect(),
        done: waiting.iter().map(|one| one.is_done).collect(),
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
    let Shift { ended, scoring, .. } = shift;
    let outcomes = ended.into_iter().map(|place| place.into_inner().unwrap_or_default());
    let ended = |(expert, outcome)| Ended { expert, outcome, unscored: false };
    let mut all: Vec<Ended> = names.into_iter().zip(outcomes).map(ended).collect();
    for (index, Unscored { trained, .. }) in scoring.into_inner().unwrap_or_default().unscored {
        all[index].outcome = Some(Ok(trained));
        all[index].unscored = true;
    }
    all
}

fn name_in_manifest(one: &Waiting) -> String {
    one.resolved().map_or_else(|| one.expert.clone(), |it| it.recipe.expert.clone())
}

/// A group takes the time of all its experts, where each of them is known. Of units without a time, those with the most
/// tokens to train come first: they take longest.
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
    units.sort_by_cached_key(|unit| Reverse(unit.iter().map(|&index| waiting[index].tokens()).sum::<u64>()));
    let seconds: Vec<Option<f64>> =
        units.iter().map(|unit| unit.iter().map(|&index| waiting[index].seconds).sum()).collect();
    longest_first(&seconds).into_iter().map(|unit| units[unit].clone()).collect()
}

const STARTING: &str = "starting the worker";
const UNSCORED: &str = "trained, waits to be scored";

pub fn failed(failure: &Failure) -> String {
    format!("failed ({})", failure.cause())
}

impl Shift<'_> {
    fn serve(&self, job: usize) {
        self.serve_trainings(job);
        self.serve_scorings(job);
    }

    fn serve_trainings(&self, job: usize) {
        loop {
            let turn = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(next) else { break };
            if worker::interrupted().is_some() || !(self.watch.may_start)() {
                break;
            }
            let _training = Training::begun(self);
            let postpones = self.postpones(next, unit);
            if let [index] = unit[..] {
                self.carry_out(index, job, postpones, Some(turn), None);
            } else {
                drop(turn);
                self.carry_out_fused(unit, job, postpones);
            }
        }
    }

    /// With one slot nothing is gained. Several experts that end at once are scored by all slots.
    fn postpones(&self, place: usize, unit: &[usize]) -> bool {
        let jobs = self.slots.jobs;
        // The first units have a slot each.
        let one_waits = self.last.is_some_and(|last| last > place && last >= jobs);
        jobs > 1 && (unit.len() > 1 || one_waits)
    }

    /// Until nothing trains that may leave something to be scored.
    fn serve_scorings(&self, job: usize) {
        while let Some((index, unscored)) = self.next_unscored() {
            self.begin(index);
            let unscored = unscored.on(&self.slots.share(job));
            let outcome = self.watched(index, |notify| self.engine.score(unscored, notify));
            self.end(index, Some(outcome));
        }
    }

    fn next_unscored(&self) -> Option<(usize, Unscored)> {
        let mut scoring = self.scoring();
        loop {
            if worker::interrupted().is_some() || !(self.watch.may_start)() {
                return None;
            }
            let next = scoring.unscored.pop_front();
            if next.is_some() || scoring.training == 0 {
                return next;
            }
            scoring = self.trained.wait(scoring).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn scoring(&self) -> MutexGuard<'_, Scoring> {
        self.scoring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker ends with the thread that conducts the group.
    fn carry_out_fused(&self, unit: &[usize], job: usize, postpones: bool) {
        let experts: Vec<String> = unit.iter().map(|&index| self.experts[index].clone()).collect();
        let group = FusedGroup::new(experts, self.watch.group_needs_all);
        thread::scope(|scope| {
            for &index in unit {
                let group = &group;
                scope.spawn(move || self.carry_out(index, job, postpones, None, Some(group)));
            }
            self.engine.conduct(&group);
        });
    }

    fn carry_out(
        &self,
        index: usize,
        job: usize,
        postpones: bool,
        turn: Option<Turn>,
        group: Option<&FusedGroup>,
    ) {
        let taken = self.waiting[index].lock().ok().and_then(|mut place| place.take());
        let turned = taken.map(|prepared| {
            prepared.and_then(|expert| {
                if !self.done[index] {
                    self.begin(index);
                }
                let resolved = expert.resolved.on(&self.slots.share(job));
                self.watched(index, |notify| self.engine.train(&resolved, turn, group, postpones, notify))
            })
        });
        if let Some(group) = group {
            group.left(&self.experts[index], matches!(turned, Some(Err(_))));
        }
        match turned {
            Some(Ok(Turned::Unscored(unscored))) => self.leave_unscored(index, *unscored),
            Some(Ok(Turned::Finished(trained))) => self.end(index, Some(Ok(trained))),
            Some(Err(failure)) => self.end(index, Some(Err(failure))),
            None => self.end(index, None),
        }
    }

    fn leave_unscored(&self, index: usize, unscored: Unscored) {
        self.say(index, UNSCORED);
        self.scoring().unscored.push_back((index, unscored));
        self.trained.notify_all();
    }

    fn end(&self, index: usize, outcome: Option<Result<Trained, Failure>>) {
        self.report(index, outcome.as_ref());
        if let Some(outcome) = &outcome {
            (self.watch.ended)(index, outcome);
        }
        if let Ok(mut place) = self.ended[index].lock() {
            *place = outcome;
        }
    }

    /// No event arrives until the worker has loaded its libraries.
    fn begin(&self, index: usize) {
        self.say(index, STARTING);
    }

    fn say(&self, index: usize, text: &str) {
        match &self.live {
            Some(live) => live.begin(index, text),
            None => self.console.say(&format!("{}: {text}", self.names[index])),
        }
    }

    /// Shows what the expert's worker reports, and how it fails.
    fn watched<T>(
        &self,
        index: usize,
        work: impl FnOnce(&mut dyn FnMut(Notice)) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut board = Board::of_several(self.console, self.live.as_ref(), index, &self.names[index]);
        let outcome = work(&mut |notice| board.notify(notice));
        board.finish();
        if let Err(failure) = &outcome {
            self.aside(|| self.console.trouble(&self.names[index], failure));
        }
        outcome
    }

    /// Failures before the turn were reported already.
    fn report(&self, index: usize, outcome: Option<&Result<Trained, Failure>>) {
        let word = match outcome {
            Some(Ok(Trained::Trained(_))) => "done".to_owned(),
            Some(Ok(Trained::AlreadyDone { scored: true, .. })) => "finished before: scored".to_owned(),
            Some(Ok(Trained::AlreadyDone { .. })) => "finished before: nothing changed".to_owned(),
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
    use std::sync::Barrier;
    use std::time::Duration;

    use clap::Parser;
    use expert_contract::exit::Exit;
    use expert_contract::plan::{Device, DeviceKind, Duration as Length, Request};
    use serde_json::json;

    use super::*;
    use crate::args::PlanOptions;
    use crate::plan::{Reads, resolved};

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: PlanOptions,
    }

    fn waiting(place: u64, seconds: Option<f64>, group: Option<usize>) -> Waiting {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../experts/expert-sql/manifest.json");
        let words = Words::parse_from(["train", "-m", manifest, "--device", "cpu"]);
        let quiet = Console { warns: false, ..Console::new(true, true) };
        let mut prepared = resolved(&words.options, Reads::TrainingData, &quiet).ok();
        if let Some(prepared) = &mut prepared {
            prepared.resolved.recipe.seed = place;
        }
        let prepared = prepared.ok_or_else(|| Failure::new(Exit::Failed, "not-planned", "it has no plan"));
        Waiting { expert: place.to_string(), prepared, seconds, is_done: false, group }
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

    #[test]
    fn of_units_without_a_time_those_with_the_most_tokens_start_first() {
        let mut queue = [1, 2, 3].map(|place| waiting(place, None, None));
        for (one, steps) in queue.iter_mut().zip([10, 30, 20]) {
            let prepared = one.prepared.as_mut().unwrap();
            prepared.resolved.recipe.schedule.duration = Length::Steps(steps);
        }
        assert_eq!(in_order(&queue), [vec![1], vec![2], vec![0]]);
    }

    fn trained() -> Trained {
        Trained::Trained(json!({"ok": true}))
    }

    /// Says what it does, and leaves scores for later where it may.
    #[derive(Default)]
    struct Told {
        done: Mutex<Vec<String>>,
        /// Experts whose scoring waits for each other.
        together: Option<Barrier>,
        /// The index of the device that each was scored on.
        scored_on: Mutex<BTreeMap<u64, u32>>,
    }

    impl Told {
        fn say(&self, verb: &str, place: u64) {
            self.done.lock().unwrap().push(format!("{verb} {place}"));
        }

        fn place_of(&self, done: &str) -> usize {
            self.done.lock().unwrap().iter().position(|it| it == done).expect(done)
        }
    }

    impl Engine for Told {
        fn train(
            &self,
            resolved: &Resolved,
            turn: Option<Turn>,
            group: Option<&FusedGroup>,
            postpones: bool,
            _notify: &mut dyn FnMut(Notice),
        ) -> Result<Turned, Failure> {
            let place = resolved.recipe.seed;
            self.say("train", place);
            drop(turn);
            if group.is_some() {
                thread::sleep(Duration::from_millis(200));
            }
            if !postpones {
                return Ok(Turned::Finished(trained()));
            }
            let plan = resolved.clone().plan(Request::Base);
            Ok(Turned::Unscored(Box::new(Unscored::of(trained(), plan))))
        }

        fn score(&self, unscored: Unscored, _notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
            let place = unscored.plan().recipe.seed;
            self.say("score", place);
            self.scored_on.lock().unwrap().insert(place, unscored.plan().machine.device.index);
            if let Some(together) = self.together.as_ref().filter(|_| place < 2) {
                together.wait();
            }
            Ok(unscored.trained)
        }

        fn conduct(&self, _group: &FusedGroup) {}
    }

    fn two_slots() -> Slots {
        Slots { jobs: 2, threads: None, devices: Vec::new() }
    }

    #[test]
    fn experts_are_scored_after_all_have_begun_to_train_and_by_every_slot() {
        // A group that ends last: both slots score it, or its two experts would wait for each other for ever.
        let queue = vec![
            waiting(0, None, Some(1)),
            waiting(1, None, Some(1)),
            waiting(2, Some(2.0), None),
            waiting(3, Some(1.0), None),
        ];
        let engine = Told { together: Some(Barrier::new(2)), ..Told::default() };
        let device =
            |index| Device { kind: DeviceKind::Cuda, index, name: String::new(), memory_bytes: None };
        let slots = Slots { devices: vec![device(0), device(1)], ..two_slots() };
        let ended = work(queue, &slots, &engine, &Console::new(true, true), &Watch::NONE);
        assert!(ended.iter().all(|one| matches!(one.outcome, Some(Ok(_))) && !one.unscored));
        let first_score = (0..3).map(|place| engine.place_of(&format!("score {place}"))).min().unwrap();
        assert!([2, 3].iter().all(|place| engine.place_of(&format!("train {place}")) < first_score));
        let devices = engine.scored_on.lock().unwrap();
        assert_ne!(devices[&0], devices[&1], "each slot scores on its own device");
    }

    #[test]
    fn without_experts_that_wait_each_is_scored_as_it_trains() {
        let engine = Told::default();
        let quiet = Console::new(true, true);
        let both = vec![waiting(0, None, None), waiting(1, None, None)];
        let ended = work(both, &two_slots(), &engine, &quiet, &Watch::NONE);
        assert!(ended.iter().all(|one| matches!(one.outcome, Some(Ok(_)))));
        let three = (2..5).map(|place| waiting(place, None, None)).collect();
        let one_slot = Slots { jobs: 1, ..two_slots() };
        assert_eq!(work(three, &one_slot, &engine, &quiet, &Watch::NONE).len(), 3);
        let finished = |place| Waiting { is_done: true, ..waiting(place, None, None) };
        let changed = vec![waiting(5, None, None), finished(6), finished(7)];
        assert_eq!(work(changed, &two_slots(), &engine, &quiet, &Watch::NONE).len(), 3);
        assert!(engine.done.lock().unwrap().iter().all(|done| done.starts_with("train")));
    }

    #[test]
    fn a_queue_that_is_stopped_keeps_what_was_trained_and_says_that_it_has_no_scores() {
        let engine = Told::default();
        let trains = || engine.done.lock().unwrap().len() < 3;
        let watch = Watch { may_start: &trains, ..Watch::NONE };
        let queue = (0..3).map(|place| waiting(place, None, None)).collect();
        let ended = work(queue, &two_slots(), &engine, &Console::new(true, true), &watch);
        assert!(ended.iter().all(|one| matches!(one.outcome, Some(Ok(_)))));
        let unscored: Vec<bool> = ended.iter().map(|one| one.unscored).collect();
        assert_eq!(unscored, [true, true, false], "the last one is scored by the worker that trains it");
        assert_eq!(engine.done.lock().unwrap().len(), 3);
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
            _postpones: bool,
            _notify: &mut dyn FnMut(Notice),
        ) -> Result<Turned, Failure> {
            let place = resolved.recipe.seed;
            thread::sleep(Duration::from_millis(20 * place));
            self.begun.lock().unwrap().push(place);
            drop(turn);
            Err(Failure::new(Exit::Failed, "ended", "it ends at once"))
        }

        fn score(&self, unscored: Unscored, _notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
            Ok(unscored.trained)
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
