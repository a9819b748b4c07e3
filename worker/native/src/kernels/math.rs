//! Functions of numbers and rows that are compiled into the kernels.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

use super::number::Number;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts: the product of the first with a whole number below 128 is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Added to a small number, it leaves the nearest whole number in the low bits.
const ROUND: f32 = 12_582_912.0;

/// e^x to three units in the last place, without branches; 0 below -87, and above 88 the value of 88.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    exp_with(x, |left, right, number| left * right + number)
}

/// The same by fused multiply-adds, for kernels that run only where they are instructions.
#[inline(always)]
pub fn exp_fused(x: f32) -> f32 {
    exp_with(x, f32::mul_add)
}

#[inline(always)]
fn exp_with(x: f32, multiply_add: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let held = x.clamp(-87.0, 88.0);
    let shifted = multiply_add(held, LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = multiply_add(whole, -LN2_LOW, multiply_add(whole, -LN2_HIGH, held));
    // Taylor's series to the seventh power: |rest| is at most ln 2 / 2.
    let mut sum = 1.0 / 5040.0;
    for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = multiply_add(sum, rest, factor);
    }
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    let found = sum * f32::from_bits(exponent << 23);
    if x < -87.0 { 0.0 } else { found }
}

/// Numbers that are treated side by side, so that they fill registers.
pub const LANES: usize = 32;

/// The sum of `term` over the places of a row of `width`.
#[inline(always)]
pub fn sum(width: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let whole = width / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, place) in lanes.iter_mut().zip(start..start + LANES) {
            *lane += term(place);
        }
    }
    for (lane, place) in lanes.iter_mut().zip(whole..width) {
        *lane += term(place);
    }
    total(lanes)
}

/// Works on `LANES` places at a time of rows of one length, then on the last ones: `work` is called with a lane and the numbers
/// at its place.
#[inline(always)]
fn by_lanes<N: Number, const ROWS: usize>(rows: [&[N]; ROWS], mut work: impl FnMut(usize, [f32; ROWS])) {
    let (whole, last) =
        (rows.map(|row| row.as_chunks::<LANES>().0), rows.map(|row| row.as_chunks::<LANES>().1));
    for part in 0..whole[0].len() {
        // Of a known length: no index is checked inside the loop.
        let parts = whole.map(|row| &row[part]);
        for lane in 0..LANES {
            work(lane, parts.map(|row| row[lane].wide()));
        }
    }
    for lane in 0..last[0].len().min(LANES) {
        work(lane, last.map(|row| row[lane].wide()));
    }
}

/// The sum of `term` over the places of rows of one length.
#[inline(always)]
pub fn sum_over<N: Number, const ROWS: usize>(rows: [&[N]; ROWS], term: impl Fn([f32; ROWS]) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    by_lanes(rows, |lane, numbers| lanes[lane] += term(numbers));
    total(lanes)
}

/// The largest of a row of any length; NaN is skipped.
#[inline(always)]
pub fn largest_of<N: Number>(row: &[N]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    by_lanes([row], |lane, [number]| lanes[lane] = if number > lanes[lane] { number } else { lanes[lane] });
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// The sum of numbers, by halves.
#[inline(always)]
pub fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for place in 0..count {
            lanes[place] += lanes[place + count];
        }
    }
    lanes[0]
}

/// The largest of a row; NaN is skipped.
#[inline(always)]
pub fn largest(row: &[[f32; LANES]]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for part in row {
        for (lane, number) in lanes.iter_mut().zip(part) {
            *lane = if *number > *lane { *number } else { *lane };
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_f64_to_three_units() {
        for step in -8700..=8800 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            for found in [exp(x), exp_fused(x)] {
                assert!((f64::from(found) - exact).abs() <= 4e-7 * exact, "{x}");
            }
        }
        for exp in [exp, exp_fused] {
            assert!(exp(f32::NEG_INFINITY) == 0.0 && exp(1000.0) > 1e38 && exp(f32::NAN).is_nan());
        }
    }

    #[test]
    fn a_sum_over_rows_is_that_over_their_places() {
        let row: Vec<f32> = (0..100).map(|it| (it as f32).sin()).collect();
        for width in [0, 1, 31, 32, 33, 64, 100] {
            let (left, right) = (&row[..width], &row[100 - width..]);
            let found = sum_over([left, right], |[one, other]| one * other);
            let wanted = sum(width, |place| left[place] * right[place]);
            assert_eq!(found.to_bits(), wanted.to_bits());
        }
    }

    #[test]
    fn the_largest_is_found_in_a_row_of_any_length() {
        for (length, place) in [(1, 0), (31, 30), (32, 31), (33, 32), (100, 40)] {
            let mut row = vec![-3.0f32; length];
            row[place] = -2.0;
            assert!((largest_of(&row) + 2.0).abs() < f32::EPSILON);
        }
        assert!(largest_of::<f32>(&[]) == f32::NEG_INFINITY && largest_of(&[f32::NAN, 1.0]) > 0.0);
    }

    #[test]
    fn the_largest_is_found_at_every_place() {
        for (length, place) in [(32, 0), (32, 31), (128, 5), (128, 64), (128, 127)] {
            let mut row = vec![-3.0; length];
            row[place] = -2.0;
            assert!((largest(row.as_chunks().0) + 2.0).abs() < f32::EPSILON);
        }
    }
}
