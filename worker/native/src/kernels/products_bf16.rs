//! Products of small bf16 matrices with sums in fp32, by the processor's instructions for them: AMX tiles, or dot products of
//! pairs (AVX512-BF16).
//!
//! The right matrix is packed as both read it: panels of 16 columns, of which a row holds two neighbouring rows of the matrix as
//! pairs. All sizes are multiples of `BLOCK`.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]
// Other processors have no such instructions, and compute without this.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use super::number::Bf16;

/// Rows and columns of a block of the result, and the step of inner dimensions.
pub const BLOCK: usize = 32;
/// Columns of a panel.
pub const PANEL: usize = 16;

/// The left matrix: bf16, rows are `row` apart.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    pub numbers: &'a [Bf16],
    pub row: usize,
}

/// The right matrix: pairs in panels, `panel` apart.
#[derive(Clone, Copy)]
pub struct Panels<'a> {
    pub pairs: &'a [u32],
    pub panel: usize,
}

/// The result: rows are `row` apart.
pub struct Sums<'a> {
    pub numbers: &'a mut [f32],
    pub row: usize,
}

/// `rows`, `columns` and `depth` of a product.
#[derive(Clone, Copy)]
pub struct Size {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}

/// Where a block begins, and how far apart its rows or panels are.
#[derive(Clone, Copy)]
pub struct At<P> {
    pub start: P,
    pub row: usize,
}

/// The instructions of one kind.
pub trait Engine {
    /// Before the first product of a thread's task, and after the last.
    unsafe fn begin() {}
    unsafe fn end() {}

    /// One block of the result: `steps` times `BLOCK` of the inner dimension, from `left` and two panels.
    unsafe fn block(left: At<*const Bf16>, right: At<*const u32>, steps: usize, out: At<*mut f32>, add: bool);
}

