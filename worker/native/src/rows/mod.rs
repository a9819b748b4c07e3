//! Rows of a data set: where they stand in a file, what they hold, which dialogue they are.

mod columns;
mod dialogue;
mod fields;
mod layout;
mod lines;
mod messages;
mod row;
mod shape;
mod value;

pub use columns::{BROKEN_COLUMN, Columns, JSON_COLUMN, row_of_json};
pub use fields::short;
pub use layout::Layout;
pub use lines::{Line, Lines, MAX_ROW_BYTES, not_json};
pub use messages::{content, entry, last_learned, role_of, said, thoughts};
pub use row::{Row, Shaped, Shaper, TrainOn, Turn};
pub use value::{Object, Value};
