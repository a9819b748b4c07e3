//! Pre-tokenizers as hand-written scanners: each finds where the next piece of a text ends.
//!
//! The regular expressions that they stand for are in [`Split`]; a test compares every one with its expression.

// One call a word and a few a character: measured, inlining by hint alone loses a fifth of the speed.
#![allow(clippy::inline_always)]

use std::ops::Range;

use super::unicode::{ASCII, Classes, LETTER, MARK, NEWLINE, NUMBER, OTHER, SPACE};

/// Bytes past a text that the scanner may load but never looks at.
pub const PADDING: usize = 16;

/// The ways of cutting a text into words that are known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// GPT-2's, on what is left between single digits.
    DigitsGpt2,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    /// with n = 1 in Qwen2 and 3 in Llama 3.
    Cl100k { digits: u8 },
    /// The same with `\p{M}` counted among the letters: Qwen 3.5.
    Marks,
}

/// Calls `each` with every piece of `padded`, whose last [`PADDING`] bytes are not text.
#[inline]
pub fn pieces(split: Split, padded: &[u8], each: impl FnMut(Range<usize>)) {
    let scan = Scan { text: &padded[..padded.len() - PADDING], padded, classes: Classes::get() };
    match split {
        Split::Gpt2 => scan.all(each, |scan, at| scan.gpt2(at, false)),
        Split::DigitsGpt2 => scan.all(each, |scan, at| scan.gpt2(at, true)),
        Split::Cl100k { digits: 1 } => scan.all(each, |scan, at| scan.cl100k::<false>(at, 1)),
        Split::Cl100k { digits } => scan.all(each, |scan, at| scan.cl100k::<false>(at, digits)),
        Split::Marks => scan.all(each, |scan, at| scan.cl100k::<true>(at, 1)),
    }
}

struct Scan<'a> {
    text: &'a [u8],
    /// The text and [`PADDING`] zeros.
    padded: &'a [u8],
    classes: &'static Classes,
}

