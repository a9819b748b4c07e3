//! The number of optimizer steps of a run, and whether it is exact.

use serde::Serialize;

use crate::plan::{AdapterKind, Batch, Duration, Machine, Recipe, Source, StoppingStrategy};

use super::data::DataFacts;
use super::note::Note;
use super::packed;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StepEstimate {
    pub steps: u64,
    /// Rows of one epoch as the loop sees them: packed where packing is on.
    pub rows: u64,
    pub tokens: Option<u64>,
    /// True where the numbers come from a built cache or from `max_steps`; false where tokens are an estimate.
    pub exact: bool,
    /// Whether a token cache counted rows and tokens; false where they are an estimate.
    pub counted: bool,
}

/// Rows and tokens of one epoch, as the token cache counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRows {
    pub rows: u64,
    pub tokens: u64,
}

/// `facts` are those of the training data, in its order.
pub fn estimate(recipe: &Recipe, facts: &[DataFacts], cached: Option<CachedRows>) -> Option<StepEstimate> {
    let batch = &recipe.batch;
    let uncached = Taken::of(&recipe.data.train, recipe.data.stopping_strategy, facts);
    let left = |count| left(count, recipe.data.validation_split);
    let tokens = cached.map(|it| it.tokens).or_else(|| uncached.tokens.map(left));
    let full = || uncached.rows_seen(batch.packing, batch.max_seq_length).map(left);
    let rows = cached.map(|it| it.rows).or_else(|| Some(with_room(full()?, batch, facts)))?;
    let counted = cached.is_some();
    let exact = counted || matches!(recipe.schedule.duration, Duration::Steps(_));
    Some(StepEstimate { steps: steps(recipe, rows, batch.rows_per_step), rows, tokens, exact, counted })
}

/// Rows that are not full to their end: as many more. Of documents that share their beginnings the room is not known.
fn with_room(full: u64, batch: &Batch, facts: &[DataFacts]) -> u64 {
    if !batch.packing || batch.share_prefixes {
        return full;
    }
    let lengths: Vec<u32> = facts.iter().flat_map(DataFacts::sampled_lengths).copied().collect();
    (full as f64 / packed::fill(&lengths, batch.max_seq_length)).round() as u64
}

/// The steps of the run where an epoch has `rows`, and a step `rows_per_step` of them.
fn steps(recipe: &Recipe, rows: u64, rows_per_step: u64) -> u64 {
    match recipe.schedule.duration {
        Duration::Steps(steps) => steps,
        // As the worker rounds it: 0.07 of 100 steps are 7, whatever the product's last bit.
        Duration::Epochs(epochs) => {
            let per_epoch = per_epoch(&recipe.batch, rows, rows_per_step) as f64;
            ((per_epoch * epochs - 1e-9).ceil() as u64).max(1)
        }
    }
}

fn per_epoch(batch: &Batch, rows: u64, rows_per_step: u64) -> u64 {
    if batch.drop_last { (rows / rows_per_step).max(1) } else { rows.div_ceil(rows_per_step) }
}

/// Of rows or tokens, what is trained on: the rest is held out.
fn left(count: u64, held_out: Option<f64>) -> u64 {
    ((count as f64 * (1.0 - held_out.unwrap_or_default())).round() as u64).max(1)
}

/// Fewer steps than this leave an adapter close to where it began.
const FEW: u64 = 30;
/// What the hint leads to.
const ENOUGH: f64 = 50.0;

/// The codes of [`of_steps`].
pub(super) const OF_STEPS: [&str; 3] = ["few-steps", "large-batch", "small-batch"];

/// A note on the steps of the run, or else on the rows of a step. Whoever follows its hint, and that of the next plan,
/// comes to an end: no hint leads back.
pub(super) fn of_steps(
    recipe: &Recipe,
    machine: &Machine,
    facts: &[DataFacts],
    cached: Option<CachedRows>,
) -> Option<Note> {
    let found = estimate(recipe, facts, cached);
    few(recipe, machine, found).or_else(|| large(&recipe.batch)).or_else(|| small(recipe, found))
}

