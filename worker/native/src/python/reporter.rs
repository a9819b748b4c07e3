//! How far the work is, for Python, which can stop it.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::problem::Outcome;

const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Calls Python a few times a second at most; its `False` or its exception stops the work.
pub struct Reporter {
    callable: Py<PyAny>,
    last: Option<Instant>,
    raised: Option<PyErr>,
}

impl Reporter {
    pub fn new(callable: &Bound<'_, PyAny>) -> Self {
        Self { callable: callable.clone().unbind(), last: None, raised: None }
    }

    pub fn report(&mut self, (done, total, rows): (u64, u64, u64)) -> bool {
        if self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return true;
        }
        self.last = Some(Instant::now());
        let answer = Python::attach(|py| self.callable.call1(py, (done, total, rows))?.extract::<bool>(py));
        answer.unwrap_or_else(|error| {
            self.raised = Some(error);
            false
        })
    }

    pub fn outcome<T>(self, outcome: Outcome<T>) -> PyResult<T> {
        self.raised.map_or_else(|| outcome.map_err(PyErr::from), Err)
    }
}
