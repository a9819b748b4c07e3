//! Where a run reports to.

use serde_json::{Value as Json, json};

use crate::import::draft::Import;
use crate::import::tree::{Entry, Value};

const REPORT: &str = "training.config.report";

pub(super) fn trackers(import: &mut Import<'_>, entry: &Entry) {
    let named = entry.value.texts().unwrap_or_default();
    let known: Vec<&String> =
        named.iter().filter(|name| ["tensorboard", "wandb"].contains(&&***name)).collect();
    match named.as_slice() {
        [one] if one == "all" => import
            .unneeded(entry, "TensorBoard is the default; \"wandb\" can be added to training.config.report"),
        _ if entry.value.is_off() => import.carry(entry, REPORT, json!("none")),
        all if known.len() == all.len() => import.carry(entry, REPORT, reported(import.source)),
        _ if known.is_empty() => import.left(
            entry,
            "only TensorBoard and Weights & Biases are reported to",
            "read the numbers in the run's report.html or events.jsonl",
        ),
        _ => import.change(
            entry,
            REPORT,
            reported(import.source),
            "only TensorBoard and Weights & Biases are reported to",
            "",
        ),
    }
}

/// What all keys together report to.
fn reported(source: &Value) -> Json {
    let named = source.get("report_to").and_then(Value::texts).unwrap_or_default();
    let is_on = |name: &str, keys: &[&str]| {
        named.iter().any(|it| it == name)
            || keys.iter().any(|key| source.get(key).is_some_and(|it| !it.is_off()))
    };
    match (is_on("tensorboard", &["use_tensorboard"]), is_on("wandb", &["use_wandb", "wandb_project"])) {
        (true, true) => json!(["tensorboard", "wandb"]),
        (true, false) => json!("tensorboard"),
        (false, _) => json!("wandb"),
    }
}

pub(super) fn tracker(import: &mut Import<'_>, entry: &Entry) {
    if entry.value.is_off() {
        return import.unneeded(entry, "off, as here");
    }
    if import.source.get("report_to").is_some_and(|it| *it != Value::Null && it.is_off()) {
        return import.unneeded(entry, "report_to names no tracker");
    }
    let reported = reported(import.source);
    if entry.key != "wandb_project" {
        return import.carry(entry, REPORT, reported);
    }
    let why = "Weights & Biases is reported to, and takes its project from the environment";
    let project = entry.value.text().unwrap_or_default();
    import.change(
        entry,
        REPORT,
        reported,
        why,
        &format!("set WANDB_PROJECT={} before `train`", expert_contract::shell::quoted(project)),
    );
}