impl Scan<'_> {
    #[inline(always)]
    fn all(&self, mut each: impl FnMut(Range<usize>), next: impl Fn(&Self, usize) -> usize) {
        let mut at = 0;
        while at < self.text.len() {
            let end = next(self, at);
            each(at..end);
            at = end;
        }
    }

    /// Class and width of the character at `at`; past the end, class `u8::MAX` and width 0.
    #[inline(always)]
    fn class(&self, at: usize) -> (u8, usize) {
        match self.text.get(at) {
            Some(&byte) if byte < 128 => (ASCII[byte as usize], 1),
            Some(_) => self.wide(at),
            None => (u8::MAX, 0),
        }
    }

    #[cold]
    #[inline(never)]
    fn wide(&self, at: usize) -> (u8, usize) {
        let byte = |step: usize| u32::from(self.text.get(at + step).copied().unwrap_or(0)) & 0x3f;
        let lead = u32::from(self.text[at]);
        let (code, width) = match lead {
            0xf0.. => ((lead & 7) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3), 4),
            0xe0.. => ((lead & 15) << 12 | byte(1) << 6 | byte(2), 3),
            _ => ((lead & 31) << 6 | byte(1), 2),
        };
        (self.classes.of(code), width)
    }

    #[inline(always)]
    fn run(&self, mut at: usize, wanted: impl Fn(u8) -> bool) -> usize {
        loop {
            let (class, width) = self.class(at);
            if !wanted(class) {
                return at;
            }
            at += width;
        }
    }

    /// A run of letters: sixteen ASCII bytes at a time, and character by character where there are others.
    #[inline(always)]
    fn letters(&self, mut at: usize, letter: impl Fn(u8) -> bool) -> usize {
        loop {
            let run = ascii_letters(&self.padded[at..at + PADDING]);
            at += run;
            if run < PADDING {
                break;
            }
        }
        if self.text.get(at).is_none_or(u8::is_ascii) { at } else { self.run(at, letter) }
    }

    #[inline(always)]
    fn gpt2(&self, at: usize, digits: bool) -> usize {
        if self.text[at] == b'\''
            && let Some(end) = self.contraction(at, false)
        {
            return end;
        }
        let start = if self.text[at] == b' ' { at + 1 } else { at };
        let (class, width) = self.class(start);
        match class {
            LETTER => self.letters(start + width, |class| class == LETTER),
            OTHER | MARK => self.run(start + width, |class| class == OTHER || class == MARK),
            NUMBER if digits && start == at => at + width,
            NUMBER if digits => at + 1,
            NUMBER => self.run(start + width, |class| class == NUMBER),
            _ => self.spaces(at, digits),
        }
    }

    #[inline(always)]
    fn cl100k<const MARKS: bool>(&self, at: usize, digits: u8) -> usize {
        let letter = |class: u8| class == LETTER || (MARKS && class == MARK);
        let other = |class: u8| class == OTHER || (!MARKS && class == MARK);
        let (class, width) = self.class(at);
        if letter(class) {
            return self.letters(at + width, letter);
        }
        if class == NUMBER {
            return self.numbers(at + width, digits - 1);
        }
        if self.text[at] == b'\''
            && let Some(end) = self.contraction(at, true)
        {
            return end;
        }
        let (next, next_width) = self.class(at + width);
        if class != NEWLINE && letter(next) {
            return self.letters(at + width + next_width, letter);
        }
        if other(class) || (self.text[at] == b' ' && other(next)) {
            let end = self.run(at + width, other);
            return self.run(end, |class| class == NEWLINE);
        }
        self.lines(at)
    }

    /// Up to `more` numbers after the first.
    #[inline(always)]
    fn numbers(&self, mut at: usize, more: u8) -> usize {
        for _ in 0..more {
            let (class, width) = self.class(at);
            if class != NUMBER {
                break;
            }
            at += width;
        }
        at
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    fn lines(&self, at: usize) -> usize {
        let end = self.run(at, |class| class == SPACE || class == NEWLINE);
        match memchr::memrchr2(b'\r', b'\n', &self.text[at..end]) {
            Some(last) => at + last + 1,
            None => self.all_but_last(at, end),
        }
    }

    /// `\s+(?!\S)|\s+`; a digit that has been cut off ends the text for the look-ahead.
    fn spaces(&self, at: usize, digits: bool) -> usize {
        let end = self.run(at, |class| class == SPACE || class == NEWLINE);
        if digits && self.class(end).0 == NUMBER {
            return end;
        }
        self.all_but_last(at, end)
    }

    /// White space before a word leaves its last character to the word, unless it is the only one.
    fn all_but_last(&self, at: usize, end: usize) -> usize {
        if end == self.text.len() {
            return end;
        }
        let mut last = end - 1;
        while self.text[last] & 0xc0 == 0x80 {
            last -= 1;
        }
        if last > at { last } else { end }
    }

    fn contraction(&self, at: usize, any_case: bool) -> Option<usize> {
        let fold = |step: usize| {
            let byte = self.text.get(at + step).copied().unwrap_or(0);
            if any_case { byte.to_ascii_lowercase() } else { byte }
        };
        match (fold(1), fold(2)) {
            (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
            (b'r' | b'v', b'e') | (b'l', b'l') => Some(at + 3),
            // The long s folds to an s.
            (0xc5, 0xbf) if any_case => Some(at + 3),
            _ => None,
        }
    }
}

/// How many ASCII letters the bytes begin with; there are [`PADDING`] of them.
#[inline(always)]
fn ascii_letters(bytes: &[u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
            _mm_set1_epi8, _mm_sub_epi8,
        };
        debug_assert!(bytes.len() >= PADDING);
        // SAFETY: SSE2 is part of x86_64, and sixteen bytes are there to be loaded.
        #[allow(clippy::cast_ptr_alignment)] // The load is the unaligned one.
        unsafe {
            let loaded = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
            let folded =
                _mm_sub_epi8(_mm_or_si128(loaded, _mm_set1_epi8(0x20)), _mm_set1_epi8(b'a'.cast_signed()));
            let letters = _mm_cmpeq_epi8(_mm_min_epu8(folded, _mm_set1_epi8(25)), folded);
            (_mm_movemask_epi8(letters) as u32).trailing_ones() as usize
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}
