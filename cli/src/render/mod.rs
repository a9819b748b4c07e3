//! What the user sees.

mod console;

pub use console::Console;
