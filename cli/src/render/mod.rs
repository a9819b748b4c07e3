//! What the user sees.

pub mod checks;
pub mod comparison;
mod console;
pub mod diagnostic;
mod line;
mod live;
pub mod number;
pub mod plan;
mod progress;
mod style;
pub mod summary;
mod table;
pub mod tokens;

pub use console::Console;
pub use live::Live;
pub use progress::Board;
pub use style::one_line;
pub use table::{Align, Table};
