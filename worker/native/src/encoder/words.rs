//! Words repeat: a cache from a piece of text to its ids decides how fast a text is encoded.

// One call a word and a few a character: measured, inlining by hint alone loses a fifth of the speed.
#![allow(clippy::inline_always)]

use std::ops::Range;

use hashbrown::HashMap;

use super::PADDING;
use super::bpe::Bpe;

const SLOTS: usize = 1 << 17;
const SHORT: usize = PADDING - 1;
const FEW: usize = 3;
/// Bytes of long words kept before the long cache starts anew.
const LONG_LIMIT: usize = 4 << 20;

/// Half a cache line: up to 15 bytes of word with their count in the last byte, and up to three ids.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct Slot {
    key: u128,
    ids: [u32; FEW],
    count: u32,
}

pub struct WordCache {
    slots: Vec<Slot>,
    long: HashMap<Box<[u8]>, Box<[u32]>>,
    long_bytes: usize,
    scratch: Vec<u32>,
}

impl WordCache {
    pub fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOTS], long: HashMap::new(), long_bytes: 0, scratch: Vec::new() }
    }

    /// Appends the ids of `text[piece]`; `text` goes on for [`PADDING`] bytes after any piece.
    #[inline(always)]
    pub fn encode(&mut self, bpe: &Bpe, text: &[u8], piece: Range<usize>, out: &mut Vec<u32>) {
        if piece.len() > SHORT {
            return self.encode_long(bpe, &text[piece], out);
        }
        let key = key(text, &piece);
        let place = place(key);
        let slot = &self.slots[place];
        if slot.key == key {
            return push(slot, out);
        }
        let neighbour = &self.slots[place ^ 1];
        if neighbour.key == key {
            return push(neighbour, out);
        }
        self.learn(bpe, &text[piece], key, place, out);
    }

    #[cold]
    fn learn(&mut self, bpe: &Bpe, word: &[u8], key: u128, place: usize, out: &mut Vec<u32>) {
        self.scratch.clear();
        bpe.encode(word, &mut self.scratch);
        out.extend_from_slice(&self.scratch);
        if self.scratch.len() > FEW {
            return;
        }
        // The newcomer takes the first place of its pair, and the one that was there the second.
        self.slots[place ^ 1] = self.slots[place];
        let mut slot = Slot { key, ids: [0; FEW], count: self.scratch.len() as u32 };
        slot.ids[..self.scratch.len()].copy_from_slice(&self.scratch);
        self.slots[place] = slot;
    }

    #[cold]
    #[inline(never)]
    fn encode_long(&mut self, bpe: &Bpe, word: &[u8], out: &mut Vec<u32>) {
        if let Some(ids) = self.long.get(word) {
            return out.extend_from_slice(ids);
        }
        let first = out.len();
        bpe.encode(word, out);
        if word.len() > LONG_LIMIT / 64 {
            return;
        }
        self.long_bytes += word.len() * 2 + 64;
        if self.long_bytes > LONG_LIMIT {
            self.long.clear();
            self.long_bytes = 0;
        }
        self.long.insert(word.into(), out[first..].into());
    }
}

#[inline(always)]
fn push(slot: &Slot, out: &mut Vec<u32>) {
    if slot.count == 1 {
        return out.push(slot.ids[0]);
    }
    out.extend_from_slice(&slot.ids[..slot.count as usize]);
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
