//! Documents that begin alike, such as questions about the same tables: their common beginning stands in a row once.
//!
//! Only documents that follow one another are compared. What they share is not learned in any of them, and the token
//! after it neither, so that each learned token still has its predecessor among the document's remaining tokens.

use crate::pack::{Packed, best_fit};
use crate::spill::{Document, Spill};

/// Shorter beginnings are repeated: what they save is less than what following them costs.
const LEAST: u32 = 32;

/// Runs of documents; all documents of a family but the first continue the first one's beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Families {
    /// Family `f` is the documents `starts[f]..starts[f + 1]`.
    starts: Vec<u32>,
    /// Of each document, the tokens that it shares with its family's first; 0 for the first.
    pub shared: Vec<u32>,
}

impl Families {
    /// No family has more tokens than `capacity`.
    pub fn find(spill: &Spill, documents: &[Document], capacity: u32) -> Self {
        let mut found = Self { starts: Vec::new(), shared: vec![0; documents.len()] };
        let mut open: Option<Open> = None;
        let mut ids = Vec::new();
        for (at, document) in documents.iter().enumerate() {
            let free = unlearned(spill, *document, &mut ids);
            if let Some(family) = &mut open
                && family.take(document.length, free, &ids, capacity)
            {
                continue;
            }
            if let Some(family) = open.take() {
                family.close(&mut found);
            }
            open = Some(Open::new(at as u32, document.length, free, &mut ids));
        }
        if let Some(family) = open {
            family.close(&mut found);
        }
        found.starts.push(documents.len() as u32);
        found
    }

    /// Every document alone.
    pub fn apart(count: usize) -> Self {
        Self { starts: (0..=count as u32).collect(), shared: vec![0; count] }
    }

    /// Families into rows, as `best_fit` packs documents.
    pub fn pack(&self, documents: &[Document], capacity: u32) -> Packed {
        let lengths: Vec<u32> = self.runs().map(|run| self.tokens(documents, run)).collect();
        let rows = best_fit(&lengths, capacity);
        let (mut starts, mut members) = (vec![0], Vec::with_capacity(documents.len()));
        for row in 0..rows.rows() {
            for family in rows.row(row) {
                members.extend(self.starts[*family as usize]..self.starts[*family as usize + 1]);
            }
            starts.push(members.len() as u32);
        }
        Packed { starts, documents: members }
    }

    fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.starts.windows(2).map(|run| run[0] as usize..run[1] as usize)
    }

    fn tokens(&self, documents: &[Document], run: std::ops::Range<usize>) -> u32 {
        run.map(|at| documents[at].length - self.shared[at]).sum()
    }
}

/// A family that may get further documents.
struct Open {
    first: u32,
    count: u32,
    /// Ids of the first document that may be shared.
    beginning: Vec<i32>,
    /// Tokens that all documents have in common so far.
    shared: u32,
    /// Tokens of all documents, shared ones counted each time: of many long documents more than 32 bits hold.
    together: u64,
}

impl Open {
    fn new(first: u32, length: u32, free: u32, ids: &mut Vec<i32>) -> Self {
        let mut beginning = std::mem::take(ids);
        beginning.truncate(free as usize);
        Self { first, count: 1, shared: beginning.len() as u32, beginning, together: u64::from(length) }
    }

    /// Takes the next document where that leaves fewer tokens than a family that begins with it would.
    fn take(&mut self, length: u32, free: u32, ids: &[i32], capacity: u32) -> bool {
        let most = free.min(self.shared) as usize;
        let common =
            self.beginning[..most].iter().zip(ids).take_while(|(one, other)| one == other).count() as u32;
        let (before, after) = (self.saved(), u64::from(common) * u64::from(self.count));
        let together = self.together + u64::from(length);
        if common < LEAST || after <= before || together - after > u64::from(capacity) {
            return false;
        }
        self.shared = common;
        self.count += 1;
        self.together = together;
        true
    }

    fn saved(&self) -> u64 {
        u64::from(self.shared) * u64::from(self.count - 1)
    }

    fn close(self, found: &mut Families) {
        found.starts.push(self.first);
        let others = self.first as usize + 1..(self.first + self.count) as usize;
        found.shared[others].fill(self.shared);
    }
}

/// Fills `ids` with the document's tokens before the learned ones and returns how many of them may be shared.
fn unlearned(spill: &Spill, document: Document, ids: &mut Vec<i32>) -> u32 {
    let stored = spill.document(document);
    let first = stored.runs().next().unwrap_or_default().min(document.length);
    ids.resize(first as usize, 0);
    stored.ids(ids);
    first.min(document.length).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_bounded_where_its_documents_have_more_tokens_than_32_bits_hold() {
        let ids: Vec<i32> = (0..40).collect();
        let (long, capacity) = (2_500_000_000, 3_000_000_000);
        let mut family = Open::new(0, long, 40, &mut ids.clone());
        assert!(!family.take(long, 40, &ids, capacity));
        assert!(family.take(400_000_000, 40, &ids, capacity));
    }
}
