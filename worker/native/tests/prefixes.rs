//! Documents that begin alike: each keeps all of its tokens, and their common beginning is there once.
#![allow(clippy::unwrap_used)]

use expert_native::arrow::{Batch, Mapped, Totals, write_rows};
use expert_native::encoder::SUPERVISED;
use expert_native::prefixes::Families;
use expert_native::spill::{Document, Spill, SpillWriter, pack};
use proptest::prelude::*;

/// Ids without and with the mark of learned ones.
type Text = Vec<u32>;

/// A beginning, a question of so many tokens and an answer, which is learned.
fn text(beginning: u32, shown: u32, question: u32, asked: u32, answer: u32) -> Text {
    let shown = (0..shown).map(|at| 1000 * beginning + at);
    let asked = (0..asked).map(|at| 100_000 + 1000 * question + at);
    shown.chain(asked).chain((0..answer).map(|at| (200_000 + at) | SUPERVISED)).collect()
}

fn spilled(folder: &std::path::Path, texts: &[Text]) -> (Spill, Vec<Document>) {
    let writer = SpillWriter::create(&folder.join("spill")).unwrap();
    let documents = texts
        .iter()
        .enumerate()
        .map(|(row, text)| {
            let mut units = Vec::new();
            pack(text, &mut units);
            Document { offset: writer.append(&units).unwrap(), length: text.len() as u32, row: row as u32 }
        })
        .collect();
    (writer.finish().unwrap(), documents)
}

fn shared(texts: &[Text], capacity: u32) -> Vec<u32> {
    let folder = tempfile::tempdir().unwrap();
    let (spill, documents) = spilled(folder.path(), texts);
    Families::find(&spill, &documents, capacity).shared
}

/// Every row of the file as its documents, put together again from what a batch has of them.
fn read(rows: &Mapped) -> Vec<Vec<Text>> {
    (0..rows.len())
        .map(|row| {
            let (tokens, documents) = rows.measure(&[row]).unwrap();
            let [mut ids, mut labels, mut positions] = [(); 3].map(|()| vec![-1; tokens]);
            let mut boundaries = vec![-1; documents + 1];
            let mut batch = Batch {
                ids: &mut ids,
                labels: &mut labels,
                positions: &mut positions,
                boundaries: &mut boundaries,
            };
            rows.fill(&[row], &mut batch).unwrap();
            assert_eq!(rows.tokens(row), Some(tokens));
            let mut whole: Text = Vec::new();
            boundaries
                .windows(2)
                .map(|bounds| {
                    let places = bounds[0] as usize..bounds[1] as usize;
                    let begins = positions[places.start];
                    assert!(
                        positions[places.clone()].iter().copied().eq(begins..begins + places.len() as i32)
                    );
                    let rest =
                        places.map(|at| ids[at] as u32 | if labels[at] == -100 { 0 } else { SUPERVISED });
                    let all: Text = whole[..begins as usize].iter().copied().chain(rest).collect();
                    if begins == 0 {
                        whole.clone_from(&all);
                    }
                    all
                })
                .collect()
        })
        .collect()
}

fn written(texts: &[Text], capacity: u32) -> (Vec<Vec<Text>>, Totals) {
    let folder = tempfile::tempdir().unwrap();
    let (spill, documents) = spilled(folder.path(), texts);
    let families = Families::find(&spill, &documents, capacity);
    let packed = families.pack(&documents, capacity);
    let path = folder.path().join("rows.arrow");
    let totals = write_rows(&path, &spill, &documents, &packed, &families.shared, 2, |_| true).unwrap();
    (read(&Mapped::open(&path).unwrap()), totals)
}

#[test]
fn questions_about_the_same_tables_share_them() {
    let texts = [text(1, 90, 1, 8, 10), text(1, 90, 2, 5, 12), text(1, 90, 3, 7, 9), text(2, 90, 1, 8, 10)];
    assert_eq!(shared(&texts, 512), [0, 90, 90, 0]);
    let (rows, totals) = written(&texts, 512);
    assert_eq!(rows.len(), 1);
    assert_eq!((totals.tokens, totals.shared, totals.documents), (108 + 17 + 16 + 108, 180, 4));
}

#[test]
fn what_is_learned_is_not_shared() {
    // The same question with other answers, and the same row again.
    let one = text(1, 90, 1, 8, 10);
    let mut other = one.clone();
    *other.last_mut().unwrap() = 7 | SUPERVISED;
    assert_eq!(shared(&[one.clone(), other, one], 512), [0, 97, 97]);
    let everything: Text = (0..60).map(|at| at | SUPERVISED).collect();
    assert_eq!(shared(&[everything.clone(), everything], 512), [0, 0]);
}

#[test]
fn a_longer_beginning_is_not_given_up_for_a_short_one() {
    // Three questions about one table, then others that have only the first words in common.
    let words = |rest: u32| [text(9, 40, rest, 60, 0), text(0, 0, rest, 3, 8)].concat();
    let about = |question: u32| [text(9, 40, 1, 60, 0), text(0, 0, question, 5, 8)].concat();
    let texts = [about(11), about(12), about(13), words(2), words(3)];
    assert_eq!(shared(&texts, 2000), [0, 100, 100, 0, 40]);
    // The first two begin with the same words of a question, which the third has not.
    let texts = [
        [text(1, 90, 1, 2, 0), text(0, 0, 5, 5, 8)].concat(),
        [text(1, 90, 1, 2, 0), text(0, 0, 6, 5, 8)].concat(),
        [text(1, 90, 2, 2, 0), text(0, 0, 7, 5, 8)].concat(),
    ];
    assert_eq!(shared(&texts, 2000), [0, 90, 90]);
}

#[test]
fn a_full_row_begins_a_new_family() {
    let texts: Vec<Text> = (0..6).map(|question| text(1, 60, question, 10, 10)).collect();
    assert_eq!(shared(&texts, 120), [0, 60, 60, 0, 60, 60]);
    assert_eq!(shared(&texts, 79), [0, 0, 0, 0, 0, 0][..]);
}

#[test]
fn short_beginnings_are_repeated() {
    let texts = [text(1, 31, 1, 8, 10), text(1, 31, 2, 8, 10)];
    assert_eq!(shared(&texts, 512), [0, 0]);
    let texts = [text(1, 32, 1, 8, 10), text(1, 32, 2, 8, 10)];
    assert_eq!(shared(&texts, 512), [0, 32]);
}

proptest! {
    #[test]
    fn every_document_is_read_whole(
        described in prop::collection::vec((0u32..4, 0u32..80, 0u32..5, 0u32..12, 0u32..9), 1..40),
        capacity in 110u32..400,
    ) {
        let texts: Vec<Text> = described
            .iter()
            .map(|(beginning, shown, question, asked, answer)| {
                text(*beginning, *shown, *question, *asked, *answer)
            })
            .filter(|text| !text.is_empty())
            .collect();
        prop_assume!(!texts.is_empty());
        let (rows, totals) = written(&texts, capacity);
        let mut found: Vec<Text> = rows.iter().flatten().cloned().collect();
        let mut expected = texts.clone();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let whole: u64 = texts.iter().map(|text| text.len() as u64).sum();
        prop_assert_eq!(totals.tokens + totals.shared, whole);
        let learned = |text: &Text| text.iter().filter(|id| **id & SUPERVISED != 0).count() as u64;
        prop_assert_eq!(totals.supervised, texts.iter().map(learned).sum::<u64>());
        prop_assert!(totals.tokens <= u64::from(capacity) * totals.rows);
    }
}
