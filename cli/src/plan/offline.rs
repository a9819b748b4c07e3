//! A base that training would download, where the environment forbids it.

use expert_contract::resolve::{Note, Place, Resolved};

use super::prepare::is_elsewhere;
use crate::sys::host;

/// The variable that forbids the download; None where nothing is to be downloaded here.
pub fn forbidden_by(resolved: &Resolved) -> Option<&'static str> {
    let lacks_weights = matches!(resolved.base.place, Place::Hub { has_weights: false, .. });
    host::offline().filter(|_| lacks_weights && !is_elsewhere(resolved)).map(|variable| variable.name)
}

pub fn note(resolved: &Resolved) -> Option<Note> {
    let variable = forbidden_by(resolved)?;
    Some(Note {
        code: "base-missing",
        message: format!(
            "the weights of {} are not on this machine, and {variable} forbids downloading them: \
             training would not start",
            resolved.base.logical
        ),
        hint: format!("unset {variable}, or choose a base that is here with --model"),
    })
}
