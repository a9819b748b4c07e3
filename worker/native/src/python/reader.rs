//! `RowReader`: rows as training reads them, for those who ask the question and compare the answer.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::recipe::in_json;
use crate::problem::Fault;
use crate::rows::{Shaped, Shaper, TrainOn, Turn, Value, entry, last_learned, not_json, row_of_json};

#[pyclass(module = "expert_worker._native", frozen)]
pub struct RowReader {
    shaper: Shaper,
}

#[pymethods]
impl RowReader {
    #[new]
    fn new(mapping: BTreeMap<String, String>) -> Self {
        // What the template prints is its own affair: no key of a message is left out here.
        let shaper = Shaper { whole_messages: true, ..Shaper::new(mapping, true, TrainOn::Completions, "") };
        Self { shaper }
    }

    /// A row's messages as JSON, and its tools; from a row in JSON. A text without a question has no messages. The error of a
    /// row that training refuses, or that is not JSON, has the message and a hint.
    fn read(&self, row: &str) -> PyResult<(String, Option<String>)> {
        let row = row_of_json(row).map_err(|error| refused(&not_json(&error, row)))?;
        Ok(match self.shaper.shape(&row).map_err(|fault| refused(&fault))? {
            Shaped::Text(_) => ("[]".to_owned(), None),
            Shaped::Turns(mut turns) => {
                // The answer to compare with is the last one that training may learn.
                turns.truncate(turns.iter().rposition(Turn::is_answer).map_or(0, |last| last + 1));
                let entries = turns.into_iter().map(|turn| entry(turn.role, turn.content));
                (in_json(&Value::List(entries.collect())), None)
            }
            Shaped::Rich { mut messages, tools, unlearned } => {
                messages.truncate(last_learned(&messages, &unlearned).map_or(0, |last| last + 1));
                (in_json(&Value::List(messages)), tools.as_ref().map(in_json))
            }
        })
    }
}

fn refused(fault: &Fault) -> PyErr {
    PyValueError::new_err((fault.message.clone(), fault.hint.clone()))
}
