//! `search`: successive halving over training settings, in the shelf's queue, judged by answers to validation rows.
//!
//! A rung trains each of its trials from step 0 with the schedule of its length. A trial that continued from the rung before
//! would have the wrong learning rate: that of a schedule which ended. So the last rung is what `train` does with the same
//! settings, and the rungs before it are whole trainings too.

mod halving;
mod judged;
mod state;
mod text;

pub mod space;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use expert_contract::exit::Exit;
use expert_contract::plan::{Against, Request};
use expert_contract::resolve::Resolved;
use expert_contract::results::{EvaluationResult, SearchRecord, SearchSetting};

pub use halving::Budget;
pub use state::{directly_in, of_expert, of_trial, runs_of};
pub use text::{is_noise, not_whole, own_has_failed};

use self::halving::{Cost, LAST, LENGTHS, entered, is_scored, score, winner};
use self::space::Space;
use self::state::{Shared, State};
use crate::args::{Global, PlanOptions, Supervision};
use crate::failure::Failure;
use crate::plan::{Here, Prepared, Reads, prepare_here};
use crate::run::{RunFolder, SEARCH, adapter};
use crate::sys::digests::Digests;
use crate::sys::files::remove;
use crate::sys::host;
use crate::sys::paths::near;
use crate::train::{RunOptions, Runner, Slots, Trained, Trainer, Waiting, Watch, work};
use crate::ui::{Console, wrap};
use crate::worker::{self, Board, Home, Search as Python, Warm};

/// What the command line asks for.
pub struct Search<'a> {
    pub options: &'a PlanOptions,
    /// None: the usual one.
    pub space: Option<&'a str>,
    pub budget: Budget,
    pub seed: u64,
    pub rows: Option<u64>,
    pub jobs: Option<u32>,
    pub fresh: bool,
    pub supervision: &'a Supervision,
    pub global: &'a Global,
    /// Sees settings as a trial has them before anything is trained, and may refuse.
    pub before: &'a (dyn Fn(&[SearchSetting]) -> Result<(), Failure> + Sync),
}

/// How a search ended.
pub struct Found {
    pub record: SearchRecord,
    pub folder: PathBuf,
    /// The folder that the base was downloaded to.
    base: Option<String>,
    /// None where it is over.
    pub interrupted: Option<Exit>,
}

/// How the worker says that an endpoint judges no answers, or that its key is not here (worker/python/expert_worker/evaluate/llm_judge.py).
const OF_THE_JUDGE: [&str; 2] = ["judge-failed", "judge-key"];

/// Where a trial's start is not known, because it was finished before.
const START_SECONDS: f64 = 20.0;

pub fn run(search: &Search, console: &Console) -> Result<Found, Failure> {
    let own = prepare_here(search.options, Reads::TrainingData, Here::default(), console)?.resolved;
    judged::check(&own)?;
    let folder = judged::folder(&own, search.options.output.as_deref());
    let space = Space::parse(search.space, &own)?;
    if let Some(reason) = space::without_rank(search.space, &own) {
        console.say(&format!("rank is not searched: {reason}"));
    }
    let first = space.trials(search.seed, 1).pop().ok_or_else(|| {
        Failure::bad_input("bad-space", "--space has nothing but the manifest's own recipe")
            .hint("name further values, such as lr=1e-4..5e-3 or rank=8|16|32")
    })?;
    // Once, and not for each trial.
    worker::stop_grace()?;
    (search.before)(&first)?;
    let digests = Digests::open(&host::home());
    let mut runner = runner(search, &digests);
    let mut board = Board::new(console);
    let base = runner.fetch(&own.recipe, &own.machine, &mut |notice| board.notify(notice))?;
    board.finish();
    drop(board);
    let shared = shared(search, own.clone(), &folder, base.clone(), &runner);
    let held = RunFolder::claim(&folder)?;
    let state = State::open(&folder, search, &space, &own, &shared)?;
    let python =
        Python::here(search.global.python.as_deref(), Some(Path::new(&own.machine.paths.expert_dir)));
    runner.warm = python.find().ok().and_then(|python| Warm::start(&python));
    let options = RunOptions::resuming_and_scored();
    let machines = vec![&own.machine; search.budget.most()];
    let slots = Slots::of(&machines, search.jobs);
    if search.options.max_memory.is_none() {
        slots.warn_where_crowded(&machines, "trials", console);
    }
    let halving = Halving {
        search,
        own: &own,
        folder: &folder,
        base: base.clone(),
        trainer: Trainer { options: &options, shelf: None, runner },
        slots,
        state: Mutex::new(state),
        stop: Mutex::new(None),
        console,
    };
    let (ended, end) = mpsc::channel();
    let interrupted = thread::scope(|scope| {
        let (search, halving) = (&held, &halving);
        scope.spawn(move || watch_for_stop(search, halving, &end));
        let interrupted = halving.all(&space);
        drop(ended);
        interrupted
    })?;
    drop(held);
    let Halving { state, .. } = halving;
    let record = state.into_inner().unwrap_or_else(PoisonError::into_inner).record;
    Ok(Found { record, folder, base, interrupted })
}

