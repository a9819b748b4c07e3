//! Attention in f64, for tests.

use super::Shape;

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| 2.0 * next()).collect()
}

/// Results and gradients in the order: out, log sums, of queries, keys, values.
pub type Found<N> = [Vec<N>; 5];

pub struct Case {
    pub lengths: Vec<usize>,
    pub heads: usize,
    pub groups: usize,
    pub width: usize,
    /// Queries, keys, values and the gradient of the result.
    pub memory: [Vec<f32>; 4],
}

impl Case {
    pub fn new(lengths: &[usize], heads: usize, groups: usize, width: usize) -> Self {
        let tokens: usize = lengths.iter().sum();
        let sizes = [heads, groups, groups, heads].map(|count| tokens * count * width);
        let memory = [0, 1, 2, 3].map(|place| numbers(sizes[place], place as u32 + 1));
        Self { lengths: lengths.to_vec(), heads, groups, width, memory }
    }

    pub fn shape(&self) -> Shape<'_> {
        let Self { heads, groups, width, .. } = *self;
        Shape { lengths: &self.lengths, heads, groups, width, scale: 0.3 }
    }

    /// The same in f64, as it is written in textbooks.
    pub fn exact(&self) -> Found<f64> {
        let Self { heads, groups, width, .. } = *self;
        let [queries, keys, values, grad] = &self.memory;
        let at = |memory: &[f32], count: usize, token: usize, head: usize, place: usize| {
            f64::from(memory[(token * count + head) * width + place])
        };
        let mut found = [queries.len(), queries.len() / width, queries.len(), keys.len(), values.len()]
            .map(|size| vec![0.0; size]);
        let mut start = 0;
        for length in &self.lengths {
            for (head, token) in (0..heads).flat_map(|head| (start..start + length).map(move |it| (head, it)))
            {
                let group = head * groups / heads;
                let dot = |memory: &[f32], query: &[f32], other: usize| -> f64 {
                    (0..width)
                        .map(|it| at(query, heads, token, head, it) * at(memory, groups, other, group, it))
                        .sum()
                };
                let scale = f64::from(0.3f32);
                let weights: Vec<f64> =
                    (start..=token).map(|it| (dot(keys, queries, it) * scale).exp()).collect();
                let whole: f64 = weights.iter().sum();
                let slopes: Vec<f64> = (start..=token).map(|other| dot(values, grad, other)).collect();
                let mean = weights.iter().zip(&slopes).map(|(one, other)| one * other).sum::<f64>() / whole;
                found[1][token * heads + head] = whole.ln();
                for (other, (weight, slope)) in (start..).zip(weights.iter().zip(&slopes)) {
                    let weight = weight / whole;
                    let slope = weight * (slope - mean) * scale;
                    for it in 0..width {
                        let (own, shared) =
                            ((token * heads + head) * width + it, (other * groups + group) * width + it);
                        found[0][own] += weight * f64::from(values[shared]);
                        found[2][own] += slope * f64::from(keys[shared]);
                        found[3][shared] += slope * f64::from(queries[own]);
                        found[4][shared] += weight * f64::from(grad[own]);
                    }
                }
            }
            start += length;
        }
        found
    }
}
