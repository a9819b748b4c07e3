//! Gathers spilled documents into rows and writes them as an Arrow IPC stream.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow_schema::{DataType, Field, Schema};
use fs_err::File;

use super::{COLUMNS, IGNORED};
use crate::encoder::SUPERVISED;
use crate::ordered;
use crate::pack::Packed;
use crate::problem::{Failure, Outcome};
use crate::spill::{Document, Spill};

const BATCH_ROWS: usize = 1000;
const BATCH_TOKENS: u64 = 1 << 19;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub rows: u64,
    pub documents: u64,
    pub tokens: u64,
    pub supervised: u64,
}

struct Encoded {
    data: EncodedData,
    totals: Totals,
}

/// Writes every row of `packed`; `progress` hears of rows written and may stop the work.
pub fn write_rows(
    path: &Path,
    spill: &Spill,
    documents: &[Document],
    packed: &Packed,
    threads: usize,
    mut progress: impl FnMut(u64) -> bool,
) -> Outcome<Totals> {
    let schema = schema();
    let options = IpcWriteOptions::default();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let generator = IpcDataGenerator::default();
    let mut tracker = DictionaryTracker::new(false);
    let head = generator.schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options);
    write_message(&mut file, head, &options)?;
    let mut totals = Totals::default();
    ordered::run(
        threads,
        batches(documents, packed),
        || (),
        |(), rows| encode(&schema, &options, spill, documents, packed, rows),
        |encoded| {
            let Encoded { data, totals: part } = encoded?;
            write_message(&mut file, data, &options)?;
            totals.add(part);
            if progress(totals.rows) { Ok(()) } else { Err(Failure::Interrupted) }
        },
    )?;
    // The stream's end: a continuation mark and a length of zero.
    file.write_all(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])?;
    let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(totals)
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.documents += other.documents;
        self.tokens += other.tokens;
        self.supervised += other.supervised;
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Int32, true))
}

fn schema() -> Arc<Schema> {
    let column = |name: &str| Field::new(name, DataType::List(item()), true);
    Arc::new(Schema::new(COLUMNS.map(column).to_vec()))
}

/// Runs of rows that make a record batch each.
fn batches(documents: &[Document], packed: &Packed) -> impl Iterator<Item = std::ops::Range<usize>> + Send {
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = next;
        let mut tokens = 0;
        while next < packed.rows() && next - start < BATCH_ROWS && tokens < BATCH_TOKENS {
            tokens +=
                packed.row(next).iter().map(|at| u64::from(documents[*at as usize].length)).sum::<u64>();
            next += 1;
        }
        (next > start).then_some(start..next)
    })
}

fn encode(
    schema: &Arc<Schema>,
    options: &IpcWriteOptions,
    spill: &Spill,
    documents: &[Document],
    packed: &Packed,
    rows: std::ops::Range<usize>,
) -> Outcome<Encoded> {
    let mut totals = Totals { rows: rows.len() as u64, ..Totals::default() };
    let (mut ids, mut labels, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let (mut token_ends, mut length_ends) = (vec![0i32], vec![0i32]);
    for row in rows {
        for at in packed.row(row) {
            let document = documents[*at as usize];
            totals.supervised += gather(spill.ids(document), &mut ids, &mut labels);
            lengths.push(document.length as i32);
        }
        token_ends.push(ids.len() as i32);
        length_ends.push(lengths.len() as i32);
    }
    totals.tokens = ids.len() as u64;
    totals.documents = lengths.len() as u64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(list(ids, token_ends.clone())?),
        Arc::new(list(labels, token_ends)?),
        Arc::new(list(lengths, length_ends)?),
    ];
    let batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
    let mut tracker = DictionaryTracker::new(false);
    let (_, data) =
        IpcDataGenerator::default().encode(&batch, &mut tracker, options, &mut IpcWriteContext::default())?;
    Ok(Encoded { data, totals })
}

fn list(values: Vec<i32>, ends: Vec<i32>) -> Outcome<ListArray> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(ListArray::try_new(item(), offsets, Arc::new(Int32Array::from(values)), None)?)
}

/// Splits flagged ids into ids and labels; returns how many are supervised.
fn gather(flagged: &[u32], ids: &mut Vec<i32>, labels: &mut Vec<i32>) -> u64 {
    ids.extend(flagged.iter().map(|flagged| (flagged & !SUPERVISED) as i32));
    labels.extend(
        flagged.iter().map(
            |flagged| {
                if flagged & SUPERVISED != 0 { (flagged & !SUPERVISED) as i32 } else { IGNORED }
            },
        ),
    );
    flagged.iter().map(|flagged| u64::from(flagged >> 31)).sum()
}
