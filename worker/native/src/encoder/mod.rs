//! Byte-level BPE, exact against Hugging Face `tokenizers`, for the kinds of tokenizer that [`compile`] recognises.

mod added;
mod bpe;
mod compile;
mod loss_mask;
mod memory;
mod scan;
mod store;
mod unicode;
mod words;

pub use added::AddedToken;
pub use bpe::Merge;
pub use compile::compile;
pub use loss_mask::{Part, SUPERVISED, Span, flag, parts};
pub use memory::Memory;
pub use scan::{PADDING, Split};
pub use store::ENCODER_VERSION;

use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use added::Added;
use bpe::Bpe;
use store::Stored;
use words::WordCache;

/// What all threads share of a tokenizer.
pub struct Tokenizer {
    added: Added,
    bpe: Bpe,
    split: Split,
    nfc: bool,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
}

impl Tokenizer {
    /// None where the memory holds no tokenizer that this version has compiled.
    pub fn open(memory: Memory) -> Option<Self> {
        let Stored { split, nfc, added, prefix, suffix, bpe } = Stored::read(memory)?;
        Some(Self { added: Added::new(&added), bpe, split, nfc, prefix, suffix })
    }

    /// What the tokenizer's post-processor puts before and after a bare text.
    pub fn frame(&self) -> (&[u32], &[u32]) {
        (&self.prefix, &self.suffix)
    }

    /// The bytes that an id stands for; added tokens as they are written.
    pub fn bytes_of(&self, id: u32) -> Option<&[u8]> {
        self.added.text_of(id).map(str::as_bytes).or_else(|| self.bpe.bytes_of(id))
    }

    pub fn added_id(&self, text: &str) -> Option<u32> {
        self.added.id_of(text)
    }
}

/// One thread's encoder: the shared tokenizer and a cache of words seen.
pub struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    words: WordCache,
    text: Vec<u8>,
}

impl<'a> Encoder<'a> {
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, words: WordCache::new(), text: Vec::new() }
    }

    /// Appends the ids of `text` to `out`; those whose first byte is in a span carry [`SUPERVISED`].
    pub fn encode(&mut self, text: &str, spans: &[Span], out: &mut Vec<u32>) {
        for part in parts(text, spans) {
            self.part(&text[part.start..part.end], part.learned(), out);
        }
    }

    /// Encodes a text of which the first `learned` bytes are learned.
    fn part(&mut self, text: &str, learned: usize, out: &mut Vec<u32>) {
        let mut cursor = 0;
        let tokenizer = self.tokenizer;
        while let Some(hit) = tokenizer.added.find(text, cursor) {
            self.stretch(&text[cursor..hit.start], learned.saturating_sub(cursor), out);
            out.push(hit.id | flag(hit.start < learned));
            cursor = hit.end;
        }
        self.stretch(&text[cursor..], learned.saturating_sub(cursor), out);
    }

    /// Encodes text without raw added tokens.
    fn stretch(&mut self, text: &str, learned: usize, out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        if !self.tokenizer.nfc || text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return self.normal(text, learned, out);
        }
        let composed: String = text.nfc().map(|(character, _)| character).collect();
        let learned = if learned < text.len() { composed_length(text, learned) } else { composed.len() };
        self.normal(&composed, learned, out);
    }

    /// Encodes normalised text, in which the added tokens that are matched after normalisation may still stand.
    fn normal(&mut self, text: &str, learned: usize, out: &mut Vec<u32>) {
        let tokenizer = self.tokenizer;
        let mut cursor = 0;
        while let Some(hit) = tokenizer.added.find_normalized(text, cursor) {
            self.run(&text[cursor..hit.start], learned.saturating_sub(cursor), out);
            out.push(hit.id | flag(hit.start < learned));
            cursor = hit.end;
        }
        self.run(&text[cursor..], learned.saturating_sub(cursor), out);
    }

    /// Encodes text that holds no added token at all.
    fn run(&mut self, text: &str, learned: usize, out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        self.text.clear();
        self.text.extend_from_slice(text.as_bytes());
        self.text.extend_from_slice(&[0; PADDING]);
        out.reserve(text.len() + words::SLACK);
        let (bpe, words, padded) = (&self.tokenizer.bpe, &mut self.words, &self.text);
        scan::pieces(self.tokenizer.split, padded, |piece| {
            let (first, at, end) = (out.len(), piece.start, piece.end);
            words.encode(bpe, padded, piece, flag(end <= learned), out);
            if at < learned && learned < end {
                bpe.mark(learned, at, &mut out[first..]);
            }
        });
    }
}

/// The offset of position `at` of `text` after the text is composed.
fn composed_length(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |head| head.nfc().map(|(character, _)| character.len_utf8()).sum())
}
