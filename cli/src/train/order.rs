//! How long experts train, and in which order a queue starts them: longest first, so that no long one is left for the end.

use std::cmp::Ordering;

use expert_contract::plan::{Recipe, Strategy};
use expert_contract::resolve::{Resolved, Share, StepEstimate};

use crate::plan;
use crate::run::speed::{Projection, Speed};

/// Of a training, from the newest run of its shape on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    pub seconds: f64,
    pub steps: u64,
    /// Between two checkpoints; None saves at the end only.
    pub save_seconds: Option<f64>,
    pub measured_at: f64,
}

/// None where no run of the shape was measured, by itself or with `share` of the machine.
pub fn timed(resolved: &Resolved, share: &Share) -> Option<Timed> {
    let shared = resolved.clone().on(share);
    let speeds = [&resolved.machine, &shared.machine].map(|machine| Speed::find(&resolved.recipe, machine));
    let speed = speeds.into_iter().flatten().max_by(|a, b| a.measured_at.total_cmp(&b.measured_at))?;
    let recipe = &resolved.recipe;
    let steps = plan::steps(resolved)?;
    let projection = Projection::of(speed, recipe, &steps, None);
    Some(Timed {
        seconds: projection.seconds,
        steps: steps.steps,
        save_seconds: steps_between_saves(recipe, &steps)
            .map(|steps| steps / projection.speed.steps_per_second),
        measured_at: speed.measured_at,
    })
}

fn steps_between_saves(recipe: &Recipe, steps: &StepEstimate) -> Option<f64> {
    match recipe.saving.strategy {
        Strategy::No => None,
        Strategy::Epoch => Some(steps.rows.div_ceil(recipe.batch.rows_per_step).max(1) as f64),
        Strategy::Steps => recipe.saving.steps.map(|steps| steps.max(1) as f64),
    }
}

/// The places of experts in the order in which they start: those of unknown length first, as they come, then the longest.
pub fn longest_first(seconds: &[Option<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by(|a, b| match (seconds[*a], seconds[*b]) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first_and_equals_keep_their_order() {
        let seconds = [Some(2.0), None, Some(9.0), Some(2.0), None, Some(5.0)];
        assert_eq!(longest_first(&seconds), [1, 4, 2, 5, 0, 3]);
        assert_eq!(longest_first(&[None; 3]), [0, 1, 2]);
    }
}
