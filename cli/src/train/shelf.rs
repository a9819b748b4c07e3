//! `train --all`: every expert of a shelf, with one summary. A failure does not stop the others.
//!
//! The experts' folders show what is done, and a killed queue resumes from there; only its division of the cores is recorded. Experts whose time is not known start first, then the longest ones: a long one at the end would train alone.

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::listed;
use expert_contract::exit::Exit;
use expert_contract::resolve::{Note, Resolved};
use expert_contract::shell;
use serde_json::{Value, json};

use super::engine::Engine;
use super::first_use::prove_untried;
use super::fresh::{self, RunBefore, Runs};
use super::grouping::{Probe, Shape, fuse_where_faster};
use super::options::{EngineChoice, RunOptions, ShelfOptions};
use super::order::timed;
use super::ray::{Cluster, ClusterOptions, needs_task};
use super::runner::{Runner, Trained};
use super::slots::Slots;
use super::trainer::{State, Trainer, refuse_unlike_lock};
use super::unfinished::{UnfinishedQueue, digest_of};
use super::work::{Ended, Waiting, Watch};
use super::{select, summary, work};
use crate::args::{Global, PlanOptions, Supervision};
use crate::experts;
use crate::failure::Failure;
use crate::plan::{Here, Reads, prepare_here, steps};
use crate::run::names;
use crate::runs::report as page;
use crate::sys::digests::Digests;
use crate::sys::host;
use crate::sys::paths::{near, portable};
use crate::ui::number::seconds;
use crate::ui::{Align, Console, Table};
use crate::worker::{self, Search, Warm};

/// A folder of experts, and how they are to be trained.
pub struct Shelf<'a> {
    pub folder: &'a Path,
    pub options: &'a PlanOptions,
    pub run: RunOptions,
    pub selection: &'a ShelfOptions,
    pub dry_run: bool,
    /// Whether the kernels of a GPU that is not yet verified are compared first.
    pub proves: bool,
    pub supervision: &'a Supervision,
    pub global: &'a Global,
}

pub fn run(shelf: &Shelf, console: &Console) -> Result<Exit, Failure> {
    refuse_without_effect(shelf.selection)?;
    shelf.run.refuse_checkpoint("--all")?;
    let mut run = shelf.run.clone();
    // A stopped queue can be resumed.
    if run.resume.is_none() && !run.fresh {
        run.resume = Some("auto".into());
    }
    let mut waiting = prepare(shelf, console)?;
    let &Shelf { folder, options, selection, dry_run, supervision, global, .. } = shelf;
    let digests = Digests::open(&host::home());
    let runner = Runner { supervision, global, digests: &digests, warm: None, rank: None };
    let mut trainer = Trainer { options: &run, shelf: Some(selection), runner };
    if run.locked {
        refuse_unlocked(&waiting, &trainer)?;
    }
    for one in &mut waiting {
        one.is_done = one.resolved().is_some_and(|it| trainer.is_done(it));
    }
    // The machine is for those that have something to do.
    let queue = unfinished(&waiting, folder, &trainer.runner);
    let divided = waiting.iter().filter(|one| queue.has(&one.expert));
    let machines: Vec<_> = divided.filter_map(Waiting::resolved).map(|it| &it.machine).collect();
    let mut slots = Slots::of(&machines, selection.jobs);
    for one in &mut waiting {
        one.seconds = one.resolved().and_then(|it| timed(it, &slots.share(0))).map(|it| it.seconds);
    }
    let on_ray = selection.engine == EngineChoice::Ray;
    warn_of_notes(&waiting, console);
    if !on_ray && options.max_memory.is_none() {
        warn_where_crowded(&waiting, &slots, console);
    }
    let mut shapes = Vec::new();
    if fuses(selection, &run) {
        let probe = if dry_run { Probe::Never } else { Probe::Allowed };
        shapes = fuse_where_faster(&mut waiting, &slots, &trainer, probe, console);
    }
    if dry_run {
        let states: Vec<_> = waiting.iter().map(|one| state(one, &trainer)).collect();
        show(&waiting, &states, &shapes, &slots, console);
        let refusal = states.iter().find_map(|state| state.as_ref().err());
        return Ok(refusal.map_or(Exit::Done, |failure| failure.exit));
    }
    // Once, and not for each expert.
    worker::stop_grace()?;
    trainer.runner.warm = (!selection.separate && !on_ray).then(|| warm_parent(&waiting, &trainer)).flatten();
    let storage = selection.shared_storage().filter(|_| on_ray);
    let runs = if storage.is_some() { Runs::InStore } else { Runs::InFolders };
    let before: Vec<_> =
        waiting.iter().map(|one| one.resolved().map(|it| RunBefore::of(&it.machine))).collect();
    let mut cluster = None;
    let mut to_do = waiting.iter().filter_map(Waiting::resolved).filter(|it| needs_task(&trainer, it));
    if let Some(first) = to_do.next().filter(|_| on_ray) {
        let address = selection.ray_address.clone();
        let planned = first.machine.device.kind;
        let which = ClusterOptions { address, folder: folder.to_owned(), storage, planned };
        cluster = Some(Cluster::connect(which, &trainer, options, console)?);
        // All are submitted at once: the cluster has them wait for its nodes. Their threads stay those of this machine's queue.
        slots.jobs = selection.jobs.map_or(waiting.len(), |jobs| slots.jobs.min(jobs as usize));
    }
    let engine: &dyn Engine = cluster.as_ref().map_or(&trainer, |cluster| cluster);
    queue.write();
    let ended = work::work(waiting, &slots, engine, console, &Watch::NONE);
    drop(cluster);
    if worker::interrupted().is_none() {
        queue.remove(&ended.iter().map(|one| one.expert.as_str()).collect());
    }
    report(&ended, folder, console);
    refresh_page(&ended, folder, global, console);
    say_next(&ended, || fresh::of_queue(&run, &ended, &before, runs), folder, console);
    Ok(exit_of(&ended))
}

