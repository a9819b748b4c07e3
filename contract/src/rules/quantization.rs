//! int4 is for bases that do not fit otherwise.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::Quantization;

const SMALL: f64 = 3.0e9;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let base = effective.base;
    let Some(parameters) = parameters_in_name(&base.name) else { return };
    if *base.quantization == Quantization::Int4 && parameters < SMALL {
        let message =
            "int4 saves little on a base of this size and trains slower than bf16; it is kept as written";
        let problem = Problem::new(Code::SmallInt4, base.quantization.span, message);
        problems
            .push(problem.hint("use `bf16` where the base fits the device; `plan` shows whether it does"));
    }
}

/// `Qwen3-0.6B` and `SmolLM2-135M` say how large they are.
fn parameters_in_name(name: &str) -> Option<f64> {
    let last = name.rsplit(['/', '\\']).next()?;
    last.split(['-', '_']).find_map(|part| {
        let unit = match part.bytes().last()? {
            b'B' | b'b' => 1.0e9,
            b'M' | b'm' => 1.0e6,
            _ => return None,
        };
        part[..part.len() - 1]
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(|number| number * unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_names() {
        assert_eq!(parameters_in_name("F:/models/Qwen3-0.6B"), Some(0.6e9));
        assert_eq!(parameters_in_name("HuggingFaceTB/SmolLM2-135M-Instruct"), Some(135.0e6));
        assert_eq!(parameters_in_name("meta-llama/Llama-3.1-8B"), Some(8.0e9));
        assert_eq!(parameters_in_name("models/mine"), None);
        assert_eq!(parameters_in_name("é"), None);
    }
}
