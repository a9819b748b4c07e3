//! Kinds of adapters that peft cannot put on weights of 4 bits.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::Quantization;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let kind = *config.adapter_type;
    if !kind.traits().on_int4 && *effective.base.quantization == Quantization::Int4 {
        let message = format!("the adapter type `{kind}` cannot be trained on a base in int4");
        let problem = Problem::new(Code::LokrOnInt4, place(&config.adapter_type, effective), message);
        problems.push(problem.hint("use `lora` or `dora`, or a base in `bf16` or `int8`"));
    }
}
