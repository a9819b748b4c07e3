//! The compiled tokenizer's file: little-endian arrays, each after its length, used in place.

use std::sync::Arc;

use super::added::AddedToken;
use super::bpe::{self, Bpe, Merge};
use super::memory::{ALIGNMENT, Memory, Number, Numbers};
use super::scan::Split;

/// Raised whenever the same rows or the same tokenizer could come out as other ids.
pub const ENCODER_VERSION: u32 = 3;

const MAGIC: &[u8; 8] = b"expbpe\0\x03";

/// A byte-level BPE tokenizer without its names: numbers and bytes only.
pub struct Compiled {
    pub split: Split,
    pub nfc: bool,
    pub bytes: [u32; 256],
    pub merges: Vec<Merge>,
    pub text: Vec<u8>,
    pub ends: Vec<u32>,
    pub added: Vec<AddedToken>,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
}

/// What a compiled tokenizer's file holds.
pub struct Stored {
    pub split: Split,
    pub nfc: bool,
    pub added: Vec<AddedToken>,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
    pub bpe: Bpe,
}

impl Compiled {
    /// `whole` is the table of words that are tokens; an empty one is right too, and slower.
    pub fn to_bytes(&self, whole: &[u64]) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(self.merges.len() * 32 + self.text.len() + 4096));
        out.0.extend_from_slice(MAGIC);
        let (kind, digits) = match self.split {
            Split::Gpt2 => (0, 0),
            Split::DigitsGpt2 => (1, 0),
            Split::Cl100k { digits } => (2, digits),
            Split::Marks => (3, 0),
        };
        out.array(&ENCODER_VERSION.to_le_bytes());
        out.array(&[kind, digits, u8::from(self.nfc)]);
        out.array(&self.added_bytes());
        out.numbers(&self.prefix);
        out.numbers(&self.suffix);
        out.numbers(&self.bytes);
        out.array(&self.text);
        out.numbers(&self.ends);
        out.numbers(&self.merges.iter().map(|merge| merge.into).collect::<Vec<_>>());
        let pairs = bpe::pair_table(&self.merges);
        out.numbers(&bpe::byte_pairs(&pairs, &self.bytes));
        out.large_numbers(&pairs);
        out.large_numbers(whole);
        out.0
    }

    fn added_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for token in &self.added {
            out.extend(token.id.to_le_bytes());
            out.extend([token.lstrip, token.rstrip, token.normalized].map(u8::from));
            out.extend((token.text.len() as u32).to_le_bytes());
            out.extend(token.text.as_bytes());
        }
        out
    }
}

impl Stored {
    /// None where the bytes are of another version, or damaged.
    pub fn read(memory: Memory) -> Option<Self> {
        let memory = Arc::new(memory);
        if memory.bytes().get(..MAGIC.len())? != MAGIC {
            return None;
        }
        let mut input = Reader { memory: &memory, at: MAGIC.len() };
        if input.array::<u8>()?.as_ref() != ENCODER_VERSION.to_le_bytes() {
            return None;
        }
        let [kind, digits, nfc] = *input.array::<u8>()? else { return None };
        let split = match kind {
            0 => Split::Gpt2,
            1 => Split::DigitsGpt2,
            2 => Split::Cl100k { digits },
            3 => Split::Marks,
            _ => return None,
        };
        let stored = Self {
            split,
            nfc: nfc == 1,
            added: added(&input.array::<u8>()?)?,
            prefix: input.array()?.to_vec(),
            suffix: input.array()?.to_vec(),
            bpe: Bpe::new(bpe::Tables {
                bytes: (*input.array::<u32>()?).try_into().ok()?,
                text: input.array()?,
                ends: input.array()?,
                into: input.array()?,
                byte_pairs: input.array()?,
                pairs: input.array()?,
                whole: input.array()?,
            })?,
        };
        (input.at == memory.bytes().len()).then_some(stored)
    }
}

fn added(mut bytes: &[u8]) -> Option<Vec<AddedToken>> {
    let mut tokens = Vec::new();
    while !bytes.is_empty() {
        let (id, rest) = bytes.split_first_chunk::<4>()?;
        let ([lstrip, rstrip, normalized], rest) = rest.split_first_chunk::<3>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        tokens.push(AddedToken {
            id: u32::from_le_bytes(*id),
            text: std::str::from_utf8(text).ok()?.to_owned(),
            lstrip: *lstrip == 1,
            rstrip: *rstrip == 1,
            normalized: *normalized == 1,
        });
        bytes = rest;
    }
    Some(tokens)
}

struct Writer(Vec<u8>);

impl Writer {
    fn array(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }

    fn numbers(&mut self, numbers: &[u32]) {
        self.array(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
    }

    fn large_numbers(&mut self, numbers: &[u64]) {
        self.array(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
    }
}

struct Reader<'a> {
    memory: &'a Arc<Memory>,
    at: usize,
}

impl Reader<'_> {
    fn array<T: Number>(&mut self) -> Option<Numbers<T>> {
        let head = self.memory.bytes().get(self.at..self.at + ALIGNMENT)?;
        let length = usize::try_from(u64::from_le_bytes(head.try_into().ok()?)).ok()?;
        let start = self.at + ALIGNMENT;
        self.at = start.checked_add(length)?.checked_next_multiple_of(ALIGNMENT)?;
        Numbers::new(self.memory, start, length / size_of::<T>())
    }
}
