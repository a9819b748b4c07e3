//! Which experts `--fresh` has begun: the command that continues starts over with the others.

use std::path::PathBuf;

use expert_contract::plan::Machine;

use super::options::RunOptions;
use super::work::Ended;
use crate::experts;
use crate::next::{self, Again};
use crate::run::{advanced_since, first_event, recorded_lines};
use crate::sys::paths::portable;

/// The run that an expert's folder holds before the command trains.
pub struct RunBefore {
    folder: PathBuf,
    first_event: Option<Vec<u8>>,
    /// Of its events.
    lines: usize,
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
        Self { first_event: first_event(&folder), lines: recorded_lines(&folder), folder }
    }

    /// A start that was stopped before its first step has put it back.
    fn is_there(&self) -> bool {
        first_event(&self.folder) == self.first_event
    }

    /// A run that is resumed from a named checkpoint stays the same run, and goes back to it until it has made a step.
    fn has_advanced(&self) -> bool {
        advanced_since(&self.folder, self.lines)
    }
}

/// After a command of one run.
pub fn again(run: &RunOptions, before: &RunBefore) -> Again<'static> {
    if run.fresh && before.is_there() || run.checkpoint().is_some() && !before.has_advanced() {
        Again::AsTyped
    } else if run.extend {
        // It resumes by itself.
        Again::Continue
    } else {
        Again::Resume
    }
}

/// After experts that were to train fused; `manifests` and `before` are of each. With `--fresh` it starts over with those alone
/// that are not begun.
pub fn of_group(run: &RunOptions, manifests: &[PathBuf], ended: &[Ended], before: &[RunBefore]) -> String {
    let (others, open) = left_of_group(run, manifests, ended, before);
    if others.is_empty() {
        return next::again(if run.extend { Again::Continue } else { Again::Resume });
    }
    if others.len() == manifests.len() {
        return next::again(Again::AsTyped);
    }
    let first = next::again(Again::OfGroup { experts: &others, fresh: true });
    if open.is_empty() {
        return first;
    }
    format!("{first}, then {}", next::again(Again::OfGroup { experts: &open, fresh: false }))
}

/// Those that `--fresh` has not begun, and the others that are not finished. By their folders: one that is left trains alone,
/// and `train` does not look for a name in `experts/`.
fn left_of_group(
    run: &RunOptions,
    manifests: &[PathBuf],
    ended: &[Ended],
    before: &[RunBefore],
) -> (Vec<String>, Vec<String>) {
    let (mut others, mut open) = (Vec::new(), Vec::new());
    for ((manifest, one), before) in manifests.iter().zip(ended).zip(before) {
        let expert = portable(&experts::folder_of(manifest.clone()));
        let is_trained = matches!(one.outcome, Some(Ok(_)));
        if run.fresh && !is_trained && before.is_there() {
            others.push(expert);
        } else if !is_trained || one.unscored {
            open.push(expert);
        }
    }
    (others, open)
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

#[cfg(test)]
mod tests {
    use expert_contract::exit::Exit;
    use expert_contract::plan::Plan;
    use serde_json::json;

    use super::*;
    use crate::failure::Failure;
    use crate::sys::files::write_text;
    use crate::train::runner::Trained;

    #[test]
    fn only_what_is_not_begun_of_a_group_is_started_over() {
        let folder = tempfile::tempdir().unwrap();
        let text = include_str!("../../../tests/examples/plan.json");
        let mut machine = serde_json::from_str::<Plan>(text).unwrap().machine;
        let named = ["failed", "stopped", "done"].map(str::to_owned);
        let mut before = |name: &String| {
            let run = folder.path().join(name);
            write_text(&run, "events.jsonl", "{\"time\": 1}\n");
            write_text(&run, experts::MANIFEST, "{}");
            machine.paths.output = run.to_string_lossy().into_owned();
            RunBefore::of(&machine)
        };
        let before: Vec<RunBefore> = named.iter().map(&mut before).collect();
        for begun in ["stopped", "done"] {
            write_text(&folder.path().join(begun), "events.jsonl", "{\"time\": 2}\n");
        }
        let failure = || Some(Err(Failure::new(Exit::Failed, "failed", "it failed")));
        let outcomes = [failure(), failure(), Some(Ok(Trained::Trained(json!({}))))];
        let ended: Vec<Ended> = named
            .iter()
            .zip(outcomes)
            .map(|(name, outcome)| Ended { expert: name.clone(), outcome, unscored: false })
            .collect();
        let fresh = RunOptions { fresh: true, ..RunOptions::resuming_and_scored() };
        let manifests = named.each_ref().map(|name| folder.path().join(name).join(experts::MANIFEST));
        let left = |run| left_of_group(run, &manifests, &ended, &before);
        let expert = |name: &str| vec![portable(&folder.path().join(name))];
        assert_eq!(left(&fresh), (expert("failed"), expert("stopped")), "as `train` takes them");
        let resumes = RunOptions::resuming_and_scored();
        assert_eq!(left(&resumes).0, Vec::<String>::new());
    }
}
