//! Where an expert of a queue trains.

use std::sync::MutexGuard;

use expert_contract::resolve::Resolved;

use super::runner::Trained;
use super::trainer::{Trainer, Unscored};
use crate::failure::Failure;
use crate::worker::{FusedGroup, Notice};

/// An expert's turn: no other of the queue begins until it is dropped.
pub type Turn<'a> = MutexGuard<'a, ()>;

/// How an expert's turn ended.
pub enum Turned {
    Finished(Trained),
    /// What is left goes to `Engine::score`.
    Unscored(Box<Unscored>),
}

pub trait Engine: Sync {
    /// Trains the expert, unless there is nothing to do or its folder must not be touched. Returns when it has ended.
    /// `turn`: dropped once it has begun. `group`: the experts that train with it in one worker. `postpones`: other
    /// experts wait to be trained, so scoring may be left for later.
    fn train(
        &self,
        resolved: &Resolved,
        turn: Option<Turn>,
        group: Option<&FusedGroup>,
        postpones: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Turned, Failure>;

    /// Scores what `train` has left unscored.
    fn score(&self, unscored: Unscored, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure>;

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
        postpones: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Turned, Failure> {
        drop(turn);
        if postpones && self.scores_apart(&resolved.recipe) {
            let unscored = self.train_unscored(group, resolved, false, notify)?;
            if matches!(unscored.trained, Trained::Trained(_)) || !self.is_done(resolved) {
                return Ok(Turned::Unscored(Box::new(unscored)));
            }
            return self.finish(unscored, notify).map(Turned::Finished);
        }
        self.train_in(group, resolved, notify).map(Turned::Finished)
    }

    fn score(&self, unscored: Unscored, notify: &mut dyn FnMut(Notice)) -> Result<Trained, Failure> {
        self.finish(unscored, notify)
    }

    fn conduct(&self, group: &FusedGroup) {
        group.conduct(self.runner.supervision, self.runner.global);
    }
}
