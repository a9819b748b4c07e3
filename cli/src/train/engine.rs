//! Where an expert of a queue trains.

use std::sync::MutexGuard;

use expert_contract::resolve::Resolved;

use super::runner::Trained;
use super::trainer::Trainer;
use crate::failure::Failure;
use crate::worker::{FusedGroup, Notice};

/// An expert's turn: no other of the queue begins until it is dropped.
pub type Turn<'a> = MutexGuard<'a, ()>;

pub trait Engine: Sync {
    /// Trains the expert, unless there is nothing to do or its folder must not be touched. Returns when it has ended.
    /// `turn`: dropped once it has begun. `group`: the experts that train with it in one worker.
    fn train(
        &self,
        resolved: &Resolved,
        turn: Option<Turn>,
        group: Option<&FusedGroup>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure>;

    /// Waits for the experts of the group, each in its own thread, and supervises their worker.
    fn conduct(&self, group: &FusedGroup);
}

/// In a worker of this machine.
impl Engine for Trainer<'_> {
    fn train(
        &self,
        resolved: &Resolved,
        turn: Option<Turn>,
        group: Option<&FusedGroup>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Trained, Failure> {
        drop(turn);
        self.train_in(group, resolved, notify)
    }

    fn conduct(&self, group: &FusedGroup) {
        group.conduct(self.runner.supervision, self.runner.global);
    }
}
