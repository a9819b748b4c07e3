//! Failures as Python exceptions: `OSError` for the disk, `NativeError(code, message, problems, total)` for the rest.

use std::io::ErrorKind;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;

use crate::problem::{BadRows, Failure};

create_exception!(_native, NativeError, PyException);

/// A kind of problem as `(code, message, hint, rows, places)`; a place is a file and a line.
pub type Row = (&'static str, String, Option<String>, u64, Vec<(String, u64)>);

pub fn rows(bad: &BadRows) -> Vec<Row> {
    bad.problems
        .iter()
        .map(|it| (it.code, it.message.clone(), it.hint.clone(), it.total, it.places.clone()))
        .collect()
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        let code = match failure {
            Failure::BadRows(bad) => {
                return NativeError::new_err(("bad_rows", message, rows(&bad), bad.total));
            }
            Failure::Io(error) => return PyOSError::new_err((errno(error.kind()), message)),
            Failure::Arrow(_) => "arrow",
            Failure::Unsupported(_) => "unsupported",
            Failure::TemplateDrift => "template_drift",
            Failure::TemplateEndless(_) => "template_endless",
            Failure::Interrupted => "interrupted",
        };
        NativeError::new_err((code, message, Vec::<Row>::new(), 0u64))
    }
}

/// The error's number if Python must distinguish it from others.
fn errno(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::PermissionDenied => 13,
        ErrorKind::FileTooLarge => 27,
        ErrorKind::StorageFull => 28,
        ErrorKind::ReadOnlyFilesystem => 30,
        ErrorKind::QuotaExceeded => 122,
        _ => 5,
    }
}
