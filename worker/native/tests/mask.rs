//! Rows of the token cache: every document's ids, and labels only where it is learned from.
#![allow(clippy::unwrap_used)]

use expert_native::arrow::{Batch, Mapped, Totals, write_rows};
use expert_native::encoder::SUPERVISED;
use expert_native::pack::{Packed, best_fit};
use expert_native::spill::{Document, SpillWriter, pack};

const IGNORED: i32 = -100;

/// Runs of 1 to 4 ids, in turn not learned and learned, other ids in each document.
fn flagged(document: u32) -> Vec<u32> {
    let length = 1 + document * 7 % 23;
    (0..length)
        .map(|at| {
            let learned = (document + at / (1 + document % 4)) % 2 == 1;
            (document * 100 + at) | if learned { SUPERVISED } else { 0 }
        })
        .collect()
}

struct Written {
    folder: tempfile::TempDir,
    rows: Mapped,
    packed: Packed,
    totals: Totals,
    heard: Vec<u64>,
}

fn written(count: u32, threads: usize, capacity: Option<u32>) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let writer = SpillWriter::create(&folder.path().join("spill")).unwrap();
    let documents: Vec<Document> = (0..count)
        .map(|row| {
            let mut units = Vec::new();
            pack(&flagged(row), &mut units);
            Document { offset: writer.append(&units).unwrap(), length: flagged(row).len() as u32, row }
        })
        .collect();
    let spill = writer.finish().unwrap();
    let lengths: Vec<u32> = documents.iter().map(|document| document.length).collect();
    let packed =
        capacity.map_or_else(|| Packed::apart(lengths.len()), |capacity| best_fit(&lengths, capacity));
    let path = folder.path().join("rows.arrow");
    let mut heard = Vec::new();
    let totals = write_rows(&path, &spill, &documents, &packed, &vec![0; lengths.len()], threads, |rows| {
        heard.push(rows);
        true
    })
    .unwrap();
    Written { rows: Mapped::open(&path).unwrap(), folder, packed, totals, heard }
}

fn check(found: &Written, count: u32) {
    let (mut tokens, mut supervised) = (0, 0);
    assert_eq!(found.rows.len(), found.packed.rows() as u64);
    for row in 0..found.packed.rows() {
        let (mut ids, mut labels, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for document in found.packed.row(row) {
            for id in flagged(*document) {
                let plain = (id & !SUPERVISED) as i32;
                ids.push(plain);
                labels.push(if id & SUPERVISED == 0 { IGNORED } else { plain });
            }
            lengths.push(flagged(*document).len() as i32);
        }
        tokens += ids.len() as u64;
        supervised += labels.iter().filter(|label| **label != IGNORED).count() as u64;
        let places = found.rows.row(row as u64).unwrap();
        assert_eq!(found.rows.numbers(places[0]), ids, "ids of row {row}");
        assert_eq!(found.rows.numbers(places[1]), labels, "labels of row {row}");
        assert_eq!(found.rows.numbers(places[2]), lengths, "lengths of row {row}");
    }
    assert!(found.rows.row(found.packed.rows() as u64).is_none());
    let expected = Totals {
        rows: found.packed.rows() as u64,
        documents: u64::from(count),
        tokens,
        shared: 0,
        supervised,
    };
    assert_eq!(found.totals, expected);
    assert_eq!(found.heard.last(), Some(&expected.rows));
}

#[test]
fn what_is_not_learned_has_no_label() {
    for threads in [1, 3] {
        check(&written(50, threads, Some(40)), 50);
        check(&written(50, threads, None), 50);
    }
}

#[test]
fn rows_of_many_record_batches_stand_in_order() {
    let found = written(2500, 2, None);
    check(&found, 2500);
    assert_eq!(found.heard, [1000, 2000, 2500]);
}

#[test]
fn the_file_ends_where_the_stream_does() {
    let end_of_stream = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    for (count, threads) in [(5, 1), (2500, 2)] {
        let found = written(count, threads, None);
        let bytes = std::fs::read(found.folder.path().join("rows.arrow")).unwrap();
        assert!(bytes.ends_with(&end_of_stream), "{count} documents");
    }
}

#[test]
fn a_batch_lays_rows_end_to_end() {
    let found = written(6, 1, None);
    let rows = [4, 1];
    let (tokens, documents) = found.rows.measure(&rows).unwrap();
    assert_eq!((tokens, documents), (flagged(4).len() + flagged(1).len(), 2));
    let [mut ids, mut labels, mut positions] = [(); 3].map(|()| vec![-1; tokens]);
    let mut boundaries = vec![-1; documents + 1];
    let mut batch =
        Batch { ids: &mut ids, labels: &mut labels, positions: &mut positions, boundaries: &mut boundaries };
    found.rows.fill(&rows, &mut batch).unwrap();
    let expected: Vec<u32> = flagged(4).into_iter().chain(flagged(1)).collect();
    assert_eq!(ids, expected.iter().map(|id| (id & !SUPERVISED) as i32).collect::<Vec<_>>());
    let first = flagged(4).len() as i32;
    assert_eq!(boundaries, [0, first, tokens as i32]);
    assert_eq!(positions, (0..first).chain(0..tokens as i32 - first).collect::<Vec<_>>());
    for (label, id) in labels.iter().zip(expected) {
        assert_eq!(*label == IGNORED, id & SUPERVISED == 0);
    }
}

#[test]
fn asked_to_stop_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let writer = SpillWriter::create(&folder.path().join("spill")).unwrap();
    let mut units = Vec::new();
    pack(&flagged(3), &mut units);
    let document =
        Document { offset: writer.append(&units).unwrap(), length: flagged(3).len() as u32, row: 0 };
    let spill = writer.finish().unwrap();
    let path = folder.path().join("rows.arrow");
    assert!(write_rows(&path, &spill, &[document], &Packed::apart(1), &[0], 1, |_| false).is_err());
}
