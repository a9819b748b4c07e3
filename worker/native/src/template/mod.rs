//! Chat templates: the interpreter, the built-in texts, and the plan that a template becomes for rows alike.

mod answers;
mod bounds;
mod builtin;
pub mod calls;
mod engine;
mod fast;
mod guard;
mod json;
mod render;

pub use builtin::{BUILTIN, builtin};
pub use engine::{Engine, How, SpecialTexts, Text};
pub use guard::{decides, reads};
pub use render::{Rendered, Renderer};
