//! The summary of a shelf.

use super::runner::Trained;
use super::work::{Ended, failed};
use crate::ui::number::{grouped, seconds};
use crate::ui::summary::{accuracy, loss};
use crate::ui::{Align, Table};

/// One line per expert, and the columns that a narrow terminal has no room for.
pub fn text(ended: &[Ended]) -> (String, Vec<String>) {
    let columns = [
        ("expert", Align::Left),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("eval loss", Align::Right),
        ("base", Align::Right),
        ("adapter", Align::Right),
        ("time", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for one in ended {
        let state = match &one.outcome {
            Some(Ok(Trained::Now(_))) => "done".to_owned(),
            Some(Ok(Trained::Before(_))) => "finished before".to_owned(),
            Some(Err(failure)) => failed(failure),
            None => "not started".to_owned(),
        };
        let trained = one.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
        let result = trained.and_then(|trained| trained.result().ok()).unwrap_or_default();
        let evaluation = result.evaluation.unwrap_or_default();
        table.row([
            one.expert.clone(),
            state,
            result.steps.map(grouped).unwrap_or_default(),
            result.eval_loss.map(loss).unwrap_or_default(),
            accuracy(evaluation.base.as_ref().map(|it| &it.share)),
            accuracy(evaluation.adapter.as_ref().map(|it| &it.share)),
            result.seconds.map(seconds).unwrap_or_default(),
        ]);
    }
    let left_out = table.fit(&["time", "eval loss", "steps"]);
    (table.stacked(), left_out)
}
