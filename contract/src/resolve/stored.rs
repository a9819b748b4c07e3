//! `quantization` against the form in which the base is stored.

use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

use super::base::FoundBase;

/// Weights that were saved in 4 or 8 bits have no other form. Those in fp8, mxfp4, gptq and others are computed with
/// differently on a GPU and on a CPU, or not loaded at all.
pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    if let Some(form) = &base.foreign_form {
        let message = foreign_form(&base.logical, form);
        return Some(
            Problem::new(Code::StoredQuantization, expert.base.name.span, message).hint(UNQUANTIZED),
        );
    }
    let stored = base.stored.filter(|stored| *stored != *expert.base.quantization)?;
    let message = format!("{} is stored in {stored}, and cannot be held in another form", base.logical);
    // Also where it is not set.
    let setting = &expert.base.quantization;
    let span = if setting.is_given() { setting.span } else { expert.base.name.span };
    let hint = format!("set `quantization` to {stored}, or choose a base that is stored unquantized");
    Some(Problem::new(Code::StoredQuantization, span, message).hint(hint))
}

pub fn foreign_form(base: &str, form: &str) -> String {
    format!("{base} is stored in the form `{form}`, which cannot be trained or evaluated here")
}

pub const UNQUANTIZED: &str = "choose the version of the base that is stored unquantized, and set `quantization` to int4 or int8 where memory is short";
