//! Training: what a folder's earlier run allows, one expert from its plan to its lock, and a whole shelf.

pub mod changed;
mod decide;
mod engine;
pub mod first_use;
mod follow;
pub mod fresh;
pub mod fuse;
mod gain;
mod grouping;
mod options;
mod order;
mod ray;
mod refusal;
mod runner;
mod select;
pub mod shelf;
mod slots;
mod summary;
mod trainer;
mod unfinished;
mod work;

pub use decide::Asked;
pub use follow::follow;
pub use options::{RunOptions, ShelfOptions, has_test_set};
pub use order::{Timed, longest_first, timed};
pub use ray::run_task;
pub use runner::{Runner, Trained};
pub use slots::Slots;
pub use trainer::{Trainer, lock_score, refuse_unlike_lock, refuse_without_test_set};
pub use work::{Waiting, Watch, work};
