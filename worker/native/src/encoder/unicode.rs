//! Character classes that pre-tokenizers distinguish, one byte per code point.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

pub const OTHER: u8 = 0;
pub const LETTER: u8 = 1;
pub const NUMBER: u8 = 2;
pub const SPACE: u8 = 3;
pub const NEWLINE: u8 = 4;
pub const MARK: u8 = 5;

/// ASCII needs no table lookup through pages; a `const` keeps it in the first cache lines.
pub static ASCII: [u8; 128] = ascii();

const fn ascii() -> [u8; 128] {
    let mut table = [OTHER; 128];
    let mut code = 0;
    while code < 128 {
        let byte = code as u8;
        table[code] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'0'..=b'9' => NUMBER,
            b'\r' | b'\n' => NEWLINE,
            b' ' | b'\t' | 0x0b | 0x0c => SPACE,
            _ => OTHER,
        };
        code += 1;
    }
    table
}

/// 256-code-point pages; equal pages are stored once.
pub struct Classes {
    pages: Vec<[u8; 256]>,
    index: Vec<u16>,
}

impl Classes {
    pub fn get() -> &'static Self {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        CLASSES.get_or_init(Self::build)
    }

    #[inline]
    pub fn of(&self, code: u32) -> u8 {
        let page = self.index[(code >> 8) as usize] as usize;
        self.pages[page][(code & 0xff) as usize]
    }

    fn build() -> Self {
        let mut flat = vec![OTHER; 0x11_0000];
        for (pattern, class) in [(r"\p{M}", MARK), (r"\p{L}", LETTER), (r"\p{N}", NUMBER), (r"\s", SPACE)] {
            for (first, last) in ranges(pattern) {
                flat[first as usize..=last as usize].fill(class);
            }
        }
        flat[..128].copy_from_slice(&ASCII);
        let mut classes = Self { pages: Vec::new(), index: Vec::with_capacity(flat.len() / 256) };
        for page in flat.chunks_exact(256) {
            classes.add(page);
        }
        classes
    }

    fn add(&mut self, page: &[u8]) {
        let known = self.pages.iter().rposition(|stored| stored == page);
        let place = known.unwrap_or_else(|| {
            let mut stored = [OTHER; 256];
            stored.copy_from_slice(page);
            self.pages.push(stored);
            self.pages.len() - 1
        });
        self.index.push(place as u16);
    }
}

fn ranges(pattern: &str) -> Vec<(u32, u32)> {
    let parsed = regex_syntax::parse(pattern);
    match parsed.as_ref().map(regex_syntax::hir::Hir::kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
        }
        _ => Vec::new(),
    }
}
