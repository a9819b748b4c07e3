//! How fast a GPU is expected to train, where no run of the same shape was measured on it.

use std::path::{Path, PathBuf};

use expert_contract::digest;
use expert_contract::plan::{DistributedStrategy, Duration};
use expert_contract::resolve::{Resolved, StepEstimate};
use expert_contract::speed::{Bound, Forecast};
use serde::{Deserialize, Serialize};

use crate::run::speed::{Speed, cost};
use crate::sys::cards::limits;
use crate::sys::durable;
use crate::sys::files::read_json;

/// How long training is expected to take, from the slow to the fast end.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Expectation {
    #[serde(flatten)]
    pub speed: Forecast,
    pub longest_seconds: f64,
    pub shortest_seconds: f64,
    pub highest_cost: Option<f64>,
}

impl Expectation {
    /// None where the base's shape, the card or the way that it is computed is not known.
    pub fn of(resolved: &Resolved, steps: &StepEstimate, price_per_hour: Option<f64>) -> Option<Self> {
        let speed = forecast(resolved)?;
        let tokens = tokens(resolved, steps)?;
        let longest = tokens / speed.slow;
        Some(Self {
            speed,
            longest_seconds: longest,
            shortest_seconds: tokens / speed.fast,
            highest_cost: price_per_hour.map(|price| cost(longest, price)),
        })
    }
}

/// Of the whole run.
fn tokens(resolved: &Resolved, steps: &StepEstimate) -> Option<f64> {
    let batch = &resolved.recipe.batch;
    let epoch = steps.tokens.map(|it| it as f64);
    match resolved.recipe.schedule.duration {
        Duration::Epochs(epochs) => Some(epoch? * epochs),
        Duration::Steps(count) => {
            let row = if batch.packing {
                f64::from(batch.max_seq_length)
            } else {
                epoch? / steps.rows.max(1) as f64
            };
            Some((count * batch.rows_per_step) as f64 * row)
        }
    }
}

/// What the newest run on a card reached of its forecast.
#[derive(Serialize, Deserialize)]
struct Reached {
    share: f64,
}

/// A run that is off by more was measured beside other programs, or its card is not what its name says.
const CREDIBLE: std::ops::RangeInclusive<f64> = 0.1..=4.0;

/// What a step's time is spent on, where the card is known.
pub fn bound(resolved: &Resolved) -> Option<Bound> {
    Some(forecast(resolved)?.bound)
}

fn forecast(resolved: &Resolved) -> Option<Forecast> {
    let file = place(resolved)?;
    let reached = read_json::<Reached>(&file).map(|it| it.share).filter(|it| CREDIBLE.contains(it));
    uncorrected(resolved, reached)
}

/// For the forecasts of other runs on this card.
pub fn correct(resolved: &Resolved, measured: Speed) {
    let Some((file, found)) = place(resolved).zip(uncorrected(resolved, None)) else { return };
    let share = measured.tokens_per_second / found.expected;
    if CREDIBLE.contains(&share) {
        // Later plans do without it where it cannot be written.
        let _ = durable::write_json(&file, &Reached { share });
    }
}

fn uncorrected(resolved: &Resolved, reached: Option<f64>) -> Option<Forecast> {
    let machine = &resolved.machine;
    let cards = match machine.distributed {
        Some(together) if together.strategy == DistributedStrategy::Fsdp2 => return None,
        together => together.map_or(1, |it| it.processes),
    };
    // A card without rows adds nothing.
    let cards = u32::try_from(resolved.recipe.batch.rows_per_step).map_or(cards, |rows| cards.min(rows));
    Some(Forecast::of(resolved.work?, limits(&machine.device.name)?, cards, reached))
}

/// One file per card, with and without compile and CUDA graphs.
fn place(resolved: &Resolved) -> Option<PathBuf> {
    resolved.work?;
    let machine = &resolved.machine;
    let way = digest::of(&serde_json::json!([
        machine.device.name,
        machine.compile.is_some(),
        machine.cuda_graphs.is_some()
    ]));
    Some(Path::new(&machine.paths.home).join("speeds").join("cards").join(format!("{}.json", &way[..32])))
}
