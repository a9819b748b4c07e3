//! The Python worker: locating, starting, supervising and stopping it.

mod board;
mod ending;
mod feed;
mod fused;
mod helper;
mod inbox;
mod interrupt;
mod launch;
mod lines;
mod locate;
mod module;
mod outcome;
mod package;
mod process;
mod silence;
mod spawn;
mod stage;
mod supervise;
mod typed;
mod warm;

pub use board::Board;
pub use ending::Interrupt;
pub use fused::FusedGroup;
pub use helper::Helper;
pub use interrupt::{end_with_document, request as request_stop, requested as interrupted};
pub use locate::{Found, Search};
pub use module::{hand_over, run_module};
pub use outcome::result;
pub use package::{PACKAGE, find_package, torch_of};
pub use process::{allow_open_files, keep_on_at_file_limit};
pub use silence::Quiet;
pub use stage::{Home, Start, carry_out, carry_out_with};
pub use supervise::{Notice, Stopping, stop_grace};
pub use warm::Warm;
