//! What a run will need of the device's memory, part by part, and the largest micro-batch that fits.
//!
//! The formulas count what the worker really keeps: the fast path saves each linear's input once and recomputes
//! the rest, the head and the loss go by chunks. `tests/worker/budget` holds them against measured peaks.

mod estimate;
mod shape;

pub use estimate::{Load, adapter_parameters, estimate, largest_micro_batch};
pub use shape::{Linear, Shape};
