//! What a run will need of the device's memory, part by part, and the largest micro-batch that fits.
//!
//! The formulas count what the worker really keeps. `tests/worker/budget` holds them against measured peaks, and
//! `benches/gpu` against those of a GPU.

mod activations;
mod estimate;
mod shape;

pub use estimate::{Load, adapter_parameters, estimate, largest_micro_batch};
pub use shape::{Linear, Shape};
