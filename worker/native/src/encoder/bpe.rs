//! Merging bytes into tokens: always the pair of lowest rank, the leftmost among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// Bits of an id and of a rank in a table entry: both ids and the rank fit one word.
const ID_BITS: u32 = 20;
const RANK_BITS: u32 = 24;
/// Tokenizers with more tokens or merges than this are left to the fallback.
pub const MOST_IDS: usize = 1 << ID_BITS;
pub const MOST_MERGES: usize = 1 << RANK_BITS;
const EMPTY: u64 = u64::MAX;

pub struct Bpe {
    /// Open addressing, at most two thirds full: both ids of a pair above its rank.
    table: Vec<u64>,
    shift: u32,
    /// Rank of every pair of bytes, which is what every new word begins with.
    byte_pairs: Vec<u32>,
    /// What the pair of each rank becomes.
    into: Vec<u32>,
    bytes: [u32; 256],
    /// Some byte has no token: it vanishes from a text, as in `tokenizers`.
    incomplete: bool,
    /// Every token's bytes, end to end, and where each ends.
    text: Vec<u8>,
    ends: Vec<u32>,
    /// Ids of words that come out as one token, by their bytes' hash: the commonest case of a new word.
    whole: Vec<u32>,
}

impl Bpe {
    pub fn new(compiled: &Compiled) -> Self {
        let capacity = (compiled.merges.len() * 3 / 2).next_power_of_two().max(64);
        let mut bpe = Self {
            table: vec![EMPTY; capacity],
            shift: 64 - capacity.trailing_zeros(),
            byte_pairs: Vec::new(),
            into: compiled.merges.iter().map(|merge| merge.into).collect(),
            bytes: compiled.bytes,
            incomplete: compiled.bytes.contains(&ABSENT),
            text: compiled.text.clone(),
            ends: compiled.ends.clone(),
            whole: Vec::new(),
        };
        for (rank, merge) in compiled.merges.iter().enumerate() {
            bpe.insert(*merge, rank as u32);
        }
        bpe.byte_pairs = (0..=u16::MAX).map(|pair| bpe.byte_pair(pair)).collect();
        bpe.whole = bpe.whole_words(&compiled.single);
        bpe
    }

    fn byte_pair(&self, pair: u16) -> u32 {
        let [left, right] = pair.to_be_bytes().map(|byte| self.bytes[byte as usize]);
        if left == ABSENT || right == ABSENT { NONE } else { self.rank(left, right) }
    }

    /// `single` tells of each id whether its bytes, as a word, come out as that id alone.
    fn whole_words(&self, single: &[bool]) -> Vec<u32> {
        let capacity = (single.len() * 2).next_power_of_two();
        let mut table = vec![NONE; capacity];
        for id in (0..single.len() as u32).filter(|id| single[*id as usize]) {
            let mut place = hash(self.bytes_of(id).unwrap_or_default()) & (capacity - 1);
            while table[place] != NONE {
                place = (place + 1) & (capacity - 1);
            }
            table[place] = id;
        }
        table
    }

    fn whole_word(&self, word: &[u8]) -> Option<u32> {
        let mut place = hash(word) & (self.whole.len() - 1);
        loop {
            let id = self.whole[place];
            if id == NONE {
                return None;
            }
            if self.bytes_of(id) == Some(word) {
                return Some(id);
            }
            place = (place + 1) & (self.whole.len() - 1);
        }
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
            if !known.is_empty() {
                self.encode(&known, out);
            }
            return;
        }
        if let Some(id) = self.whole_word(word) {
            return out.push(id);
        }
        self.merge(word, out);
    }

    /// By merges alone.
    pub fn merge(&self, word: &[u8], out: &mut Vec<u32>) {
        match word.len() {
            1 => out.push(self.bytes[word[0] as usize]),
            2..=LINEAR => self.merge_short(word, out),
            _ => self.merge_long(word, out),
        }
    }

    fn merge_short(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut ids = [0u32; LINEAR];
        let mut ranks = [NONE; LINEAR];
        let mut count = word.len();
        for (id, byte) in ids.iter_mut().zip(word) {
            *id = self.bytes[*byte as usize];
        }
        for (rank, pair) in ranks.iter_mut().zip(word.windows(2)) {
            *rank = self.byte_pairs[usize::from(u16::from_be_bytes([pair[0], pair[1]]))];
        }
        while let Some(at) = lowest(&ranks[..count - 1]) {
            ids[at] = self.into[ranks[at] as usize];
            ids.copy_within(at + 2..count, at + 1);
            ranks.copy_within(at + 1..count - 1, at);
            count -= 1;
            if at > 0 {
                ranks[at - 1] = self.rank(ids[at - 1], ids[at]);
            }
            if at + 1 < count {
                ranks[at] = self.rank(ids[at], ids[at + 1]);
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
            // An entry whose pair has changed since is stale; the change has offered the new pair.
            if self.rank(left, right) != rank {
                continue;
            }
            chain.join(at, self.into[rank as usize]);
            self.offer(&chain, at, &mut heap);
            if let Some(before) = chain.before(at) {
                self.offer(&chain, before, &mut heap);
            }
        }
        out.extend(chain.ids());
    }

    fn offer(&self, chain: &Chain, at: u32, heap: &mut BinaryHeap<Reverse<(u32, u32)>>) {
        if let Some((left, right)) = chain.pair(at) {
            let rank = self.rank(left, right);
            if rank != NONE {
                heap.push(Reverse((rank, at)));
            }
        }
    }

    fn insert(&mut self, merge: Merge, rank: u32) {
        let pair = pack(merge.left, merge.right);
        let mut place = self.place(pair);
        while self.table[place] != EMPTY && self.table[place] >> RANK_BITS != pair {
            place = (place + 1) & (self.table.len() - 1);
        }
        self.table[place] = pair << RANK_BITS | u64::from(rank);
    }

    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
        let pair = pack(left, right);
        let mut place = self.place(pair);
        loop {
            let entry = self.table[place];
            if entry >> RANK_BITS == pair {
                return (entry & ((1 << RANK_BITS) - 1)) as u32;
            }
            if entry == EMPTY {
                return NONE;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }

    #[inline]
    fn place(&self, pair: u64) -> usize {
        (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }
}

fn hash(word: &[u8]) -> usize {
    let mut state = word.len() as u64;
    for part in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        let product =
            u128::from(state ^ u64::from_le_bytes(bytes) ^ 0xd1b5_4a32_d192_ed03) * 0x9e37_79b9_7f4a_7c15;
        state = product as u64 ^ (product >> 64) as u64;
    }
    state as usize
}

#[inline]
fn lowest(ranks: &[u32]) -> Option<usize> {
    let mut best = NONE;
    let mut place = 0;
    for (at, rank) in ranks.iter().enumerate() {
        if *rank < best {
            best = *rank;
            place = at;
        }
    }
    (best != NONE).then_some(place)
}

#[inline]
fn pack(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
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
