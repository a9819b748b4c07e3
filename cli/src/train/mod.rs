//! Training: what a folder's earlier run allows, and one expert's way from its plan to its lock.

mod decide;
mod runner;
mod trainer;

pub use decide::Asked;
pub use runner::{Runner, Trained};
pub use trainer::{Trainer, has_test_set};
