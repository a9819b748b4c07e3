//! A measurement that a command left: of `bench ablate -o`, of a finished run, or of another program.

use std::path::Path;

use serde_json::Value;

use super::names::RECORD;
use crate::failure::Failure;
use crate::sys::files::read_json;

pub const TOKENS_PER_SECOND: &str = "tokens_per_second";

/// The object with the measurement: of an ablation the plan's own, of a run its result.
pub fn read(path: &Path) -> Result<Value, Failure> {
    let file = if path.is_dir() { path.join(RECORD) } else { path.to_owned() };
    let document: Value = read_json(&file).filter(Value::is_object).ok_or_else(|| {
        Failure::bad_input(
            "no-measurement",
            format!("{} is not there, or is not a JSON object", file.display()),
        )
        .hint("name an ablation.json, or the folder of a finished run")
    })?;
    let inner = ["planned", "result"].into_iter().find_map(|key| document.get(key).cloned());
    Ok(inner.unwrap_or(document))
}

/// Under the first of these keys that holds a number above 0.
pub fn number(measured: &Value, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| measured.get(key)?.as_f64()).filter(|value| *value > 0.0)
}
