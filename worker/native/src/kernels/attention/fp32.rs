//! In fp32.
//!
//! A document's keys and values stay in the processor's cache while blocks of queries go over them; scores of a block are
//! formed, turned into weights and used there, and only the logarithm of each row's sum is kept for the way back. Heads that
//! share keys share their packed form. An element is one chain of fused multiply-adds in the order of tokens: the same bytes
//! with any width of vectors and any number of threads.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

use std::cell::RefCell;

use super::super::math::{LANES, exp_fused, largest, sum, total};
use super::super::processor::{Instructions, instructions};
use super::super::tile::{Left, Rows, Vector, columns, product};
use super::{Backward, Format, Forward, Head, Shape, Task, fit, zeros};

/// Queries whose scores are held at once: a multiple of every tile's rows.
const BLOCK: usize = 48;
/// Tokens whose rows stay in the nearest cache while all tiles of a block read them.
const DEPTH: usize = 128;
/// Rows of the tallest tile.
const TALLEST: usize = 12;

/// Whether this processor has what the tiles need; elsewhere a fused multiply-add is a call of a function.
pub fn runs_here() -> bool {
    instructions() > Instructions::Plain || cfg!(target_arch = "aarch64")
}

impl Format for f32 {
    fn forward_task(job: &Forward<'_, f32>, task: Task) {
        on_scratch(job, task);
    }

    fn backward_task(job: &Backward<'_, f32>, task: Task) {
        on_scratch(job, task);
    }
}

trait Job: Sync {
    /// # Safety
    /// The processor has registers of the kind `V`, and each task is done once.
    unsafe fn work<V: Vector, const ROWS: usize>(&self, task: Task, scratch: &mut Scratch);
}

fn on_scratch(job: &impl Job, task: Task) {
    SCRATCH.with_borrow_mut(|scratch| work_here(job, task, scratch));
}

/// Compiled for the instructions that processors have, and chosen at run time.
fn work_here(job: &impl Job, task: Task, scratch: &mut Scratch) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m256, __m512};

        #[target_feature(enable = "avx512f")]
        fn with_avx512(job: &impl Job, task: Task, scratch: &mut Scratch) {
            // SAFETY: this processor has the registers; tasks are counted.
            unsafe { job.work::<__m512, 12>(task, scratch) }
        }
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2(job: &impl Job, task: Task, scratch: &mut Scratch) {
            // SAFETY: as above.
            unsafe { job.work::<__m256, 6>(task, scratch) }
        }
        match instructions() {
            // SAFETY: this processor has the instructions.
            Instructions::Avx512 => return unsafe { with_avx512(job, task, scratch) },
            // SAFETY: as above.
            Instructions::Avx2 => return unsafe { with_avx2(job, task, scratch) },
            Instructions::Plain => {}
        }
    }
    // SAFETY: vectors of four numbers are plain Rust; tasks are counted.
    unsafe { job.work::<crate::kernels::tile::Four, 12>(task, scratch) }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A thread's memory for one task after the other.
#[derive(Default)]
struct Scratch {
    key_columns: Vec<f32>,
    value_columns: Vec<f32>,
    key_rows: Vec<f32>,
    value_rows: Vec<f32>,
    to_keys: Vec<f32>,
    to_values: Vec<f32>,
    queries: Vec<f32>,
    grads: Vec<f32>,
    weights: Vec<f32>,
    slopes: Vec<f32>,
    block: Vec<f32>,
}

