//! A plan for the user, as text or as one document: what `plan` and `train --dry-run` show.

use expert_contract::plan::Plan;
use expert_contract::resolve::{Note, Resolved, estimate_steps};
use serde_json::json;

use super::prepare::Prepared;
use super::{slow_encoder, text};
use crate::args::Price;
use crate::run::speed::{Projection, Speed};
use crate::ui::Console;
use crate::ui::wrap::columns;

/// `plan` is the one that the command would carry out.
pub fn show(prepared: &Prepared, plan: &Plan, all: bool, price: &Price, console: &Console) {
    let projection = projection(&prepared.resolved, price.price_per_hour);
    if console.json {
        console.document(&document(prepared, plan, projection));
    } else {
        console.data(&text::text(&prepared.resolved, all, projection, columns()));
        for note in notes(prepared) {
            console.warn(&note.message, Some(&note.hint));
        }
    }
}

fn notes(prepared: &Prepared) -> Vec<Note> {
    prepared.resolved.notes.iter().cloned().chain(slow_encoder::note(&prepared.resolved)).collect()
}

/// None where no run of the same shape was measured on this machine.
fn projection(resolved: &Resolved, price: Option<f64>) -> Option<Projection> {
    let Resolved { recipe, machine, facts, .. } = resolved;
    let speed = Speed::find(recipe, machine)?;
    let steps = estimate_steps(&recipe.batch, &recipe.schedule.duration, facts, None)?;
    Some(Projection::of(speed, recipe, &steps, price))
}

fn document(prepared: &Prepared, plan: &Plan, projection: Option<Projection>) -> serde_json::Value {
    let resolved = &prepared.resolved;
    let recipe = &plan.recipe;
    let steps = estimate_steps(&recipe.batch, &recipe.schedule.duration, &resolved.facts, None);
    let settings = resolved.settings.iter().filter_map(|setting| {
        let value = setting.value.clone()?;
        Some(json!({"key": setting.key, "value": value, "origin": setting.origin.as_str()}))
    });
    json!({
        "ok": true,
        "plan": plan,
        "steps": steps,
        "time": projection,
        "largest_micro_batch": resolved.largest_micro_batch,
        "base": resolved.base,
        "data": resolved.facts,
        "settings": settings.collect::<Vec<_>>(),
        "notes": notes(prepared),
        "diagnostics": prepared.diagnostics,
    })
}
