//! The number formats of the kernels' memory; every kernel computes in fp32.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

use super::math::{exp, exp_fused};
use super::processor::{Instructions, instructions};

pub trait Number: Copy + Send + Sync {
    fn wide(self) -> f32;

    /// The nearest number of this format, of two the even one; NaN stays NaN.
    fn nearest(number: f32) -> Self;

    /// e^x as the kernels of this format compute it.
    fn exp(x: f32) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[inline(always)]
    fn nearest(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn exp(x: f32) -> f32 {
        exp(x)
    }
}

/// Whether the kernels are fast in bf16: those that compute e^x would call a function for each fused multiply-add.
pub fn bf16_runs_here() -> bool {
    cfg!(not(target_arch = "x86_64")) || instructions() > Instructions::Plain
}

/// The upper half of an fp32 number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(u16);

impl Bf16 {
    pub const ZERO: Self = Self(0);

    /// Two numbers as the processor's instructions for products take them, the first in the lower half.
    #[inline(always)]
    pub fn pair(one: Self, other: Self) -> u32 {
        u32::from(one.0) | u32::from(other.0) << 16
    }
}

impl Number for Bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn nearest(number: f32) -> Self {
        let bits = number.to_bits();
        let nearest = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
        // Rounded, a NaN could become infinite; with the upper bit of its fraction it is one in the upper half too.
        let kept = if number.is_nan() { bits | 0x40_0000 } else { nearest };
        Self((kept >> 16) as u16)
    }

    /// By fused multiply-adds: `bf16_runs_here` says whether they are instructions.
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        exp_fused(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bf16_number_keeps_its_bits() {
        for bits in 0..=u16::MAX {
            let number = Bf16(bits);
            let back = Bf16::nearest(number.wide());
            assert!(back == number || (number.wide().is_nan() && back.wide().is_nan()), "{bits:x}");
        }
    }

    #[test]
    fn a_number_becomes_its_nearest_and_of_two_the_even_one() {
        for (number, nearest) in [
            (0x3F80_7FFF, 0x3F80),
            (0x3F80_8000, 0x3F80),
            (0x3F80_8001, 0x3F81),
            (0x3F81_8000, 0x3F82),
            (0xBF81_8000, 0xBF82),
            (0x0000_8001, 0x0001),
            (0x7F7F_FFFF, 0x7F80),
            (0xFF80_0000, 0xFF80),
        ] {
            assert_eq!(Bf16::nearest(f32::from_bits(number)), Bf16(nearest), "{number:x}");
        }
        for bits in [0x7F80_0001, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_FFFF] {
            assert!(Bf16::nearest(f32::from_bits(bits)).wide().is_nan(), "{bits:x}");
        }
    }
}
