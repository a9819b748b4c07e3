//! Which rows go where: shares of a mixture, the held-out part, and the writing of a split.

use std::ops::Range;
use std::path::Path;

use super::ingest::Ingested;
use crate::arrow::{Totals, write_rows};
use crate::pack::Packed;
use crate::prefixes::Families;
use crate::problem::Outcome;
use crate::spill::Document;

/// How rows are divided; the same numbers give the same division anywhere.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub seed: u64,
    /// In the order of the sources: how many of them have a share together, and the share. Empty takes every row.
    pub shares: Vec<(usize, f64)>,
    /// Share of the rows to hold out.
    pub held_out: Option<f64>,
    /// Whether every row is taken, and those of tasks that are too small for their share are repeated.
    pub repeat: bool,
}

/// Documents that are learned from, and those held out.
pub struct Divided {
    pub train: Vec<Document>,
    pub held_out: Vec<Document>,
}

const LEFT_OUT: u8 = 0;
const TRAIN: u8 = 1;
const HELD_OUT: u8 = 2;

pub fn select(ingested: &mut Ingested, selection: &Selection) -> Divided {
    let documents = std::mem::take(&mut ingested.documents);
    if selection.shares.is_empty() && selection.held_out.is_none() {
        return Divided { train: documents, held_out: Vec::new() };
    }
    let mut fate = vec![TRAIN; ingested.rows as usize];
    if !selection.repeat {
        mix(ingested, selection, &mut fate);
        discount(ingested, &documents, &fate);
    }
    hold_out(selection, &mut fate);
    if selection.repeat {
        keep_one_of_each(ingested, selection, &mut fate);
    }
    let (mut train, mut held_out) = (Vec::with_capacity(documents.len()), Vec::new());
    for document in documents {
        match fate[document.row as usize] {
            TRAIN => train.push(document),
            HELD_OUT => held_out.push(document),
            _ => {}
        }
    }
    if selection.repeat {
        repeat(ingested, selection, &fate, &mut train);
    }
    Divided { train, held_out }
}

/// The rows of each task that has a share, and the share; the shares add up to 1.
fn tasks(ingested: &Ingested, selection: &Selection) -> Vec<(Range<u32>, f64)> {
    let sum: f64 = selection.shares.iter().map(|(_, share)| share).sum();
    let ends = &ingested.source_rows;
    let mut source = 0;
    let tasks = selection.shares.iter().map(|(files, share)| {
        let first = ends.get(source).copied().unwrap_or_default();
        source += files;
        (first..ends.get(source).copied().unwrap_or(first), share / sum)
    });
    tasks.filter(|_| sum > 0.0).collect()
}

/// Takes of the files of each task as many rows as its share allows before the scarcest task runs out.
fn mix(ingested: &Ingested, selection: &Selection, fate: &mut [u8]) {
    let tasks = tasks(ingested, selection);
    let supplies =
        tasks.iter().filter(|(_, share)| *share > 0.0).map(|(rows, share)| rows.len() as f64 / share);
    let total = supplies.fold(f64::INFINITY, f64::min);
    for (range, share) in tasks {
        let take = ((total * share).round() as usize).min(range.len());
        let (mut rows, spare): (Vec<u32>, _) = (range.clone().collect(), range.len() - take);
        for row in lowest(&mut rows, spare, |row| by_chance(selection, row)) {
            fate[*row as usize] = LEFT_OUT;
        }
    }
}

/// A task that has a share has a row to repeat, where all of its few rows were held out.
fn keep_one_of_each(ingested: &Ingested, selection: &Selection, fate: &mut [u8]) {
    for (range, share) in tasks(ingested, selection) {
        let is_learned = range.clone().any(|row| fate[row as usize] == TRAIN);
        if share > 0.0 && !is_learned && !range.is_empty() {
            fate[range.start as usize] = TRAIN;
        }
    }
}

/// Repeats learned rows of each task until it has its share of as many rows as the largest task needs. Each row of a task
/// is there as often as any other, or once more. Repeated rows follow all others, and are counted.
fn repeat(ingested: &mut Ingested, selection: &Selection, fate: &[u8], train: &mut Vec<Document>) {
    let learned = |range: Range<u32>| range.filter(|row| fate[*row as usize] == TRAIN).collect::<Vec<u32>>();
    let tasks = tasks(ingested, selection).into_iter().filter(|(_, share)| *share > 0.0);
    let tasks: Vec<_> = tasks.map(|(range, share)| (learned(range), share)).collect();
    let total = tasks.iter().map(|(rows, share)| rows.len() as f64 / share).fold(0.0, f64::max);
    let mut further = vec![0u32; fate.len()];
    for (mut rows, share) in tasks.into_iter().filter(|(rows, _)| !rows.is_empty()) {
        let missing = ((total * share).round() as usize).saturating_sub(rows.len());
        let each = (missing / rows.len()) as u32;
        for row in &rows {
            further[*row as usize] = each;
        }
        let rest = missing % rows.len();
        for row in lowest(&mut rows, rest, |row| by_chance(selection, row)) {
            further[*row as usize] += 1;
        }
    }
    let Ingested { source_rows, ledgers, spill, .. } = ingested;
    for (ends, ledger) in source_rows.windows(2).zip(ledgers) {
        ledger.repeated = further[ends[0] as usize..ends[1] as usize].iter().map(|it| u64::from(*it)).sum();
        let first = train.partition_point(|document| document.row < ends[0]);
        let own = &train[first..train.partition_point(|document| document.row < ends[1])];
        for document in own.iter().filter(|document| further[document.row as usize] > 0) {
            let times = u64::from(further[document.row as usize]);
            ledger.tokens += times * u64::from(document.length);
            ledger.supervised += times * spill.document(*document).supervised();
        }
    }
    let once = train.len();
    for round in 0..further.iter().copied().max().unwrap_or_default() {
        let again: Vec<Document> =
            train[..once].iter().filter(|document| further[document.row as usize] > round).copied().collect();
        train.extend(again);
    }
}

