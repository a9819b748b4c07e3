//! Token ids of all documents in a file, so that memory holds only where each begins.

use std::io::{BufWriter, Write};
use std::path::Path;

use fs_err::File;
use memmap2::Mmap;

use crate::problem::Outcome;

/// A run of ids that stays together: a row, or a piece of one that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    pub offset: u64,
    pub length: u32,
    /// The row that it comes from, over all sources.
    pub row: u32,
}

pub struct SpillWriter {
    file: BufWriter<File>,
    written: u64,
}

impl SpillWriter {
    pub fn create(path: &Path) -> Outcome<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), written: 0 })
    }

    /// Appends ids and says where they stand, counted in ids.
    pub fn append(&mut self, ids: &[u32]) -> Outcome<u64> {
        let offset = self.written;
        self.file.write_all(as_bytes(ids))?;
        self.written += ids.len() as u64;
        Ok(offset)
    }

    pub fn finish(self) -> Outcome<Spill> {
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        if self.written == 0 {
            return Ok(Spill { map: None });
        }
        // SAFETY: the file is this build's own, in its own temporary folder.
        let map = unsafe { Mmap::map(file.file())? };
        Ok(Spill { map: Some(map) })
    }
}

pub struct Spill {
    map: Option<Mmap>,
}

impl Spill {
    pub fn ids(&self, document: Document) -> &[u32] {
        let bytes = self.map.as_deref().unwrap_or_default();
        let start = document.offset as usize * 4;
        as_ids(&bytes[start..start + document.length as usize * 4])
    }
}

fn as_bytes(ids: &[u32]) -> &[u8] {
    // SAFETY: u32 has no padding and any bytes may be read as u8.
    unsafe { std::slice::from_raw_parts(ids.as_ptr().cast(), ids.len() * 4) }
}

fn as_ids(bytes: &[u8]) -> &[u32] {
    debug_assert_eq!(bytes.as_ptr() as usize % 4, 0);
    // SAFETY: a mapping begins on a page and documents at multiples of four, and any four bytes are a u32.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4) }
}
