//! The cache's Arrow files: how they are written, and how a mapped one is read.

mod columns;
mod message;
mod read;
mod write;

pub use columns::{COLUMNS, IGNORED, SHARED};
pub use read::{Batch, Mapped};
pub use write::{Totals, write_rows};
