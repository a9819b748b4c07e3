//! Memory that a piece of work has in use at most, counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Of all threads: the pipeline under test starts some. Tests that measure run one after the other.
static IN_USE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
}

/// The result of the work, and the most bytes that it had in use at once.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    (result, usize::try_from(MOST.load(Ordering::Relaxed) - before).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_most_is_counted_though_it_was_given_back() {
        let (length, used) = super::measure(|| {
            let held = vec![1u8; 50 << 20];
            held.len()
        });
        assert_eq!(length, 50 << 20);
        assert!((50 << 20..60 << 20).contains(&used), "{used}");
    }
}
