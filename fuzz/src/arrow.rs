//! Files of the token cache: written rows read back the same, and no damaged file leads out of it.
//!
//! An input that begins as an Arrow stream does is a file. Any other is a list of documents.

use std::path::Path;

use expert_native::arrow::{Batch, IGNORED, Mapped, write_rows};
use expert_native::encoder::SUPERVISED;
use expert_native::pack::{Packed, best_fit};
use expert_native::spill::{Document, SpillWriter, pack};

use crate::scratch;

const STREAM: [u8; 4] = [0xff; 4];

pub fn check(input: &[u8]) {
    let folder = scratch::folder();
    let path = folder.path().join("rows.arrow");
    if input.starts_with(&STREAM) {
        std::fs::write(&path, input).expect("a file");
        read_all(&path);
    } else {
        round_trip(input, folder.path(), &path);
    }
}

/// Reads every row of a file that opens. Answers each row's ids, labels and document lengths.
fn read_all(path: &Path) -> Option<Vec<[Vec<i32>; 3]>> {
    let rows = Mapped::open(path).ok()?;
    let all = (0..rows.len()).map(|at| {
        let place = rows.row(at).expect("a row below the length");
        let [ids, labels, lengths] = place.map(|range| rows.numbers(range).to_vec());
        assert_eq!(ids.len(), labels.len());
        assert_eq!(lengths.iter().sum::<i32>() as usize, ids.len());
        fill(&rows, at, &ids, &labels, &lengths);
        [ids, labels, lengths]
    });
    let all = all.collect();
    assert!(rows.row(rows.len()).is_none());
    Some(all)
}

/// A batch of one row holds the row.
fn fill(rows: &Mapped, at: u64, ids: &[i32], labels: &[i32], lengths: &[i32]) {
    let (tokens, documents) = rows.measure(&[at]).expect("a row below the length");
    assert_eq!((tokens, documents), (ids.len(), lengths.len()));
    let mut columns = [vec![0; tokens], vec![0; tokens], vec![0; tokens]];
    let mut boundaries = vec![0; documents + 1];
    let [of_ids, of_labels, positions] = &mut columns;
    let mut batch = Batch { ids: of_ids, labels: of_labels, positions, boundaries: &mut boundaries };
    rows.fill(&[at], &mut batch).expect("arrays as long as measured");
    assert_eq!((columns[0].as_slice(), columns[1].as_slice()), (ids, labels));
    assert_eq!(boundaries.last().copied(), Some(ids.len() as i32));
}

/// The first byte is the capacity of a row, 0 for one document per row; then a byte of length for every document, and
/// of each id two bytes and a flag.
fn documents(input: &[u8]) -> (u32, Vec<Vec<u32>>) {
    let mut bytes = input.iter().copied();
    let capacity = u32::from(bytes.next().unwrap_or_default());
    let mut documents = Vec::new();
    while let Some(length) = bytes.next() {
        let most = if capacity == 0 { 255 } else { capacity };
        let length = u32::from(length).clamp(1, most);
        let mut id = || {
            let (high, low, flag) = (bytes.next()?, bytes.next()?, bytes.next()?);
            // The third byte's upper bits make some ids large: those take two units in the spill file.
            let id = u32::from(high) << 8 | u32::from(low) | u32::from(flag >> 1) << 16;
            Some(id | if flag & 1 == 1 { SUPERVISED } else { 0 })
        };
        let document: Vec<u32> = (0..length).map_while(|_| id()).collect();
        if !document.is_empty() {
            documents.push(document);
        }
    }
    (capacity, documents)
}

fn round_trip(input: &[u8], folder: &Path, path: &Path) {
    let (capacity, flagged) = documents(input);
    let writer = SpillWriter::create(&folder.join("spill")).expect("a file");
    let stored: Vec<Document> = flagged
        .iter()
        .zip(0..)
        .map(|(ids, row)| {
            let mut units = Vec::new();
            pack(ids, &mut units);
            Document { offset: writer.append(&units).expect("a place"), length: ids.len() as u32, row }
        })
        .collect();
    let spill = writer.finish().expect("a spill");
    let lengths: Vec<u32> = stored.iter().map(|document| document.length).collect();
    let packed = if capacity == 0 { Packed::apart(lengths.len()) } else { best_fit(&lengths, capacity) };
    let shared = vec![0; lengths.len()];
    let threads = 1 + input.len() % 2;
    let totals =
        write_rows(path, &spill, &stored, &packed, &shared, threads, |_| true).expect("a written file");
    let rows = read_all(path).expect("what was written opens");
    assert_eq!(rows.len(), packed.rows());
    let mut seen = vec![false; flagged.len()];
    let mut learned = 0;
    for (at, [ids, labels, ends]) in rows.iter().enumerate() {
        let members: Vec<&Vec<u32>> =
            packed.row(at).iter().map(|document| &flagged[*document as usize]).collect();
        for document in packed.row(at) {
            assert!(!std::mem::replace(&mut seen[*document as usize], true), "a document stands in two rows");
        }
        assert!(capacity == 0 || ids.len() <= capacity as usize, "a row above its capacity");
        assert_eq!(*ends, members.iter().map(|ids| ids.len() as i32).collect::<Vec<_>>());
        let expected: Vec<u32> = members.into_iter().flatten().copied().collect();
        assert_eq!(*ids, expected.iter().map(|id| (id & !SUPERVISED) as i32).collect::<Vec<_>>());
        let label = |id: &u32| if id & SUPERVISED == 0 { IGNORED } else { (id & !SUPERVISED) as i32 };
        assert_eq!(*labels, expected.iter().map(label).collect::<Vec<_>>());
        learned += labels.iter().filter(|label| **label != IGNORED).count() as u64;
    }
    assert!(seen.iter().all(|seen| *seen), "a document is in no row");
    assert_eq!(totals.supervised, learned);
}
