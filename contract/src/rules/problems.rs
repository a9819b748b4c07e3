//! What every rule reports to, and where its messages point.

use crate::diagnostic::Problem;
use crate::manifest::{Effective, Setting};
use crate::source::Span;

pub type Problems = Vec<Problem>;

/// Where a message about a setting points: the value if it was written, else its base.
pub fn place<T>(setting: &Setting<T>, effective: &Effective<'_>) -> Span {
    if setting.is_given() { setting.span } else { effective.base.name.span }
}
