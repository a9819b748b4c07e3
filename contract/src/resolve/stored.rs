//! `quantization` against the form in which the base is stored.

use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

use super::base::FoundBase;

/// Weights that were saved in 4 or 8 bits have no other form.
pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    let stored = base.stored.filter(|stored| *stored != *expert.base.quantization)?;
    let message = format!("{} is stored in {stored}, and cannot be held in another form", base.logical);
    // Also where it is not set.
    let setting = &expert.base.quantization;
    let span = if setting.is_given() { setting.span } else { expert.base.name.span };
    let hint = format!("set `quantization` to {stored}, or choose a base that is stored unquantized");
    Some(Problem::new(Code::StoredQuantization, span, message).hint(hint))
}