/// `left` times `right`, added to what `out` has if `add`.
///
/// # Safety
/// The processor has the engine's instructions, and it has begun.
#[inline(always)]
pub unsafe fn product<E: Engine>(left: Left<'_>, right: Panels<'_>, out: Sums<'_>, size: Size, add: bool) {
    let Size { rows, columns, depth } = size;
    if rows == 0 || columns == 0 || depth == 0 {
        return;
    }
    let Sums { numbers: out, row: out_row } = out;
    assert!([rows, columns, depth].iter().all(|it| it.is_multiple_of(BLOCK)));
    assert!(left.numbers.len() >= (rows - 1) * left.row + depth);
    assert!(right.pairs.len() >= (columns / PANEL - 1) * right.panel + depth / 2 * PANEL);
    assert!(out.len() >= (rows - 1) * out_row + columns);
    // SAFETY: all that is read and written is within the lengths that were just compared.
    unsafe {
        for column in (0..columns).step_by(BLOCK) {
            let panels =
                At { start: right.pairs.as_ptr().add(column / PANEL * right.panel), row: right.panel };
            for row in (0..rows).step_by(BLOCK) {
                let numbers = At { start: left.numbers.as_ptr().add(row * left.row), row: left.row };
                let to = At { start: out.as_mut_ptr().add(row * out_row + column), row: out_row };
                E::block(numbers, panels, depth / BLOCK, to, add);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;

    use super::{At, BLOCK, Bf16, Engine, PANEL};

    /// Tiles of 16 rows of 64 bytes: four of the result, two of each side.
    pub struct Amx;

    #[repr(C, align(64))]
    struct TileSizes {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        bytes: [u16; 16],
        rows: [u8; 16],
    }

    static WHOLE_TILES: TileSizes = TileSizes {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    impl Engine for Amx {
        #[inline(always)]
        unsafe fn begin() {
            // SAFETY: the processor has AMX, and the kernel lets this process use it.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE_TILES, options(nostack, readonly)) }
        }

        #[inline(always)]
        unsafe fn end() {
            // SAFETY: as above. Others find the tiles as they were at the start of the thread.
            unsafe { asm!("tilerelease", options(nostack, nomem)) }
        }

        #[inline(always)]
        unsafe fn block(
            left: At<*const Bf16>,
            right: At<*const u32>,
            steps: usize,
            out: At<*mut f32>,
            add: bool,
        ) {
            let (row, panel, out_row) = (2 * left.row, 4 * right.row, 4 * out.row);
            let (left, right, out) = (left.start, right.start, out.start);
            // SAFETY: the caller's; the compiler uses no tiles.
            unsafe {
                let below = out.byte_add(16 * out_row);
                if add {
                    asm!(
                        "tileloadd tmm0, [{out} + {row}*1]",
                        "tileloadd tmm1, [{out} + {row}*1 + 64]",
                        "tileloadd tmm2, [{below} + {row}*1]",
                        "tileloadd tmm3, [{below} + {row}*1 + 64]",
                        out = in(reg) out, below = in(reg) below, row = in(reg) out_row,
                        options(nostack, readonly, preserves_flags),
                    );
                } else {
                    asm!(
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "tilezero tmm2",
                        "tilezero tmm3",
                        options(nostack, nomem, preserves_flags)
                    );
                }
                asm!(
                    "2:",
                    "tileloadd tmm4, [{left} + {row}*1]",
                    "tileloadd tmm6, [{right} + {line}*1]",
                    "tileloadd tmm7, [{next} + {line}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{below} + {row}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {left}, 64",
                    "add {below}, 64",
                    "add {right}, 1024",
                    "add {next}, 1024",
                    "dec {steps}",
                    "jnz 2b",
                    left = inout(reg) left => _,
                    below = inout(reg) left.byte_add(16 * row) => _,
                    right = inout(reg) right => _,
                    next = inout(reg) right.byte_add(panel) => _,
                    steps = inout(reg) steps => _,
                    row = in(reg) row,
                    line = in(reg) 64usize,
                    options(nostack, readonly),
                );
                asm!(
                    "tilestored [{out} + {row}*1], tmm0",
                    "tilestored [{out} + {row}*1 + 64], tmm1",
                    "tilestored [{below} + {row}*1], tmm2",
                    "tilestored [{below} + {row}*1 + 64], tmm3",
                    out = in(reg) out, below = in(reg) below, row = in(reg) out_row,
                    options(nostack, preserves_flags),
                );
            }
        }
    }

    /// Dot products of pairs, 16 side by side.
    pub struct Pairs;

    /// Rows of the result that are held in registers.
    const HELD: usize = 8;

    impl Engine for Pairs {
        #[inline(always)]
        unsafe fn block(
            left: At<*const Bf16>,
            right: At<*const u32>,
            steps: usize,
            out: At<*mut f32>,
            add: bool,
        ) {
            let (row, panel, out_row) = (left.row, right.row, out.row);
            let (left, right, out) = (left.start, right.start, out.start);
            // SAFETY: the caller's.
            unsafe {
                for first in (0..BLOCK).step_by(HELD) {
                    let (left, out) = (left.add(first * row), out.add(first * out_row));
                    let mut sums = [[_mm512_setzero_ps(); 2]; HELD];
                    if add {
                        for (place, [one, other]) in sums.iter_mut().enumerate() {
                            *one = _mm512_loadu_ps(out.add(place * out_row));
                            *other = _mm512_loadu_ps(out.add(place * out_row + PANEL));
                        }
                    }
                    for pair in 0..steps * BLOCK / 2 {
                        let columns = right.add(pair * PANEL);
                        let (near, far) = (load(columns), load(columns.add(panel)));
                        for (place, [one, other]) in sums.iter_mut().enumerate() {
                            let both = left.add(place * row + 2 * pair).cast::<i32>().read_unaligned();
                            let both = transmute::<__m512i, __m512bh>(_mm512_set1_epi32(both));
                            *one = _mm512_dpbf16_ps(*one, both, near);
                            *other = _mm512_dpbf16_ps(*other, both, far);
                        }
                    }
                    for (place, [one, other]) in sums.iter().enumerate() {
                        store(out.add(place * out_row), *one);
                        store(out.add(place * out_row + PANEL), *other);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m512bh {
        // SAFETY: the caller's; all bits are pairs of numbers.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, numbers: __m512) {
        // SAFETY: the caller's.
        unsafe { _mm512_storeu_ps(to, numbers) }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Amx, Pairs};
