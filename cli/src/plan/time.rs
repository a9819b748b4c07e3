//! How long a planned training takes, measured or calculated.

use expert_contract::resolve::{Resolved, StepEstimate};

use super::forecast::Expectation;
use super::prepare::is_elsewhere;
use crate::run::speed::{Projection, Speed};
use crate::sys::cards::limits;

/// How long training takes.
#[derive(Clone, Copy)]
pub enum Time {
    /// A run of the same shape was measured on this machine.
    Measured(Projection),
    Calculated(Expectation),
    /// Of a card that is not here and has no name.
    OfNoCard,
    Unknown,
}

impl Time {
    pub fn of(resolved: &Resolved, steps: Option<&StepEstimate>, price: Option<f64>) -> Self {
        let Resolved { recipe, machine, .. } = resolved;
        let unknown = if is_elsewhere(resolved) && limits(&machine.device.name).is_none() {
            Self::OfNoCard
        } else {
            Self::Unknown
        };
        let Some(steps) = steps else {
            return unknown;
        };
        match Speed::find(recipe, machine) {
            Some(speed) => Self::Measured(Projection::of(speed, recipe, steps, price)),
            None => Expectation::of(resolved, steps, price).map_or(unknown, Self::Calculated),
        }
    }

    pub fn measured(self) -> Option<Projection> {
        if let Self::Measured(found) = self { Some(found) } else { None }
    }

    pub fn calculated(self) -> Option<Expectation> {
        if let Self::Calculated(found) = self { Some(found) } else { None }
    }
}
