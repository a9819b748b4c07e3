//! Words repeat: a cache from a piece of text to its ids decides how fast a text is encoded.

// One call a word and a few a character: measured, inlining by hint alone loses a fifth of the speed.
#![allow(clippy::inline_always)]

use std::ops::Range;

use hashbrown::HashMap;

use super::bpe::Bpe;
use super::scan::PADDING;

const SLOTS: usize = 1 << 17;
const SHORT: usize = PADDING - 1;
const FEW: usize = 3;
/// In place of a slot's count: its ids are in the arena, from the first number on, as many as the second says.
const MANY: u32 = u32::MAX;
/// Ids in the arena before the cache of short words is cleared.
const ARENA_LIMIT: usize = 1 << 19;
/// Bytes of long words kept before the long cache is cleared.
const LONG_LIMIT: usize = 4 << 20;

/// Ids that [`WordCache::encode`] may write beyond a word's own: there must be room for them.
pub const SLACK: usize = FEW + 1;

/// Half a cache line: up to 15 bytes of word with their count in the last byte, up to three ids, and how many.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct Slot {
    key: u128,
    ids: [u32; FEW],
    count: u32,
}

pub struct WordCache {
    slots: Vec<Slot>,
    arena: Vec<u32>,
    long: HashMap<Box<[u8]>, Box<[u32]>>,
    long_bytes: usize,
    scratch: Vec<u32>,
}

impl WordCache {
    pub fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS],
            arena: Vec::new(),
            long: HashMap::new(),
            long_bytes: 0,
            scratch: Vec::new(),
        }
    }

    /// Appends the ids of `text[piece]`, each with `flag`.
    ///
    /// `text` has [`PADDING`] bytes after any piece. `out` must have room for an id for every byte of the
    /// piece, and for [`SLACK`] more: whoever encodes a text reserves it once.
    #[inline(always)]
    pub fn encode(&mut self, bpe: &Bpe, text: &[u8], piece: Range<usize>, flag: u32, out: &mut Vec<u32>) {
        debug_assert!(out.capacity() - out.len() >= piece.len() + SLACK);
        if piece.len() > SHORT {
            return self.encode_long(bpe, &text[piece], flag, out);
        }
        let key = key(text, &piece);
        let place = place(key);
        let mut slot = &self.slots[place];
        if slot.key != key {
            slot = &self.slots[place ^ 1];
            if slot.key != key {
                return self.learn(bpe, &text[piece], key, place, flag, out);
            }
        }
        if slot.count == MANY {
            return self.push_many(place_of(slot), flag, out);
        }
        let end = out.len();
        // SAFETY: there is room for SLACK ids more; the length then covers those that are the word's.
        unsafe {
            let to = out.as_mut_ptr().add(end);
            for at in 0..FEW {
                to.add(at).write(slot.ids[at] | flag);
            }
            out.set_len(end + slot.count as usize);
        }
    }

    #[inline(never)]
    fn push_many(&self, place: Range<usize>, flag: u32, out: &mut Vec<u32>) {
        out.extend(self.arena[place].iter().map(|id| id | flag));
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, bpe: &Bpe, word: &[u8], key: u128, place: usize, flag: u32, out: &mut Vec<u32>) {
        self.scratch.clear();
        bpe.encode(word, &mut self.scratch);
        out.extend(self.scratch.iter().map(|id| id | flag));
        let mut slot = Slot { key, ids: [0; FEW], count: self.scratch.len() as u32 };
        if self.scratch.len() > FEW {
            if self.arena.len() > ARENA_LIMIT {
                self.arena.clear();
                self.slots.fill(Slot::default());
            }
            slot.ids = [self.arena.len() as u32, self.scratch.len() as u32, 0];
            slot.count = MANY;
            self.arena.extend_from_slice(&self.scratch);
        } else {
            slot.ids[..self.scratch.len()].copy_from_slice(&self.scratch);
        }
        // The newcomer takes the first place of its pair, and the one that was there the second.
        self.slots[place ^ 1] = self.slots[place];
        self.slots[place] = slot;
    }

    #[cold]
    #[inline(never)]
    fn encode_long(&mut self, bpe: &Bpe, word: &[u8], flag: u32, out: &mut Vec<u32>) {
        if let Some(ids) = self.long.get(word) {
            return out.extend(ids.iter().map(|id| id | flag));
        }
        self.scratch.clear();
        bpe.encode(word, &mut self.scratch);
        out.extend(self.scratch.iter().map(|id| id | flag));
        if word.len() > LONG_LIMIT / 64 {
            return;
        }
        self.long_bytes += word.len() * 2 + 64;
        if self.long_bytes > LONG_LIMIT {
            self.long.clear();
            self.long_bytes = 0;
        }
        self.long.insert(word.into(), self.scratch.as_slice().into());
    }
}

#[inline(always)]
fn place_of(slot: &Slot) -> Range<usize> {
    slot.ids[0] as usize..(slot.ids[0] + slot.ids[1]) as usize
}

#[inline(always)]
fn key(text: &[u8], piece: &Range<usize>) -> u128 {
    let mut bytes = [0; PADDING];
    bytes.copy_from_slice(&text[piece.start..piece.start + PADDING]);
    let length = piece.len();
    let kept = (1u128 << (8 * length)) - 1;
    (u128::from_le_bytes(bytes) & kept) | ((length as u128) << 120)
}

#[inline(always)]
fn place(key: u128) -> usize {
    let low = key as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let high = (key >> 64) as u64 ^ 0xd1b5_4a32_d192_ed03;
    let product = u128::from(low) * u128::from(high);
    let mixed = (product as u64) ^ ((product >> 64) as u64);
    (mixed >> 40) as usize & (SLOTS - 1)
}
