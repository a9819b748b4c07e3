//! Merging bytes into tokens: always the pair of lowest rank, the leftmost among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

use super::compile::Compiled;
use super::{Span, supervised};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merge {
    pub left: u32,
    pub right: u32,
    pub into: u32,
}

/// Pieces up to this many bytes are merged by looking through all pairs each time, longer ones with a heap.
const LINEAR: usize = 48;
const NONE: u32 = u32::MAX;
/// In place of the id of a byte that has no token.
pub const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    pair: u64,
    rank: u32,
    into: u32,
}

pub struct Bpe {
    /// Open addressing, at most half full.
    table: Vec<Entry>,
    mask: usize,
    bytes: [u32; 256],
    /// Some byte has no token: it vanishes from a text, as in `tokenizers`.
    incomplete: bool,
    /// Every token's bytes, end to end, and where each ends.
    text: Vec<u8>,
    ends: Vec<u32>,
    /// Only where whole words go before merges.
    whole: Option<HashMap<Box<[u8]>, u32>>,
}

impl Bpe {
    pub fn new(compiled: &Compiled) -> Self {
        let capacity = (compiled.merges.len() * 2).next_power_of_two().max(64);
        let mut bpe = Self {
            table: vec![Entry { pair: u64::MAX, rank: NONE, into: NONE }; capacity],
            mask: capacity - 1,
            bytes: compiled.bytes,
            incomplete: compiled.bytes.contains(&ABSENT),
            text: compiled.text.clone(),
            ends: compiled.ends.clone(),
            whole: None,
        };
        for (rank, merge) in compiled.merges.iter().enumerate() {
            bpe.insert(*merge, rank as u32);
        }
        bpe.whole = compiled.whole_words.then(|| bpe.vocabulary());
        bpe
    }

    fn vocabulary(&self) -> HashMap<Box<[u8]>, u32> {
        (0..self.ends.len() as u32)
            .filter_map(|id| self.bytes_of(id).map(|bytes| (bytes.into(), id)))
            .filter(|(bytes, _): &(Box<[u8]>, u32)| !bytes.is_empty())
            .collect()
    }