impl Head<'_, f32> {
    /// Rows of `padded` numbers each, times `factor`; behind `tokens`, zeros up to `rows`.
    fn rows(self, from: usize, tokens: usize, rows: usize, padded: usize, factor: f32, to: &mut [f32]) {
        let (filled, rest) = to[..rows * padded].split_at_mut(tokens * padded);
        for (place, to) in filled.chunks_exact_mut(padded).enumerate() {
            let (numbers, behind) = to.split_at_mut(self.width);
            for (to, number) in numbers.iter_mut().zip(self.at(from + place)) {
                *to = number * factor;
            }
            behind.fill(0.0);
        }
        rest.fill(0.0);
    }

    /// Panels of `tall` tokens, each [width, tall]; zeros behind the last token.
    fn columns(self, tokens: usize, tall: usize, to: &mut [f32]) {
        for (number, panel) in to.chunks_exact_mut(self.width * tall).enumerate() {
            let first = number * tall;
            let filled = tokens.saturating_sub(first).min(tall);
            if filled < tall {
                panel.fill(0.0);
            }
            for lane in 0..filled {
                for (to, number) in panel[lane..].iter_mut().step_by(tall).zip(self.at(first + lane)) {
                    *to = *number;
                }
            }
        }
    }
}

/// Sizes of a task's memory.
#[derive(Clone, Copy)]
struct Sizes {
    /// The width of a head, filled up to whole tiles.
    padded: usize,
    /// The tokens, filled up to whole panels.
    panels: usize,
    /// Numbers of a row of scores.
    reach: usize,
    tall: usize,
}

impl Sizes {
    fn new<V: Vector, const ROWS: usize>(length: usize, width: usize) -> Self {
        let tall = columns::<V>();
        let reach = length.next_multiple_of(LANES) + ROWS;
        Self { padded: width.next_multiple_of(tall), panels: length.div_ceil(tall), reach, tall }
    }
}

/// `scores[row, token]` of a block of rows, from panels of columns, up to the last token that a tile of rows sees.
#[inline(always)]
unsafe fn scores<V: Vector, const ROWS: usize>(
    rows: &[f32],
    panels: &[f32],
    width: usize,
    sizes: Sizes,
    first: usize,
    count: usize,
    to: &mut [f32],
) {
    let Sizes { padded, reach, tall, .. } = sizes;
    let seen = (first + count).div_ceil(tall);
    for (number, panel) in panels.chunks_exact(width * tall).take(seen).enumerate() {
        for row in (0..count).step_by(ROWS) {
            if number * tall < first + row + ROWS {
                let left = Left { numbers: &rows[row * padded..], row: padded, step: 1 };
                let out = Rows { numbers: &mut to[row * reach + number * tall..], row: reach };
                // SAFETY: the caller's.
                unsafe { product::<V, ROWS>(left, Rows { numbers: panel, row: tall }, width, out, false) };
            }
        }
    }
}

/// `to[row, width]` = the block's weights times rows of tokens, up to the last one that a tile of rows sees.
#[inline(always)]
unsafe fn gathered<V: Vector, const ROWS: usize>(
    weights: &[f32],
    rows: &[f32],
    sizes: Sizes,
    first: usize,
    count: usize,
    length: usize,
    to: &mut [f32],
) {
    let Sizes { padded, reach, tall, .. } = sizes;
    for from in (0..first + count).step_by(DEPTH) {
        for row in (0..count).step_by(ROWS) {
            let depth = (first + row + ROWS).min(length).saturating_sub(from).min(DEPTH);
            for column in (0..padded).step_by(tall) {
                let left = Left { numbers: &weights[row * reach + from..], row: reach, step: 1 };
                let right = Rows { numbers: &rows[from * padded + column..], row: padded };
                let out = Rows { numbers: &mut to[row * padded + column..], row: padded };
                // SAFETY: the caller's.
                unsafe { product::<V, ROWS>(left, right, depth, out, from > 0) };
            }
        }
    }
}

/// `to[token, width]` += the block's weights, turned, times its rows.
#[inline(always)]
unsafe fn scattered<V: Vector, const ROWS: usize>(
    weights: &[f32],
    rows: &[f32],
    sizes: Sizes,
    first: usize,
    count: usize,
    to: &mut [f32],
) {
    let Sizes { padded, reach, tall, .. } = sizes;
    for token in (0..first + count).step_by(ROWS) {
        // Rows before it do not see the token.
        let row = token.saturating_sub(first);
        for column in (0..padded).step_by(tall) {
            let left = Left { numbers: &weights[row * reach + token..], row: 1, step: reach };
            let right = Rows { numbers: &rows[row * padded + column..], row: padded };
            let out = Rows { numbers: &mut to[token * padded + column..], row: padded };
            // SAFETY: the caller's.
            unsafe { product::<V, ROWS>(left, right, count - row, out, true) };
        }
    }
}

