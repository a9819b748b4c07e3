//! `tokenizers` itself, called back for tokenizers that this module does not encode.

use pyo3::prelude::*;

use crate::pipeline::OracleIds;

/// A Python callable from texts to `(ids, starts)` of each.
pub fn call(callable: &Py<PyAny>, texts: Vec<String>) -> Result<Vec<OracleIds>, String> {
    Python::attach(|py| {
        let encoded: Vec<(Vec<u32>, Vec<u32>)> = callable.call1(py, (texts,))?.extract(py)?;
        Ok(encoded.into_iter().map(|(ids, starts)| OracleIds { ids, starts }).collect())
    })
    .map_err(|error: PyErr| format!("the tokenizer failed: {error}"))
}
