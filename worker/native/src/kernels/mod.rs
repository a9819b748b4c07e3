//! Parts of a training step on a CPU, on the memory of torch's tensors.

pub mod attention;
pub mod elementwise;
mod math;
mod processor;
mod products_bf16;
mod tile;
