//! `ingest` and `Build`: from sources to the splits of a cache.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::duplicates::Duplicates;
use super::errors;
use super::recipe::{PyRecipe, with_coder};
use super::reporter::Reporter;
use super::sources::source;
use crate::lengths;
use crate::pack;
use crate::pipeline::{self, Ingested, Ledger, Packing, Selection, select, write_split};
use crate::spill::Document;

/// Rows that have been tokenized into a spill file, waiting to be packed.
#[pyclass(module = "expert_worker._native")]
pub struct Build {
    ingested: Ingested,
    train: Vec<Document>,
    held_out: Vec<Document>,
}

/// Tokenizes every source into the file `spill`. A source is `(name, path)` of a JSONL file, or
/// `(name, stream)` with anything that has `__arrow_c_stream__`. `without` leaves out the near copies within these sources.
#[pyfunction]
pub fn ingest(
    py: Python<'_>,
    recipe: &PyRecipe,
    coder: &Bound<'_, PyAny>,
    sources: Vec<(String, Bound<'_, PyAny>)>,
    without: Option<&Duplicates>,
    spill: PathBuf,
    threads: usize,
    progress: &Bound<'_, PyAny>,
) -> PyResult<Build> {
    let sources = sources.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let mut reporter = Reporter::new(progress);
    let ingested = with_coder(coder, |coder| {
        py.detach(|| {
            let near_copies = without.map(|found| &found.compared.repeats);
            let report = |bytes, total, rows| reporter.report((bytes, total, rows));
            pipeline::ingest(&recipe.inner, coder, sources, near_copies, &spill, threads, report)
        })
    })?;
    let ingested = reporter.outcome(ingested)?;
    Ok(Build { ingested, train: Vec::new(), held_out: Vec::new() })
}

#[pymethods]
impl Build {
    /// Kinds of problems as `(code, message, hint, rows, places)`, and how many rows there were.
    fn problems(&self) -> (Vec<errors::Row>, u64) {
        (errors::rows(&self.ingested.bad), self.ingested.bad.total)
    }

    /// The first row whose trailing messages have no answer, as `(source, line)`.
    fn first_unanswered(&self) -> Option<(&str, u64)> {
        self.ingested.ledgers.iter().find_map(|ledger| Some((ledger.name.as_str(), ledger.first_unanswered?)))
    }

    /// The first row whose answers hold thoughts that the chat template leaves out, as `(source, line)`.
    fn first_thoughts_left_out(&self) -> Option<(&str, u64)> {
        let mut ledgers = self.ingested.ledgers.iter();
        ledgers.find_map(|ledger| Some((ledger.name.as_str(), ledger.first_thoughts_left_out?)))
    }

    fn ledgers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.ingested.ledgers.iter().map(|ledger| ledger_dict(py, ledger)).collect()
    }

    /// Decides which rows are learned from and which held out; to be called once, before `write`.
    #[pyo3(signature = (*, seed, shares, held_out, repeat))]
    fn divide(
        &mut self,
        py: Python<'_>,
        seed: u64,
        shares: Vec<(usize, f64)>,
        held_out: Option<f64>,
        repeat: bool,
    ) -> (usize, usize) {
        let divided = py.detach(|| select(&mut self.ingested, &Selection { seed, shares, held_out, repeat }));
        self.train = divided.train;
        self.held_out = divided.held_out;
        (self.train.len(), self.held_out.len())
    }

    /// Writes one part as an Arrow file; `capacity` packs, without it each document has a separate row. `share` puts
    /// the beginnings that packed documents have in common into a row once.
    #[pyo3(signature = (path, *, held_out, capacity, share, threads, progress))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        held_out: bool,
        capacity: Option<u32>,
        share: bool,
        threads: usize,
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let documents = self.part(held_out);
        let packing = capacity.map(|capacity| Packing { capacity, share });
        let mut reporter = Reporter::new(progress);
        let totals = py.detach(|| {
            write_split(&path, &self.ingested, documents, packing, threads, |rows| {
                reporter.report((rows, 0, rows))
            })
        });
        let totals = reporter.outcome(totals)?;
        let out = PyDict::new(py);
        out.set_item("rows", totals.rows)?;
        out.set_item("documents", totals.documents)?;
        out.set_item("tokens", totals.tokens)?;
        out.set_item("shared", totals.shared)?;
        out.set_item("supervised", totals.supervised)?;
        Ok(out)
    }

    /// Documents by length: the longest of each bin, and how many there are.
    fn length_histogram(&self, held_out: bool) -> Vec<(u32, u64)> {
        lengths::histogram(self.part(held_out).iter().map(|document| document.length))
    }

    /// Lengths at the given shares of the documents, shortest first.
    fn length_quantiles(&self, held_out: bool, shares: Vec<f64>) -> Vec<u32> {
        let mut lengths: Vec<u32> = self.part(held_out).iter().map(|document| document.length).collect();
        lengths.sort_unstable();
        let last = lengths.len().saturating_sub(1);
        shares
            .iter()
            .filter_map(|share| lengths.get((last as f64 * share).round() as usize).copied())
            .collect()
    }
}