fn runner<'a>(search: &'a Search, digests: &'a Digests) -> Runner<'a> {
    let Search { supervision, global, .. } = *search;
    Runner { supervision, global, digests, warm: None, rank: None }
}

fn shared(search: &Search, own: Resolved, folder: &Path, base: Option<String>, runner: &Runner) -> Shared {
    Shared::here(judged::of(own, search.rows, LAST, folder), base, runner)
}

/// To be called when the winner's settings are in the manifest: the same command then ends with this search.
pub fn note_written(search: &Search, found: &Found, console: &Console) -> Result<(), Failure> {
    let muted = Console { warns: false, quiet: true, ..*console };
    let own = prepare_here(search.options, Reads::TrainingData, Here::default(), &muted)?.resolved;
    let space = Space::parse(search.space, &own)?;
    let digests = Digests::open(&host::home());
    let shared = shared(search, own, &found.folder, found.base.clone(), &runner(search, &digests));
    let _held = RunFolder::claim(&found.folder)?;
    state::note_written(&found.folder, &found.record, &space, &shared)
}

/// `expert-cli stop` ends the whole search, as the first Ctrl-C does: a further trial would be trained for nothing. What a
/// killed search has spent is known to a minute.
fn watch_for_stop(search: &RunFolder, halving: &Halving, end: &Receiver<()>) {
    const ROUND: Duration = Duration::from_secs(1);
    const BETWEEN_NOTES: Duration = Duration::from_mins(1);
    let mut noted = Instant::now();
    while end.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
        if search.is_asked_to_stop() && worker::request_stop() {
            return;
        }
        if noted.elapsed() >= BETWEEN_NOTES {
            // The next score that cannot be recorded ends the search.
            let _ = halving.note_time();
            noted = Instant::now();
        }
    }
}

/// Learns how a trial ended, by its number.
type Ending<'a> = dyn Fn(usize, &Result<Trained, Failure>) + Sync + 'a;

struct Halving<'a> {
    search: &'a Search<'a>,
    /// As the manifest was when the search began.
    own: &'a Resolved,
    folder: &'a Path,
    /// The folder that the base was downloaded to.
    base: Option<String>,
    trainer: Trainer<'a>,
    slots: Slots,
    state: Mutex<State>,
    /// What keeps every further trial from its end, such as a full disk.
    stop: Mutex<Option<Failure>>,
    console: &'a Console,
}

