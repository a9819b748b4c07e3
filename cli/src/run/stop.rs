//! The wish that one run ends: a file in its folder, which the worker that trains or scores it looks for. A signal reaches all
//! runs of a worker, and those of this machine only.

use std::path::Path;

use fs_err as fs;

use super::names::STOP;
use crate::failure::Failure;
use crate::sys::durable;

pub fn ask_to_stop(run: &Path) -> Result<(), Failure> {
    let path = run.join(STOP);
    durable::write(&path, b"").map_err(|error| Failure::changing("write", &path, &error))
}

/// Whether the attempt that holds the run was asked to stop.
pub(super) fn is_asked(run: &Path) -> bool {
    run.join(STOP).exists()
}

/// It was for the attempt before.
pub(super) fn forget(run: &Path) -> Result<(), Failure> {
    let path = run.join(STOP);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::changing("remove", &path, &error))
        }
        _ => Ok(()),
    }
}
