//! Runs on disk: finding them, comparing them, and their report pages.

pub mod answers;
pub mod compare;
pub mod comparison;
pub mod gguf_cache;
mod list;
pub mod report;
mod served;

pub use list::{Choice, Run, State, below, choose, is_run, look, of_expert, on_base, test_sets};
pub use served::{Adapter, Served, served};
