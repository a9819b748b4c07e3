//! A mapped Arrow IPC stream of packed rows: any row's place in constant time, batches by plain copying.
//!
//! Opening looks at every offset and every document length once, so that reading never leaves the file.

use std::path::Path;

use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::{DataType, Field, Schema};
use fs_err::File;
use memmap2::Mmap;

use super::columns::{COLUMNS, SHARED};
use crate::problem::{Failure, Outcome};

/// Where a list column of one record batch stands in the file.
#[derive(Debug, Clone, Copy)]
struct ListPlace {
    offsets: usize,
    values: usize,
}

struct Part {
    first_row: u64,
    rows: u64,
    columns: [ListPlace; 3],
    shared: Option<ListPlace>,
}

/// Half-open byte ranges of a row's three lists in the file.
pub type RowPlace = [(usize, usize); 3];

/// A row's numbers; `shared` is empty where the file says nothing of it.
struct Row<'a> {
    ids: &'a [i32],
    labels: &'a [i32],
    lengths: &'a [i32],
    shared: &'a [i32],
}

impl Row<'_> {
    /// The length of each document, and how many of its tokens it shares.
    fn documents(&self) -> impl Iterator<Item = (i32, i32)> {
        self.lengths.iter().copied().zip(self.shared.iter().copied().chain(std::iter::repeat(0)))
    }

    /// Shared ones counted once.
    fn tokens(&self) -> usize {
        self.ids.len() - self.shared.iter().map(|shared| *shared as usize).sum::<usize>()
    }
}

pub struct Mapped {
    map: Mmap,
    parts: Vec<Part>,
    rows: u64,
}

/// A batch's arrays, to be filled.
pub struct Batch<'a> {
    pub ids: &'a mut [i32],
    pub labels: &'a mut [i32],
    pub positions: &'a mut [i32],
    pub boundaries: &'a mut [i32],
}

impl Mapped {
    pub fn open(path: &Path) -> Outcome<Self> {
        let file = File::open(path)?;
        // SAFETY: a finished cache is immutable; it is replaced as a whole folder, never written in place.
        let map = unsafe { Mmap::map(file.file())? };
        let mut reader = Messages { bytes: &map, at: 0 };
        let schema = reader.schema()?;
        let (columns, shared) = columns_of(&schema)?;
        let (mut parts, mut rows) = (Vec::new(), 0);
        while let Some(part) = reader.part(&schema, columns, shared, rows)? {
            rows += part.rows;
            parts.push(part);
        }
        let mapped = Self { map, parts, rows };
        mapped.check_documents()?;
        Ok(mapped)
    }

    /// A row's ids and labels are equally many, and its documents are none of them empty and together as long. None
    /// shares more than the document that it continues has, nor all of its tokens.
    fn check_documents(&self) -> Outcome<()> {
        for row in 0..self.rows {
            let row = self.stored(row).ok_or_else(damaged)?;
            let together: i64 = row.lengths.iter().map(|length| i64::from(*length)).sum();
            let same = row.labels.len() == row.ids.len() && usize::try_from(together) == Ok(row.ids.len());
            let mut whole = 0;
            let fits = row.documents().all(|(length, shared)| {
                whole = if shared == 0 { length } else { whole };
                (0..=whole).contains(&shared) && shared < length
            });
            if !same || !fits || ![0, row.lengths.len()].contains(&row.shared.len()) {
                return Err(damaged());
            }
        }
        Ok(())
    }

    pub fn len(&self) -> u64 {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn row(&self, row: u64) -> Option<RowPlace> {
        let (part, at) = self.part_of(row)?;
        Some(part.columns.map(|column| self.list(column, at)))
    }

    fn stored(&self, row: u64) -> Option<Row<'_>> {
        let (part, at) = self.part_of(row)?;
        let [ids, labels, lengths] = part.columns.map(|column| self.numbers(self.list(column, at)));
        let shared = part.shared.map_or(&[][..], |column| self.numbers(self.list(column, at)));
        Some(Row { ids, labels, lengths, shared })
    }

