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
pub use loss_mask::{SUPERVISED, Span};
pub use memory::Memory;
pub use scan::{PADDING, Split};
pub use store::ENCODER_VERSION;

use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use added::Added;
use bpe::Bpe;
use loss_mask::{supervised, within};
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
        let mut cursor = 0;
        let tokenizer = self.tokenizer;
        while let Some(hit) = tokenizer.added.find(text, cursor) {
            self.stretch(&text[cursor..hit.start], cursor, spans, out);
            out.push(hit.id | supervised(spans, hit.start));
            cursor = hit.end;
        }
        self.stretch(&text[cursor..], cursor, spans, out);
    }

    /// Encodes text without raw added tokens; `offset` is where it begins in the whole.
    fn stretch(&mut self, text: &str, offset: usize, spans: &[Span], out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let mut cuts = within(spans, offset, text.len());
        if !self.tokenizer.nfc || text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return self.normal(text, &cuts, out);
        }
        let composed: String = text.nfc().map(|(character, _)| character).collect();
        for cut in &mut cuts {
            cut.start = composed_length(text, cut.start);
            cut.end = if cut.end == text.len() { composed.len() } else { composed_length(text, cut.end) };
        }
        self.normal(&composed, &cuts, out);
    }

    /// Encodes normalised text, in which the added tokens that are matched after normalisation may still stand.
    fn normal(&mut self, text: &str, cuts: &[Span], out: &mut Vec<u32>) {
        let tokenizer = self.tokenizer;
        let mut cursor = 0;
        while let Some(hit) = tokenizer.added.find_normalized(text, cursor) {
            self.run(&text[cursor..hit.start], cursor, cuts, out);
            out.push(hit.id | supervised(cuts, hit.start));
            cursor = hit.end;
        }
        self.run(&text[cursor..], cursor, cuts, out);
    }

    /// Encodes text that holds no added token at all.
    fn run(&mut self, text: &str, offset: usize, cuts: &[Span], out: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        self.text.clear();
        self.text.extend_from_slice(text.as_bytes());
        self.text.extend_from_slice(&[0; PADDING]);
        out.reserve(text.len() + words::SLACK);
        let (bpe, words, padded) = (&self.tokenizer.bpe, &mut self.words, &self.text);
        let parts = within(cuts, offset, text.len());
        let part = match parts.as_slice() {
            [] => Span { start: usize::MAX, end: usize::MAX },
            [part] => *part,
            _ => {
                return scan::pieces(self.tokenizer.split, padded, |piece| {
                    let (first, at) = (out.len(), piece.start);
                    words.encode(bpe, padded, piece, 0, out);
                    bpe.mark(&parts, at, &mut out[first..]);
                });
            }
        };
        scan::pieces(self.tokenizer.split, padded, |piece| {
            let (first, at, end) = (out.len(), piece.start, piece.end);
            let inside = part.start <= at && end <= part.end;
            words.encode(bpe, padded, piece, u32::from(inside) << 31, out);
            if !inside && part.start < end && at < part.end {
                bpe.mark(&parts, at, &mut out[first..]);
            }
        });
    }
}

/// The offset of position `at` of `text` after the text is composed.
fn composed_length(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |head| head.nfc().map(|(character, _)| character.len_utf8()).sum())
}