fn unfinished(waiting: &[Waiting], folder: &Path, runner: &Runner) -> UnfinishedQueue {
    let inputs = |it: &Resolved| digest_of(&runner.inputs(&it.recipe, &it.machine));
    let to_do = waiting.iter().filter(|one| one.is_to_train());
    let to_do = to_do.filter_map(|one| Some((one.expert.clone(), inputs(one.resolved()?))));
    UnfinishedQueue::find(&host::home(), folder, to_do.collect())
}

/// The plan of every expert that was selected. Where a GPU's kernels are verified first, plans are made again: they name the
/// kernels.
fn prepare(shelf: &Shelf, console: &Console) -> Result<Vec<Waiting>, Failure> {
    let &Shelf { folder, options, ref run, selection, dry_run, proves, global, .. } = shelf;
    let manifests = select::select(folder, selection, global, console)?;
    let plural = if manifests.len() == 1 { "expert" } else { "experts" };
    console.say(&format!("{} {plural} in {}: reading manifests and data", manifests.len(), portable(folder)));
    let scores = run.evaluate || !selection.no_evaluate;
    let unscored = "train without scores (--no-evaluate)";
    let reads = if scores { Reads::TrainingAndTestData(unscored) } else { Reads::TrainingData };
    let all = |console: &Console| -> Vec<Waiting> {
        manifests.iter().map(|manifest| prepare_one(manifest, options, reads, run.here(), console)).collect()
    };
    let waiting = all(console);
    let proves = proves && !dry_run && selection.engine != EngineChoice::Ray;
    if proves && prove_untried(waiting.iter().filter_map(Waiting::resolved), global, console)? {
        return Ok(all(&Console { warns: false, ..*console }));
    }
    Ok(waiting)
}

fn refresh_page(ended: &[Ended], folder: &Path, global: &Global, console: &Console) {
    let page = folder.join(names::REPORT);
    let is_new = |one: &Ended| {
        matches!(one.outcome, Some(Ok(Trained::Trained(_) | Trained::AlreadyDone { scored: true, .. })))
    };
    if ended.iter().any(is_new) {
        page::refresh(folder, global, console);
    } else if page.is_file() {
        console.say(&format!("all runs: {}", near(&page)));
    }
}

fn say_next(ended: &[Ended], again: impl Fn() -> String, folder: &Path, console: &Console) {
    if worker::interrupted().is_some() {
        console.say(&format!("to continue: {}", again()));
    } else if ended.iter().any(|one| matches!(one.outcome, Some(Err(_)))) {
        console.say(&format!("next, for what failed: {}", again()));
    } else if !ended.is_empty() {
        console.say(&format!("next: expert-cli runs {}", shell::quoted(&portable(folder))));
    }
}

