//! In bf16, with sums, weights before their use and everything between two products in fp32.
//!
//! Keys and values of a document are packed once for all heads that share them. Scores of a block of queries are formed, turned
//! into weights and used while they are in the cache; only the logarithm of each row's sum is kept for the way back. An element
//! is summed in the same order with any number of threads.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]
// Other processors have no such instructions, and compute without this.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::cell::RefCell;

use super::super::math::{LANES, exp_fused, largest, sum, total};
use super::super::number::{Bf16, Number as _};
use super::super::processor::{Bf16Products, bf16_products};
use super::super::products_bf16::{BLOCK, Engine, Left, PANEL, Panels, Size, Sums, product};
use super::{Backward, Format, Forward, Head, Shape, Task, fit, zeros};

/// Queries whose scores are held at once.
const QUERIES: usize = 2 * BLOCK;

pub fn runs_here() -> bool {
    bf16_products() > Bf16Products::No
}

impl Format for Bf16 {
    fn forward_task(job: &Forward<'_, Bf16>, task: Task) {
        on_scratch(job, task);
    }

    fn backward_task(job: &Backward<'_, Bf16>, task: Task) {
        on_scratch(job, task);
    }
}

trait Job: Sync {
    /// # Safety
    /// The processor has the engine's instructions, and each task is done once.
    unsafe fn work<E: Engine>(&self, task: Task, scratch: &mut Scratch);
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn on_scratch(job: &impl Job, task: Task) {
    SCRATCH.with_borrow_mut(|scratch| work_here(job, task, scratch));
}

#[cfg(target_arch = "x86_64")]
fn work_here(job: &impl Job, task: Task, scratch: &mut Scratch) {
    match bf16_products() {
        // SAFETY: this processor has the instructions.
        Bf16Products::Tiles => unsafe { x86::with_tiles(job, task, scratch) },
        // SAFETY: as above.
        Bf16Products::Pairs => unsafe { x86::with_pairs(job, task, scratch) },
        Bf16Products::No => unreachable!("`runs_here` says so"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn work_here(_: &impl Job, _: Task, _: &mut Scratch) {
    unreachable!("`runs_here` says so")
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::super::products_bf16::{Amx, Engine, Pairs};
    use super::{Job, Scratch, Task};

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn with_tiles(job: &impl Job, task: Task, scratch: &mut Scratch) {
        // SAFETY: the caller's; tasks are counted.
        unsafe {
            Amx::begin();
            job.work::<Amx>(task, scratch);
            Amx::end();
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub fn with_pairs(job: &impl Job, task: Task, scratch: &mut Scratch) {
        // SAFETY: as above.
        unsafe { job.work::<Pairs>(task, scratch) }
    }
}

/// A thread's memory for one task after the other.
#[derive(Default)]
struct Scratch {
    /// Keys and values with tokens as columns, and with tokens as rows.
    keys: Vec<u32>,
    values: Vec<u32>,
    key_rows: Vec<u32>,
    value_rows: Vec<u32>,
    /// A block of queries and of the gradients of their results, and both turned.
    queries: Vec<Bf16>,
    grads: Vec<Bf16>,
    turned_queries: Vec<Bf16>,
    turned_grads: Vec<Bf16>,
    weights: Vec<f32>,
    slopes: Vec<f32>,
    /// Of weights or slopes, for products.
    rows: Vec<Bf16>,
    weight_pairs: Vec<u32>,
    slope_pairs: Vec<u32>,
    block: Vec<f32>,
    /// Gradients of keys and values: [width, tokens].
    to_keys: Vec<f32>,
    to_values: Vec<f32>,
}

impl Head<'_, Bf16> {
    /// Rows of `padded` numbers from token `first` on; zeros behind the document's `length`.
    #[inline(always)]
    fn rows(self, first: usize, length: usize, padded: usize, to: &mut [Bf16]) {
        for (place, to) in to.chunks_exact_mut(padded).enumerate() {
            let (numbers, behind) = to.split_at_mut(self.width);
            behind.fill(Bf16::ZERO);
            if first + place < length {
                numbers.copy_from_slice(self.at(first + place));
            } else {
                numbers.fill(Bf16::ZERO);
            }
        }
    }

    /// The matrix [width, tokens] in panels of tokens.
    #[inline(always)]
    fn as_columns(self, length: usize, padded: usize, to: &mut [u32]) {
        to.fill(0);
        for token in 0..length {
            let panel = &mut to[token / PANEL * (padded / 2 * PANEL)..][..padded / 2 * PANEL];
            let (pairs, rest) = self.at(token).as_chunks::<2>();
            for (to, [one, other]) in panel[token % PANEL..].iter_mut().step_by(PANEL).zip(pairs) {
                *to = Bf16::pair(*one, *other);
            }
            if let [last] = rest {
                panel[pairs.len() * PANEL + token % PANEL] = Bf16::pair(*last, Bf16::ZERO);
            }
        }
    }

    /// The matrix [tokens, width] in panels of the width, each `tokens` tokens deep.
    #[inline(always)]
    fn as_rows(self, length: usize, tokens: usize, to: &mut [u32]) {
        to.fill(0);
        for first in (0..length).step_by(2) {
            let one = self.at(first);
            let is_pair = first + 1 < length;
            let other = self.at(if is_pair { first + 1 } else { first });
            let panels = to.chunks_exact_mut(tokens / 2 * PANEL);
            for (panel, (one, other)) in panels.zip(one.chunks(PANEL).zip(other.chunks(PANEL))) {
                let to = &mut panel[first / 2 * PANEL..][..PANEL];
                for (to, (one, other)) in to.iter_mut().zip(one.iter().zip(other)) {
                    *to = Bf16::pair(*one, if is_pair { *other } else { Bf16::ZERO });
                }
            }
        }
    }
}

/// Rounds as many of `numbers` as `to` has room for.
#[inline(always)]
fn round(numbers: &[f32], to: &mut [Bf16]) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to = Bf16::nearest(*number);
    }
}

/// `from` [rows, padded] as [padded, QUERIES].
#[inline(always)]
fn turn(from: &[Bf16], padded: usize, to: &mut [Bf16]) {
    for (row, numbers) in from.chunks_exact(padded).enumerate() {
        for (to, number) in to[row..].iter_mut().step_by(QUERIES).zip(numbers) {
            *to = *number;
        }
    }
}

/// Sizes of a task's memory: the width of a head and the tokens, filled up to whole blocks.
#[derive(Clone, Copy)]
struct Sizes {
    padded: usize,
    tokens: usize,
}

impl Sizes {
    fn new(length: usize, width: usize) -> Self {
        Self { padded: width.next_multiple_of(BLOCK), tokens: length.next_multiple_of(BLOCK) }
    }

    /// Between panels of tokens with the width as depth, and the other way round.
    fn token_panel(self) -> usize {
        self.padded / 2 * PANEL
    }

    fn width_panel(self) -> usize {
        self.tokens / 2 * PANEL
    }

    /// `to[row, token]` of `rows` queries from `first` on = their numbers times the tokens', up to the last token that a
    /// block of rows sees.
    #[inline(always)]
    unsafe fn scores<E: Engine>(
        self,
        first: usize,
        rows: usize,
        left: &[Bf16],
        right: &[u32],
        to: &mut [f32],
    ) {
        let right = Panels { pairs: right, panel: self.token_panel() };
        for row in (0..rows).step_by(BLOCK) {
            let left = Left { numbers: &left[row * self.padded..], row: self.padded };
            let out = Sums { numbers: &mut to[row * self.tokens..], row: self.tokens };
            let size = Size { rows: BLOCK, columns: first + row + BLOCK, depth: self.padded };
            // SAFETY: the caller's.
            unsafe { product::<E>(left, right, out, size, false) };
        }
    }

    /// `to[row, width]` = what `numbers` [rows, tokens] gather of the tokens' rows.
    #[inline(always)]
    unsafe fn gathered<E: Engine>(
        self,
        first: usize,
        rows: usize,
        numbers: &[Bf16],
        right: &[u32],
        to: &mut [f32],
    ) {
        let right = Panels { pairs: right, panel: self.width_panel() };
        for row in (0..rows).step_by(BLOCK) {
            let left = Left { numbers: &numbers[row * self.tokens..], row: self.tokens };
            let out = Sums { numbers: &mut to[row * self.padded..], row: self.padded };
            let size = Size { rows: BLOCK, columns: self.padded, depth: first + row + BLOCK };
            // SAFETY: the caller's.
            unsafe { product::<E>(left, right, out, size, false) };
        }
    }

    /// `to[width, token]` += `turned` [width, rows] times pairs [rows, tokens].
    #[inline(always)]
    unsafe fn scattered<E: Engine>(
        self,
        first: usize,
        rows: usize,
        turned: &[Bf16],
        pairs: &[u32],
        to: &mut [f32],
    ) {
        let left = Left { numbers: turned, row: QUERIES };
        let right = Panels { pairs, panel: QUERIES / 2 * PANEL };
        let out = Sums { numbers: to, row: self.tokens };
        let size = Size { rows: self.padded, columns: first + rows, depth: rows };
        // SAFETY: the caller's.
        unsafe { product::<E>(left, right, out, size, true) };
    }
}

/// Turns the scores of a token's row into weights of which the largest is 1; gives the logarithm of the sum of all, and the sum.
#[inline(always)]
fn weigh(row: &mut [f32], token: usize, scale: f32) -> (f32, f32) {
    row[token + 1..].fill(f32::NEG_INFINITY);
    let parts = row.as_chunks_mut::<LANES>().0;
    for number in parts.as_flattened_mut() {
        *number *= scale;
    }
    let highest = largest(parts);
    let mut sums = [0.0; LANES];
    for part in parts {
        for (sum, number) in sums.iter_mut().zip(part) {
            *number = exp_fused(*number - highest);
            *sum += *number;
        }
    }
    let whole = total(sums);
    (highest + whole.ln(), whole)
}

impl Job for Forward<'_, Bf16> {
    #[inline(always)]
    unsafe fn work<E: Engine>(&self, task: Task, scratch: &mut Scratch) {
        let Shape { heads, groups, width, scale, .. } = self.shape;
        let Task { start, length, group } = task;
        let sizes = Sizes::new(length, width);
        let Sizes { padded, tokens } = sizes;
        let keys = fit(&mut scratch.keys, tokens * padded / 2);
        Head::new(self.inputs.keys, start, groups, group, width).as_columns(length, padded, keys);
        let values = fit(&mut scratch.value_rows, tokens * padded / 2);
        Head::new(self.inputs.values, start, groups, group, width).as_rows(length, tokens, values);
        let queries = fit(&mut scratch.queries, QUERIES * padded);
        let weights = fit(&mut scratch.weights, QUERIES * tokens);
        let rows = fit(&mut scratch.rows, QUERIES * tokens);
        let block = fit(&mut scratch.block, QUERIES * padded);
        let repeat = heads / groups;
        for head in group * repeat..(group + 1) * repeat {
            let asked = Head::new(self.inputs.queries, start, heads, head, width);
            for first in (0..tokens).step_by(QUERIES) {
                let count = QUERIES.min(tokens - first);
                asked.rows(first, length, padded, &mut queries[..count * padded]);
                // SAFETY: the caller's.
                unsafe { sizes.scores::<E>(first, count, queries, keys, weights) };
                let mut shares = [0.0; QUERIES];
                for row in 0..count.min(length - first) {
                    let reach = (first + row + 1).next_multiple_of(BLOCK);
                    let (weights, rows) =
                        (&mut weights[row * tokens..][..reach], &mut rows[row * tokens..][..reach]);
                    let (log_sum, whole) = weigh(weights, first + row, scale);
                    shares[row] = 1.0 / whole;
                    round(weights, rows);
                    let place = (start + first + row) * heads + head;
                    // SAFETY: this document's rows of this head are this task's alone.
                    let kept = unsafe { self.log_sums.numbers(place, 1) };
                    kept[0] = log_sum;
                }
                // SAFETY: the caller's.
                unsafe { sizes.gathered::<E>(first, count, rows, values, block) };
                for row in 0..count.min(length - first) {
                    let place = ((start + first + row) * heads + head) * width;
                    // SAFETY: as above.
                    let out = unsafe { self.out.numbers(place, width) };
                    for (out, number) in out.iter_mut().zip(&block[row * padded..]) {
                        *out = Bf16::nearest(number * shares[row]);
                    }
                }
            }
        }
    }
}

impl Job for Backward<'_, Bf16> {
    #[inline(always)]
    unsafe fn work<E: Engine>(&self, task: Task, scratch: &mut Scratch) {
        let Shape { heads, groups, width, scale, .. } = self.shape;
        let Task { start, length, group } = task;
        let sizes = Sizes::new(length, width);
        let Sizes { padded, tokens } = sizes;
        let size = tokens * padded;
        let own_keys = Head::new(self.inputs.keys, start, groups, group, width);
        let own_values = Head::new(self.inputs.values, start, groups, group, width);
        let keys = fit(&mut scratch.keys, size / 2);
        own_keys.as_columns(length, padded, keys);
        let values = fit(&mut scratch.values, size / 2);
        own_values.as_columns(length, padded, values);
        let key_rows = fit(&mut scratch.key_rows, size / 2);
        own_keys.as_rows(length, tokens, key_rows);
        let to_keys = zeros(&mut scratch.to_keys, size);
        let to_values = zeros(&mut scratch.to_values, size);
        let queries = fit(&mut scratch.queries, QUERIES * padded);
        let grads = fit(&mut scratch.grads, QUERIES * padded);
        let turned_queries = fit(&mut scratch.turned_queries, QUERIES * padded);
        let turned_grads = fit(&mut scratch.turned_grads, QUERIES * padded);
        let weights = fit(&mut scratch.weights, QUERIES * tokens);
        let slopes = fit(&mut scratch.slopes, QUERIES * tokens);
        let rows = fit(&mut scratch.rows, QUERIES * tokens);
        let weight_pairs = fit(&mut scratch.weight_pairs, QUERIES / 2 * tokens);
        let slope_pairs = fit(&mut scratch.slope_pairs, QUERIES / 2 * tokens);
        let block = fit(&mut scratch.block, QUERIES * padded);
        let repeat = heads / groups;
        for head in group * repeat..(group + 1) * repeat {
            let asked = Head::new(self.inputs.queries, start, heads, head, width);
            let answer = Head::new(self.result.out, start, heads, head, width);
            let back = Head::new(self.grad, start, heads, head, width);
            for first in (0..tokens).step_by(QUERIES) {
                let count = QUERIES.min(tokens - first);
                asked.rows(first, length, padded, &mut queries[..count * padded]);
                back.rows(first, length, padded, &mut grads[..count * padded]);
                turn(&queries[..count * padded], padded, turned_queries);
                turn(&grads[..count * padded], padded, turned_grads);
                // SAFETY: the caller's.
                unsafe {
                    sizes.scores::<E>(first, count, queries, keys, weights);
                    sizes.scores::<E>(first, count, grads, values, slopes);
                }
                let reach = first + count;
                for row in 0..count {
                    let token = first + row;
                    let (weights, slopes) =
                        (&mut weights[row * tokens..][..reach], &mut slopes[row * tokens..][..reach]);
                    if token >= length {
                        weights.fill(0.0);
                        slopes.fill(0.0);
                        continue;
                    }
                    let log_sum = self.result.log_sums[(start + token) * heads + head];
                    let mean = inner(answer.at(token), back.at(token));
                    weights[token + 1..].fill(f32::NEG_INFINITY);
                    slopes[token + 1..].fill(0.0);
                    for (weight, slope) in weights.iter_mut().zip(slopes) {
                        *weight = exp_fused(*weight * scale - log_sum);
                        *slope = *weight * (*slope - mean) * scale;
                    }
                }
                for (to, from) in rows.chunks_exact_mut(tokens).zip(slopes.chunks_exact(tokens)).take(count) {
                    round(from, &mut to[..reach]);
                }
                paired(weights, tokens, count, reach, weight_pairs);
                paired(slopes, tokens, count, reach, slope_pairs);
                // SAFETY: the caller's.
                unsafe {
                    sizes.gathered::<E>(first, count, rows, key_rows, block);
                    sizes.scattered::<E>(first, count, turned_queries, slope_pairs, to_keys);
                    sizes.scattered::<E>(first, count, turned_grads, weight_pairs, to_values);
                }
                for row in 0..count.min(length - first) {
                    let place = ((start + first + row) * heads + head) * width;
                    // SAFETY: this document's rows of this head are this task's alone.
                    let to = unsafe { self.to[0].numbers(place, width) };
                    round(&block[row * padded..], to);
                }
            }
        }
        for (to, found) in [(self.to[1], &*to_keys), (self.to[2], &*to_values)] {
            for token in 0..length {
                let place = ((start + token) * groups + group) * width;
                // SAFETY: this document's rows of this group are this task's alone.
                let to = unsafe { to.numbers(place, width) };
                for (to, number) in to.iter_mut().zip(found[token..].iter().step_by(tokens)) {
                    *to = Bf16::nearest(*number);
                }
            }
        }
    }
}

/// Rows two by two as pairs, in panels of tokens.
#[inline(always)]
fn paired(numbers: &[f32], tokens: usize, count: usize, reach: usize, to: &mut [u32]) {
    for row in (0..count).step_by(2) {
        let (one, other) = (&numbers[row * tokens..][..reach], &numbers[(row + 1) * tokens..][..reach]);
        let both = one.as_chunks::<PANEL>().0.iter().zip(other.as_chunks::<PANEL>().0);
        for (panel, (one, other)) in to.chunks_exact_mut(QUERIES / 2 * PANEL).zip(both) {
            let to = &mut panel[row / 2 * PANEL..][..PANEL];
            for lane in 0..PANEL {
                to[lane] = Bf16::pair(Bf16::nearest(one[lane]), Bf16::nearest(other[lane]));
            }
        }
    }
}

#[inline(always)]
fn inner(left: &[Bf16], right: &[Bf16]) -> f32 {
    sum(left.len(), |place| left[place].wide() * right[place].wide())
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::super::products_bf16::Pairs;
    use super::super::exact::Case;
    use super::super::{Gradients, Inputs, Output, Shared, backward, forward};
    use super::*;

    /// Results and gradients in the order: out, log sums, of queries, keys, values.
    struct Found {
        narrow: [Vec<Bf16>; 4],
        log_sums: Vec<f32>,
    }

    /// The case with its numbers rounded, and those as bits.
    fn rounded(lengths: &[usize], heads: usize, groups: usize, width: usize) -> (Case, [Vec<Bf16>; 4]) {
        let mut case = Case::new(lengths, heads, groups, width);
        let bits = case
            .memory
            .each_ref()
            .map(|numbers| numbers.iter().map(|number| Bf16::nearest(*number)).collect::<Vec<_>>());
        case.memory = bits.each_ref().map(|bits| bits.iter().map(|number| number.wide()).collect());
        (case, bits)
    }

    fn found(case: &Case, bits: &[Vec<Bf16>; 4], threads: usize) -> Found {
        let [queries, keys, values, grad] = bits;
        let inputs = Inputs { queries, keys, values };
        let mut log_sums = vec![f32::NAN; case.shape().tokens() * case.heads];
        let mut narrow = [queries.len(), queries.len(), keys.len(), values.len()]
            .map(|size| vec![Bf16::nearest(f32::NAN); size]);
        let [out, to_queries, to_keys, to_values] = &mut narrow;
        forward(case.shape(), inputs, Output { out, log_sums: &mut log_sums }, threads);
        let gradients = Gradients { queries: to_queries, keys: to_keys, values: to_values };
        backward(case.shape(), inputs, Output { out, log_sums: &log_sums }, grad, gradients, threads);
        Found { narrow, log_sums }
    }

    #[test]
    fn results_and_gradients_are_near_those_of_f64() {
        if !runs_here() {
            return;
        }
        for (lengths, heads, groups, width) in [
            (&[1][..], 1, 1, 1),
            (&[2, 1, 5], 4, 2, 16),
            (&[63, 64, 65], 3, 1, 24),
            (&[130, 31, 33], 6, 2, 64),
            (&[0, 97, 0, 12], 2, 2, 80),
        ] {
            let (case, bits) = rounded(lengths, heads, groups, width);
            let found = found(&case, &bits, 1);
            let [out, log_sums, to_queries, to_keys, to_values] = case.exact();
            for (found, exact) in found.log_sums.iter().zip(&log_sums) {
                assert!(
                    (f64::from(*found) - exact).abs() < 2e-5 * exact.abs().max(1.0),
                    "{lengths:?}: {found} {exact}"
                );
            }
            for (place, exact) in [out, to_queries, to_keys, to_values].iter().enumerate() {
                let size = exact.iter().map(|it| it * it).sum::<f64>().sqrt();
                let apart = found.narrow[place]
                    .iter()
                    .zip(exact)
                    .map(|(found, exact)| f64::from(found.wide()) - exact);
                let distance = apart.map(|it| it * it).sum::<f64>().sqrt();
                assert!(distance <= 0.01 * size, "{lengths:?} {place}: {distance} of {size}");
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        if !runs_here() {
            return;
        }
        let (case, bits) = rounded(&[150, 260, 90], 6, 2, 32);
        let alone = found(&case, &bits, 1);
        for threads in [2, 5] {
            let shared = found(&case, &bits, threads);
            assert_eq!(alone.narrow, shared.narrow);
            assert_eq!(alone.log_sums, shared.log_sums);
        }
    }

    #[test]
    fn tiles_and_pairs_agree() {
        #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
        fn with_pairs(job: &Forward<'_, Bf16>, task: Task, scratch: &mut Scratch) {
            // SAFETY: a processor with AMX has these instructions.
            unsafe { job.work::<Pairs>(task, scratch) }
        }
        if bf16_products() != Bf16Products::Tiles {
            return;
        }
        let (case, bits) = rounded(&[61, 100], 4, 2, 48);
        let [queries, keys, values, _] = &bits;
        let inputs = Inputs { queries, keys, values };
        let run = |work: &dyn Fn(&Forward<'_, Bf16>, Task, &mut Scratch)| {
            let (mut out, mut log_sums) =
                (vec![Bf16::nearest(f32::NAN); queries.len()], vec![f32::NAN; 161 * 4]);
            let shape = case.shape();
            let job =
                Forward { shape, inputs, out: Shared::new(&mut out), log_sums: Shared::new(&mut log_sums) };
            for (start, length) in [(0, 61), (61, 100)] {
                for group in 0..2 {
                    work(&job, Task { start, length, group }, &mut Scratch::default());
                }
            }
            out.iter().map(|bits| bits.wide()).chain(log_sums).collect::<Vec<_>>()
        };
        let tiles = run(&|job, task, scratch| work_here(job, task, scratch));
        // SAFETY: as above.
        let pairs = run(&|job, task, scratch| unsafe { with_pairs(job, task, scratch) });
        for (one, other) in tiles.iter().zip(&pairs) {
            assert!((one - other).abs() <= 0.008 * one.abs().max(0.1), "{one} {other}");
        }
    }

    #[test]
    fn a_nan_does_not_vanish() {
        if !runs_here() {
            return;
        }
        let (case, mut bits) = rounded(&[20], 1, 1, 16);
        bits[1][5 * 16] = Bf16::nearest(f32::NAN);
        let found = found(&case, &bits, 1);
        let out: Vec<f32> = found.narrow[0].iter().map(|bits| bits.wide()).collect();
        assert!(out[..5 * 16].iter().all(|number| number.is_finite()));
        assert!(out[5 * 16..].iter().all(|number| number.is_nan()));
    }
}
