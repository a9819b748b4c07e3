//! Merging bytes into tokens: always the pair of lowest rank, the leftmost among equals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::loss_mask::flag;
use super::memory::Numbers;

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

/// The arrays of a compiled tokenizer.
pub struct Tables {
    pub bytes: [u32; 256],
    /// Every token's bytes, end to end, and where each ends.
    pub text: Numbers<u8>,
    pub ends: Numbers<u32>,
    /// What the pair of each rank becomes.
    pub into: Numbers<u32>,
    /// Rank of every pair of bytes, which is what every new word begins with.
    pub byte_pairs: Numbers<u32>,
    /// Open addressing, at most two thirds full: both ids of a pair above its rank.
    pub pairs: Numbers<u64>,
    /// Words that are one token, by their bytes' hash: the most common case of a new word. The id is stored
    /// below a part of the hash, so that other words are distinguished without comparing bytes.
    pub whole: Numbers<u64>,
}

pub struct Bpe {
    tables: Tables,
    shift: u32,
    /// Some byte has no token: it vanishes from a text, as in `tokenizers`.
    incomplete: bool,
}

impl Bpe {
    /// None where the tables cannot be those of a tokenizer.
    pub fn new(tables: Tables) -> Option<Self> {
        let sized = |length: usize| length.is_power_of_two();
        let fits = tables.byte_pairs.len() == 1 << 16
            && sized(tables.pairs.len())
            && (tables.whole.is_empty() || sized(tables.whole.len()));
        let shift = shift_of(tables.pairs.len());
        let incomplete = tables.bytes.contains(&ABSENT);
        fits.then_some(Self { tables, shift, incomplete })
    }

    fn whole_word(&self, word: &[u8]) -> Option<u32> {
        let whole = &self.tables.whole;
        let last = whole.len().checked_sub(1)?;
        let hash = hash(word);
        let mut place = hash as usize & last;
        loop {
            let entry = whole[place];
            if entry == EMPTY {
                return None;
            }
            let id = entry as u32;
            if entry >> 32 == hash >> 32 && self.bytes_of(id) == Some(word) {
                return Some(id);
            }
            place = (place + 1) & last;
        }
    }

    pub fn bytes_of(&self, id: u32) -> Option<&[u8]> {
        let end = *self.tables.ends.get(id as usize)? as usize;
        let start = if id == 0 { 0 } else { self.tables.ends[id as usize - 1] as usize };
        self.tables.text.get(start..end)
    }

    /// Flags the ids that begin before `learned_end`, of a piece that begins at `position`: token lengths, added up,
    /// say where each one begins, so that no offsets are kept while encoding.
    #[cold]
    pub fn mark(&self, learned_end: usize, mut position: usize, ids: &mut [u32]) {
        for id in ids {
            let length = self.bytes_of(*id).map_or(0, <[u8]>::len);
            *id |= flag(position < learned_end);
            position += length;
        }
    }

    pub fn encode(&self, word: &[u8], out: &mut Vec<u32>) {
        if self.incomplete && word.iter().any(|byte| self.tables.bytes[*byte as usize] == ABSENT) {
            let known: Vec<u8> =
                word.iter().copied().filter(|byte| self.tables.bytes[*byte as usize] != ABSENT).collect();
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
            1 => out.push(self.tables.bytes[word[0] as usize]),
            2..=LINEAR => self.merge_short(word, out),
            _ => self.merge_long(word, out),
        }
    }

    fn merge_short(&self, word: &[u8], out: &mut Vec<u32>) {
        let mut ids = [0u32; LINEAR];
        let mut ranks = [NONE; LINEAR];
        let mut count = word.len();
        for (id, byte) in ids.iter_mut().zip(word) {
            *id = self.tables.bytes[*byte as usize];
        }
        for (rank, pair) in ranks.iter_mut().zip(word.windows(2)) {
            *rank = self.tables.byte_pairs[usize::from(u16::from_be_bytes([pair[0], pair[1]]))];
        }
        while let Some(at) = lowest(&ranks[..count - 1]) {
            ids[at] = self.tables.into[ranks[at] as usize];
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
        let mut chain = Chain::new(word.iter().map(|byte| self.tables.bytes[*byte as usize]).collect());
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
            chain.join(at, self.tables.into[rank as usize]);
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

    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
        find(&self.tables.pairs, self.shift, left, right)
    }
}

/// The table of pairs; for a pair that appears twice, the later rank counts, as in `tokenizers`.
pub fn pair_table(merges: &[Merge]) -> Vec<u64> {
    let mut table = vec![EMPTY; (merges.len() * 3 / 2).next_power_of_two().max(64)];
    let (shift, last) = (shift_of(table.len()), table.len() - 1);
    for (rank, merge) in merges.iter().enumerate() {
        let pair = pack(merge.left, merge.right);
        let mut place = place(pair, shift);
        while table[place] != EMPTY && table[place] >> RANK_BITS != pair {
            place = (place + 1) & last;
        }
        table[place] = pair << RANK_BITS | rank as u64;
    }
    table
}

pub fn byte_pairs(pairs: &[u64], bytes: &[u32; 256]) -> Vec<u32> {
    let rank = |pair: u16| {
        let [left, right] = pair.to_be_bytes().map(|byte| bytes[byte as usize]);
        if left == ABSENT || right == ABSENT { NONE } else { find(pairs, shift_of(pairs.len()), left, right) }
    };
    (0..=u16::MAX).map(rank).collect()
}

/// Of the tokens for which `single` holds: their bytes, as a word, come out as that token alone.
pub fn whole_words(bpe: &Bpe, single: &[bool]) -> Vec<u64> {
    let mut table = vec![EMPTY; (single.len() * 2).next_power_of_two()];
    let last = table.len() - 1;
    for id in (0..single.len() as u32).filter(|id| single[*id as usize]) {
        let hash = hash(bpe.bytes_of(id).unwrap_or_default());
        let mut place = hash as usize & last;
        while table[place] != EMPTY {
            place = (place + 1) & last;
        }
        table[place] = hash >> 32 << 32 | u64::from(id);
    }
    table
}

fn shift_of(capacity: usize) -> u32 {
    64 - capacity.trailing_zeros()
}

#[inline]
fn find(table: &[u64], shift: u32, left: u32, right: u32) -> u32 {
    let pair = pack(left, right);
    let mut place = place(pair, shift);
    loop {
        let entry = table[place];
        if entry >> RANK_BITS == pair {
            return (entry & ((1 << RANK_BITS) - 1)) as u32;
        }
        if entry == EMPTY {
            return NONE;
        }
        place = (place + 1) & (table.len() - 1);
    }
}

#[inline]
fn place(pair: u64, shift: u32) -> usize {
    (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

fn hash(word: &[u8]) -> u64 {
    let mut state = word.len() as u64;
    for part in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        let product =
            u128::from(state ^ u64::from_le_bytes(bytes) ^ 0xd1b5_4a32_d192_ed03) * 0x9e37_79b9_7f4a_7c15;
        state = product as u64 ^ (product >> 64) as u64;
    }
    state
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
