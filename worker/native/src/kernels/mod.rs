//! Parts of a training step on a CPU, on the memory of torch's tensors.

pub mod attention;
mod dispatch;
pub mod elementwise;
pub mod head_loss;
mod math;
pub mod number;
mod parallel;
mod processor;
mod products_bf16;
mod tile;
