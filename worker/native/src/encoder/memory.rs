//! Tables in a mapped file in their final layout, so that opening a tokenizer only maps it.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use fs_err::File;
use memmap2::Mmap;

#[cfg(target_endian = "big")]
compile_error!("compiled tokenizers are little-endian and used directly from their files");

/// Every array in a compiled tokenizer begins at a multiple of this many bytes.
pub const ALIGNMENT: usize = 8;

/// A file's bytes, aligned for every kind of number.
pub enum Memory {
    Mapped(Mmap),
    Held { words: Vec<u64>, bytes: usize },
}

impl Memory {
    pub fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: compiled tokenizers are replaced as whole files, never written in place.
        Ok(Self::Mapped(unsafe { Mmap::map(file.file())? }))
    }

    pub fn hold(bytes: &[u8]) -> Self {
        let word = |part: &[u8]| {
            let mut eight = [0; ALIGNMENT];
            eight[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(eight)
        };
        Self::Held { words: bytes.chunks(ALIGNMENT).map(word).collect(), bytes: bytes.len() }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            // SAFETY: u64 has no padding, and the words are at least as long as the bytes that they were made of.
            Self::Held { words, bytes } => unsafe {
                std::slice::from_raw_parts(words.as_ptr().cast(), *bytes)
            },
        }
    }
}

mod sealed {
    pub trait Number: Copy {}
    impl Number for u8 {}
    impl Number for u32 {}
    impl Number for u64 {}
}
pub use sealed::Number;

/// Numbers somewhere in a memory, which they keep alive.
pub struct Numbers<T> {
    start: *const T,
    count: usize,
    _memory: Arc<Memory>,
}

// SAFETY: the memory is never written, and shared through an `Arc`.
unsafe impl<T: Number> Send for Numbers<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Numbers<T> {}

impl<T: Number> Numbers<T> {
    /// None where the bytes from `at` on are too few or not aligned.
    pub fn new(memory: &Arc<Memory>, at: usize, count: usize) -> Option<Self> {
        let length = count.checked_mul(size_of::<T>())?;
        let bytes = memory.bytes().get(at..at.checked_add(length)?)?;
        let start = bytes.as_ptr().cast::<T>();
        start.is_aligned().then(|| Self { start, count, _memory: Arc::clone(memory) })
    }
}

impl<T: Number> Deref for Numbers<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` has checked place, length and alignment; the memory lives as long as `self` and does not move.
        unsafe { std::slice::from_raw_parts(self.start, self.count) }
    }
}
