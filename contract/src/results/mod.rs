//! What a stage of the worker reports at its end, and the records that a run leaves in its folder. Here every field may
//! be absent: a record may be older than this program. A value of another type makes the whole document unreadable.
//!
//! The worker's models are generated from these types. It writes every field, except those that are skipped when they
//! are absent and those with `x-added-later`, which records of older versions lack.

mod base;
mod bench;
mod data;
mod expert;
mod export;
mod file;
mod generate;
mod run;
mod scores;
mod search;
mod training;

pub use base::*;
pub use bench::*;
pub use data::*;
pub use expert::*;
pub use export::*;
pub use file::*;
pub use generate::*;
pub use run::*;
pub use scores::*;
pub use search::*;
pub use training::*;