impl Build {
    fn part(&self, held_out: bool) -> &[Document] {
        if held_out { &self.held_out } else { &self.train }
    }
}

fn ledger_dict<'py>(py: Python<'py>, ledger: &Ledger) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", &ledger.name)?;
    for (name, count) in [
        ("read", ledger.read),
        ("used", ledger.used),
        ("bad", ledger.bad),
        ("truncated", ledger.truncated),
        ("split", ledger.split),
        ("dropped_pieces", ledger.dropped_pieces),
        ("dropped_tokens", ledger.dropped_tokens),
        ("dropped_overlong", ledger.dropped_overlong),
        ("dropped_unsupervised", ledger.dropped_unsupervised),
        ("dropped_duplicate", ledger.dropped_duplicate),
        ("dropped_near", ledger.dropped_near),
        ("dropped_short", ledger.dropped_short),
        ("dropped_long", ledger.dropped_long),
        ("dropped_mixture", ledger.dropped_mixture),
        ("repeated", ledger.repeated),
        ("unanswered", ledger.unanswered),
        ("thoughts_left_out", ledger.thoughts_left_out),
        ("parsed_dialogues", ledger.parsed_dialogues),
        ("interpreted", ledger.interpreted),
        ("eos_added", ledger.eos_added),
        ("tokens", ledger.tokens),
        ("supervised", ledger.supervised),
        ("bytes", ledger.bytes),
    ] {
        out.set_item(name, count)?;
    }
    out.set_item("unused_fields", ledger.unused.iter().cloned().collect::<BTreeMap<_, _>>())?;
    Ok(out)
}

/// Rows of documents of these lengths packed into rows of `capacity`: each row's documents in order.
#[pyfunction]
pub fn best_fit(py: Python<'_>, lengths: Vec<u32>, capacity: u32) -> PyResult<Vec<Vec<u32>>> {
    if lengths.iter().any(|length| *length > capacity) {
        return Err(PyValueError::new_err("a length is above the capacity"));
    }
    let packed = py.detach(|| pack::best_fit(&lengths, capacity));
    Ok((0..packed.rows()).map(|row| packed.row(row).to_vec()).collect())
}

/// Seconds that packing takes, for the benchmark, and the rows that it makes.
#[pyfunction]
pub fn time_best_fit(py: Python<'_>, lengths: Vec<u32>, capacity: u32) -> PyResult<(f64, usize)> {
    if lengths.iter().any(|length| *length > capacity) {
        return Err(PyValueError::new_err("a length is above the capacity"));
    }
    Ok(py.detach(|| {
        let started = Instant::now();
        let rows = pack::best_fit(&lengths, capacity).rows();
        (started.elapsed().as_secs_f64(), rows)
    }))
}
