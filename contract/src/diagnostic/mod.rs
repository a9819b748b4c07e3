//! A problem of an input: what, where, and what to do about it.

mod code;
mod problem;
mod render;
mod suggest;

pub use code::{Code, Severity};
pub use problem::{Diagnostic, Problem};
pub use render::{HIDDEN, JOINERS, Style, is_visible, render};
pub use suggest::{closest, did_you_mean, listed, one_of};
