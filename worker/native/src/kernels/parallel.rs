//! Rows in parts, one part per thread.

/// Elements for which a thread is worth its start.
const SHARE: usize = 1 << 18;

/// Rows of `width` elements in each part of `rows`: a part for a thread.
pub fn rows_of_part(rows: usize, width: usize, threads: usize) -> usize {
    let parts = threads.min(rows * width / SHARE).max(1);
    rows.div_ceil(parts).max(1)
}

/// Works on every part, the first on the caller's thread.
pub fn in_parallel<Part: Send>(mut parts: impl Iterator<Item = Part>, work: impl Fn(Part) + Sync) {
    let (first, work) = (parts.next(), &work);
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || work(part));
        }
        if let Some(part) = first {
            work(part);
        }
    });
}
