//! The cache's columns.

/// The columns, as other trainers' packed sets name them.
pub const COLUMNS: [&str; 3] = ["input_ids", "labels", "seq_lengths"];
/// Of each document, how many of its first tokens are those of the last document before it that shares nothing. A file
/// without this column shares nothing.
pub const SHARED: &str = "shared_lengths";
/// A label that the loss ignores.
pub const IGNORED: i32 = -100;
