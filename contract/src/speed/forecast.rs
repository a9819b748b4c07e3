//! From the work of a token to tokens per second on a card.

use serde::Serialize;

use super::work::Work;

/// What a card can do at most, as its maker says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// 10^12 operations per second of dense 16-bit products with sums in 32 bits.
    pub tera_flops: f64,
    /// 10^9 bytes per second.
    pub gigabytes: f64,
    /// What large products reach of `tera_flops`: cards of data centres are held back by their power.
    pub reached: f64,
}

/// What takes the most time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Products,
    Memory,
    Launches,
}

impl Bound {
    pub fn words(self) -> &'static str {
        match self {
            Self::Products => "matrix products",
            Self::Memory => "memory traffic",
            Self::Launches => "launches of small kernels",
        }
    }
}

/// Tokens per second, as a range: the slow and the fast end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    pub slow: f64,
    pub fast: f64,
    /// Before any correction.
    pub expected: f64,
    pub bound: Bound,
    /// Tokens per second of a program that spends no time but on products and attention.
    pub floor: f64,
    /// Measured over expected speed of an earlier run on this card, where there is one.
    pub corrected_by: Option<f64>,
    pub work: Work,
}

/// Shares of the limits that kernels reach. Large products: 155 of 165 TFLOP/s on an RTX 4090, 620 of 989 on an H100.
const BANDWIDTH: f64 = 0.91;
/// Products with one side as narrow as a rank.
const NARROW: f64 = 0.7;
const ATTENTION: f64 = 0.5;
/// How far a card may be from what is expected. The one that was measured, an H200 with 2 rows of 2,048 tokens and a base of 0.6B, reached
/// half of it.
const FAST: f64 = 1.25;
const SLOW: f64 = 0.45;
/// The same, where a run on the card has corrected it.
const CORRECTED_FAST: f64 = 1.1;
const CORRECTED_SLOW: f64 = 0.9;
/// Seconds in which Python, torch and the driver launch a kernel: a fast desktop processor, a slow server's, and between.
const LAUNCH_FAST: f64 = 12e-6;
const LAUNCH: f64 = 20e-6;
const LAUNCH_SLOW: f64 = 32e-6;

/// Python takes as long as so many launches to read a batch, fill a graph's inputs and walk the parameters for the optimizer.
const AROUND_REPLAY: f64 = 300.0;

impl Forecast {
    /// `cards` train together; each has a whole copy of the base.
    pub fn of(work: Work, limits: Limits, cards: u32, corrected_by: Option<f64>) -> Self {
        let rate = limits.tera_flops * 1e12 * limits.reached;
        let bandwidth = limits.gigabytes * 1e9 * BANDWIDTH;
        let products = (work.product_flops / rate).max(work.product_bytes / bandwidth);
        let attention = work.attention_flops / (rate * ATTENTION);
        let moved = (work.elementwise_bytes + work.dequantized_bytes / work.tokens) / bandwidth
            + work.low_rank_bytes / (bandwidth * NARROW);
        let device = products + attention + moved;
        let around = if work.captured { AROUND_REPLAY } else { 0.0 };
        let host = |launch: f64| (work.launches + around) * launch / work.tokens;
        let speed = |device: f64, host: f64| f64::from(cards) / device.max(host);
        let expected = speed(device, host(LAUNCH));
        let (slow, fast) = match corrected_by {
            Some(factor) => (expected * factor * CORRECTED_SLOW, expected * factor * CORRECTED_FAST),
            None => (speed(device / SLOW, host(LAUNCH_SLOW)), speed(device / FAST, host(LAUNCH_FAST))),
        };
        let bound = if host(LAUNCH) > device {
            Bound::Launches
        } else if moved > products + attention {
            Bound::Memory
        } else {
            Bound::Products
        };
        let floor = f64::from(cards) / (products + attention);
        Self { slow, fast, expected, bound, floor, corrected_by, work }
    }
}
