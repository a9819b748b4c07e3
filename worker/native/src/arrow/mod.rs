//! The cache's Arrow files: how they are written, and how a mapped one is read.

mod message;
mod read;
mod write;

pub use read::{Batch, Mapped};
pub use write::{Totals, write_rows};

/// The columns, as other trainers' packed sets name them.
pub const COLUMNS: [&str; 3] = ["input_ids", "labels", "seq_lengths"];
/// A label that the loss ignores.
pub const IGNORED: i32 = -100;
