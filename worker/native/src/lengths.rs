//! How many documents there are of what length, finely enough to be drawn.

/// Bounds between one length and twice as much: bins look equally wide on a logarithmic axis. Documents of nearly one
/// length have finer ones, as many as their number makes worth drawing.
const BINS_AN_OCTAVE: f64 = 8.0;
const FINEST: f64 = 64.0;
const BINS: (f64, f64) = (5.0, 24.0);

/// Documents by length: how many are at most so many tokens long, and longer than the bound before. Bounds follow one
/// another without a gap; the first counts nothing, and says where the shortest bin begins.
pub fn histogram(lengths: impl Iterator<Item = u32> + Clone) -> Vec<(u32, u64)> {
    let bounds = bounds(bins_an_octave(lengths.clone()));
    let mut counts = vec![0u64; bounds.len()];
    for length in lengths {
        counts[bounds.partition_point(|bound| *bound < length)] += 1;
    }
    let Some(first) = counts.iter().position(|count| *count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    let from = first.saturating_sub(1);
    bounds[from..=last].iter().copied().zip(counts[from..=last].iter().copied()).collect()
}

fn bins_an_octave(lengths: impl Iterator<Item = u32>) -> f64 {
    let (mut count, mut shortest, mut longest) = (0u64, u32::MAX, 1);
    for length in lengths {
        (count, shortest, longest) = (count + 1, shortest.min(length.max(1)), longest.max(length));
    }
    let octaves = (f64::from(longest) / f64::from(shortest.min(longest))).log2();
    let wanted = (count as f64).sqrt().clamp(BINS.0, BINS.1);
    (wanted / octaves).clamp(BINS_AN_OCTAVE, FINEST).round()
}

/// From nothing to the longest that there can be.
fn bounds(an_octave: f64) -> Vec<u32> {
    let octaves = (0..u32::BITS * an_octave as u32).map(|index| {
        let bound = (f64::from(index) / an_octave).exp2().round();
        // Below 2^32, which only the last bound could reach.
        if bound < f64::from(u32::MAX) { bound as u32 } else { u32::MAX }
    });
    let mut bounds: Vec<u32> = std::iter::once(0).chain(octaves).chain([u32::MAX]).collect();
    bounds.dedup();
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_falls_into_the_bin_that_ends_at_or_after_it() {
        let bounds = bounds(FINEST);
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        for length in [1, 2, 3, 7, 8, 9, 127, 128, 129, 2_048, 40_960, u32::MAX] {
            let bins = histogram([length].into_iter());
            let [(before, 0), (bound, 1)] = bins[..] else { panic!("{bins:?}") };
            assert!(before < length && length <= bound, "{length}: {bins:?}");
        }
    }

    #[test]
    fn bins_follow_one_another_and_lose_nobody() {
        let bins = histogram([100, 60, 60, 200].into_iter());
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!((bins[0].1, bins[1].1, bins.last().map(|bin| bin.1)), (0, 2, Some(1)));
        let bounds = bounds(BINS_AN_OCTAVE);
        let start = bounds.iter().position(|bound| *bound == bins[0].0).unwrap();
        assert!(bins.iter().zip(&bounds[start..]).all(|((bound, _), wanted)| bound == wanted));
        assert!(bins.len() > 10, "{bins:?}");
        assert_eq!(histogram(std::iter::empty()), []);
    }

    #[test]
    fn documents_of_nearly_one_length_have_finer_bins() {
        let bars = |lengths: Vec<u32>| histogram(lengths.into_iter()).len() - 1;
        assert_eq!(bars((0..300).map(|index| 96 + index % 8).collect()), 8, "a bar for each length");
        assert!((5..=9).contains(&bars((0..40).map(|index| 72 + index % 34).collect())), "few documents");
        assert!((15..=30).contains(&bars((0..5_000).map(|index| 72 + index % 34).collect())), "many");
        assert_eq!(bars(vec![70; 100]), 1);
    }
}
