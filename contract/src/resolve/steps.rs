//! The number of optimizer steps of a run, and whether it is exact.

use serde::Serialize;

use crate::plan::{Batch, Duration, Recipe};

use super::data::DataFacts;
use super::outcome::Note;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepEstimate {
    pub steps: u64,
    /// Rows of one epoch as the loop sees them: packed where packing is on.
    pub rows: u64,
    pub tokens: Option<u64>,
    /// True where the numbers come from a built cache or from `max_steps`; false where tokens were guessed from bytes.
    pub exact: bool,
}

/// Rows and tokens of one epoch, as the token cache counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRows {
    pub rows: u64,
    pub tokens: u64,
}

pub fn estimate(
    batch: &Batch,
    duration: &Duration,
    facts: &[DataFacts],
    cached: Option<CachedRows>,
) -> Option<StepEstimate> {
    let tokens = cached.map(|it| it.tokens).or_else(|| facts.iter().map(DataFacts::tokens).sum());
    let rows = cached.map(|it| it.rows).or_else(|| uncached_rows(batch, facts, tokens))?;
    let whole = |epochs: f64| {
        let per_epoch = if batch.drop_last {
            (rows / batch.rows_per_step).max(1)
        } else {
            rows.div_ceil(batch.rows_per_step)
        };
        ((per_epoch as f64 * epochs).ceil() as u64).max(1)
    };
    Some(match duration {
        Duration::Steps(steps) => StepEstimate { steps: *steps, rows, tokens, exact: true },
        Duration::Epochs(epochs) => {
            StepEstimate { steps: whole(*epochs), rows, tokens, exact: cached.is_some() }
        }
    })
}

/// Fewer steps than this leave an adapter close to where it began.
const FEW: u64 = 30;
/// What the hint leads to.
const ENOUGH: f64 = 50.0;

/// A note where the data makes few steps, with settings that make enough of them.
pub(super) fn few(recipe: &Recipe, facts: &[DataFacts]) -> Option<Note> {
    let Duration::Epochs(epochs) = recipe.schedule.duration else { return None };
    let found =
        estimate(&recipe.batch, &recipe.schedule.duration, facts, None).filter(|it| it.steps < FEW)?;
    let seen = found.rows as f64 * epochs;
    let rows_per_step = (seen / ENOUGH).floor().clamp(1.0, recipe.batch.rows_per_step as f64);
    let steps = (found.rows as f64 / rows_per_step).ceil().max(1.0);
    let mut ways = Vec::new();
    if rows_per_step < recipe.batch.rows_per_step as f64 {
        ways.push(format!("batch_size {rows_per_step} with gradient_accumulation_steps 1"));
    }
    if steps * epochs < ENOUGH {
        ways.push(format!("epochs {}", (ENOUGH / steps).ceil()));
    }
    let word = if found.steps == 1 { "step" } else { "steps" };
    Some(Note::new(
        "few-steps",
        format!(
            "about {} optimizer {word} of {} rows: an adapter learns little in so few",
            found.steps, recipe.batch.rows_per_step
        ),
        format!("in training.config, set {}", ways.join(" and ")),
    ))
}

fn uncached_rows(batch: &Batch, facts: &[DataFacts], tokens: Option<u64>) -> Option<u64> {
    if batch.packing {
        tokens.map(|tokens| tokens.div_ceil(u64::from(batch.max_seq_length)).max(1))
    } else {
        facts.iter().map(|it| it.rows).sum()
    }
}
