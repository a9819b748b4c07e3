//! What the user sees. It knows the contract, and nothing of the commands.

mod console;
mod diagnostic;
pub mod line;
mod live;
pub mod number;
pub mod style;
pub mod summary;
mod table;
pub mod tokens;
pub mod wrap;

pub use console::{Console, last_document, unwritten};
pub use live::{Live, redraws};
pub use style::one_line;
pub use table::{Align, Table};
