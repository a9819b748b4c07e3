//! `MappedRows`: the memory-mapped rows of a cache.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::arrow::{Batch, Mapped};

#[pyclass(module = "expert_worker._native", frozen)]
pub struct MappedRows {
    inner: Mapped,
}

#[pymethods]
impl MappedRows {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self { inner: Mapped::open(&path)? })
    }

    fn __len__(&self) -> usize {
        self.inner.len() as usize
    }

    /// Byte ranges in the file of the row's `input_ids`, `labels` and `seq_lengths`.
    fn place(&self, row: u64) -> PyResult<[(usize, usize); 3]> {
        self.inner.row(row).ok_or_else(|| missing(row))
    }

    /// Tokens, shared ones counted once, and documents of the rows together.
    fn measure(&self, rows: Vec<u64>) -> PyResult<(usize, usize)> {
        self.inner.measure(&rows).ok_or_else(|| PyIndexError::new_err("a row is beyond the last"))
    }

    /// Tokens of each row, shared ones counted once.
    fn lengths(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| {
            let length = |row| self.inner.tokens(row).unwrap_or_default() as u32;
            (0..self.inner.len()).map(length).collect()
        })
    }

    /// Fills int32 arrays of the sizes that `measure` gives (`boundaries` one more than the documents).
    fn fill(
        &self,
        py: Python<'_>,
        rows: Vec<u64>,
        ids: PyBuffer<i32>,
        labels: PyBuffer<i32>,
        positions: PyBuffer<i32>,
        boundaries: PyBuffer<i32>,
    ) -> PyResult<()> {
        let mut batch = Batch {
            ids: writable(py, &ids)?,
            labels: writable(py, &labels)?,
            positions: writable(py, &positions)?,
            boundaries: writable(py, &boundaries)?,
        };
        py.detach(|| self.inner.fill(&rows, &mut batch))
            .ok_or_else(|| PyValueError::new_err("the arrays are too short"))
    }
}

fn missing(row: u64) -> PyErr {
    PyIndexError::new_err(format!("there is no row {row}"))
}

fn writable<'a>(py: Python<'a>, buffer: &'a PyBuffer<i32>) -> PyResult<&'a mut [i32]> {
    let usable = !buffer.readonly() && buffer.is_c_contiguous();
    // SAFETY: the array was made for this call and nobody else reads or writes it before the call returns.
    let numbers =
        unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<i32>(), buffer.item_count()) };
    let _ = py;
    if usable { Ok(numbers) } else { Err(PyValueError::new_err("a writable contiguous array is needed")) }
}
