//! Cross entropy of rows of logits, and their gradient in the logits' place.
//!
//! Computed in fp32, by sums in a fixed order: the results are the same bytes with any instructions and any number of threads.

use super::dispatch::for_this_processor;
use super::math::{largest_of, sum_over};
use super::number::Number;
use super::parallel::{in_parallel, rows_of_part};

/// The loss of each row, 0 where its label is `ignored`; with `want_grad`, `logits` become its gradient. Other labels are below
/// the number of logits in a row.
pub fn row_losses<N: Number>(
    logits: &mut [N],
    labels: &[i64],
    ignored: i64,
    want_grad: bool,
    losses: &mut [f32],
    threads: usize,
) {
    let words = logits.len() / labels.len().max(1);
    let rows = rows_of_part(labels.len(), words, threads);
    let parts =
        logits.chunks_mut((rows * words).max(1)).zip(labels.chunks(rows)).zip(losses.chunks_mut(rows));
    in_parallel(parts, |((logits, labels), losses)| {
        let rows = logits.chunks_exact_mut(words).zip(labels).zip(losses);
        for ((logits, label), loss) in rows {
            let label = (*label != ignored).then_some(*label as usize);
            row_loss(logits, label, want_grad, loss);
        }
    });
}

for_this_processor! {
    fn row_loss<N>(logits: &mut [N], label: Option<usize>, want_grad: bool, loss: &mut f32) {
        let Some(label) = label else {
            *loss = 0.0;
            if want_grad {
                logits.fill(N::nearest(0.0));
            }
            return;
        };
        let peak = largest_of(logits);
        let total = sum_over([&*logits], |[logit]| N::exp(logit - peak));
        let chosen = logits[label].wide();
        *loss = f64::from(total).ln() as f32 + peak - chosen;
        if want_grad {
            let share = 1.0 / total;
            for logit in logits.iter_mut() {
                *logit = N::nearest(N::exp(logit.wide() - peak) * share);
            }
            logits[label] = N::nearest(N::exp(chosen - peak) * share - 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::number::Bf16;

    const IGNORED: i64 = -100;

    /// Rows of logits between -8 and 8, and their labels; the second row's is ignored.
    fn rows<N: Number>(rows: usize, words: usize) -> (Vec<N>, Vec<i64>) {
        let numbers =
            (0..rows * words).map(|it| N::nearest((it * 7919 % 1009) as f32 / 63.0 - 8.0)).collect();
        let labels = (0..rows).map(|row| if row == 1 { IGNORED } else { (row * 31 % words) as i64 });
        (numbers, labels.collect())
    }

    fn losses_and_gradients_are_those_of_f64<N: Number>(unit: f64) {
        for words in [1, 31, 32, 97, 1000] {
            let (logits, labels) = rows::<N>(5, words);
            let (mut grads, mut losses) = (logits.clone(), [f32::NAN; 5]);
            row_losses(&mut grads, &labels, IGNORED, true, &mut losses, 1);
            for row in 0..5 {
                let at = |place: usize| f64::from(logits[row * words + place].wide());
                let whole: f64 = (0..words).map(|place| at(place).exp()).sum();
                let label = usize::try_from(labels[row]).ok();
                let loss = label.map_or(0.0, |label| whole.ln() - at(label));
                assert!((f64::from(losses[row]) - loss).abs() <= 1e-5, "{words}");
                for place in 0..words {
                    let share = at(place).exp() / whole - f64::from(u8::from(label == Some(place)));
                    let wanted = if label.is_some() { share } else { 0.0 };
                    let found = f64::from(grads[row * words + place].wide());
                    assert!((found - wanted).abs() <= unit * wanted.abs() + 1e-6, "{words} {found} {wanted}");
                }
            }
        }
    }

    #[test]
    fn losses_and_gradients_are_those_of_f64_in_fp32() {
        losses_and_gradients_are_those_of_f64::<f32>(1e-5);
    }

    #[test]
    fn losses_and_gradients_are_those_of_f64_in_bf16() {
        losses_and_gradients_are_those_of_f64::<Bf16>(0.003_91);
    }

    #[test]
    fn without_a_gradient_the_logits_stay() {
        let (logits, labels) = rows::<Bf16>(3, 70);
        let (mut same, mut without, mut with) = (logits.clone(), [0.0; 3], [0.0; 3]);
        row_losses(&mut same, &labels, IGNORED, false, &mut without, 1);
        assert_eq!(same, logits);
        row_losses(&mut same, &labels, IGNORED, true, &mut with, 1);
        assert_eq!(without.map(f32::to_bits), with.map(f32::to_bits));
    }

    #[test]
    fn large_logits_do_not_overflow_and_a_nan_does_not_vanish() {
        let mut logits = [200.0, 0.0, -200.0, f32::NAN].map(Bf16::nearest);
        let mut losses = [f32::NAN];
        row_losses(&mut logits[..3], &[1], IGNORED, true, &mut losses, 1);
        assert!((losses[0] - 200.0).abs() < 1e-3);
        assert_eq!(logits[..3].iter().map(|it| it.wide()).collect::<Vec<_>>(), [1.0, -1.0, 0.0]);
        row_losses(&mut logits, &[0], IGNORED, true, &mut losses, 1);
        assert!(losses[0].is_nan() && logits.iter().all(|it| it.wide().is_nan()));
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let found = [1, 2, 3].map(|threads| {
            let (mut logits, labels) = rows::<Bf16>(40, 20_001);
            let mut losses = vec![f32::NAN; 40];
            row_losses(&mut logits, &labels, IGNORED, true, &mut losses, threads);
            (logits, losses)
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
        row_losses::<Bf16>(&mut [], &[], IGNORED, true, &mut [], 2);
    }
}
