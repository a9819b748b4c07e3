//! Lengths of the rows, as a token cache has counted them.

use std::fmt;

use crate::results::CacheRecord;

/// How many rows there are of what length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLengths {
    /// Rows that are at most this long, and longer than the bound before; one list per split.
    bins: Vec<Vec<(u64, u64)>>,
    /// Of each split.
    longest: Vec<u64>,
    /// `max_seq_length` when they were counted.
    limit: u64,
    /// Those that `limit` cut or split, which are in `bins` as they became.
    shortened: u64,
    /// Those that `limit` dropped, which are in no bin.
    dropped: u64,
}

/// How many rows are longer than a length: a bin may hold both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Longer {
    pub least: u64,
    pub most: u64,
    pub of: u64,
}

impl RowLengths {
    /// None where the cache does not know them.
    pub fn of(record: &CacheRecord) -> Option<Self> {
        let limit = record.inputs.get("max_seq_length")?.as_u64()?;
        let splits: Vec<_> = record.splits.values().filter(|it| it.documents > 0).collect();
        let longest = splits.iter().map(|it| it.length_quantiles.last().copied()).collect::<Option<_>>()?;
        let bins: Vec<_> = splits.iter().map(|it| it.length_histogram.clone()).collect();
        let counts = || record.sources.iter().map(|it| &it.counts);
        (!bins.is_empty() && bins.iter().all(|it| !it.is_empty())).then_some(Self {
            bins,
            longest,
            limit,
            shortened: counts().map(|it| it.truncated + it.split_rows).sum(),
            dropped: counts().map(|it| it.dropped_overlong).sum(),
        })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// None beyond what the cache has counted.
    pub(super) fn longer_than(&self, length: u64) -> Option<Longer> {
        if length > self.limit {
            return None;
        }
        let mut found = Longer { least: self.dropped, most: self.dropped, of: self.dropped };
        for (bins, longest) in self.bins.iter().zip(&self.longest) {
            let mut above = 0;
            for (bound, count) in bins {
                found.of += count;
                // The longest row is at the end of the last bin, if not of its bound.
                let bound = (*bound).min(*longest);
                found.most += if bound > length { *count } else { 0 };
                found.least += if above >= length { *count } else { 0 };
                above = bound;
            }
        }
        if length == self.limit {
            found.least += self.shortened;
            found.most += self.shortened;
        }
        Some(found)
    }
}

impl fmt::Display for Longer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most, of } = self;
        if least == most {
            write!(out, "{least} of {of} rows")
        } else {
            write!(out, "{least} to {most} of {of} rows")
        }
    }
}
