//! `plan`: shows show what a run would do, without doing it.

use clap::Args as ClapArgs;
use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};
use expert_contract::resolve::{Note, estimate_steps};
use serde_json::json;

use crate::failure::Failure;
use crate::options::TrainOptions;
use crate::prepare::{Prepared, prepare};
use crate::render::{Console, plan as view};
use crate::slow_encoder;

/// Show every resolved setting and its source, steps, tokens, batch, and memory compared with the device
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub options: TrainOptions,
    /// List every setting, including defaults
    #[arg(long)]
    pub all: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    let prepared = prepare(&args.options, request, console)?;
    show(&prepared, args.all, console);
    Ok(Exit::Done)
}

/// Also what `train --dry-run` shows.
pub fn show(prepared: &Prepared, all: bool, console: &Console) {
    if console.json {
        console.document(&document(prepared));
    } else {
        console.data(&view::text(&prepared.resolved, all));
        for note in notes(prepared) {
            console.warn(&note.message, Some(&note.hint));
        }
    }
}

fn notes(prepared: &Prepared) -> Vec<Note> {
    prepared.resolved.notes.iter().cloned().chain(slow_encoder::note(&prepared.resolved)).collect()
}

fn document(prepared: &Prepared) -> serde_json::Value {
    let resolved = &prepared.resolved;
    let recipe = &resolved.plan.recipe;
    let steps = estimate_steps(&recipe.batch, &recipe.schedule.duration, &resolved.facts, None);
    let settings = resolved.settings.iter().filter_map(|setting| {
        let value = setting.value.clone()?;
        Some(json!({"key": setting.key, "value": value, "origin": setting.origin.as_str()}))
    });
    json!({
        "ok": true,
        "plan": resolved.plan,
        "steps": steps,
        "largest_micro_batch": resolved.largest_micro_batch,
        "base": resolved.base,
        "data": resolved.facts,
        "settings": settings.collect::<Vec<_>>(),
        "notes": notes(prepared),
        "diagnostics": prepared.diagnostics,
    })
}
