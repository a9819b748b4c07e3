//! `train --fuse`: several experts of one base in one worker. Each has its own run, as if it was trained alone.

use std::path::Path;

use expert_contract::exit::Exit;
use expert_contract::plan::MemoryEstimate;
use expert_contract::resolve::{Resolved, fuse};
use serde_json::{Value, json};

use super::first_use::prove_untried;
use super::fresh::{self, RunBefore};
use super::options::RunOptions;
use super::runner::Runner;
use super::shelf::{document, exit_of, refuse_unlocked};
use super::slots::Slots;
use super::trainer::Trainer;
use super::work::{Waiting, Watch};
use super::{select, summary, work};
use crate::args::{Global, PlanOptions, Supervision};
use crate::experts;
use crate::failure::Failure;
use crate::plan::{Reads, prepare_here};
use crate::sys::digests::Digests;
use crate::sys::host::{self, threads_alone};
use crate::ui::number::bytes;
use crate::ui::{Align, Console, Table};

/// Experts by name or path, and how they are to be trained.
pub struct Fused<'a> {
    pub experts: &'a [String],
    pub options: &'a PlanOptions,
    pub run: &'a RunOptions,
    pub dry_run: bool,
    /// Whether the kernels of a GPU that is not yet verified are compared first.
    pub proves: bool,
    pub supervision: &'a Supervision,
    pub global: &'a Global,
}

pub fn run(asked: &Fused, console: &Console) -> Result<Exit, Failure> {
    refuse_few(asked.experts)?;
    asked.run.refuse_checkpoint("--fuse")?;
    let manifests = select::each(asked.experts)?;
    let all = |console: &Console| -> Result<Vec<Waiting>, Failure> {
        manifests.iter().map(|manifest| prepared(manifest, asked, console)).collect()
    };
    let mut waiting = all(console)?;
    let proves = asked.proves && !asked.dry_run;
    if proves && prove_untried(waiting.iter().filter_map(Waiting::resolved), asked.global, console)? {
        waiting = all(&Console { warns: false, ..*console })?;
    }
    let resolved: Vec<&Resolved> = waiting.iter().filter_map(Waiting::resolved).collect();
    let memory = fuse(&resolved)
        .map_err(|refused| Failure::bad_input("cannot-fuse", refused.message).hint(refused.hint))?;
    let device = resolved.first().map(|one| one.machine.device.clone());
    let threads = device.as_ref().and_then(threads_alone);
    let slots = Slots { jobs: 1, threads, devices: Vec::new() };
    let digests = Digests::open(&host::home());
    let runner = Runner {
        supervision: asked.supervision,
        global: asked.global,
        digests: &digests,
        warm: None,
        rank: None,
    };
    let trainer = Trainer { options: asked.run, shelf: None, runner };
    refuse_runs(&resolved, &trainer)?;
    if asked.run.locked {
        refuse_unlocked(&waiting, &trainer)?;
    }
    if asked.dry_run {
        show(&resolved, &memory, console);
        return Ok(Exit::Done);
    }
    for one in &resolved {
        for note in &one.notes {
            console.warn(&format!("{}: {}", one.recipe.expert, note.message), Some(&note.hint));
        }
    }
    console.say(&format!("{} experts train fused: about {} of memory", waiting.len(), bytes(memory.total)));
    let watch = Watch { group_needs_all: true, ..Watch::NONE };
    let runs: Vec<_> =
        waiting.iter().filter_map(Waiting::resolved).map(|it| RunBefore::of(&it.machine)).collect();
    let ended = work::work(waiting, &slots, &trainer, console, &watch);
    if console.json {
        let experts: Vec<Value> = ended.iter().map(document).collect();
        console.document(&json!({"ok": exit_of(&ended) == Exit::Done, "experts": experts}));
    } else {
        let (text, left_out) = summary::text(&ended);
        console.data(&text);
        console.left_out(&left_out);
    }
    if exit_of(&ended) != Exit::Done {
        console.say(&format!("to continue: {}", fresh::of_group(asked.run, &manifests, &ended, &runs)));
    }
    Ok(exit_of(&ended))
}

/// An expert that cannot be prepared fails the group.
fn prepared(manifest: &Path, asked: &Fused, console: &Console) -> Result<Waiting, Failure> {
    let options = PlanOptions { manifest: Some(manifest.to_owned()), ..asked.options.clone() };
    let expert = experts::folder_name(manifest);
    let prepared = prepare_here(&options, Reads::TrainingData, asked.run.here(), console)
        .map_err(|failure| Failure { message: format!("{expert}: {}", failure.message), ..failure })?;
    Ok(Waiting { expert, prepared: Ok(prepared), seconds: None, is_done: false, group: Some(0) })
}

/// Codes of refusals whose hints name another folder, which a group does not take.
const OF_RUNS: [&str; 3] = ["output-used", "inputs-changed", "inputs-unknown"];

/// What keeps any of the experts from training, all in one message.
fn refuse_runs(experts: &[&Resolved], trainer: &Trainer) -> Result<(), Failure> {
    let mut refusals: Vec<Failure> = experts.iter().filter_map(|one| trainer.state(one).err()).collect();
    for refusal in refusals.iter_mut().filter(|it| OF_RUNS.contains(&it.code.as_ref())) {
        refusal.hint = Some(
            "--fresh starts over with all of them, --resume continues those that were stopped; `expert-cli train EXPERT -o DIR` trains one alone in another folder".to_owned(),
        );
    }
    Failure::refuse_all(&refusals)
}

fn refuse_few(experts: &[String]) -> Result<(), Failure> {
    if experts.len() > 1 {
        return Ok(());
    }
    Err(Failure::bad_input("fuse-of-one", "--fuse names one expert")
        .hint("name two or more, separated by commas; for one write expert-cli train EXPERT"))
}

/// What the group takes of the memory, and each adapter of it.
fn show(experts: &[&Resolved], memory: &MemoryEstimate, console: &Console) {
    let own = |one: &Resolved| {
        let estimate = &one.machine.estimate;
        estimate.adapter + 2 * estimate.gradients + estimate.optimizer
    };
    if console.json {
        let each: Vec<Value> = experts
            .iter()
            .map(|one| json!({"expert": one.recipe.expert, "bytes": own(one), "alone": one.machine.estimate.total}))
            .collect();
        return console.document(&json!({"ok": true, "experts": each, "estimate": memory}));
    }
    let mut table = Table::new(&[("memory", Align::Left), ("fused", Align::Right), ("alone", Align::Right)]);
    for one in experts {
        table.row(vec![one.recipe.expert.clone(), bytes(own(one)), bytes(one.machine.estimate.total)]);
    }
    table.row(vec![
        "base and process, once".to_owned(),
        bytes(memory.process + memory.weights + memory.context),
        String::new(),
    ]);
    table.row(vec!["batch".to_owned(), bytes(memory.activations + memory.logits), String::new()]);
    table.row(vec!["together".to_owned(), bytes(memory.total), String::new()]);
    console.data(&table.stacked());
}