    pub fn bytes_of(&self, id: u32) -> Option<&[u8]> {
        let end = *self.ends.get(id as usize)? as usize;
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] as usize };
        Some(&self.text[start..end])
    }

    /// Flags the ids of a piece that begins at `position`: token lengths, added up, say where each one begins,
    /// so that no offsets are kept while encoding.
    #[inline]
    pub fn mark(&self, parts: &[Span], mut position: usize, ids: &mut [u32]) {
        for id in ids {
            let length = self.bytes_of(*id).map_or(0, <[u8]>::len);
            *id |= supervised(parts, position);
            position += length;
        }
    }

    pub fn encode(&self, word: &[u8], out: &mut Vec<u32>) {
        if self.incomplete && word.iter().any(|byte| self.bytes[*byte as usize] == ABSENT) {
            let known: Vec<u8> =
                word.iter().copied().filter(|byte| self.bytes[*byte as usize] != ABSENT).collect();
            return if known.is_empty() { () } else { self.encode(&known, out) };
        }
        if let Some(id) = self.whole.as_ref().and_then(|whole| whole.get(word)) {
            return out.push(*id);
        }
        match word.len() {
            1 => out.push(self.bytes[word[0] as usize]),
            2..=LINEAR => self.merge_short(word, out),
            _ => self.merge_long(word, out),
        }
    }

    fn merge_short(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut ids = [0u32; LINEAR];
        let mut pairs = [(NONE, NONE); LINEAR];
        let mut count = word.len();
        for (id, byte) in ids.iter_mut().zip(word) {
            *id = self.bytes[*byte as usize];
        }
        for at in 0..count - 1 {
            pairs[at] = self.find(ids[at], ids[at + 1]);
        }
        while let Some(at) = lowest(&pairs[..count - 1]) {
            ids[at] = pairs[at].1;
            ids.copy_within(at + 2..count, at + 1);
            pairs.copy_within(at + 1..count - 1, at);
            count -= 1;
            if at > 0 {
                pairs[at - 1] = self.find(ids[at - 1], ids[at]);
            }
            if at + 1 < count {
                pairs[at] = self.find(ids[at], ids[at + 1]);
            }
        }
        out.extend_from_slice(&ids[..count]);
    }

    fn merge_long(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut chain = Chain::new(word.iter().map(|byte| self.bytes[*byte as usize]).collect());
        let mut heap = BinaryHeap::with_capacity(word.len());
        for at in 0..word.len() - 1 {
            self.offer(&chain, at as u32, &mut heap);
        }
        while let Some(Reverse((rank, at))) = heap.pop() {
            let Some((left, right)) = chain.pair(at) else { continue };
            let (now, into) = self.find(left, right);
            // An entry whose pair has changed since is stale; the change has offered the new pair.
            if now != rank {
                continue;
            }
            chain.join(at, into);
            self.offer(&chain, at, &mut heap);
            if let Some(before) = chain.before(at) {
                self.offer(&chain, before, &mut heap);
            }
        }
        out.extend(chain.ids());
    }

    fn offer(&self, chain: &Chain, at: u32, heap: &mut BinaryHeap<Reverse<(u32, u32)>>) {
        if let Some((left, right)) = chain.pair(at) {
            let (rank, _) = self.find(left, right);
            if rank != NONE {
                heap.push(Reverse((rank, at)));
            }
        }
    }

    fn insert(&mut self, merge: Merge, rank: u32) {
        let pair = pack(merge.left, merge.right);
        let mut place = hash(pair) & self.mask;
        while self.table[place].pair != u64::MAX && self.table[place].pair != pair {
            place = (place + 1) & self.mask;
        }
        self.table[place] = Entry { pair, rank, into: merge.into };
    }

    #[inline]
    fn find(&self, left: u32, right: u32) -> (u32, u32) {
        let pair = pack(left, right);
        let mut place = hash(pair) & self.mask;
        loop {
            let entry = &self.table[place];
            if entry.pair == pair {
                return (entry.rank, entry.into);
            }
            if entry.pair == u64::MAX {
                return (NONE, NONE);
            }
            place = (place + 1) & self.mask;
        }
    }
}

#[inline]
fn lowest(pairs: &[(u32, u32)]) -> Option<usize> {
    let mut best = NONE;
    let mut place = None;
    for (at, (rank, _)) in pairs.iter().enumerate() {
        if *rank < best {
            best = *rank;
            place = Some(at);
        }
    }
    place
}

#[inline]
fn pack(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[inline]
fn hash(pair: u64) -> usize {
    let mixed = (pair ^ (pair >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize ^ (mixed as usize >> 7)
}

/// Symbols of a long word as a doubly linked list in an array.
struct Chain {
    symbols: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Chain {
    fn new(symbols: Vec<u32>) -> Self {
        let count = symbols.len() as u32;
        let next = (1..count).chain([NONE]).collect();
        let previous = [NONE].into_iter().chain(0..count - 1).collect();
        Self { symbols, next, previous }
    }

    /// The symbols at `at` and after it; none where `at` has been joined away or is the last.
    fn pair(&self, at: u32) -> Option<(u32, u32)> {
        let left = self.symbols[at as usize];
        let next = self.next[at as usize];
        (left != NONE && next != NONE).then(|| (left, self.symbols[next as usize]))
    }

    fn join(&mut self, at: u32, into: u32) {
        let gone = self.next[at as usize] as usize;
        let after = self.next[gone];
        self.symbols[at as usize] = into;
        self.symbols[gone] = NONE;
        self.next[at as usize] = after;
        if after != NONE {
            self.previous[after as usize] = at;
        }
    }

    fn before(&self, at: u32) -> Option<u32> {
        let place = self.previous[at as usize];
        (place != NONE).then_some(place)
    }

    fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.symbols.iter().copied().filter(|symbol| *symbol != NONE)
    }
}
