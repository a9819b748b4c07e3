//! Where a key has its effect, for one that is written somewhere else.

use super::base::{BASE_MODEL, DECODING};
use super::config::CONFIG;
use super::dataset::DATASET;
use super::root::{EVALUATION, ROOT, TRAINING};
use crate::ledger::{Field, Section};

/// Keys that any object may have for itself.
const ANYWHERE: [&str; 5] = ["name", "sha256", "license", "schema_version", "$schema"];

/// The path of the key that has an effect, with `[]` for a list, and its field.
pub fn of_key(key: &str) -> Option<(String, &'static Field)> {
    let sections: [&Section; 7] = [&CONFIG, &DATASET, &EVALUATION, &DECODING, &ROOT, &TRAINING, &BASE_MODEL];
    let place = |section: &&Section| {
        let field = section.field(key).filter(|field| field.is_honoured())?;
        let dot = if section.path.is_empty() { "" } else { "." };
        Some((format!("{}{dot}{key}", section.path), field))
    };
    sections.iter().find_map(place).filter(|_| !ANYWHERE.contains(&key))
}
