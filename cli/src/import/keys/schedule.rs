//! Steps: the learning rate over them, how many rows one has, and after which of them a run evaluates and saves.

use expert_contract::plan::ScheduleKind;
use serde_json::{Value as Json, json};

use super::rows::without_validation;
use crate::import::defaults::epochs_of;
use crate::import::draft::{Import, word_here};
use crate::import::tree::{Entry, Value};

const SCHEDULER: &str = "training.config.lr_scheduler";
pub(super) const OPTIONS: &str = "training.config.lr_scheduler_kwargs";
pub(super) const EVALUATION: &str = "training.config.evaluation_strategy";
pub(super) const SAVING: &str = "training.config.save_strategy";

pub(super) fn scheduler(import: &mut Import<'_>, entry: &Entry) {
    let word = entry.value.text().unwrap_or_default().to_lowercase();
    let words = ScheduleKind::WORDS;
    match word_here("lr_scheduler", words, &word) {
        Some(here) => import.carry(entry, SCHEDULER, json!(here)),
        None => import.change(
            entry,
            SCHEDULER,
            json!("cosine"),
            "there is no schedule of this name, so cosine is used",
            &format!("choose one of {} in {SCHEDULER}", words.join(", ")),
        ),
    }
}

pub(super) fn scheduler_options(import: &mut Import<'_>, entry: &Entry) {
    let mut options = serde_json::Map::new();
    let mut lost = Vec::new();
    for Entry { key, value, .. } in entry.value.entries() {
        let rate = import.source.get("learning_rate").and_then(Value::number);
        match (key.as_str(), value.number(), rate) {
            ("num_cycles" | "power" | "lr_end" | "min_lr_ratio", Some(_), _) => {
                options.insert(key.clone(), value.json());
            }
            ("min_lr_rate", Some(_), _) => {
                options.insert("min_lr_ratio".to_owned(), value.json());
            }
            ("min_lr", Some(least), Some(rate)) if rate > 0.0 => {
                options.insert("min_lr_ratio".to_owned(), json!(least / rate));
            }
            _ => lost.push(key.clone()),
        }
    }
    let instead = "schedules take num_cycles, power, lr_end and min_lr_ratio";
    match (options.is_empty(), lost.is_empty()) {
        (true, true) => import.unneeded(entry, "empty"),
        (true, false) => import.left(entry, "no schedule takes these", instead),
        (false, true) => import.carry(entry, OPTIONS, Json::Object(options)),
        (false, false) => {
            import.change(
                entry,
                OPTIONS,
                Json::Object(options),
                &format!("without {}", lost.join(", ")),
                instead,
            );
        }
    }
}

pub(super) fn warmup(import: &mut Import<'_>, entry: &Entry) {
    let steps = import.source.get("warmup_steps").and_then(Value::number).unwrap_or(0.0);
    match (entry.key.as_str(), entry.value.number()) {
        ("warmup_ratio", _) if steps > 0.0 => import.unneeded(entry, "warmup_steps wins, there as here"),
        ("warmup_steps", Some(steps)) if steps > 0.0 && steps < 1.0 => {
            import.carry(entry, "training.config.warmup_ratio", json!(steps));
        }
        (key, _) => import.carry(entry, &format!("training.config.{key}"), entry.value.json()),
    }
}

/// Axolotl's `batch_size` is that of a whole step.
pub(super) fn whole_batch(import: &mut Import<'_>, entry: &Entry) {
    let micro = import.source.get("micro_batch_size").and_then(Value::number).unwrap_or(1.0).max(1.0);
    match entry.value.number() {
        _ if import.source.get("gradient_accumulation_steps").is_some_and(|it| *it != Value::Null) => {
            import.unneeded(entry, "gradient_accumulation_steps says the same");
        }
        Some(rows) if rows >= micro => {
            import.carry(entry, "training.config.gradient_accumulation_steps", json!((rows / micro) as u64));
        }
        _ => import.left(
            entry,
            "it is smaller than a micro-batch",
            "set batch_size and gradient_accumulation_steps",
        ),
    }
}

