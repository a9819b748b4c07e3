//! The Python worker: found, started, heard, stopped.

mod locate;

pub use locate::{Found, Search};
