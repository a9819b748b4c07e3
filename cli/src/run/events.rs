//! The reader of a run's `events.jsonl`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use expert_contract::event::{Event, Recorded};

use super::names::EVENTS;
use crate::sys::files::open_file;

/// Every line that is an event, of this version or another; others are left out.
pub fn recorded(run: &Path) -> impl Iterator<Item = Recorded> {
    lines(run).filter_map(|line| serde_json::from_slice(&line).ok())
}

/// Whether the file is empty or absent, or any line is an event. A line that a killed worker left is none.
pub fn is_readable(run: &Path) -> bool {
    first_event(run).is_none() || recorded(run).next().is_some()
}

/// Whether any line is an event of this version.
pub fn holds_an_event(run: &Path) -> bool {
    lines(run).any(|line| serde_json::from_slice::<Event>(&line).is_ok())
}

/// Which run the folder holds: its first event, with the time. None where there are no events.
pub fn first_event(run: &Path) -> Option<Vec<u8>> {
    lines(run).next()
}

fn lines(run: &Path) -> impl Iterator<Item = Vec<u8>> {
    open_file(&run.join(EVENTS))
        .into_iter()
        .flat_map(|file| BufReader::new(file).split(b'\n').map_while(Result::ok))
}

/// For `advanced_since`.
pub fn recorded_lines(run: &Path) -> usize {
    lines(run).count()
}

/// Whether a step was made, or a checkpoint saved, after so many lines.
pub fn advanced_since(run: &Path, before: usize) -> bool {
    let after = lines(run).skip(before);
    let mut events = after.filter_map(|line| serde_json::from_slice::<Recorded>(&line).ok());
    events.any(|event| event.is_step() || event.is_checkpoint())
}

pub fn made_a_step(path: &Path) -> bool {
    recorded(path).any(|event| event.is_step())
}