/// Rows of a block in parts of `LANES` numbers. Behind the last number that a row sees: `unseen` to the end of the part, and
/// zeros to the end of the last tile.
fn causal(
    numbers: &mut [f32],
    reach: usize,
    first: usize,
    count: usize,
    unseen: f32,
) -> impl Iterator<Item = &mut [[f32; LANES]]> {
    let end = first + count.next_multiple_of(TALLEST) + TALLEST;
    numbers.chunks_exact_mut(reach).take(count).enumerate().map(move |(row, numbers)| {
        let seen = first + row + 1;
        let (parts, rest) = numbers.split_at_mut(seen.next_multiple_of(LANES));
        parts[seen..].fill(unseen);
        let behind = end.saturating_sub(parts.len()).min(rest.len());
        rest[..behind].fill(0.0);
        parts.as_chunks_mut().0
    })
}

impl Job for Forward<'_, f32> {
    #[inline(always)]
    unsafe fn work<V: Vector, const ROWS: usize>(&self, task: Task, scratch: &mut Scratch) {
        let Shape { heads, groups, width, scale, .. } = self.shape;
        let Task { start, length, group } = task;
        let sizes = Sizes::new::<V, ROWS>(length, width);
        let Sizes { padded, reach, .. } = sizes;
        let panels = fit(&mut scratch.key_columns, sizes.panels * sizes.tall * width);
        Head::new(self.inputs.keys, start, groups, group, width).columns(length, sizes.tall, panels);
        let values = fit(&mut scratch.value_rows, length * padded);
        Head::new(self.inputs.values, start, groups, group, width)
            .rows(0, length, length, padded, 1.0, values);
        let queries = fit(&mut scratch.queries, BLOCK * padded);
        let weights = fit(&mut scratch.weights, BLOCK * reach);
        let block = fit(&mut scratch.block, BLOCK * padded);
        let repeat = heads / groups;
        for head in group * repeat..(group + 1) * repeat {
            let asked = Head::new(self.inputs.queries, start, heads, head, width);
            for first in (0..length).step_by(BLOCK) {
                let count = BLOCK.min(length - first);
                asked.rows(first, count, BLOCK, padded, scale, queries);
                let mut log_sums = [0.0; BLOCK];
                let mut shares = [0.0; BLOCK];
                // SAFETY: the caller's.
                unsafe { scores::<V, ROWS>(queries, panels, width, sizes, first, count, weights) };
                for (row, parts) in causal(weights, reach, first, count, f32::NEG_INFINITY).enumerate() {
                    let highest = largest(parts);
                    let mut sums = [0.0; LANES];
                    for part in &mut *parts {
                        for (sum, number) in sums.iter_mut().zip(part) {
                            *number = exp_fused(*number - highest);
                            *sum += *number;
                        }
                    }
                    let whole = total(sums);
                    log_sums[row] = highest + whole.ln();
                    shares[row] = 1.0 / whole;
                }
                // SAFETY: the caller's.
                unsafe { gathered::<V, ROWS>(weights, values, sizes, first, count, length, block) };
                for row in 0..count {
                    let place = (start + first + row) * heads + head;
                    // SAFETY: this document's rows of this head are this task's alone.
                    let (out, log_sum) =
                        unsafe { (self.out.numbers(place * width, width), self.log_sums.numbers(place, 1)) };
                    for (out, number) in out.iter_mut().zip(&block[row * padded..]) {
                        *out = number * shares[row];
                    }
                    log_sum[0] = log_sums[row];
                }
            }
        }
    }
}

