//! One file per expert: packages are made, signed, verified and installed here. Nothing in a package is ever run.

mod archive;
mod build;
mod check;
mod contents;
mod document;
mod elsewhere;
pub mod keys;
mod layout;
mod registry;
mod run;
mod safetensors;
mod verify;

pub use build::build;
pub use layout::SIGNATURE;
pub use registry::{Outcome, install, installed, usual};
pub use run::chosen;
pub use verify::report;