    /// The part that holds the row, and its place there.
    fn part_of(&self, row: u64) -> Option<(&Part, usize)> {
        let part = self.parts.get(self.parts.partition_point(|part| part.first_row + part.rows <= row))?;
        Some((part, (row - part.first_row) as usize))
    }

    fn list(&self, column: ListPlace, at: usize) -> (usize, usize) {
        let offset = |at: usize| self.number(column.offsets + at * 4) as usize;
        (column.values + offset(at) * 4, column.values + offset(at + 1) * 4)
    }

    /// Tokens of a row, shared ones counted once.
    pub fn tokens(&self, row: u64) -> Option<usize> {
        Some(self.stored(row)?.tokens())
    }

    /// Tokens, shared ones counted once, and documents of the rows together; none where a row does not exist.
    pub fn measure(&self, rows: &[u64]) -> Option<(usize, usize)> {
        rows.iter().try_fold((0, 0), |(tokens, documents), row| {
            let row = self.stored(*row)?;
            Some((tokens + row.tokens(), documents + row.lengths.len()))
        })
    }

    /// Fills a batch whose arrays are as long as [`Self::measure`] says, boundaries by one more. A document that shares
    /// its beginning is there from its first other token on, whose position says how much it shares.
    pub fn fill(&self, rows: &[u64], batch: &mut Batch<'_>) -> Option<()> {
        let (mut token, mut document) = (0, 0);
        *batch.boundaries.first_mut()? = 0;
        for row in rows {
            let row = self.stored(*row)?;
            let mut start = 0;
            for (length, shared) in row.documents() {
                let own = start + shared as usize..start + length as usize;
                let places = token..token + own.len();
                batch.ids.get_mut(places.clone())?.copy_from_slice(row.ids.get(own.clone())?);
                batch.labels.get_mut(places.clone())?.copy_from_slice(row.labels.get(own.clone())?);
                let positions = batch.positions.get_mut(places.clone())?;
                positions.iter_mut().zip(shared..).for_each(|(place, position)| *place = position);
                (start, token) = (own.end, places.end);
                document += 1;
                *batch.boundaries.get_mut(document)? = token as i32;
            }
        }
        Some(())
    }

    pub fn numbers(&self, (start, end): (usize, usize)) -> &[i32] {
        let bytes = &self.map[start..end];
        debug_assert_eq!(bytes.as_ptr() as usize % 4, 0);
        // SAFETY: Arrow buffers are aligned to eight bytes in a mapping that begins on a page.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4) }
    }

    fn number(&self, at: usize) -> i32 {
        self.numbers((at, at + 4))[0]
    }
}

/// The columns' places among the schema's fields; the last one may be missing.
fn columns_of(schema: &Schema) -> Outcome<([usize; 3], Option<usize>)> {
    let mut places = [0; 3];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = column_of(schema, name)?
            .ok_or_else(|| Failure::Unsupported(format!("the Arrow file has no column {name:?}")))?;
    }
    Ok((places, column_of(schema, SHARED)?))
}

fn column_of(schema: &Schema, name: &str) -> Outcome<Option<usize>> {
    let Some((at, field)) = schema.column_with_name(name) else { return Ok(None) };
    match field.data_type() {
        DataType::List(item) if *item.data_type() == DataType::Int32 => Ok(Some(at)),
        kind => {
            Err(Failure::Unsupported(format!("the column {name:?} is {kind}, not a list of 32-bit integers")))
        }
    }
}

/// Buffers that a field takes in a record batch.
fn buffers_of(field: &Field) -> Outcome<usize> {
    match field.data_type() {
        DataType::Null => Ok(0),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => Ok(3),
        DataType::List(item) | DataType::LargeList(item) => Ok(2 + buffers_of(item)?),
        kind if kind.is_primitive() || *kind == DataType::Boolean => Ok(2),
        kind => Err(Failure::Unsupported(format!("the Arrow file has a column of type {kind}"))),
    }
}

struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    fn schema(&mut self) -> Outcome<Schema> {
        let (message, _) = self.next()?.ok_or_else(damaged)?;
        let schema = message.header_as_schema().ok_or_else(damaged)?;
        Ok(arrow_ipc::convert::try_fb_to_schema(schema)?)
    }

    fn part(
        &mut self,
        schema: &Schema,
        columns: [usize; 3],
        shared: Option<usize>,
        first_row: u64,
    ) -> Outcome<Option<Part>> {
        let Some((message, body)) = self.next()? else { return Ok(None) };
        if message.header_type() != MessageHeader::RecordBatch {
            return Err(damaged());
        }
        let batch = message.header_as_record_batch().ok_or_else(damaged)?;
        if batch.compression().is_some() {
            return Err(Failure::Unsupported("the Arrow file is compressed".into()));
        }
        let buffers = batch.buffers().ok_or_else(damaged)?;
        let rows = usize::try_from(batch.length()).map_err(|_| damaged())?;
        let list = |column: usize| {
            let before = schema.fields()[..column]
                .iter()
                .try_fold(0, |sum, field| Ok::<_, Failure>(sum + buffers_of(field)?))?;
            if before + 4 > buffers.len() {
                return Err(damaged());
            }
            let start = |at: usize| {
                let offset = usize::try_from(buffers.get(before + at).offset()).ok()?;
                body.checked_add(offset).filter(|start| start.is_multiple_of(4))
            };
            let (offsets, values) = start(1).zip(start(3)).ok_or_else(damaged)?;
            let place = ListPlace { offsets, values };
            self.check(place, rows).ok_or_else(damaged)?;
            Ok(place)
        };
        let mut places = [ListPlace { offsets: 0, values: 0 }; 3];
        for (place, column) in places.iter_mut().zip(columns) {
            *place = list(column)?;
        }
        let shared = shared.map(list).transpose()?;
        Ok(Some(Part { first_row, rows: rows as u64, columns: places, shared }))
    }

    /// Every list must begin where the one before it ends, and the last one end inside the file.
    fn check(&self, place: ListPlace, rows: usize) -> Option<()> {
        let length = rows.checked_add(1)?.checked_mul(4)?;
        let offsets = self.bytes.get(place.offsets..place.offsets.checked_add(length)?)?;
        let mut last = 0;
        for offset in offsets.chunks_exact(4) {
            let offset = i32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]);
            if offset < last {
                return None;
            }
            last = offset;
        }
        let end = place.values.checked_add(usize::try_from(last).ok()?.checked_mul(4)?)?;
        (end <= self.bytes.len()).then_some(())
    }

    /// The next message and where its body starts; none at the stream's end.
    fn next(&mut self) -> Outcome<Option<(arrow_ipc::Message<'a>, usize)>> {
        let Some(head) = self.at.checked_add(8).and_then(|end| self.bytes.get(self.at..end)) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head[..4] != [0xff; 4] {
            return Err(damaged());
        }
        if length == 0 {
            return Ok(None);
        }
        let body = (self.at + 8).checked_add(length).ok_or_else(damaged)?;
        let metadata = self.bytes.get(self.at + 8..body).ok_or_else(damaged)?;
        let message = root_as_message(metadata).map_err(|_| damaged())?;
        let length = usize::try_from(message.bodyLength()).map_err(|_| damaged())?;
        self.at = body.checked_add(length).ok_or_else(damaged)?;
        if self.at > self.bytes.len() {
            return Err(damaged());
        }
        Ok(Some((message, body)))
    }
}

fn damaged() -> Failure {
    Failure::Unsupported("the Arrow file is damaged".into())
}
