//! `Tokenizer`: a compiled byte-level BPE tokenizer.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::encoder::{self, Encoder, Memory, SUPERVISED, Span, Tokenizer};

#[pyclass(name = "Tokenizer", module = "expert_worker._native", frozen)]
pub struct PyTokenizer {
    pub inner: Arc<Tokenizer>,
}

#[pymethods]
impl PyTokenizer {
    /// Compiles tokenizer.json; raises `ValueError` saying what keeps it from the fast path.
    #[staticmethod]
    fn compile<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let compiled = py.detach(|| encoder::compile(json)).map_err(PyValueError::new_err)?;
        Ok(PyBytes::new(py, &compiled))
    }

    #[new]
    fn new(py: Python<'_>, compiled: &[u8]) -> PyResult<Self> {
        opened(py.detach(|| Tokenizer::open(Memory::hold(compiled))))
    }

    /// Maps a file that holds a compiled tokenizer.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        opened(py.detach(|| Memory::map(&path).map(Tokenizer::open))?)
    }

    /// Ids of each text, without the tokens that a post-processor would add.
    fn encode(&self, py: Python<'_>, texts: Vec<String>) -> Vec<Vec<u32>> {
        py.detach(|| {
            let mut encoder = Encoder::new(&self.inner);
            texts.iter().map(|text| encode_one(&mut encoder, text, &[])).collect()
        })
    }

    /// Ids of a text, cut where a byte span begins, and for each whether it begins inside a span.
    fn encode_masked(&self, py: Python<'_>, text: &str, spans: Vec<(usize, usize)>) -> (Vec<u32>, Vec<bool>) {
        let spans: Vec<Span> = spans.into_iter().map(|(start, end)| Span { start, end }).collect();
        let ids = py.detach(|| encode_one(&mut Encoder::new(&self.inner), text, &spans));
        let mask = ids.iter().map(|id| id & SUPERVISED != 0).collect();
        (ids.into_iter().map(|id| id & !SUPERVISED).collect(), mask)
    }

    /// Ids that the post-processor puts before and after a bare text.
    fn frame(&self) -> (Vec<u32>, Vec<u32>) {
        let (prefix, suffix) = self.inner.frame();
        (prefix.to_vec(), suffix.to_vec())
    }

    /// The bytes that an id stands for.
    fn token_bytes<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        self.inner.bytes_of(id).map(|bytes| PyBytes::new(py, bytes))
    }
}

fn opened(tokenizer: Option<Tokenizer>) -> PyResult<PyTokenizer> {
    tokenizer
        .map(|tokenizer| PyTokenizer { inner: Arc::new(tokenizer) })
        .ok_or_else(|| PyValueError::new_err("not a compiled tokenizer of this version"))
}

fn encode_one(encoder: &mut Encoder<'_>, text: &str, spans: &[Span]) -> Vec<u32> {
    let mut ids = Vec::new();
    encoder.encode(text, spans, &mut ids);
    ids
}