/// A note where the data makes few steps, with settings that make enough of them.
fn few(recipe: &Recipe, machine: &Machine, found: Option<StepEstimate>) -> Option<Note> {
    let Duration::Epochs(epochs) = recipe.schedule.duration else { return None };
    let found = found.filter(|it| it.steps < FEW)?;
    let batch = &recipe.batch;
    let rows_per_step = enough(batch, machine, &found, epochs);
    let mut ways = Vec::new();
    if rows_per_step < batch.rows_per_step {
        ways.push(format!("batch_size {rows_per_step} with gradient_accumulation_steps 1"));
    } else if rows_per_step > batch.rows_per_step {
        ways.push(format!("gradient_accumulation_steps {rows_per_step}"));
    }
    let steps = per_epoch(batch, found.rows, rows_per_step) as f64;
    if steps * epochs < ENOUGH {
        ways.push(format!("epochs {}", (ENOUGH / steps).ceil()));
    }
    let counted = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    Some(Note::new(
        "few-steps",
        format!(
            "{}{} of {}: an adapter learns little in so few",
            if found.exact { "" } else { "about " },
            counted(found.steps, "optimizer step"),
            counted(batch.rows_per_step, "row")
        ),
        format!("in training.config, set {}", ways.join(" and ")),
    ))
}

/// The most rows of a step that make enough steps: not so few that [`small`] asks for more, and one for each process.
fn enough(batch: &Batch, machine: &Machine, found: &StepEstimate, epochs: f64) -> u64 {
    let least = least(batch.packing, found.rows);
    if batch.rows_per_step < least {
        return least;
    }
    let processes = machine.distributed.map_or(1, |it| u64::from(it.processes));
    let most = batch.rows_per_step.min(LARGE);
    let suited = (found.rows as f64 * epochs / ENOUGH) as u64;
    suited.clamp(least.max(processes).min(most), most)
}

/// An update that follows one document alone is noisy; a packed row has several.
fn least(packing: bool, rows: u64) -> u64 {
    if packing { 1 } else { rows.clamp(1, 2) }
}

/// More rows per step than this cost an adapter quality that they do not cost a fully trained model.
const LARGE: u64 = 128;

fn large(batch: &Batch) -> Option<Note> {
    let rows = batch.rows_per_step;
    (rows > LARGE).then(|| {
        Note::new(
            "large-batch",
            format!(
                "{rows} rows per step: adapters learn less from large batches than from the same rows in more steps"
            ),
            "set gradient_accumulation_steps \"auto\", or 8 to 32 rows per step",
        )
    })
}

/// A note on steps of one document each, where more rows per step leave enough steps.
fn small(recipe: &Recipe, found: Option<StepEstimate>) -> Option<Note> {
    let batch = &recipe.batch;
    if batch.rows_per_step >= found.map_or(2, |it| least(batch.packing, it.rows)) || batch.packing {
        return None;
    }
    let leaves_enough = |rows, rows_per_step| steps(recipe, rows, rows_per_step) >= FEW;
    let accumulated = [8, 4, 2]
        .into_iter()
        .find(|more| found.is_none_or(|it| *more <= it.rows && leaves_enough(it.rows, *more)));
    let packed = |tokens: u64| tokens.div_ceil(u64::from(batch.max_seq_length)).max(1);
    let packs = recipe.adapter.kind != AdapterKind::Prompt
        && found.and_then(|it| it.tokens).is_none_or(|tokens| leaves_enough(packed(tokens), 1));
    let accumulated = accumulated.map(|more| format!("gradient_accumulation_steps to {more}"));
    let ways: Vec<String> =
        accumulated.into_iter().chain(packs.then(|| "packing to true".to_owned())).collect();
    (!ways.is_empty()).then(|| {
        Note::new(
            "small-batch",
            "one row per step: each update follows a single row, and the loss is noisy",
            format!("set {}", ways.join(", or ")),
        )
    })
}

