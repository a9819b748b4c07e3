//! Where an expert of a queue trains.

use expert_contract::resolve::Resolved;

use super::runner::Trained;
use super::trainer::Trainer;
use crate::failure::Failure;
use crate::worker::Notice;

pub trait Engine: Sync {
    /// Trains the expert, unless there is nothing to do or its folder must not be touched. Returns when it has ended.
    fn train(&self, resolved: &Resolved, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure>;
}

/// In a worker of this machine.
impl Engine for Trainer<'_> {
    fn train(&self, resolved: &Resolved, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        Self::train(self, resolved, notify)
    }
}
