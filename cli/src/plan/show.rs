//! A plan for the user, as text or as one document: what `plan` and `train --dry-run` show.

use expert_contract::resolve::{Note, estimate_steps};
use serde_json::json;

use super::prepare::Prepared;
use super::{slow_encoder, text};
use crate::ui::Console;

pub fn show(prepared: &Prepared, all: bool, console: &Console) {
    if console.json {
        console.document(&document(prepared));
    } else {
        console.data(&text::text(&prepared.resolved, all));
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
