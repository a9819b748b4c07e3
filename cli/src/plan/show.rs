//! A plan for the user, as text or as one document: what `plan` and `train --dry-run` show.

use expert_contract::plan::Plan;
use expert_contract::resolve::{Note, StepEstimate};
use expert_contract::results::Duplicates;
use serde_json::json;

use super::prepare::Prepared;
use super::time::Time;
use super::{cache, offline, slow_encoder, text, unused_gpus};
use crate::args::Price;
use crate::ui::Console;
use crate::ui::wrap::columns;

/// `plan` is the one that the command would carry out, `prepare` the command that prepares its rows.
pub fn show(prepared: &Prepared, plan: &Plan, all: bool, price: &Price, prepare: &str, console: &Console) {
    let steps = prepared.caches.steps(&prepared.resolved);
    let time = Time::of(&prepared.resolved, steps.as_ref(), price.price_per_hour);
    let found = prepared.caches.copies();
    if console.json {
        console.document(&document(prepared, plan, steps.as_ref(), time, found));
    } else {
        let copies = cache::lines(found, prepare);
        let page = text::text(&prepared.resolved, all, steps.as_ref(), time, &copies, columns());
        console.data(&page);
        for note in notes(prepared, found) {
            console.warn(&note.message, Some(&note.hint));
        }
    }
}

fn notes(prepared: &Prepared, found: Option<&Duplicates>) -> Vec<Note> {
    let resolved = &prepared.resolved;
    let of_rows = found.into_iter().flat_map(cache::warnings);
    let gpus = unused_gpus::note(resolved, prepared.devices);
    let further = offline::note(resolved).into_iter().chain(gpus).chain(slow_encoder::note(resolved));
    resolved.notes.iter().cloned().chain(further).chain(of_rows).collect()
}

fn document(
    prepared: &Prepared,
    plan: &Plan,
    steps: Option<&StepEstimate>,
    time: Time,
    found: Option<&Duplicates>,
) -> serde_json::Value {
    let resolved = &prepared.resolved;
    let settings = resolved.settings.iter().filter_map(|setting| {
        let value = setting.value.clone()?;
        Some(json!({"key": setting.key, "value": value, "origin": setting.origin.as_str()}))
    });
    json!({
        "ok": true,
        "plan": plan,
        "steps": steps,
        "time": time.measured(),
        "forecast": time.calculated(),
        "largest_micro_batch": resolved.largest_micro_batch,
        "base": resolved.base,
        "data": resolved.facts,
        "duplicates": found,
        "settings": settings.collect::<Vec<_>>(),
        "notes": notes(prepared, found),
        "diagnostics": prepared.diagnostics,
    })
}
