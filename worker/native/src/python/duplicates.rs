//! `compare`: copies among the rows of a data set's parts.

use pyo3::prelude::*;

use super::errors;
use super::recipe::PyRecipe;
use super::reporter::Reporter;
use super::sources::source;
use crate::pipeline::{self, Compared, Place, Row};

/// Copies between the parts of a data set, and within them.
#[pyclass(module = "expert_worker._native", frozen)]
pub struct Duplicates {
    pub compared: Compared,
}

/// Part, part that it copies, exact and near copies, and pairs of places.
type Counted = (usize, usize, u64, u64, Vec<(Place, Place)>);

/// Compares all rows of the parts, each a list of sources as `ingest` takes them.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    recipe: &PyRecipe,
    parts: Vec<Vec<(String, Bound<'_, PyAny>)>>,
    threads: usize,
    progress: &Bound<'_, PyAny>,
) -> PyResult<Duplicates> {
    let sources = |part: Vec<_>| part.into_iter().map(source).collect::<PyResult<Vec<_>>>();
    let parts = parts.into_iter().map(sources).collect::<PyResult<Vec<_>>>()?;
    let mut reporter = Reporter::new(progress);
    let compared = py.detach(|| {
        let report = |bytes, total, rows| reporter.report((bytes, total, rows));
        pipeline::compare(&recipe.inner, parts, threads, report)
    });
    Ok(Duplicates { compared: reporter.outcome(compared)? })
}

#[pymethods]
impl Duplicates {
    /// Rows that were compared, of each part.
    fn rows(&self) -> Vec<u64> {
        self.compared.rows.clone()
    }

    /// Of a part: kinds of problems and how many rows could not be compared, as `Build.problems` has them.
    fn problems(&self, part: usize) -> (Vec<errors::Row>, u64) {
        let bad = &self.compared.bad[part];
        (errors::rows(bad), bad.total)
    }

    fn copies(&self) -> Vec<Counted> {
        let counted = self.compared.copies.iter();
        counted.map(|it| (it.part, it.of, it.exact, it.near, it.examples.clone())).collect()
    }

    /// Rows of the first part that copy an earlier one of it, with that one: of each the source's place among all, from
    /// 0, and the line.
    fn repeats(&self) -> Vec<(Row, Row)> {
        self.compared.repeats.iter().map(|(row, of)| (*row, *of)).collect()
    }

    /// Rows that copy one of an earlier part, with that one.
    fn across(&self) -> Vec<(Row, Row)> {
        self.compared.across.clone()
    }
}
