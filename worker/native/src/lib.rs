//! The worker's hot path: rows of a data set -> rendered dialogue -> token ids and loss mask -> packed Arrow rows.
//!
//! The core is plain Rust. The Python layer in `python/` exists only where pyo3 is compiled in, so that
//! `cargo test -p expert-native` needs no Python.

pub mod arrow;
pub mod duplicates;
pub mod encoder;
pub mod kernels;
pub mod lengths;
pub mod ordered;
pub mod pack;
pub mod pipeline;
mod positioned;
pub mod prefixes;
pub mod problem;
#[cfg(feature = "pyo3")]
mod python;
pub mod rows;
pub mod spill;
pub mod template;
