//! Token ids of all documents in a file, so that memory holds only where each begins.
//!
//! A document is first its runs, in turn not learned and learned, as their lengths; then its ids. Both are written in
//! units of 16 bits, one for most numbers and two for large ones: half of what 32 bits each would cost to write and read.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err::File;
use memmap2::Mmap;

use crate::encoder::SUPERVISED;
use crate::positioned::write_all_at;
use crate::problem::Outcome;

/// A run of ids that stays together: a row, or a piece of one that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    /// Where it begins, in units.
    pub offset: u64,
    /// In ids.
    pub length: u32,
    /// The row that it comes from, over all sources.
    pub row: u32,
}

/// A unit from here on is the high part of a number, and the next unit is its low one.
const LARGE: u16 = 0xf000;
/// Numbers below this fit.
pub const MOST: u32 = 1 << 28;
/// So many small ids are read at once.
const STRIDE: usize = 8;

/// Appends a document's flagged ids to `units`.
pub fn pack(flagged: &[u32], units: &mut Vec<u16>) {
    units.reserve(flagged.len() + flagged.len() / 8 + 16);
    let mut rest = flagged;
    let mut learned = false;
    while !rest.is_empty() {
        let run = rest.iter().position(|id| (id & SUPERVISED != 0) != learned).unwrap_or(rest.len());
        put(run as u32, units);
        rest = &rest[run..];
        learned = !learned;
    }
    for id in flagged {
        put(id & !SUPERVISED, units);
    }
}

#[inline]
fn put(number: u32, units: &mut Vec<u16>) {
    debug_assert!(number < MOST);
    if number < u32::from(LARGE) {
        return units.push(number as u16);
    }
    units.extend([LARGE | (number >> 16) as u16, number as u16]);
}

/// A document on its way out: its runs, then its ids.
pub struct Stored<'a> {
    units: &'a [u16],
    ids_at: usize,
}

impl<'a> Stored<'a> {
    pub fn new(units: &'a [u16], length: u32) -> Self {
        let (mut at, mut told) = (0, 0);
        while told < length {
            told += take(units, &mut at);
        }
        Self { units, ids_at: at }
    }

    /// Lengths of the runs, in turn not learned and learned.
    pub fn runs(&self) -> impl Iterator<Item = u32> + 'a {
        let (units, end) = (self.units, self.ids_at);
        let mut at = 0;
        std::iter::from_fn(move || (at < end).then(|| take(units, &mut at)))
    }

    /// How many of its ids are learned.
    pub fn supervised(&self) -> u64 {
        self.runs().skip(1).step_by(2).map(u64::from).sum()
    }

    /// Fills `out`, which is as long as the document.
    pub fn ids(&self, out: &mut [i32]) {
        let units = &self.units[self.ids_at..];
        let (mut at, mut done) = (0, 0);
        while done < out.len() {
            if let (Some(from), Some(to)) = (units.get(at..at + STRIDE), out.get_mut(done..done + STRIDE))
                && from.iter().fold(0, |large, unit| large | u16::from(*unit >= LARGE)) == 0
            {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = i32::from(*from));
                at += STRIDE;
                done += STRIDE;
            } else {
                out[done] = take(units, &mut at) as i32;
                done += 1;
            }
        }
    }
}

#[inline]
fn take(units: &[u16], at: &mut usize) -> u32 {
    let unit = units[*at];
    *at += 1;
    if unit < LARGE {
        return u32::from(unit);
    }
    let low = units[*at];
    *at += 1;
    u32::from(unit & !LARGE) << 16 | u32::from(low)
}

/// Takes documents from many threads at once; their order does not matter.
pub struct SpillWriter {
    file: File,
    units: AtomicU64,
}

impl SpillWriter {
    pub fn create(path: &Path) -> Outcome<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self { file, units: AtomicU64::new(0) })
    }

    /// Writes units and says where they stand.
    pub fn append(&self, units: &[u16]) -> Outcome<u64> {
        let offset = self.units.fetch_add(units.len() as u64, Ordering::Relaxed);
        write_all_at(&self.file, as_bytes(units), offset * 2)?;
        Ok(offset)
    }

    pub fn finish(self) -> Outcome<Spill> {
        if self.units.into_inner() == 0 {
            return Ok(Spill { map: None });
        }
        // SAFETY: the file is this build's own, in its own temporary folder.
        let map = unsafe { Mmap::map(self.file.file())? };
        Ok(Spill { map: Some(map) })
    }
}

pub struct Spill {
    map: Option<Mmap>,
}

impl Spill {
    pub fn document(&self, document: Document) -> Stored<'_> {
        let units = as_units(self.map.as_deref().unwrap_or_default());
        Stored::new(&units[document.offset as usize..], document.length)
    }
}

fn as_bytes(units: &[u16]) -> &[u8] {
    // SAFETY: u16 has no padding and any bytes may be read as u8.
    unsafe { std::slice::from_raw_parts(units.as_ptr().cast(), units.len() * 2) }
}

fn as_units(bytes: &[u8]) -> &[u16] {
    debug_assert_eq!(bytes.as_ptr() as usize % 2, 0);
    // SAFETY: a mapping begins on a page, and any two bytes are a u16.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 2) }
}
