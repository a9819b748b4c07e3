//! peft's LoKr reads the shape of the weight that it adapts, which a 4-bit weight does not have.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::{AdapterKind, Quantization};

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    if *config.adapter_type == AdapterKind::Lokr && *effective.base.quantization == Quantization::Int4 {
        let message = "a `lokr` adapter cannot be trained on a base in int4";
        let problem = Problem::new(Code::LokrOnInt4, place(&config.adapter_type, effective), message);
        problems.push(problem.hint("use `lora` or `dora`, or a base in `bf16` or `int8`"));
    }
}
