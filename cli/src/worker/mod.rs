//! The Python worker: locating, starting, supervising and stopping it.

mod feed;
mod inbox;
mod interrupt;
mod lines;
mod locate;
mod module;
mod outcome;
mod process;
mod silence;
mod spawn;
mod supervise;
mod warm;

pub use interrupt::{Interrupt, requested as interrupted};
pub use locate::Search;
pub use module::{hand_over, run_module};
pub use outcome::result;
pub use process::keep_on_at_file_limit;
pub use spawn::{Launch, Stdin};
pub use supervise::{Limits, Notice, supervise};
pub use warm::Warm;
