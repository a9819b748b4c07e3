//! What must hold for any bytes that the parsers are given. A target panics where it does not hold.
//!
//! The same checks run in two ways: `cargo test -p expert-fuzz` replays `tests/corpus`, and `make fuzz` lets libFuzzer
//! search for new inputs.

// A broken promise is reported by a panic: that is what libFuzzer and `cargo test` understand.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod arrow;
mod manifest;
pub mod meter;
mod rows;
mod scratch;
mod template;
mod tokenizer;

/// A target's name, its check, and the bytes of memory it may use: so many, and so many per byte of input.
pub struct Target {
    pub name: &'static str,
    check: fn(&[u8]),
    most: usize,
    most_per_byte: usize,
}

const MIB: usize = 1 << 20;

pub const TARGETS: [Target; 5] = [
    Target { name: "manifest", check: manifest::check, most: 16 * MIB, most_per_byte: 4096 },
    Target { name: "rows", check: rows::check, most: 16 * MIB, most_per_byte: 4096 },
    // One rendering may print 64 MiB.
    Target { name: "template", check: template::check, most: 512 * MIB, most_per_byte: 4096 },
    Target { name: "tokenizer", check: tokenizer::check, most: 64 * MIB, most_per_byte: 4096 },
    Target { name: "arrow", check: arrow::check, most: 16 * MIB, most_per_byte: 256 },
];

/// Runs one target on one input.
///
/// # Panics
/// Where a promise is broken, or more memory is used than the target may.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let limit = target.most + target.most_per_byte * input.len();
    let ((), used) = meter::measure(|| (target.check)(input));
    assert!(used <= limit, "{used} bytes of memory for {} bytes of input: {limit} at most", input.len());
}
