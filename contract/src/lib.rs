//! What the `expert-cli` binary and its worker must agree on.

pub mod budget;
pub mod digest;
pub mod event;
pub mod exit;
pub mod plan;
