//! Training: what a folder's earlier run allows, and one expert's way from its plan to its lock.

mod decide;
mod trainer;

pub use trainer::{Trained, Trainer, has_test_set};