/// The fewest steps per epoch that `auto` makes where that leaves [`least`] rows per step, and the most rows per step.
const STEPS_PER_EPOCH: u64 = 32;
const MOST_ROWS: u64 = 32;
/// Rows of a step where the size of the data is not known.
const ROWS: u64 = 16;

/// The rows per step that suit the data. The number of epochs has no part in it, so that a run can be extended.
pub(super) fn rows_per_step(
    packing: bool,
    max_seq_length: u32,
    (train, strategy): (&[Source], StoppingStrategy),
    held_out: Option<f64>,
    facts: &[DataFacts],
) -> u64 {
    let rows =
        Taken::of(train, strategy, facts).rows_seen(packing, max_seq_length).map(|rows| left(rows, held_out));
    let rows = rows.filter(|_| facts.iter().all(|it| it.bytes.is_some()) && !facts.is_empty());
    let most = rows.map_or(ROWS, |rows| (rows / STEPS_PER_EPOCH).clamp(least(packing, rows), MOST_ROWS));
    1 << most.ilog2()
}

/// What one epoch takes of the data, before packing; none where the data does not say.
struct Taken {
    rows: Option<u64>,
    tokens: Option<u64>,
}

impl Taken {
    /// All of it, or of a mixture what its shares allow, as the worker does: the task that is scarcest for its share is
    /// taken whole, or the largest one, and the others are repeated. A task whose rows are unknown is measured by its
    /// tokens.
    fn of(train: &[Source], strategy: StoppingStrategy, facts: &[DataFacts]) -> Self {
        let tasks: Vec<(f64, Self)> = train
            .iter()
            .zip(facts)
            .collect::<Vec<_>>()
            .chunk_by(|(one, _), (next, _)| one.task.is_some() && one.task == next.task)
            .map(|files| {
                let facts = || files.iter().map(|(_, facts)| *facts);
                let all = Self {
                    rows: facts().map(|it| it.rows).sum(),
                    tokens: facts().map(DataFacts::tokens).sum(),
                };
                (files[0].0.weight, all)
            })
            .filter(|(weight, _)| *weight > 0.0)
            .collect();
        let all = |amount: fn(&Self) -> Option<u64>| tasks.iter().map(|(_, task)| amount(task)).sum();
        let (rows, tokens) = (all(|task| task.rows), all(|task| task.tokens));
        if train.len() < 2 || train.iter().all(|source| source.weight >= 1.0) {
            return Self { rows, tokens };
        }
        let amount = |task: &Self| if rows.is_some() { task.rows } else { task.tokens };
        let supply = |(weight, task): &(f64, Self)| Some(amount(task)? as f64 / weight);
        let Some(supplies) = tasks.iter().map(supply).collect::<Option<Vec<f64>>>() else {
            return Self { rows: None, tokens: None };
        };
        let whole = match strategy {
            StoppingStrategy::FirstExhausted => supplies.iter().copied().fold(f64::INFINITY, f64::min),
            StoppingStrategy::AllExhausted => supplies.iter().copied().fold(0.0, f64::max),
        };
        let taken = |of: fn(&Self) -> Option<u64>| {
            let parts = tasks.iter().zip(&supplies).map(|((_, task), supply)| {
                let part = if *supply > 0.0 { whole / supply } else { 0.0 };
                Some((of(task)? as f64 * part).round() as u64)
            });
            parts.sum()
        };
        Self { rows: taken(|task| task.rows), tokens: taken(|task| task.tokens) }
    }

    /// Rows as the loop sees them.
    fn rows_seen(&self, packing: bool, max_seq_length: u32) -> Option<u64> {
        if packing {
            self.tokens.map(|tokens| tokens.div_ceil(u64::from(max_seq_length)).max(1))
        } else {
            self.rows
        }
    }
}