fn prepare_one(
    manifest: &Path,
    options: &PlanOptions,
    reads: Reads,
    here: Here,
    console: &Console,
) -> Waiting {
    let options = PlanOptions { manifest: Some(manifest.to_owned()), ..options.clone() };
    let expert = experts::folder_name(manifest);
    let prepared = prepare_here(&options, reads, here, console);
    if let Err(failure) = &prepared {
        console.trouble(&expert, failure);
    }
    Waiting { expert, prepared, seconds: None, is_done: false, group: None }
}

/// A note that several plans have is given once, with the names of their experts.
fn warn_of_notes(waiting: &[Waiting], console: &Console) {
    let mut given: Vec<(&Note, Vec<&str>)> = Vec::new();
    for one in waiting.iter().filter(|one| one.is_to_train()) {
        for note in one.resolved().iter().flat_map(|resolved| &resolved.notes) {
            match given.iter_mut().find(|(known, _)| *known == note) {
                Some((_, experts)) => experts.push(&one.expert),
                None => given.push((note, vec![&one.expert])),
            }
        }
    }
    for (note, experts) in given {
        console.warn(&format!("{}: {}", listed(&experts), note.message), Some(&note.hint));
    }
}

/// With --jobs a person may ask for more at once than fit.
fn warn_where_crowded(waiting: &[Waiting], slots: &Slots, console: &Console) {
    let open = waiting.iter().filter(|one| !one.is_done).filter_map(Waiting::resolved);
    let machines: Vec<_> = open.map(|it| &it.machine).collect();
    slots.warn_where_crowded(&machines, "experts", console);
}

/// Where each expert's bytes are checked, or each is to have a process, every one trains by itself. A profile is of one run.
fn fuses(selection: &ShelfOptions, run: &RunOptions) -> bool {
    let alone = selection.no_fuse || selection.separate || selection.engine == EngineChoice::Ray;
    !alone && !run.locked && !run.profile
}

fn refuse_without_effect(selection: &ShelfOptions) -> Result<(), Failure> {
    let on_ray = selection.engine == EngineChoice::Ray;
    let (message, hint) = match selection {
        ShelfOptions { ray_address: Some(_), .. } if !on_ray => {
            ("--ray-address is for --engine ray", "add --engine ray, or leave --ray-address out")
        }
        ShelfOptions { storage: Some(_), .. } if !on_ray => {
            ("--storage is for --engine ray", "add --engine ray, or leave --storage out")
        }
        ShelfOptions { separate: true, .. } if on_ray => {
            ("--separate has no effect with --engine ray", "leave it out: every task starts a new Python")
        }
        _ => return Ok(()),
    };
    Err(Failure::bad_input("engine-options", message).hint(hint))
}

/// Only for two experts or more. This thread outlives every worker, and so does the warm parent.
fn warm_parent(waiting: &[Waiting], trainer: &Trainer) -> Option<Warm> {
    let to_do = || waiting.iter().filter(|one| one.is_to_train()).filter_map(Waiting::resolved);
    if to_do().count() < 2 {
        return None;
    }
    let first = PathBuf::from(&to_do().next()?.machine.paths.expert_dir);
    let python = Search::here(trainer.runner.global.python.as_deref(), Some(&first)).find().ok()?;
    Warm::start(&python)
}

/// Checked for all experts before anything is downloaded or trained. Each is checked again once its data is here.
pub(super) fn refuse_unlocked(waiting: &[Waiting], trainer: &Trainer) -> Result<(), Failure> {
    let refusals: Vec<Failure> = waiting
        .iter()
        .filter_map(Waiting::resolved)
        .filter_map(|it| refuse_unlike_lock(it, &trainer.runner.inputs(&it.recipe, &it.machine)).err())
        .collect();
    Failure::refuse_all(&refusals)
}

fn state(one: &Waiting, trainer: &Trainer) -> Result<State, Failure> {
    one.prepared.as_ref().map_err(Clone::clone).and_then(|prepared| trainer.state(&prepared.resolved))
}

/// The time of the training that is left, for an expert that is not trained to its end.
fn left(one: &Waiting, state: &Result<State, Failure>) -> Option<f64> {
    let whole = one.seconds?;
    match state {
        Ok(State::Finished | State::ToScore) | Err(_) => None,
        Ok(State::ToResume(step)) => {
            let all = one.resolved().and_then(steps).map(|it| it.steps).filter(|all| all > step);
            Some(all.map_or(whole, |all| whole * (all - step) as f64 / all as f64))
        }
        Ok(_) => Some(whole),
    }
}

