//! Runs on disk: finding them, comparing them, and their report pages.

pub mod compare;
pub mod comparison;
mod list;
pub mod report;
mod served;

pub use list::{Run, State, below, is_run, look, of_expert, test_sets};
pub use served::{Adapter, DESCRIPTION, served};
