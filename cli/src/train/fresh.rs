//! Which experts `--fresh` has begun: the command that continues starts over with the others.

use std::path::PathBuf;

use expert_contract::plan::Machine;

use super::options::RunOptions;
use super::work::Ended;
use crate::next::{self, Again};
use crate::run::first_event;

/// The run that an expert's folder holds before the command trains.
pub struct RunBefore {
    folder: PathBuf,
    first_event: Option<Vec<u8>>,
}

/// What becomes of an expert's folder while it trains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    InFolders,
    /// In a store that the nodes of a cluster share: the folder says nothing of a run that was stopped.
    InStore,
}

impl RunBefore {
    pub fn of(machine: &Machine) -> Self {
        let folder = PathBuf::from(&machine.paths.output);
        Self { first_event: first_event(&folder), folder }
    }

    /// A start that was stopped before its first step has put it back.
    fn is_there(&self) -> bool {
        first_event(&self.folder) == self.first_event
    }
}

/// After a command of one run, or of runs that begin and end together.
pub fn again(run: &RunOptions, before: &[RunBefore]) -> Again<'static> {
    if (run.fresh || run.checkpoint().is_some()) && before.iter().any(RunBefore::is_there) {
        Again::AsTyped
    } else if run.extend {
        // It resumes by itself.
        Again::Continue
    } else {
        Again::Resume
    }
}

/// After a queue, the command for what it has not done. Without `--fresh` it would skip an expert whose earlier run is
/// still there, and with it start over with those that are begun. `before`: of each expert that could be planned.
pub fn of_queue(run: &RunOptions, ended: &[Ended], before: &[Option<RunBefore>], runs: Runs) -> String {
    let is_begun = |one: &Ended, before: &Option<RunBefore>| match one.outcome {
        Some(Ok(_)) => true,
        Some(Err(_)) => before.as_ref().is_some_and(|it| runs == Runs::InStore || !it.is_there()),
        None => false,
    };
    let each = ended.iter().zip(before);
    let others: Vec<&str> = each
        .filter(|(one, before)| run.fresh && !is_begun(one, before))
        .map(|(one, _)| one.expert.as_str())
        .collect();
    if others.is_empty() {
        return next::again(Again::Continue);
    }
    let is_open = |one: &&Ended| one.unscored || !matches!(one.outcome, Some(Ok(_)));
    let first = next::again(Again::FreshOnly(&others));
    if ended.iter().filter(is_open).count() > others.len() {
        format!("{first}, then {}", next::again(Again::Continue))
    } else {
        first
    }
}
