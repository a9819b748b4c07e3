//! A JSON parser that keeps the position of every value and finds every mistake in one pass.

mod locate;
mod node;
mod number;
mod parser;
mod text;

pub use locate::pointer;
pub use node::{Member, Node, Object, Value, is_comment, number_json, push_pointer};
pub use parser::{MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES, Parsed, TOO_LARGE_HINT, parse};