impl Halving<'_> {
    fn all(&self, space: &Space) -> Result<Option<Exit>, Failure> {
        if !self.read(|record| record.is_drawn)
            && let Some(signal) = self.draw(space)?
        {
            return Ok(Some(signal));
        }
        for rung in 0..LENGTHS.len() {
            let trials = self.read(|record| entered(record, rung));
            self.rung(rung, &trials, &|_, _| {})?;
            if let Some(signal) = worker::interrupted() {
                return Ok(Some(signal.exit()));
            }
        }
        self.compare()
    }

    fn read<T>(&self, read: impl FnOnce(&SearchRecord) -> T) -> T {
        read(&self.state.lock().unwrap_or_else(PoisonError::into_inner).record)
    }

    fn change(&self, change: impl FnOnce(&mut SearchRecord)) -> Result<(), Failure> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).change(change)
    }

    /// Also of trials that were interrupted, the time belongs to the budget.
    fn note_time(&self) -> Result<(), Failure> {
        self.change(|_| {})
    }

    /// One trial for each slot, the manifest's own recipe among them, says what the others will take, and so how many there
    /// are. Returns why the search was interrupted meanwhile.
    fn draw(&self, space: &Space) -> Result<Option<Exit>, Failure> {
        let jobs = self.slots.jobs;
        let first = match self.search.budget {
            Budget::Trials(count) => count.min(jobs),
            Budget::Seconds(_) => jobs,
        };
        self.extend(space, first)?;
        let begun = Instant::now();
        let own_took = Mutex::new(None);
        let trials: Vec<usize> = (0..self.read(|record| record.trials.len())).collect();
        self.rung(0, &trials, &|trial, outcome| {
            if trial == 0 && matches!(outcome, Ok(Trained::Trained(_))) {
                *own_took.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun.elapsed());
            }
        })?;
        if let Some(signal) = worker::interrupted() {
            return Ok(Some(signal.exit()));
        }
        let own_took = own_took.into_inner().unwrap_or_else(PoisonError::into_inner);
        let cost = self.cost(own_took.map(|it| it.as_secs_f64()))?;
        let spent = self.state.lock().unwrap_or_else(PoisonError::into_inner).seconds();
        let count = match self.search.budget {
            Budget::Trials(count) => count,
            Budget::Seconds(budget) => cost.trials_in(budget - spent + cost.at(0), jobs),
        };
        if count < 2 {
            let needed = cost.of_search(2, jobs) + spent;
            let message =
                format!("the budget is too short for two trials: they take about {}", text::time(needed));
            return Err(Failure::bad_input("budget-too-short", message)
                .hint("raise --budget, lower the manifest's steps, or score fewer rows with --rows"));
        }
        self.extend(space, count)?;
        let drawn = self.read(|record| record.trials.len());
        for line in text::before(cost, drawn, jobs, drawn < count).lines() {
            self.console.say(line);
        }
        self.change(|record| record.is_drawn = true)?;
        Ok(None)
    }

    /// Up to this number of trials, or as many as the space has. Those that are there stay.
    fn extend(&self, space: &Space, count: usize) -> Result<(), Failure> {
        let drawn = space.trials(self.search.seed, count - 1);
        self.change(|record| {
            let known = record.trials.len() - 1;
            record.trials.extend(drawn.into_iter().skip(known).map(state::drawn));
        })
    }

    /// What the manifest's own recipe took at the first rung stands for every trial: from its start to its score where it was
    /// trained now.
    fn cost(&self, took: Option<f64>) -> Result<Cost, Failure> {
        let own = self
            .read(|record| record.trials.first().and_then(|it| score(it, 0)).cloned())
            .unwrap_or_default();
        let Some(training) = own.training_seconds.filter(|_| own.share.is_some()) else {
            let why = own.failure.unwrap_or_else(|| "it has no score".to_owned());
            return Err(Failure::new(
                Exit::Failed,
                "own-recipe-failed",
                format!("the manifest's own recipe failed: {why}"),
            )
            .hint(
                "make `expert-cli train` and `expert-cli evaluate` work (search scores answers to validation rows), then repeat the command; where the manifest or the data had to change, with --fresh",
            ));
        };
        let spent = own.seconds.unwrap_or(training);
        let whole = took.map_or(spent + START_SECONDS, |took| took.max(spent));
        Ok(Cost::of_first(whole, training))
    }

    /// Trains and scores what has no score at this rung yet.
    fn rung(&self, rung: usize, trials: &[usize], watch: &Ending) -> Result<(), Failure> {
        let open: Vec<usize> = self.read(|record| {
            trials.iter().copied().filter(|it| score(&record.trials[*it], rung).is_none()).collect()
        });
        if open.is_empty() {
            return Ok(());
        }
        if trials.len() > 1 {
            let plural = if open.len() == 1 { "trial" } else { "trials" };
            self.console.say(&format!("{} {plural} at {}", open.len(), text::length(rung)));
        }
        let waiting = open.iter().map(|trial| self.waiting(*trial, rung)).collect();
        self.refuse_changed()?;
        let queue = Watch {
            group_needs_all: false,
            ended: &|index, outcome| {
                watch(open[index], outcome);
                self.ended(open[index], rung, outcome);
            },
            may_start: &|| self.may_start(),
        };
        work(waiting, &self.slots, &self.trainer, self.console, &queue);
        let noted = self.note_time();
        match self.stop.lock().unwrap_or_else(PoisonError::into_inner).take().or(noted.err()) {
            Some(failure) => Err(failure),
            None if worker::interrupted().is_some() => Ok(()),
            None => self.refuse_changed(),
        }
    }

    fn waiting(&self, trial: usize, rung: usize) -> Waiting {
        let expert = if trial == 0 { "own recipe".to_owned() } else { format!("trial {trial}") };
        Waiting { expert, prepared: self.prepared(trial, rung), seconds: None, is_done: false, group: None }
    }

    fn prepared(&self, trial: usize, rung: usize) -> Result<Prepared, Failure> {
        let settings = self.read(|record| record.trials[trial].settings.clone());
        let mut options = self.search.options.clone();
        options.output = None;
        options.set.extend(settings.iter().flat_map(space::sets));
        let muted = Console { warns: false, quiet: true, ..*self.console };
        let prepared = prepare_here(&options, Reads::TrainingData, Here::default(), &muted)?;
        let place = self.place(trial, rung);
        Ok(Prepared { resolved: judged::of(prepared.resolved, self.search.rows, rung, &place), ..prepared })
    }

    /// Called after trials were prepared, and after they were trained: the manifest that they were read from is still that of the
    /// search.
    fn refuse_changed(&self) -> Result<(), Failure> {
        let own = self.prepared(0, LAST)?.resolved;
        let shared = Shared::here(own, self.base.clone(), &self.trainer.runner);
        self.read(|record| shared.refuse_changed(record))
    }

    /// Called when a trial has ended: its files are still those of the search. If not, it may have been trained or scored with
    /// others, and is removed.
    fn refuse_other_files(&self, trial: usize, rung: usize) -> Result<(), Failure> {
        let now = shared(self.search, self.own.clone(), self.folder, self.base.clone(), &self.trainer.runner);
        let Err(changed) = self.read(|record| now.refuse_changed(record)) else { return Ok(()) };
        let run = self.place(trial, rung);
        remove(&run).map_err(|error| Failure::writing("remove", &run, &error))?;
        Err(changed)
    }

    fn place(&self, trial: usize, rung: usize) -> PathBuf {
        self.folder.join(format!("trial-{trial}")).join(format!("rung-{}", rung + 1))
    }

    /// The first trials always start: without them nothing is known.
    fn may_start(&self) -> bool {
        let is_stopped = self.stop.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let in_time = match self.search.budget {
            Budget::Seconds(budget) => !state.record.is_drawn || state.seconds() < budget,
            Budget::Trials(_) => true,
        };
        !is_stopped && in_time
    }

    /// A trial that fails is recorded, and the search continues; what would end every trial ends the search.
    fn ended(&self, trial: usize, rung: usize, outcome: &Result<Trained, Failure>) {
        let found = match outcome {
            Ok(trained) => {
                trained.result().map(|result| state::scored(rung, &result, &self.place(trial, rung)))
            }
            // Of the settings it says nothing, and what is trained by now has only to be scored.
            Err(failure) if OF_THE_JUDGE.contains(&failure.code.as_str()) => Err(copy(failure)),
            Err(failure) if matches!(failure.exit, Exit::Failed | Exit::BadInput) => {
                Ok(state::failed(rung, failure))
            }
            // The worker has saved; the trial continues with the search.
            Err(_) if worker::interrupted().is_some() => return,
            Err(failure) => Err(copy(failure)),
        };
        let recorded = found.and_then(|score| {
            self.refuse_other_files(trial, rung)?;
            self.change(|record| record.trials[trial].scores.push(score))
        });
        if let Err(failure) = recorded {
            *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        }
    }

    /// The winner against the manifest's own recipe, row by row.
    fn compare(&self) -> Result<Option<Exit>, Failure> {
        let Some((best, rung)) = self.read(winner) else {
            if self.read(is_scored) {
                return Ok(None);
            }
            return Err(Failure::new(Exit::Failed, "no-trial", "no trial has a score")
                .hint("the table says why each one failed; raise --budget if none was reached"));
        };
        let is_known =
            self.read(|record| record.winner == Some(best as u64) && record.winner_rung == Some(rung as u64));
        let own_is_scored =
            self.read(|record| score(&record.trials[0], rung).is_some_and(|it| it.share.is_some()));
        let comparison = if best == 0 || !own_is_scored {
            None
        } else if is_known && self.read(|record| record.comparison.is_some()) {
            return Ok(None);
        } else {
            self.console.say("comparing the winner with the manifest's own recipe, row by row");
            match (self.compared(best, rung), worker::interrupted()) {
                (Err(_), Some(signal)) => return Ok(Some(signal.exit())),
                (compared, _) => compared?.main.against.and_then(|it| it.comparison),
            }
        };
        self.change(|record| {
            record.winner = Some(best as u64);
            record.winner_rung = Some(rung as u64);
            record.comparison = comparison;
        })?;
        Ok(None)
    }

    fn compared(&self, best: usize, rung: usize) -> Result<EvaluationResult, Failure> {
        let resolved = self.prepared(best, rung)?.resolved;
        let own = self.prepared(0, rung)?.resolved;
        self.refuse_changed()?;
        let of = |paths| adapter::of_run(paths).ok_or_else(|| adapter::not_trained(paths));
        let against = Some(Against::Adapter { path: of(&own.machine.paths)? });
        let adapter = Some(of(&resolved.machine.paths)?);
        let plan = resolved.plan(Request::Evaluate { adapter, samples: None, against, other_rows: None });
        let mut board = Board::new(self.console);
        let result =
            self.trainer.runner.carry_out(&plan, Home::of(&plan)?, &mut |notice| board.notify(notice));
        board.finish();
        worker::result(&result?)
    }
}

fn copy(failure: &Failure) -> Failure {
    let copied = Failure::new(failure.exit, failure.code.clone(), failure.message.clone());
    match &failure.hint {
        Some(hint) => copied.hint(hint.clone()),
        None => copied,
    }
}

/// The table, the winner and what the difference is worth.
pub fn show(found: &Found, console: &Console) {
    if console.json {
        console.document(&found.record);
        return;
    }
    let (text, left_out) = text::table(&found.record);
    console.data(&text);
    console.left_out(&left_out);
    if found.interrupted.is_none() {
        for line in text::verdict(&found.record) {
            console.data(&wrap::wrapped(&line, 2, wrap::columns()));
        }
    }
    console.say(&format!("state: {}", near(&found.folder.join(SEARCH))));
}
