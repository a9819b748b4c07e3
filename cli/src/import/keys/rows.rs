//! Which rows and tokens are learned, in which order, and what becomes of long rows.

use serde_json::json;

use crate::import::draft::Import;
use crate::import::running_text::{LONG_TEXTS, is_pretraining, is_running_text};
use crate::import::tree::{Entry, Value};

pub(super) const TRAIN_ON: &str = "training.dataset.train_on";
/// How many rows are held out, by each trainer.
pub(in crate::import) const HELD_OUT: [&str; 3] = ["val_set_size", "val_size", "test_split_size"];
const OVERLONG: &str = "training.dataset.overlong";

pub(super) fn stage(import: &mut Import<'_>, entry: &Entry) {
    if !is_pretraining(import.source) {
        return import.carry(entry, "training.config.method", json!("sft"));
    }
    let why = "every token of the texts is learned, by an adapter";
    let is_on = |key: &str| import.source.get(key).is_some_and(|it| !it.is_off());
    // Where packing is off, LLaMA-Factory too cuts off what is longer than cutoff_len.
    let is_unset = import.source.get("packing").is_none_or(|it| *it == Value::Null);
    let packs = is_on("packing") || is_on("neat_packing") || is_unset;
    match (packs, is_running_text(import)) {
        (true, true) => {
            import.change(entry, TRAIN_ON, json!("all"), why, "");
            import.also(OVERLONG, json!("split"));
        }
        (true, false) => {
            let why =
                format!("{why}; texts are cut into blocks of cutoff_len there, and some rows are dialogues");
            import.change(entry, TRAIN_ON, json!("all"), &why, LONG_TEXTS);
        }
        (false, _) => import.change(entry, TRAIN_ON, json!("all"), why, ""),
    }
}

pub(super) fn completions(import: &mut Import<'_>, entry: &Entry) {
    if !entry.value.is_off() {
        import.carry(entry, TRAIN_ON, json!("completions"));
    } else if import.at(TRAIN_ON).is_some() {
        import.unneeded(entry, "off: assistant_only_loss decides");
    } else {
        import.carry(entry, TRAIN_ON, json!("all"));
    }
}

pub(super) fn shuffled(import: &mut Import<'_>, entry: &Entry) {
    let why = "rows are shuffled in each epoch, as the seed decides";
    if entry.value.is_off() {
        import.left(entry, why, "no setting keeps the order of the file");
    } else {
        import.unneeded(entry, why);
    }
}

pub(super) fn sampling(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.text() {
        Some("group_by_length") => import.carry(entry, "training.config.group_by_length", json!(true)),
        Some("random") => import.unneeded(entry, "rows are shuffled in each epoch, as here"),
        _ => import.left(entry, "rows are shuffled in each epoch", "nothing; training goes without it"),
    }
}

pub(super) fn overlong(import: &mut Import<'_>, entry: &Entry) {
    if is_running_text(import) {
        return import.unneeded(entry, "texts are cut into pieces of sequence_len, so that none is longer");
    }
    let word = match entry.value.text() {
        Some("raise") => "error",
        Some(other) => other,
        None => "",
    };
    import.carry(entry, OVERLONG, json!(word));
}

/// Which side of a long row is cut off. Two keys of it may contradict each other, so that the first is then written even
/// where it is the default.
pub(super) fn truncated(import: &mut Import<'_>, entry: &Entry) {
    let is_given = |key: &&str| import.source.get(key).is_some_and(|it| *it != Value::Null);
    let both = ["truncation_mode", "truncation_side"].iter().all(is_given);
    match entry.value.text() {
        Some("keep_start" | "right") if both => import.carry(entry, OVERLONG, json!("truncate")),
        Some("keep_start" | "right") => {
            import.unneeded(entry, "the beginning of a long row is kept, as here");
        }
        Some("keep_end" | "left") => import.carry(entry, OVERLONG, json!("keep_end")),
        _ => import.left(
            entry,
            "of a long row the beginning, the end or every part is kept",
            "set training.dataset.overlong",
        ),
    }
}

/// A key of evaluations, where nothing is evaluated: a number of rows held out there has to be set as a share first.
pub(super) fn without_validation(import: &mut Import<'_>, entry: &Entry, why: &str) {
    let holds_out =
        |key: &&str| import.source.get(key).and_then(Value::number).is_some_and(|rows| rows >= 1.0);
    if entry.value.is_off() || !HELD_OUT.iter().any(holds_out) {
        return import.unneeded(entry, why);
    }
    let here = match entry.key.as_str() {
        "eval_strategy" | "evals_per_epoch" => "evaluation_strategy",
        "load_best_model" => "load_best_model_at_end",
        "early_stopping_steps" => "early_stopping_patience",
        key => key,
    };
    import.left(
        entry,
        "there is no validation data before training.dataset.validation_split is set",
        &format!("set training.dataset.validation_split, and then training.config.{here}"),
    );
}

pub(super) fn held_out(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.number() {
        Some(share) if share > 0.0 && share < 1.0 => {
            import.carry(entry, "training.dataset.validation_split", json!(share));
        }
        Some(rows) if rows >= 1.0 => import.left(
            entry,
            "rows are held out as a share here",
            &format!("set training.dataset.validation_split to {rows} / the number of rows"),
        ),
        _ => import.unneeded(entry, "nothing is held out, as here"),
    }
}
