//! Parts of a training step in fp32 on a CPU, on the memory of torch's tensors.

pub mod attention;
pub mod elementwise;
mod math;
mod processor;
mod tile;