impl Job for Backward<'_, f32> {
    #[inline(always)]
    unsafe fn work<V: Vector, const ROWS: usize>(&self, task: Task, scratch: &mut Scratch) {
        let Shape { heads, groups, width, scale, .. } = self.shape;
        let Task { start, length, group } = task;
        let sizes = Sizes::new::<V, ROWS>(length, width);
        let Sizes { padded, reach, tall, .. } = sizes;
        let keys = Head::new(self.inputs.keys, start, groups, group, width);
        let values = Head::new(self.inputs.values, start, groups, group, width);
        let key_columns = fit(&mut scratch.key_columns, sizes.panels * tall * width);
        keys.columns(length, tall, key_columns);
        let value_columns = fit(&mut scratch.value_columns, sizes.panels * tall * width);
        values.columns(length, tall, value_columns);
        let key_rows = fit(&mut scratch.key_rows, length * padded);
        keys.rows(0, length, length, padded, 1.0, key_rows);
        let written = (length + ROWS) * padded;
        let (to_keys, to_values) =
            (zeros(&mut scratch.to_keys, written), zeros(&mut scratch.to_values, written));
        let queries = fit(&mut scratch.queries, BLOCK * padded);
        let grads = fit(&mut scratch.grads, BLOCK * padded);
        let weights = fit(&mut scratch.weights, (BLOCK + 1) * reach);
        let slopes = fit(&mut scratch.slopes, (BLOCK + 1) * reach);
        let block = fit(&mut scratch.block, BLOCK * padded);
        let repeat = heads / groups;
        for head in group * repeat..(group + 1) * repeat {
            let asked = Head::new(self.inputs.queries, start, heads, head, width);
            let answer = Head::new(self.result.out, start, heads, head, width);
            let back = Head::new(self.grad, start, heads, head, width);
            for first in (0..length).step_by(BLOCK) {
                let count = BLOCK.min(length - first);
                asked.rows(first, count, BLOCK, padded, scale, queries);
                back.rows(first, count, BLOCK, padded, 1.0, grads);
                // SAFETY: the caller's.
                unsafe {
                    scores::<V, ROWS>(queries, key_columns, width, sizes, first, count, weights);
                    scores::<V, ROWS>(grads, value_columns, width, sizes, first, count, slopes);
                }
                let rows = causal(weights, reach, first, count, f32::NEG_INFINITY)
                    .zip(causal(slopes, reach, first, count, 0.0));
                for (row, (weights, slopes)) in rows.enumerate() {
                    let token = first + row;
                    let log_sum = self.result.log_sums[(start + token) * heads + head];
                    let (answer, back) = (answer.at(token), back.at(token));
                    let mean = sum(width, |place| answer[place] * back[place]);
                    for (weights, slopes) in weights.iter_mut().zip(slopes) {
                        for (weight, slope) in weights.iter_mut().zip(slopes) {
                            *weight = exp_fused(*weight - log_sum);
                            *slope = *weight * (*slope - mean);
                        }
                    }
                }
                // SAFETY: the caller's.
                unsafe {
                    gathered::<V, ROWS>(slopes, key_rows, sizes, first, count, length, block);
                    scattered::<V, ROWS>(slopes, queries, sizes, first, count, to_keys);
                    scattered::<V, ROWS>(weights, grads, sizes, first, count, to_values);
                }
                for row in 0..count {
                    let place = ((start + first + row) * heads + head) * width;
                    // SAFETY: this document's rows of this head are this task's alone.
                    let to = unsafe { self.to[0].numbers(place, width) };
                    for (to, number) in to.iter_mut().zip(&block[row * padded..]) {
                        *to = number * scale;
                    }
                }
            }
        }
        for (to, found) in [(self.to[1], to_keys), (self.to[2], to_values)] {
            for (token, found) in found.chunks_exact(padded).take(length).enumerate() {
                let place = ((start + token) * groups + group) * width;
                // SAFETY: this document's rows of this group are this task's alone.
                unsafe { to.numbers(place, width) }.copy_from_slice(&found[..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::{Case, Found};
    use super::super::{Gradients, Inputs, Output, Shared, backward, forward};
    use super::*;

    impl Case {
        fn found(&self, threads: usize) -> Found<f32> {
            let [queries, keys, values, grad] = &self.memory;
            let inputs = Inputs { queries, keys, values };
            let log_sums = self.shape().tokens() * self.heads;
            let mut found = [queries.len(), log_sums, queries.len(), keys.len(), values.len()]
                .map(|size| vec![f32::NAN; size]);
            let [out, log_sums, to_queries, to_keys, to_values] = &mut found;
            forward(self.shape(), inputs, Output { out, log_sums }, threads);
            let gradients = Gradients { queries: to_queries, keys: to_keys, values: to_values };
            backward(self.shape(), inputs, Output { out, log_sums }, grad, gradients, threads);
            found
        }
    }

    #[test]
    fn results_and_gradients_are_those_of_f64() {
        for (lengths, heads, groups, width) in [
            (&[1][..], 1, 1, 1),
            (&[2, 1, 5], 4, 2, 16),
            (&[47, 48, 49], 3, 1, 24),
            (&[130, 31, 33], 6, 2, 64),
            (&[0, 97, 0, 12], 2, 2, 80),
        ] {
            let case = Case::new(lengths, heads, groups, width);
            for (place, (found, exact)) in case.found(1).iter().zip(&case.exact()).enumerate() {
                for (found, exact) in found.iter().zip(exact) {
                    let bound = 2e-5 * exact.abs().max(1.0);
                    assert!(
                        (f64::from(*found) - exact).abs() < bound,
                        "{lengths:?} {place}: {found} {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let case = Case::new(&[150, 260, 90], 6, 2, 32);
        let found = case.found(1);
        assert!(found.iter().flatten().all(|number| number.is_finite()));
        assert_eq!(found, case.found(2));
        assert_eq!(found, case.found(5));
    }

    #[test]
    fn any_width_of_vectors_gives_the_same_bytes() {
        let case = Case::new(&[61, 100], 4, 2, 48);
        let [queries, keys, values, _] = &case.memory;
        let inputs = Inputs { queries, keys, values };
        let run = |work: &dyn Fn(&Forward<'_, f32>, Task, &mut Scratch)| {
            let (mut out, mut log_sums) = (vec![f32::NAN; queries.len()], vec![f32::NAN; 161 * 4]);
            let job = Forward {
                shape: case.shape(),
                inputs,
                out: Shared::new(&mut out),
                log_sums: Shared::new(&mut log_sums),
            };
            for (start, length) in [(0, 61), (61, 100)] {
                for group in 0..2 {
                    work(&job, Task { start, length, group }, &mut Scratch::default());
                }
            }
            (out, log_sums)
        };
        let chosen = run(&|job, task, scratch| work_here(job, task, scratch));
        // SAFETY: vectors of four numbers are plain Rust.
        let plain =
            run(&|job, task, scratch| unsafe { job.work::<crate::kernels::tile::Four, 12>(task, scratch) });
        assert_eq!(chosen, plain);
        #[cfg(target_arch = "x86_64")]
        if instructions() > Instructions::Plain {
            #[target_feature(enable = "avx2,fma")]
            fn narrow(job: &Forward<'_, f32>, task: Task, scratch: &mut Scratch) {
                // SAFETY: this processor has the registers.
                unsafe { job.work::<std::arch::x86_64::__m256, 6>(task, scratch) }
            }
            // SAFETY: as above.
            assert_eq!(chosen, run(&|job, task, scratch| unsafe { narrow(job, task, scratch) }));
        }
    }

    #[test]
    fn a_nan_does_not_vanish() {
        let mut case = Case::new(&[20], 1, 1, 16);
        case.memory[1][5 * 16] = f32::NAN;
        let [out, ..] = case.found(1);
        assert!(out[..5 * 16].iter().all(|number| number.is_finite()));
        assert!(out[5 * 16..].iter().all(|number| number.is_nan()));
    }
}
