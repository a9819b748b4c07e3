//! The elementwise parts of a decoder layer, each reading memory once: torch takes three to six passes, in bf16 more.
//!
//! In bf16 they are computed in fp32 as well, and only results are rounded.
//!
//! No product is fused with a sum but in e^x of bf16, there with any instructions, and sums have a fixed order: the results are
//! the same bytes with any instructions and any number of threads.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

use super::dispatch::for_this_processor;
use super::math::sum_over;
use super::number::Number;
use super::parallel::{in_parallel, rows_of_part};

#[inline(always)]
fn sigmoid<N: Number>(x: f32) -> f32 {
    1.0 / (1.0 + N::exp(-x))
}

/// silu(gate) * up.
pub fn swiglu<N: Number>(gate: &[N], up: &[N], out: &mut [N], threads: usize) {
    let size = rows_of_part(gate.len(), 1, threads);
    let parts = gate.chunks(size).zip(up.chunks(size)).zip(out.chunks_mut(size));
    in_parallel(parts, |((gate, up), out)| swiglu_part(gate, up, out));
}

for_this_processor! {
    fn swiglu_part<N>(gate: &[N], up: &[N], out: &mut [N]) {
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            let (gate, up) = (gate.wide(), up.wide());
            *out = N::nearest(gate * sigmoid::<N>(gate) * up);
        }
    }
}

/// The gradients of `gate` and `up`, from that of `swiglu`'s result.
pub fn swiglu_backward<N: Number>(
    grad: &[N],
    gate: &[N],
    up: &[N],
    to_gate: &mut [N],
    to_up: &mut [N],
    threads: usize,
) {
    let size = rows_of_part(gate.len(), 1, threads);
    let read = grad.chunks(size).zip(gate.chunks(size)).zip(up.chunks(size));
    let written = to_gate.chunks_mut(size).zip(to_up.chunks_mut(size));
    in_parallel(read.zip(written), |(((grad, gate), up), (to_gate, to_up))| {
        swiglu_backward_part(grad, gate, up, to_gate, to_up);
    });
}

for_this_processor! {
    fn swiglu_backward_part<N>(grad: &[N], gate: &[N], up: &[N], to_gate: &mut [N], to_up: &mut [N]) {
        let read = grad.iter().zip(gate).zip(up);
        for (((grad, gate), up), (to_gate, to_up)) in read.zip(to_gate.iter_mut().zip(to_up)) {
            let (grad, gate, up) = (grad.wide(), gate.wide(), up.wide());
            let share = sigmoid::<N>(gate);
            let silu = gate * share;
            *to_gate = N::nearest(grad * up * (share + silu * (1.0 - share)));
            *to_up = N::nearest(grad * silu);
        }
    }
}

/// x / rms(x) * weight by rows; keeps 1 / rms of each row in `scales`.
pub fn rms_norm<N: Number>(
    x: &[N],
    weight: &[N],
    epsilon: f32,
    out: &mut [N],
    scales: &mut [f32],
    threads: usize,
) {
    let width = weight.len();
    let rows = rows_of_part(scales.len(), width, threads);
    let size = rows * width;
    let parts = x.chunks(size).zip(out.chunks_mut(size)).zip(scales.chunks_mut(rows));
    in_parallel(parts, |((x, out), scales)| rms_norm_part(x, weight, epsilon, out, scales));
}

for_this_processor! {
    fn rms_norm_part<N>(x: &[N], weight: &[N], epsilon: f32, out: &mut [N], scales: &mut [f32]) {
        let width = weight.len();
        let rows = x.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((x, out), kept) in rows.zip(scales) {
            let square = sum_over([x], |[x]| x * x);
            let scale = 1.0 / (square / width as f32 + epsilon).sqrt();
            for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                *out = N::nearest(x.wide() * scale * weight.wide());
            }
            *kept = scale;
        }
    }
}

/// The gradient of `rms_norm`'s input; its weight is frozen.
pub fn rms_norm_backward<N: Number>(
    grad: &[N],
    x: &[N],
    weight: &[N],
    scales: &[f32],
    to_x: &mut [N],
    threads: usize,
) {
    let width = weight.len();
    let rows = rows_of_part(scales.len(), width, threads);
    let size = rows * width;
    let read = grad.chunks(size).zip(x.chunks(size)).zip(scales.chunks(rows));
    in_parallel(read.zip(to_x.chunks_mut(size)), |(((grad, x), scales), to_x)| {
        rms_norm_backward_part(grad, x, weight, scales, to_x);
    });
}

for_this_processor! {
    fn rms_norm_backward_part<N>(grad: &[N], x: &[N], weight: &[N], scales: &[f32], to_x: &mut [N]) {
        let width = weight.len();
        let read = grad.chunks_exact(width).zip(x.chunks_exact(width));
        for (((grad, x), to_x), scale) in read.zip(to_x.chunks_exact_mut(width)).zip(scales) {
            let along = sum_over([grad, weight, x], |[grad, weight, x]| grad * weight * x);
            let slope = along / width as f32 * scale * scale;
            for (((to_x, grad), x), weight) in to_x.iter_mut().zip(grad).zip(x).zip(weight) {
                *to_x = N::nearest((grad.wide() * weight.wide() - x.wide() * slope) * scale);
            }
        }
    }
}

