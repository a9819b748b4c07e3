//! Sources of rows as Python gives them, and their rows in JSON.

use std::path::PathBuf;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::pipeline::Source;
use crate::rows::{Columns, Layout, Lines};

/// The path of a JSON file, or anything with `__arrow_c_stream__`.
pub fn source((name, place): (String, Bound<'_, PyAny>)) -> PyResult<Source> {
    if place.hasattr("__arrow_c_stream__")? {
        return Ok(Source::Batches { batches: Box::new(batches(&place)?), name });
    }
    Ok(Source::Lines { path: place.extract()?, name })
}

fn batches(stream: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = stream.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the capsule's name says what it points to; `from_raw` moves the stream out and marks it released.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    reader.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// How the rows of a JSON file follow one another: "lines", "values", or "object" where one object is the whole file.
#[pyfunction]
pub fn layout(py: Python<'_>, path: PathBuf) -> PyResult<&'static str> {
    let lines = py.detach(|| Lines::open(&path, ""))?;
    Ok(match lines.layout {
        Layout::Lines => "lines",
        Layout::Values(_) => "values",
        Layout::Object(_) => "object",
    })
}

/// A row in JSON, or the code and the words of what is wrong with it.
type FirstRow = (Option<String>, Option<(&'static str, String)>);

/// The first rows of a JSON file, as they stand there; in the place of one that cannot be read the reason.
#[pyfunction]
pub fn first_rows(py: Python<'_>, path: PathBuf, most: usize) -> PyResult<Vec<FirstRow>> {
    let rows = py.detach(|| Lines::open(&path, "").map(|lines| lines.first(most)))?;
    Ok(rows
        .into_iter()
        .map(|row| match row {
            Ok(row) => (Some(row), None),
            Err(fault) => (None, Some((fault.code, fault.message))),
        })
        .collect())
}

/// The rows of Arrow columns in JSON, as training reads them; in the place of one that cannot be read the reason.
#[pyfunction]
pub fn rows_of_columns(
    py: Python<'_>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<Vec<(Option<String>, Option<String>)>> {
    let batches = batches(stream)?;
    py.detach(|| {
        let mut rows = Vec::new();
        for batch in batches {
            let columns = Columns(batch.map_err(|error| PyValueError::new_err(error.to_string()))?);
            rows.extend((0..columns.len()).map(|at| match columns.json(at) {
                Ok(row) => (Some(row), None),
                Err(fault) => (None, Some(fault.message)),
            }));
        }
        Ok(rows)
    })
}
