//! Products of small matrices, formed in registers.
//!
//! Every element is one chain of fused multiply-adds in the order of the inner dimension, so the result is the same bytes with
//! any width of vectors.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

/// A register of numbers. Its methods need a processor that has such registers, with fused multiply-add.
pub trait Vector: Copy {
    const LANES: usize;

    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(number: f32) -> Self;
    /// self + left * right, rounded once.
    unsafe fn add_product(self, left: Self, right: Self) -> Self;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    use super::Vector;

    impl Vector for __m512 {
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self) }
        }

        #[inline(always)]
        unsafe fn splat(number: f32) -> Self {
            unsafe { _mm512_set1_ps(number) }
        }

        #[inline(always)]
        unsafe fn add_product(self, left: Self, right: Self) -> Self {
            unsafe { _mm512_fmadd_ps(left, right, self) }
        }
    }

    impl Vector for __m256 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm256_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self) }
        }

        #[inline(always)]
        unsafe fn splat(number: f32) -> Self {
            unsafe { _mm256_set1_ps(number) }
        }

        #[inline(always)]
        unsafe fn add_product(self, left: Self, right: Self) -> Self {
            unsafe { _mm256_fmadd_ps(left, right, self) }
        }
    }
}

/// Four numbers, for processors whose vectors every build may use (ARM).
#[derive(Clone, Copy)]
pub struct Four([f32; 4]);

impl Vector for Four {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn splat(number: f32) -> Self {
        Self([number; 4])
    }

    #[inline(always)]
    unsafe fn add_product(self, left: Self, right: Self) -> Self {
        Self(std::array::from_fn(|lane| left.0[lane].mul_add(right.0[lane], self.0[lane])))
    }
}

/// The left matrix of a product: neighbours in a column are `row` apart, neighbours in a row `step`.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    pub numbers: &'a [f32],
    pub row: usize,
    pub step: usize,
}

/// The right matrix, or the result: neighbours in a row are side by side, rows are `row` apart.
#[derive(Clone, Copy)]
pub struct Rows<T> {
    pub numbers: T,
    pub row: usize,
}

/// Columns of a tile.
pub const fn columns<V: Vector>() -> usize {
    2 * V::LANES
}

/// `left` [ROWS, depth] times `right` [depth, columns], added to what `out` has if `add`.
///
/// # Safety
/// The processor has registers of the kind `V`.
#[inline(always)]
pub unsafe fn product<V: Vector, const ROWS: usize>(
    left: Left<'_>,
    right: Rows<&[f32]>,
    depth: usize,
    out: Rows<&mut [f32]>,
    add: bool,
) {
    let Rows { numbers: out, row: out_row } = out;
    assert!(out.len() >= (ROWS - 1) * out_row + columns::<V>());
    if depth > 0 {
        assert!(left.numbers.len() > (ROWS - 1) * left.row + (depth - 1) * left.step);
        assert!(right.numbers.len() >= (depth - 1) * right.row + columns::<V>());
    }
    // SAFETY: all that is read and written is within the lengths that were just compared.
    unsafe {
        let mut sums = [[V::splat(0.0); 2]; ROWS];
        let to = out.as_mut_ptr();
        if add {
            for (place, [one, other]) in sums.iter_mut().enumerate() {
                *one = V::load(to.add(place * out_row));
                *other = V::load(to.add(place * out_row + V::LANES));
            }
        }
        let (mut numbers, mut row) = (left.numbers.as_ptr(), right.numbers.as_ptr());
        for _ in 0..depth {
            let (first, second) = (V::load(row), V::load(row.add(V::LANES)));
            for (place, [one, other]) in sums.iter_mut().enumerate() {
                let number = V::splat(*numbers.add(place * left.row));
                *one = one.add_product(number, first);
                *other = other.add_product(number, second);
            }
            numbers = numbers.wrapping_add(left.step);
            row = row.wrapping_add(right.row);
        }
        for (place, [one, other]) in sums.iter().enumerate() {
            one.store(to.add(place * out_row));
            other.store(to.add(place * out_row + V::LANES));
        }
    }
}
