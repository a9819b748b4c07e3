//! Estimates the device memory of a run, part by part, and the largest micro-batch that fits.
//!
//! The formulas count the tensors that the worker keeps. `tests/worker/budget` compares them with measured peaks,
//! and `benches/gpu` with those of a GPU.

mod activations;
mod estimate;
mod load;
mod shape;

pub use estimate::{SMALL_PIECE, adapter_parameters, estimate, largest_micro_batch, piece_tokens, weights};
pub use load::Load;
pub use shape::{Linear, Shape};
