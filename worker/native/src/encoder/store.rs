//! The compiled tokenizer's file: little-endian numbers and bytes, a few milliseconds to read.

use super::added::AddedToken;
use super::bpe::Merge;
use super::compile::{Compiled, ENCODER_VERSION};
use super::scan::Split;

const MAGIC: &[u8; 8] = b"expbpe\0\x02";

impl Compiled {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out =
            Writer(Vec::with_capacity(self.merges.len() * 12 + self.text.len() + self.ends.len() * 4 + 4096));
        out.0.extend_from_slice(MAGIC);
        out.number(ENCODER_VERSION);
        let (kind, digits) = match self.split {
            Split::Gpt2 => (0, 0),
            Split::DigitsGpt2 => (1, 0),
            Split::Cl100k { digits } => (2, digits),
            Split::Marks => (3, 0),
        };
        out.0.extend_from_slice(&[kind, digits, u8::from(self.nfc), 0]);
        out.bytes(&self.single.iter().map(|single| u8::from(*single)).collect::<Vec<_>>());
        out.numbers(&self.bytes);
        out.numbers(
            &self.merges.iter().flat_map(|merge| [merge.left, merge.right, merge.into]).collect::<Vec<_>>(),
        );
        out.bytes(&self.text);
        out.numbers(&self.ends);
        out.numbers(&self.prefix);
        out.numbers(&self.suffix);
        out.number(self.added.len() as u32);
        for token in &self.added {
            out.number(token.id);
            out.0.extend_from_slice(&[
                u8::from(token.lstrip),
                u8::from(token.rstrip),
                u8::from(token.normalized),
            ]);
            out.bytes(token.text.as_bytes());
        }
        out.0
    }

    /// None where the bytes are of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader(bytes);
        if input.take(MAGIC.len())? != MAGIC || input.number()? != ENCODER_VERSION {
            return None;
        }
        let [kind, digits, nfc, _] = input.take(4)?.try_into().ok()?;
        let compiled = Self {
            split: match kind {
                0 => Split::Gpt2,
                1 => Split::DigitsGpt2,
                2 => Split::Cl100k { digits },
                3 => Split::Marks,
                _ => return None,
            },
            nfc: nfc == 1,
            single: input.bytes()?.iter().map(|single| *single == 1).collect(),
            bytes: input.numbers()?.try_into().ok()?,
            merges: input.merges()?,
            text: input.bytes()?.to_vec(),
            ends: input.numbers()?,
            prefix: input.numbers()?,
            suffix: input.numbers()?,
            added: input.added()?,
        };
        input.0.is_empty().then_some(compiled)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u32]) {
        self.number(numbers.len() as u32);
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn numbers(&mut self) -> Option<Vec<u32>> {
        let count = self.number()? as usize;
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(
            bytes
                .chunks_exact(4)
                .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect(),
        )
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()? as usize;
        self.take(count)
    }

    fn merges(&mut self) -> Option<Vec<Merge>> {
        let numbers = self.numbers()?;
        let merge = |three: &[u32]| Merge { left: three[0], right: three[1], into: three[2] };
        (numbers.len() % 3 == 0).then(|| numbers.chunks_exact(3).map(merge).collect())
    }

    fn added(&mut self) -> Option<Vec<AddedToken>> {
        let count = self.number()?;
        (0..count).map(|_| self.token()).collect()
    }

    fn token(&mut self) -> Option<AddedToken> {
        let id = self.number()?;
        let [lstrip, rstrip, normalized] = self.take(3)?.try_into().ok()?;
        let text = std::str::from_utf8(self.bytes()?).ok()?.to_owned();
        Some(AddedToken { id, text, lstrip: lstrip == 1, rstrip: rstrip == 1, normalized: normalized == 1 })
    }
}
