//! The cache's columns.

/// The columns, as other trainers' packed sets name them.
pub const COLUMNS: [&str; 3] = ["input_ids", "labels", "seq_lengths"];
/// A label that the loss ignores.
pub const IGNORED: i32 = -100;