pub(super) fn per_epoch(import: &mut Import<'_>, entry: &Entry, path: &str, steps: &str) {
    let times = entry.value.number().unwrap_or(0.0);
    let evaluates = path == EVALUATION;
    if evaluates && !import.has_validation() {
        return without_validation(import, entry, "there is no validation data");
    }
    if times <= 0.0 {
        return import.carry(entry, path, json!("no"));
    }
    if (times - 1.0).abs() < f64::EPSILON {
        return import.carry(entry, path, json!("epoch"));
    }
    let instead = format!(
        "for more often set it to \"steps\" and {steps} to a number; `plan` shows the steps of a run"
    );
    import.change(entry, path, json!("epoch"), "it is once an epoch, or every so many steps", &instead);
}

pub(super) fn every(import: &mut Import<'_>, entry: &Entry, strategy: &str, path: &str) {
    match entry.value.number() {
        Some(steps) if steps >= 1.0 => {
            import.carry(entry, path, entry.value.json());
            if written_strategy(import, strategy).is_none() {
                import.put(strategy, json!("steps"));
            }
        }
        Some(share) if share > 0.0 => part_of_all_steps(import, entry, share, strategy, path),
        _ => import.left(entry, "it is not a number of steps", &format!("set {path} to a number of steps")),
    }
}

/// What says whether a run evaluates or saves by steps at all.
fn written_strategy<'a>(import: &Import<'a>, strategy: &str) -> Option<&'a Entry> {
    let named = ["eval_strategy", "evaluation_strategy", "save_strategy"];
    let source = import.source;
    let mut of_this = named.iter().filter(|key| key.starts_with("eval") == (strategy == EVALUATION));
    of_this.find_map(|key| source.entry(key)).filter(|entry| entry.value != Value::Null)
}

/// `save_steps: 0.25`: after each quarter of all steps.
fn part_of_all_steps(import: &mut Import<'_>, entry: &Entry, share: f64, strategy: &str, path: &str) {
    if let Some(written) = written_strategy(import, strategy)
        && written.value.text() != Some("steps")
    {
        return import.unneeded(entry, &format!("`{}` does not go by steps", written.key));
    }
    if let Some(all) = import.source.get("max_steps").and_then(Value::number).filter(|all| *all >= 1.0) {
        let why = format!("it is the share {share} of the {all} steps of max_steps, rounded up as there");
        import.change(entry, path, json!((share * all).ceil() as u64), &why, "");
        if written_strategy(import, strategy).is_none() {
            import.put(strategy, json!("steps"));
        }
        return;
    }
    let epochs = ["num_epochs", "num_train_epochs"].iter().find_map(|key| import.source.get(key)?.number());
    let epochs = epochs.unwrap_or_else(|| epochs_of(import.tool));
    let why = format!(
        "the share {share} of all steps becomes once an epoch, where there it is every {} epochs: the number of \
         steps is not known before the rows are",
        (share * epochs * 1e4).round() / 1e4
    );
    let instead =
        format!("set {strategy} to \"steps\" and {path} to a number; `plan` shows the steps of a run");
    if (share * epochs - 1.0).abs() < 1e-9 {
        import.change(
            entry,
            strategy,
            json!("epoch"),
            &format!("the share {share} of {epochs} epochs is one"),
            "",
        );
    } else {
        import.change(entry, strategy, json!("epoch"), &why, &instead);
    }
}

/// `save_strategy: steps` beside a `save_steps` that becomes once an epoch.
pub(super) fn by_steps_of_a_share(import: &mut Import<'_>, entry: &Entry) -> bool {
    let (steps, path) =
        if entry.key == "save_strategy" { ("save_steps", SAVING) } else { ("eval_steps", EVALUATION) };
    let number = |key: &str| import.source.get(key).and_then(Value::number);
    let is_share = number(steps).is_some_and(|share| share > 0.0 && share < 1.0);
    let is_once_an_epoch = is_share && number("max_steps").is_none_or(|all| all < 1.0);
    if is_once_an_epoch {
        import.change(entry, path, json!("epoch"), &format!("{steps} is a share of all steps"), "");
    }
    is_once_an_epoch
}