/// A number for a row that has nothing to do with its place.
fn by_chance(selection: &Selection, row: u32) -> u64 {
    mixed(selection.seed ^ 0x5bf0_3635, u64::from(row))
}

/// Takes rows that have no share out of what was counted as used.
fn discount(ingested: &mut Ingested, documents: &[Document], fate: &[u8]) {
    let Ingested { source_rows, ledgers, truncated, unanswered, thoughts_left_out, dropped, spill, .. } =
        ingested;
    let is_left_out = |row: u32| fate[row as usize] == LEFT_OUT;
    for (ends, ledger) in source_rows.windows(2).zip(ledgers) {
        let rows = ends[0]..ends[1];
        ledger.dropped_mixture = rows.clone().filter(|row| is_left_out(*row)).count() as u64;
        if ledger.dropped_mixture == 0 {
            continue;
        }
        ledger.used -= ledger.dropped_mixture;
        let left_out_of = |some: &[u32]| {
            let own = some[some.partition_point(|row| *row < rows.start)..].iter();
            own.take_while(|row| **row < rows.end).filter(|row| is_left_out(**row)).count() as u64
        };
        ledger.truncated -= left_out_of(truncated);
        ledger.unanswered -= left_out_of(unanswered);
        ledger.thoughts_left_out -= left_out_of(thoughts_left_out);
        let first = documents.partition_point(|document| document.row < rows.start);
        let own = &documents[first..documents.partition_point(|document| document.row < rows.end)];
        for row in own.chunk_by(|one, next| one.row == next.row).filter(|row| is_left_out(row[0].row)) {
            let dropped =
                dropped.binary_search_by_key(&row[0].row, |(row, _)| *row).ok().map(|at| dropped[at].1);
            ledger.split -= u64::from(row.len() > 1 || dropped.is_some());
            ledger.dropped_pieces -= dropped.map_or(0, |it| u64::from(it.pieces));
            ledger.dropped_tokens -= dropped.map_or(0, |it| u64::from(it.tokens));
            for document in row {
                ledger.tokens -= u64::from(document.length);
                ledger.supervised -= spill.document(*document).supervised();
            }
        }
    }
}

fn hold_out(selection: &Selection, fate: &mut [u8]) {
    let Some(share) = selection.held_out else { return };
    let mut rows: Vec<u32> = (0..fate.len() as u32).filter(|row| fate[*row as usize] == TRAIN).collect();
    if rows.len() < 2 {
        return;
    }
    let count = ((rows.len() as f64 * share).round() as usize).clamp(1, rows.len() - 1);
    for row in lowest(&mut rows, count, |row| mixed(selection.seed, u64::from(row))) {
        fate[*row as usize] = HELD_OUT;
    }
}

/// The `count` rows that come first by `key`.
fn lowest(rows: &mut [u32], count: usize, key: impl Fn(u32) -> u64) -> &[u32] {
    if count > 0 && count < rows.len() {
        rows.select_nth_unstable_by_key(count - 1, |row| (key(*row), *row));
    }
    &rows[..count]
}

/// `SplitMix64`'s output function on a seed and a place.
fn mixed(seed: u64, place: u64) -> u64 {
    let mut state = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// How documents share rows.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Tokens of a row.
    pub capacity: u32,
    /// Whether the beginnings that documents have in common stand in a row once.
    pub share: bool,
}

/// Packs documents, or puts each into a separate row, and writes the Arrow file.
pub fn write_split(
    path: &Path,
    ingested: &Ingested,
    documents: &[Document],
    packing: Option<Packing>,
    threads: usize,
    progress: impl FnMut(u64) -> bool,
) -> Outcome<Totals> {
    let families = match packing {
        Some(Packing { capacity, share: true }) => Families::find(&ingested.spill, documents, capacity),
        _ => Families::apart(documents.len()),
    };
    let packed = match packing {
        Some(Packing { capacity, .. }) => families.pack(documents, capacity),
        None => Packed::apart(documents.len()),
    };
    write_rows(path, &ingested.spill, documents, &packed, &families.shared, threads, progress)
}
