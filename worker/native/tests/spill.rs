//! Documents come back from the spill as they went in, whatever their ids and runs.

use expert_native::encoder::SUPERVISED;
use expert_native::spill::{Document, MOST, SpillWriter, Stored, pack};
use proptest::prelude::*;

fn unpacked(stored: &Stored<'_>, length: usize) -> Vec<u32> {
    let mut ids = vec![0; length];
    stored.ids(&mut ids);
    let flags = stored.runs().zip([0, SUPERVISED].into_iter().cycle());
    let flags = flags.flat_map(|(run, flag)| std::iter::repeat_n(flag, run as usize));
    ids.into_iter().zip(flags).map(|(id, flag)| id as u32 | flag).collect()
}

/// Small ids, ids around the border between one unit and two, and the largest.
fn ids() -> impl Strategy<Value = Vec<u32>> {
    let id = prop_oneof![4 => 0u32..2000, 1 => 0xeff0u32..0xf010, 1 => 0xf010u32..MOST];
    let flagged = (id, any::<bool>()).prop_map(|(id, learned)| if learned { id | SUPERVISED } else { id });
    prop::collection::vec(flagged, 1..200)
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(flagged in ids()) {
        let mut units = Vec::new();
        pack(&flagged, &mut units);
        prop_assert_eq!(unpacked(&Stored::new(&units, flagged.len() as u32), flagged.len()), flagged);
    }
}

#[test]
fn a_long_run_takes_two_units() {
    let flagged = vec![7 | SUPERVISED; 70_000];
    let mut units = Vec::new();
    pack(&flagged, &mut units);
    assert_eq!(units.len(), 70_000 + 3);
    assert_eq!(unpacked(&Stored::new(&units, 70_000), 70_000), flagged);
}

#[test]
fn documents_of_many_threads_stand_where_they_are_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let writer = SpillWriter::create(&folder.path().join("spill")).unwrap();
    let document = |seed: u32| (0..=seed % 50).map(|at| seed * 1000 + at).collect::<Vec<u32>>();
    let places: Vec<(u32, u64)> = std::thread::scope(|scope| {
        let write = |first: u32| {
            let writer = &writer;
            scope.spawn(move || {
                (first..first + 100)
                    .map(|seed| {
                        let mut units = Vec::new();
                        pack(&document(seed), &mut units);
                        (seed, writer.append(&units).unwrap())
                    })
                    .collect::<Vec<_>>()
            })
        };
        [write(0), write(100), write(200)].into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let spill = writer.finish().unwrap();
    for (seed, offset) in places {
        let expected = document(seed);
        let length = expected.len() as u32;
        let stored = spill.document(Document { offset, length, row: 0 });
        assert_eq!(unpacked(&stored, expected.len()), expected);
    }
}
