//! Gathers spilled documents into rows and writes them as an Arrow IPC stream.

use std::ops::Range;
use std::path::Path;

use fs_err::File;

use super::columns::IGNORED;
use super::message::{self, Body};
use crate::ordered;
use crate::pack::Packed;
use crate::positioned::write_all_at;
use crate::problem::{Failure, Outcome};
use crate::spill::{Document, Spill, Stored};

const BATCH_ROWS: usize = 1000;
/// A batch of ids and labels stays in a core's own cache between being made and being written.
const BATCH_TOKENS: usize = 1 << 16;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub rows: u64,
    pub documents: u64,
    /// Shared ones counted once.
    pub tokens: u64,
    /// Further tokens that the documents share with others.
    pub shared: u64,
    pub supervised: u64,
}

/// Rows that make a record batch, and where it stands in the file: known before any of it is written, so that
/// threads need not wait for one another.
struct Batch {
    rows: Range<usize>,
    body: Body,
    offset: u64,
}

/// Writes every row of `packed`; `shared` has the tokens that each document shares. `progress` hears of rows written and may stop the work.
pub fn write_rows(
    path: &Path,
    spill: &Spill,
    documents: &[Document],
    packed: &Packed,
    shared: &[u32],
    threads: usize,
    mut progress: impl FnMut(u64) -> bool,
) -> Outcome<Totals> {
    let file = File::create(path)?;
    let schema = message::schema()?;
    write_all_at(&file, &schema, 0)?;
    let (batches, end) = layout(documents, packed, schema.len() as u64);
    let mut totals = Totals::default();
    ordered::run(
        threads,
        batches.into_iter(),
        Vec::new,
        |words, batch| {
            let part = gather(&batch, spill, documents, packed, shared, words);
            write_all_at(&file, as_bytes(words), batch.offset)?;
            Ok(part)
        },
        |part: Outcome<Totals>| {
            totals.add(part?);
            if progress(totals.rows) { Ok(()) } else { Err(Failure::Interrupted) }
        },
    )?;
    write_all_at(&file, &message::END, end)?;
    file.sync_all()?;
    Ok(totals)
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.documents += other.documents;
        self.tokens += other.tokens;
        self.shared += other.shared;
        self.supervised += other.supervised;
    }
}

/// The batches, and where the stream ends.
fn layout(documents: &[Document], packed: &Packed, mut offset: u64) -> (Vec<Batch>, u64) {
    let mut batches = Vec::new();
    let mut next = 0;
    while next < packed.rows() {
        let start = next;
        let (mut tokens, mut count) = (0, 0);
        while next < packed.rows() && next - start < BATCH_ROWS && tokens < BATCH_TOKENS {
            let row = packed.row(next);
            tokens += row.iter().map(|at| documents[*at as usize].length as usize).sum::<usize>();
            count += row.len();
            next += 1;
        }
        let body = Body { rows: next - start, values: [tokens, tokens, count, count] };
        batches.push(Batch { rows: start..next, body, offset });
        offset += (body.head().len() + body.len()) as u64;
    }
    (batches, offset)
}

/// Fills `words` with the batch's message and body.
fn gather(
    batch: &Batch,
    spill: &Spill,
    documents: &[Document],
    packed: &Packed,
    shared: &[u32],
    words: &mut Vec<i32>,
) -> Totals {
    let head = batch.body.head();
    words.resize((head.len() + batch.body.len()) / 4, 0);
    let (front, body) = words.split_at_mut(head.len() / 4);
    for (word, bytes) in front.iter_mut().zip(head.chunks_exact(4)) {
        *word = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mut columns = Columns::cut(body, batch.body.places());
    let mut totals = Totals { rows: batch.rows.len() as u64, ..Totals::default() };
    let (mut token, mut document) = (0, 0);
    for (row, at) in batch.rows.clone().enumerate() {
        for member in packed.row(at) {
            columns.shared[document] = shared[*member as usize] as i32;
            totals.shared += u64::from(shared[*member as usize]);
            let member = documents[*member as usize];
            let end = token + member.length as usize;
            totals.supervised += columns.fill(&spill.document(member), token..end);
            columns.lengths[document] = member.length as i32;
            token = end;
            document += 1;
        }
        columns.end_row(row + 1, token, document);
    }
    columns.clear_rest(batch.rows.len(), token, document);
    totals.tokens = token as u64 - totals.shared;
    totals.documents = document as u64;
    totals
}

/// The numbers of a body, column by column.
struct Columns<'a> {
    id_ends: &'a mut [i32],
    ids: &'a mut [i32],
    label_ends: &'a mut [i32],
    labels: &'a mut [i32],
    length_ends: &'a mut [i32],
    lengths: &'a mut [i32],
    shared_ends: &'a mut [i32],
    shared: &'a mut [i32],
}

impl<'a> Columns<'a> {
    fn cut(mut rest: &'a mut [i32], [ids, labels, lengths, shared]: [message::Place; 4]) -> Self {
        let mut from = 0;
        let mut next = |to: usize| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut((to - from) / 4);
            from = to;
            rest = after;
            part
        };
        Self {
            id_ends: next(ids.values),
            ids: next(labels.ends),
            label_ends: next(labels.values),
            labels: next(lengths.ends),
            length_ends: next(lengths.values),
            lengths: next(shared.ends),
            shared_ends: next(shared.values),
            shared: rest,
        }
    }

    /// Ids and labels of one document; returns how many are supervised.
    fn fill(&mut self, stored: &Stored<'_>, range: Range<usize>) -> u64 {
        let (ids, labels) = (&mut self.ids[range.clone()], &mut self.labels[range]);
        stored.ids(ids);
        let (mut at, mut supervised, mut learned) = (0, 0, false);
        for run in stored.runs() {
            let end = at + run as usize;
            if learned {
                labels[at..end].copy_from_slice(&ids[at..end]);
                supervised += u64::from(run);
            } else {
                labels[at..end].fill(IGNORED);
            }
            at = end;
            learned = !learned;
        }
        supervised
    }

    /// Every list begins at 0, and what follows a column's last number is padding: nothing of an earlier batch stays.
    fn clear_rest(&mut self, rows: usize, tokens: usize, documents: usize) {
        for ends in [&mut *self.id_ends, self.label_ends, self.length_ends, self.shared_ends] {
            ends[0] = 0;
            ends[rows + 1..].fill(0);
        }
        self.ids[tokens..].fill(0);
        self.labels[tokens..].fill(0);
        self.lengths[documents..].fill(0);
        self.shared[documents..].fill(0);
    }

    fn end_row(&mut self, row: usize, tokens: usize, documents: usize) {
        self.id_ends[row] = tokens as i32;
        self.label_ends[row] = tokens as i32;
        self.length_ends[row] = documents as i32;
        self.shared_ends[row] = documents as i32;
    }
}

fn as_bytes(words: &[i32]) -> &[u8] {
    // SAFETY: i32 has no padding and any bytes may be read as u8.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 4) }
}
