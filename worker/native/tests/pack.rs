//! Packing: every document once, no row too full, best fit, the same each time.

use expert_native::pack::{Packed, best_fit};
use proptest::prelude::*;

/// Best fit decreasing, written as its definition: look at every row for each document.
fn by_definition(lengths: &[u32], capacity: u32) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
    order.sort_by_key(|document| std::cmp::Reverse(lengths[*document as usize]));
    let mut rows: Vec<(u32, Vec<u32>)> = Vec::new();
    for document in order {
        let length = lengths[document as usize];
        let best = rows.iter_mut().filter(|(free, _)| *free >= length).min_by_key(|(free, _)| *free);
        match best {
            Some((free, members)) => {
                *free -= length;
                members.push(document);
            }
            None => rows.push((capacity - length, vec![document])),
        }
    }
    rows.into_iter().map(|(_, members)| members).collect()
}

fn sizes(packed: &Packed, lengths: &[u32]) -> Vec<u32> {
    let mut sizes: Vec<u32> =
        (0..packed.rows()).map(|row| packed.row(row).iter().map(|at| lengths[*at as usize]).sum()).collect();
    sizes.sort_unstable();
    sizes
}

fn sizes_by_definition(lengths: &[u32], capacity: u32) -> Vec<u32> {
    let rows = by_definition(lengths, capacity);
    let mut sizes: Vec<u32> =
        rows.iter().map(|row| row.iter().map(|at| lengths[*at as usize]).sum()).collect();
    sizes.sort_unstable();
    sizes
}

proptest! {
    #[test]
    fn every_document_once_and_no_row_too_full(lengths in prop::collection::vec(1u32..=300, 0..400)) {
        let packed = best_fit(&lengths, 300);
        let mut seen = packed.documents.clone();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..lengths.len() as u32).collect::<Vec<_>>());
        prop_assert!(sizes(&packed, &lengths).iter().all(|size| *size <= 300));
        prop_assert_eq!(&packed, &best_fit(&lengths, 300));
    }

    #[test]
    fn rows_are_as_full_as_by_definition(lengths in prop::collection::vec(1u32..=64, 0..120)) {
        let packed = best_fit(&lengths, 64);
        prop_assert_eq!(sizes(&packed, &lengths), sizes_by_definition(&lengths, 64));
    }
}

#[test]
fn the_fullest_row_that_still_fits_is_taken() {
    let packed = best_fit(&[60, 50, 40, 50], 100);
    assert_eq!(packed.rows(), 2);
    assert_eq!(packed.row(0), [0, 2]);
    assert_eq!(packed.row(1), [1, 3]);
}

#[test]
fn large_capacities_use_the_second_level() {
    let lengths: Vec<u32> = (0..5000u32).map(|at| at * 7919 % 32_768 + 1).collect();
    let packed = best_fit(&lengths, 32_768);
    assert!(sizes(&packed, &lengths).iter().all(|size| *size <= 32_768));
    assert_eq!(packed.documents.len(), 5000);
    assert_eq!(sizes(&packed, &lengths), sizes_by_definition(&lengths, 32_768));
}

/// One row with room, a number of words of the bitmap away: in the next word, the next word of words, and beyond.
#[test]
fn the_only_row_with_room_is_found_however_much_it_has() {
    for long in [32_768 - 70, 32_768 - 5_000, 32_768 - 20_000] {
        let packed = best_fit(&[long, 3], 32_768);
        assert_eq!((packed.rows(), packed.row(0)), (1, &[0, 1][..]), "{long}");
    }
}
