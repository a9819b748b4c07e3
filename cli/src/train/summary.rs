//! The summary of a shelf.

use std::collections::BTreeSet;

use expert_contract::results::{TestScores, TrainResult};

use super::runner::Trained;
use super::work::{Ended, failed};
use crate::ui::number::{grouped, seconds};
use crate::ui::summary::{accuracy, loss};
use crate::ui::{Align, Table};
use crate::worker;

/// One line per expert, and the columns that a narrow terminal has no room for.
pub fn text(ended: &[Ended]) -> (String, Vec<String>) {
    let results: Vec<TrainResult> = ended.iter().map(result).collect();
    let scored = results.iter().filter_map(|result| result.evaluation.as_ref());
    let sets: BTreeSet<&String> = scored.flat_map(|evaluation| evaluation.test_sets.keys()).collect();
    let [bases, adapters] =
        ["base", "adapter"].map(|side| sets.iter().map(|set| format!("{set} {side}")).collect::<Vec<_>>());
    let mut columns = vec![
        ("expert", Align::Left),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("eval loss", Align::Right),
        ("base", Align::Right),
        ("adapter", Align::Right),
    ];
    let pairs = bases.iter().zip(&adapters).flat_map(|(base, adapter)| [base, adapter]);
    columns.extend(pairs.map(|head| (head.as_str(), Align::Right)));
    columns.push(("time", Align::Right));
    let mut table = Table::new(&columns);
    for (one, result) in ended.iter().zip(&results) {
        let state = match &one.outcome {
            Some(Ok(_)) if one.unscored => "not scored".to_owned(),
            Some(Ok(Trained::Trained(_))) => "done".to_owned(),
            Some(Ok(Trained::AlreadyDone { scored: true, .. })) => "scored".to_owned(),
            Some(Ok(Trained::AlreadyDone { .. })) => "finished before".to_owned(),
            Some(Err(failure)) => failed(failure),
            None => "not started".to_owned(),
        };
        let evaluation = result.evaluation.clone().unwrap_or_default();
        let sides = |scores: &TestScores| {
            [&scores.base, &scores.adapter].map(|side| accuracy(side.as_ref().map(|it| &it.share)))
        };
        let mut cells = vec![
            one.expert.clone(),
            state,
            result.steps.map(grouped).unwrap_or_default(),
            result.eval_loss.map(loss).unwrap_or_default(),
        ];
        cells.extend(sides(&evaluation.main));
        for set in &sets {
            cells.extend(evaluation.test_sets.get(*set).map(sides).unwrap_or_default());
        }
        cells.push(result.seconds.map(seconds).unwrap_or_default());
        table.row(cells);
    }
    let others = ["time", "eval loss", "steps"];
    let first: Vec<&str> = bases.iter().map(String::as_str).chain(others).collect();
    let left_out = table.fit(&first);
    (table.stacked(), left_out)
}

fn result(one: &Ended) -> TrainResult {
    one.result().and_then(|result| worker::result(result).ok()).unwrap_or_default()
}
