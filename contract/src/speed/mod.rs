//! How fast a GPU will train, where no run was measured on it: what a token costs, and how soon a card does that.
//!
//! The costs follow the worker's decoder, operation by operation; `tests/cuda` compares them with a trace of a real step.

mod forecast;
mod work;

pub use forecast::{Bound, Forecast, Limits};
pub use work::{Reading, Work};
