//! How full packed rows are, before the worker packs them: whole documents leave room at a row's end.

/// Documents that are packed to find it; fewer are taken several times.
const DOCUMENTS: usize = 1024;

/// The share of packed rows that documents of these lengths fill, as the worker packs them: the longest first, each into the
/// fullest row that has room. Longer documents than a row fill it. The emptiest row is left out: it has room because the
/// documents came to an end, which of many rows only one has.
pub fn fill(lengths: &[u32], row: u32) -> f64 {
    let known: Vec<u32> = lengths.iter().map(|length| (*length).clamp(1, row)).collect();
    if known.is_empty() {
        return 1.0;
    }
    let mut documents: Vec<u32> = known.iter().copied().cycle().take(DOCUMENTS.max(known.len())).collect();
    documents.sort_unstable_by(|one, other| other.cmp(one));
    let mut rooms: Vec<u32> = Vec::new();
    for document in &documents {
        let fitting = rooms.iter_mut().filter(|room| **room >= *document).min();
        match fitting {
            Some(room) => *room -= document,
            None => rooms.push(row - document),
        }
    }
    rooms.sort_unstable();
    rooms.pop();
    if rooms.is_empty() {
        return 1.0;
    }
    let left: u64 = rooms.iter().map(|room| u64::from(*room)).sum();
    1.0 - left as f64 / (rooms.len() as u64 * u64::from(row)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_full_as_whole_documents_leave_them() {
        let near = |lengths: &[u32], row, expected: f64| {
            let found = fill(lengths, row);
            assert!((found - expected).abs() < 0.01, "{lengths:?} in {row}: {found}");
        };
        near(&[70], 256, 210.0 / 256.0);
        near(&[129], 256, 129.0 / 256.0);
        near(&[128], 256, 1.0);
        // The short ones fill what the long ones leave.
        near(&[200, 56], 256, 1.0);
        near(&[500], 256, 1.0);
        near(&[], 256, 1.0);
        // Rows much longer than documents are full, also where all documents here fill one or two.
        near(&[40], 32768, 1.0);
        near(&[40], 65536, 1.0);
        let mixed: Vec<u32> = (1..200).collect();
        near(&mixed, 2048, 1.0);
    }
}