/// What would be trained, and which experts in one pass.
fn show(
    waiting: &[Waiting],
    states: &[Result<State, Failure>],
    shapes: &[Shape],
    slots: &Slots,
    console: &Console,
) {
    let beside = |index: usize| -> Vec<&str> {
        let group = waiting[index].group;
        let others = waiting.iter().enumerate().filter(|(other, one)| *other != index && one.group == group);
        others.filter(|_| group.is_some()).map(|(_, one)| one.expert.as_str()).collect()
    };
    if console.json {
        let experts: Vec<Value> = waiting
            .iter()
            .zip(states)
            .enumerate()
            .map(|(index, (one, state))| {
                let notes = one.resolved().map_or(&[][..], |resolved| &resolved.notes);
                let mut entry = json!({"expert": one.expert, "state": word(state), "fused_with": beside(index), "seconds": left(one, state), "notes": notes});
                match state {
                    Ok(State::ToResume(step)) => entry["step"] = json!(step),
                    Ok(State::ToRetrain(reason)) => entry["reason"] = json!(reason),
                    Ok(_) => {}
                    Err(failure) => return failure.added_to(entry),
                }
                entry
            })
            .collect();
        return console.document(&json!({
            "ok": states.iter().all(Result::is_ok),
            "at_once": slots.jobs,
            "threads": slots.threads,
            "experts": experts,
            "shapes": shapes,
        }));
    }
    let columns = [
        ("expert", Align::Left),
        ("state", Align::Left),
        ("fused with", Align::Left),
        ("time", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for (index, (one, state)) in waiting.iter().zip(states).enumerate() {
        let time = left(one, state).map(seconds).unwrap_or_default();
        let word = word(state);
        let state = match state {
            Ok(State::ToResume(step)) => format!("{word} from step {step}"),
            Ok(State::ToRetrain(reason)) => format!("{word}: {reason}"),
            // Other failures have been said already.
            Err(failure) if one.prepared.is_ok() => format!("{word}: {}", failure.message),
            _ => word.to_owned(),
        };
        table.row(vec![one.expert.clone(), state, beside(index).join(", "), time]);
    }
    console.data(&table.stacked());
    console.say(&format!("{} at once", slots.jobs));
}

fn word(state: &Result<State, Failure>) -> &'static str {
    match state {
        Err(_) => "cannot be trained",
        Ok(State::Finished) => "finished",
        Ok(State::ToScore) => "to score",
        Ok(State::ToResume(_)) => "to resume",
        Ok(State::ToRetrain(_)) => "to retrain",
        Ok(State::ToTrain) => "to train",
    }
}

fn report(ended: &[Ended], folder: &Path, console: &Console) {
    if console.json {
        let experts: Vec<Value> = ended.iter().map(document).collect();
        console.document(&json!({"ok": exit_of(ended) == Exit::Done, "experts": experts}));
    } else if ended.is_empty() {
        console.say(&format!("no expert of {} changed: there is nothing to train", portable(folder)));
    } else {
        let (text, left_out) = summary::text(ended);
        console.data(&text);
        console.left_out(&left_out);
    }
}

pub(super) fn document(ended: &Ended) -> Value {
    let mut document = json!({"expert": ended.expert, "ok": matches!(ended.outcome, Some(Ok(_)))});
    match &ended.outcome {
        Some(Ok(trained)) => document["finished_before"] = json!(trained.was_finished_before()),
        Some(Err(failure)) => document = failure.added_to(document),
        None => document["skipped"] = json!(true),
    }
    if let Some(result) = ended.result() {
        document["result"] = result.clone();
        if ended.unscored || matches!(ended.outcome, Some(Err(_))) {
            document["unscored"] = json!(true);
        }
    }
    document
}

/// An interrupt has its own exit code; otherwise one failure fails the queue.
pub(super) fn exit_of(ended: &[Ended]) -> Exit {
    if let Some(signal) = worker::interrupted() {
        return signal.exit();
    }
    let all_done = ended.iter().all(|it| matches!(it.outcome, Some(Ok(_))));
    if all_done { Exit::Done } else { Exit::Failed }
}
