//! How a variant's measurement compares with the plan's own.

use expert_contract::plan::Dtype;
use serde::Serialize;

use super::measure::Measured;
use super::variants::Expected;
use crate::ui::number::percent;

/// Relative difference in fp32 from another order of summation.
const SAME: f64 = 2e-3;
/// In 16 bits, where each product is rounded.
const SAME_NARROW: f64 = 2e-2;
/// Between two number formats.
const NEAR: f64 = 5e-2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Losses {
    Equal,
    Differ,
    /// Different, as expected.
    Apart,
    /// Trained on other rows.
    NotComparable,
}

impl Losses {
    /// `apart` is their distance.
    pub fn words(self, apart: f64) -> String {
        match self {
            Self::Equal => "equal".to_owned(),
            Self::Differ => "DIFFER".to_owned(),
            Self::Apart => format!("{} apart", percent(apart)),
            Self::NotComparable => "other rows".to_owned(),
        }
    }
}

/// The first loss has the same weights and the next ones show the updates; later, rounding differences
/// grow.
const COMPARED: usize = 3;

/// The largest relative difference between the losses of the first steps; NaN counts as infinite.
pub fn apart(planned: &[f64], other: &[f64]) -> f64 {
    let difference = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs().max(1e-9);
    let worse = |worst: f64, one: f64| if one.is_nan() { f64::INFINITY } else { worst.max(one) };
    planned.iter().zip(other).take(COMPARED).map(difference).fold(0.0, worse)
}

pub fn losses(planned: &Measured, other: &Measured, expected: Expected, dtype: Dtype) -> Losses {
    let allowed = match expected {
        Expected::Other => return Losses::NotComparable,
        Expected::Rounded => return Losses::Apart,
        Expected::Near => NEAR,
        Expected::Same if dtype == Dtype::Fp32 => SAME,
        Expected::Same => SAME_NARROW,
    };
    let complete = !planned.losses.is_empty() && planned.losses.len() == other.losses.len();
    if complete && apart(&planned.losses, &other.losses) <= allowed { Losses::Equal } else { Losses::Differ }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn measured(losses: &[f64]) -> Measured {
        Measured {
            tokens_per_second: 1.0,
            steps_per_second: None,
            peak_bytes: 1,
            ready_seconds: 1.0,
            first_step_seconds: 1.0,
            losses: losses.to_vec(),
            fits: true,
            gpu_utilization: None,
            kernels: BTreeMap::new(),
            not_applied: BTreeMap::new(),
            details: serde_json::Value::Null,
        }
    }

    #[test]
    fn losses_are_held_to_what_the_change_allows() {
        let planned = measured(&[2.0, 1.0]);
        let told = |other: &[f64], expected, dtype| losses(&planned, &measured(other), expected, dtype);
        assert_eq!(told(&[2.001, 1.0], Expected::Same, Dtype::Fp32), Losses::Equal);
        assert_eq!(told(&[2.02, 1.0], Expected::Same, Dtype::Fp32), Losses::Differ);
        assert_eq!(told(&[2.02, 1.0], Expected::Same, Dtype::Bf16), Losses::Equal);
        assert_eq!(told(&[2.08, 1.0], Expected::Near, Dtype::Fp32), Losses::Equal);
        assert_eq!(told(&[9.0, 9.0], Expected::Other, Dtype::Fp32), Losses::NotComparable);
        let long = measured(&[2.0, 1.0, 1.0, 1.0]);
        let drifted = measured(&[2.0, 1.0, 1.0, 1.4]);
        assert_eq!(losses(&long, &drifted, Expected::Same, Dtype::Fp32), Losses::Equal);
        assert_eq!(told(&[2.4, 1.0], Expected::Rounded, Dtype::Bf16).words(0.2), "20.0% apart");
        assert_eq!(told(&[2.0], Expected::Same, Dtype::Fp32), Losses::Differ);
        assert_eq!(told(&[f64::NAN, 1.0], Expected::Same, Dtype::Fp32), Losses::Differ);
    }
}
