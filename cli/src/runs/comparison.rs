//! Runs side by side, as tables.

use std::collections::{BTreeMap, BTreeSet};

use expert_contract::plan::manifest_key;
use expert_contract::results::ScoredWith;
use serde_json::Value;

use super::compare::{Comparison, Sides};
use super::list::{Run, test_sets};
use crate::lock::inputs;
use crate::ui::number::{bytes, grouped, percent, seconds, short};
use crate::ui::wrap::{columns, wrapped};
use crate::ui::{Align, Table};

const ABSENT: &str = "-";

/// How a run's value is shown.
type Show = fn(Option<&Value>) -> String;

pub fn text(compared: &Comparison) -> String {
    let names = compared.names();
    let recorded = &compared.recorded;
    let mut text = unrecorded("recipe", &names, recorded.iter().map(|[recipe, _]| *recipe));
    text += &unrecorded("digest of data, base and code", &names, recorded.iter().map(|[_, inputs]| *inputs));
    if compared.same_recipe() == Some(true) {
        text += "The recipes are the same.\n";
    }
    // By the keys that --set takes, where one key decides the value.
    let settings =
        compared.settings.iter().map(|(path, sides)| (manifest_key(path), sides.clone())).collect();
    let tables: [(&str, &BTreeMap<String, Sides>, Show); 3] = [
        ("setting", &settings, shown),
        ("data, base and code", &compared.inputs, |side| inputs::short(&shown(side)).to_owned()),
        ("on the machine", &compared.machine, shown),
    ];
    for (head, rows, show) in tables.into_iter().filter(|(_, rows, _)| !rows.is_empty()) {
        text += if text.is_empty() { "" } else { "\n" };
        text += &differing(head, &names, rows, show);
    }
    format!("{text}\n{}", results(&names, &compared.runs))
}

/// Which runs a comparison knows nothing of.
fn unrecorded(what: &str, names: &[String], recorded: impl Iterator<Item = bool>) -> String {
    let without: Vec<&str> =
        names.iter().zip(recorded).filter(|(_, is)| !is).map(|(name, _)| name.as_str()).collect();
    if without.is_empty() {
        String::new()
    } else {
        let sentence = format!("No {what} is recorded in {}.", without.join(", "));
        wrapped(&sentence, 0, columns()) + "\n"
    }
}

fn differing(head: &str, names: &[String], rows: &BTreeMap<String, Sides>, show: Show) -> String {
    let mut table = headed(head, names, Align::Left);
    for (key, sides) in rows {
        table.row([key.clone()].into_iter().chain(sides.iter().map(|side| show(side.as_ref()))));
    }
    table.stacked()
}

fn results(names: &[String], runs: &[Run]) -> String {
    type Figure = fn(&Run) -> Option<String>;
    let rows: [(&str, Figure); 13] = [
        ("state", |run| Some(run.state.as_str().to_owned())),
        ("steps", |run| run.steps.map(grouped)),
        ("tokens", |run| run.tokens.map(grouped)),
        ("last loss", |run| run.last_loss.map(loss)),
        ("mean loss", |run| run.mean_loss.map(loss)),
        ("eval loss", |run| run.eval_loss.map(loss)),
        ("scored by", |run| run.scored_by.clone()),
        ("scores of", |run| run.scores_of.clone()),
        ("base score", |run| run.base_accuracy.map(percent)),
        ("adapter score", |run| run.accuracy.map(percent)),
        ("tokens/s", |run| run.tokens_per_second.map(short)),
        ("time", |run| run.seconds.map(seconds)),
        ("peak memory", |run| run.peak_memory_bytes.map(bytes)),
    ];
    let mut table = headed("result", names, Align::Right);
    for (name, show) in rows {
        let cells: Vec<Option<String>> = runs.iter().map(show).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| ABSENT.to_owned()));
            table.row([name.to_owned()].into_iter().chain(cells));
        }
    }
    for set in test_sets(runs) {
        let scores = |run: &Run| run.test_sets.get(set).map(|it| [it.base_accuracy, it.accuracy]);
        for (at, side) in ["base", "adapter"].into_iter().enumerate() {
            let score = |run: &Run| {
                scores(run).and_then(|sides| sides[at]).map_or_else(|| ABSENT.to_owned(), percent)
            };
            table.row([format!("{set}, {side} score")].into_iter().chain(runs.iter().map(score)));
        }
    }
    let difference = scored_differently(&runs.iter().collect::<Vec<_>>());
    let remark = difference
        .map(|difference| format!("The runs were scored {difference}: do not compare their scores.\n"));
    table.stacked() + &remark.unwrap_or_default()
}

/// Why the scores of these runs are not compared.
pub fn scored_differently(runs: &[&Run]) -> Option<&'static str> {
    let scorers: BTreeSet<&String> = runs.iter().filter_map(|run| run.scored_by.as_ref()).collect();
    let rest: BTreeSet<&ScoredWith> = runs.iter().filter_map(|run| run.scored_with.as_ref()).collect();
    match (scorers.len(), rest.len()) {
        (0 | 1, 0 | 1) => None,
        (0 | 1, _) => Some("with different settings or on different test rows"),
        _ => Some("by different scorers"),
    }
}

fn headed(head: &str, names: &[String], align: Align) -> Table {
    let columns: Vec<(&str, Align)> =
        [(head, Align::Left)].into_iter().chain(names.iter().map(|name| (name.as_str(), align))).collect();
    Table::new(&columns)
}

fn loss(value: f64) -> String {
    format!("{value:.4}")
}

fn shown(side: Option<&Value>) -> String {
    match side {
        None => ABSENT.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| shown(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(value) => value.to_string(),
    }
}
