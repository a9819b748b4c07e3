//! Exact and near copies among rows: between the parts of a data set, and within one.
//!
//! A near copy has the same answer, except for case and spacing, to a question that shares most of its words. Rows of a
//! template share most words too, but their answers differ. Candidates come from MinHash signatures in bands; each is
//! confirmed by the Jaccard similarity of words and pairs of words.

mod sketch;

use std::collections::HashSet;

pub use sketch::{Sketcher, Sketches};

/// Examples of copies between two parts.
const MOST_EXAMPLES: usize = 3;
/// Rows of a part that another row of the same band is compared with.
const MOST_COMPARED: usize = 8;

/// Rows of a part that copy a row of an earlier part, or an earlier row of the part itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Overlap {
    pub part: usize,
    pub of: usize,
    pub exact: u64,
    pub near: u64,
    /// The first rows, each with the one that it copies.
    pub examples: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
pub struct Found {
    /// Only of parts that have copies.
    pub overlaps: Vec<Overlap>,
    /// Rows of the first part that copy an earlier one of it, in order, each with that one.
    pub repeats: Vec<(u32, u32)>,
    /// Rows that copy one of an earlier part, in order, each with the first such row that was found.
    pub across: Vec<(u32, u32)>,
}

/// `ends` has the end of each part's rows.
pub fn find(rows: &Sketches, ends: &[u32]) -> Found {
    let mut search = Search { rows, ends, found: Found::default(), known: HashSet::new() };
    search.equal();
    for band in 0..sketch::BANDS {
        search.near(band);
    }
    let mut found = search.found;
    found.overlaps.sort_by_key(|overlap| (overlap.part, overlap.of));
    found.repeats.sort_unstable();
    found.across.sort_unstable();
    found
}

struct Search<'a> {
    rows: &'a Sketches,
    ends: &'a [u32],
    found: Found,
    /// Rows that copy a row of a part.
    known: HashSet<(u32, usize)>,
}

impl Search<'_> {
    /// Rows whose normalised texts are equal.
    fn equal(&mut self) {
        let rows = self.rows;
        self.groups(
            |row| rows.content(row),
            |search, group| {
                // The first row of each part, and all that the part's rows are exactly.
                let mut firsts: Vec<(usize, u32, HashSet<u128>)> = Vec::new();
                for row in group {
                    let part = search.part(*row);
                    let print = search.rows.fingerprint(*row);
                    for (of, first, prints) in &firsts {
                        search.note(*row, *of, *first, prints.contains(&print));
                    }
                    match firsts.iter_mut().find(|(of, ..)| *of == part) {
                        Some((_, _, prints)) => _ = prints.insert(print),
                        None => firsts.push((part, *row, HashSet::from([print]))),
                    }
                }
            },
        );
    }

    /// Rows with the same signature in a band that resemble each other.
    fn near(&mut self, band: usize) {
        let rows = self.rows;
        self.groups(
            |row| rows.band(row, band),
            |search, group| {
                let mut compared: Vec<(usize, u32)> = Vec::new();
                for row in group {
                    let part = search.part(*row);
                    for (of, other) in &compared {
                        if !search.known.contains(&(*row, *of)) && search.rows.resemble(*row, *other) {
                            search.note(*row, *of, *other, false);
                        }
                    }
                    let of_part = compared.iter().filter(|(of, _)| *of == part).count();
                    if of_part < MOST_COMPARED && !search.known.contains(&(*row, part)) {
                        compared.push((part, *row));
                    }
                }
            },
        );
    }

    /// Calls `each` with rows that have the same key, where there are two or more, in their order.
    fn groups<K: Ord + Copy>(&mut self, key: impl Fn(u32) -> K, mut each: impl FnMut(&mut Self, &[u32])) {
        let mut keyed: Vec<(K, u32)> = (0..self.rows.len() as u32).map(|row| (key(row), row)).collect();
        keyed.sort_unstable();
        let mut group = Vec::new();
        for same in keyed.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
            group.clear();
            group.extend(same.iter().map(|(_, row)| *row));
            each(self, &group);
        }
    }

    fn part(&self, row: u32) -> usize {
        self.ends.partition_point(|end| *end <= row)
    }

    fn note(&mut self, row: u32, of: usize, original: u32, exact: bool) {
        if !self.known.insert((row, of)) {
            return;
        }
        let part = self.part(row);
        let overlaps = &mut self.found.overlaps;
        let place = overlaps.iter().position(|it| (it.part, it.of) == (part, of)).unwrap_or_else(|| {
            overlaps.push(Overlap { part, of, ..Overlap::default() });
            overlaps.len() - 1
        });
        let overlap = &mut overlaps[place];
        overlap.exact += u64::from(exact);
        overlap.near += u64::from(!exact);
        overlap.examples.push((row, original));
        overlap.examples.sort_unstable();
        overlap.examples.truncate(MOST_EXAMPLES);
        match (part, of) {
            (0, 0) => self.found.repeats.push((row, original)),
            _ if part != of => self.found.across.push((row, original)),
            _ => {}
        }
    }
}