/// Cosines and sines of each token's positions: [tokens, half a head's width].
#[derive(Clone, Copy)]
pub struct Angles<'a, N> {
    pub cos: &'a [N],
    pub sin: &'a [N],
}

/// Turns the two halves of every head against each other; `direction` is 1, or -1 for the way back. `x` is [tokens, heads, width].
pub fn rotate<N: Number>(
    x: &[N],
    angles: Angles<'_, N>,
    heads: usize,
    width: usize,
    direction: f32,
    out: &mut [N],
    threads: usize,
) {
    let (row, half) = (heads * width, width / 2);
    let tokens = rows_of_part(x.len() / row.max(1), row, threads);
    let (size, turns) = ((tokens * row).max(1), (tokens * half).max(1));
    let read = x.chunks(size).zip(angles.cos.chunks(turns).zip(angles.sin.chunks(turns)));
    in_parallel(read.zip(out.chunks_mut(size)), |((x, (cos, sin)), out)| {
        rotate_part(x, Angles { cos, sin }, heads, width, direction, out);
    });
}

for_this_processor! {
    fn rotate_part<N>(x: &[N], angles: Angles<'_, N>, heads: usize, width: usize, direction: f32, out: &mut [N]) {
        let half = width / 2;
        let row = heads * width;
        let angles = angles.cos.chunks_exact(half).zip(angles.sin.chunks_exact(half));
        for ((x, out), (cos, sin)) in x.chunks_exact(row).zip(out.chunks_exact_mut(row)).zip(angles) {
            for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                let ((first, second), (out_first, out_second)) = (x.split_at(half), out.split_at_mut(half));
                let read = first.iter().zip(second).zip(cos.iter().zip(sin));
                for (((first, second), (cos, sin)), (out_first, out_second)) in read.zip(out_first.iter_mut().zip(out_second)) {
                    let (first, second) = (first.wide(), second.wide());
                    let (cos, sin) = (cos.wide(), direction * sin.wide());
                    *out_first = N::nearest(first * cos - second * sin);
                    *out_second = N::nearest(second * cos + first * sin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::number::Bf16;

    /// Numbers between -`size` and `size`, the same each time.
    fn numbers(count: usize, size: f32, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next() * size).collect()
    }

    fn near(found: f32, exact: f64) -> bool {
        (f64::from(found) - exact).abs() <= 1e-6 * exact.abs() + 1e-7
    }

    #[test]
    fn swiglu_and_its_gradients_are_those_of_f64() {
        let (gate, up, grad) = (numbers(1003, 12.0, 1), numbers(1003, 3.0, 2), numbers(1003, 2.0, 3));
        let [mut out, mut to_gate, mut to_up] = [0; 3].map(|_| vec![f32::NAN; 1003]);
        swiglu(&gate, &up, &mut out, 1);
        swiglu_backward(&grad, &gate, &up, &mut to_gate, &mut to_up, 1);
        for place in 0..1003 {
            let [g, u, d] = [gate[place], up[place], grad[place]].map(f64::from);
            let share = 1.0 / (1.0 + (-g).exp());
            assert!(near(out[place], g * share * u));
            assert!(near(to_gate[place], d * u * share * (1.0 + g * (1.0 - share))));
            assert!(near(to_up[place], d * g * share));
        }
        swiglu(&[f32::NAN], &[1.0], &mut out[..1], 1);
        assert!(out[0].is_nan(), "a NaN must not vanish");
    }

    #[test]
    fn rms_norm_and_its_gradient_are_those_of_f64() {
        for width in [1, 7, 64, 100] {
            let (x, weight, grad) =
                (numbers(9 * width, 4.0, 4), numbers(width, 2.0, 5), numbers(9 * width, 1.0, 6));
            let [mut out, mut to_x] = [0; 2].map(|_| vec![f32::NAN; 9 * width]);
            let mut scales = vec![f32::NAN; 9];
            rms_norm(&x, &weight, 1e-5, &mut out, &mut scales, 1);
            rms_norm_backward(&grad, &x, &weight, &scales, &mut to_x, 1);
            for row in 0..9 {
                let at = |values: &[f32], place: usize| f64::from(values[row * width + place]);
                let mean = |term: &dyn Fn(usize) -> f64| (0..width).map(term).sum::<f64>() / width as f64;
                let scale = 1.0 / (mean(&|place| at(&x, place).powi(2)) + 1e-5).sqrt();
                let along = mean(&|place| at(&grad, place) * f64::from(weight[place]) * at(&x, place));
                for place in 0..width {
                    let w = f64::from(weight[place]);
                    assert!(near(out[row * width + place], at(&x, place) * scale * w));
                    let exact = (at(&grad, place) * w - at(&x, place) * along * scale * scale) * scale;
                    assert!((at(&to_x, place) - exact).abs() < 1e-5 * scale.max(1.0), "{width}");
                }
            }
        }
    }

    #[test]
    fn heads_are_turned_and_turned_back() {
        let (tokens, heads, width) = (5, 3, 8);
        let x = numbers(tokens * heads * width, 2.0, 7);
        let angles = numbers(tokens * width / 2, 3.0, 8);
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|it| (it.cos(), it.sin())).unzip();
        let angles = Angles { cos: &cos, sin: &sin };
        let [mut turned, mut back] = [0; 2].map(|_| vec![f32::NAN; x.len()]);
        rotate(&x, angles, heads, width, 1.0, &mut turned, 1);
        rotate(&turned, angles, heads, width, -1.0, &mut back, 1);
        assert!(x.iter().zip(&back).all(|(x, back)| (x - back).abs() < 1e-6));
        // The second head of the fourth token.
        let (start, at) = ((3 * heads + 1) * width, 3 * width / 2);
        let (first, second) = (f64::from(x[start]), f64::from(x[start + width / 2]));
        let (cos, sin) = (f64::from(cos[at]), f64::from(sin[at]));
        assert!(near(turned[start], first * cos - second * sin));
        assert!(near(turned[start + width / 2], second * cos + first * sin));
    }

    /// The results of all kernels on the same numbers, rounded to the format.
    fn results<N: Number>(rows: usize, threads: usize) -> [Vec<f32>; 7] {
        let width = 576;
        let rounded = |count, size, seed| -> Vec<N> {
            numbers(count, size, seed).into_iter().map(|it| N::nearest(Bf16::nearest(it).wide())).collect()
        };
        let (x, up, weight) =
            (rounded(rows * width, 3.0, 9), rounded(rows * width, 3.0, 10), rounded(width, 1.0, 11));
        let angles = Angles { cos: &x[..rows * 32], sin: &up[..rows * 32] };
        let [mut silu, mut to_gate, mut to_up, mut normed, mut to_x, mut turned] =
            [0; 6].map(|_| vec![N::nearest(f32::NAN); rows * width]);
        let mut scales = vec![f32::NAN; rows];
        swiglu(&x, &up, &mut silu, threads);
        swiglu_backward(&up, &x, &up, &mut to_gate, &mut to_up, threads);
        rms_norm(&x, &weight, 1e-6, &mut normed, &mut scales, threads);
        rms_norm_backward(&up, &x, &weight, &scales, &mut to_x, threads);
        rotate(&x, angles, 9, 64, 1.0, &mut turned, threads);
        let [silu, to_gate, to_up, normed, to_x, turned] = [silu, to_gate, to_up, normed, to_x, turned]
            .map(|numbers| numbers.into_iter().map(Number::wide).collect());
        [silu, to_gate, to_up, normed, to_x, turned, scales]
    }

    fn any_number_of_threads_gives_the_same_bytes<N: Number>() {
        let found = [1, 2, 3].map(|threads| results::<N>(1500, threads));
        assert!(found[0].iter().flatten().all(|number| number.is_finite()));
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes_in_fp32() {
        any_number_of_threads_gives_the_same_bytes::<f32>();
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes_in_bf16() {
        any_number_of_threads_gives_the_same_bytes::<Bf16>();
    }

    #[test]
    fn in_bf16_only_the_results_of_fp32_are_rounded() {
        let (wide, narrow) = (results::<f32>(33, 1), results::<Bf16>(33, 1));
        for (wide, narrow) in wide[..6].iter().zip(&narrow) {
            for (wide, narrow) in wide.iter().zip(narrow) {
                // Half a unit in the last place of eight bits, and what e^x differs by.
                assert!((wide - narrow).abs() <= wide.abs() * 0.003_907 + 1e-30, "{wide} {narrow}");
            }
        }
        assert_eq!(wide[6], narrow[6], "scales are kept in fp32");
    }

    #[test]
    fn a_nan_in_bf16_does_not_vanish() {
        let (nan, one) = (Bf16::nearest(f32::NAN), Bf16::nearest(1.0));
        let (x, good, mut out) = (vec![nan; 40], vec![one; 40], vec![one; 40]);
        let are_nan = |numbers: &[Bf16]| numbers.iter().all(|number| number.wide().is_nan());
        swiglu(&x, &good, &mut out, 1);
        assert!(are_nan(&out));
        out.fill(one);
        rms_norm(&x, &good, 1e-6, &mut out, &mut [0.0], 1);
        assert!(are_nan(&out));
        out.fill(one);
        rotate(&x, Angles { cos: &good[..20], sin: &good[..20] }, 1, 40, 1.0, &mut out, 1);
        assert!(are_nan(&out));
    }

    #[test]
    fn what_is_empty_stays_empty() {
        swiglu::<f32>(&[], &[], &mut [], 4);
        rms_norm(&[], &[1.0], 1e-6, &mut [], &mut [], 4);
        rotate::<Bf16>(&[], Angles { cos: &[], sin: &[] }, 2, 8, 1.0, &mut [], 4);
    }
}
