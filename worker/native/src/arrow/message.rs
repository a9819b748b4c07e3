//! The messages of an Arrow IPC stream of packed rows, around bodies that are written by hand.
//!
//! Arrow's own writer copies every column twice on its way to the file, which costs more than making the columns.

use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_ipc::{Buffer, FieldNode, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder};
use arrow_schema::{DataType, Field, Schema};
use flatbuffers::FlatBufferBuilder;

use super::columns::{COLUMNS, SHARED};
use crate::problem::Outcome;

const ALIGNMENT: usize = 64;
/// A continuation mark and a length of zero.
pub const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The message that a stream begins with.
pub fn schema() -> Outcome<Vec<u8>> {
    let item = std::sync::Arc::new(Field::new("item", DataType::Int32, true));
    let column = |name: &str| Field::new(name, DataType::List(item.clone()), true);
    let [ids, labels, lengths] = COLUMNS.map(column);
    let schema = Schema::new(vec![ids, labels, lengths, column(SHARED)]);
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(false);
    let encoded =
        IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options);
    let mut out = Vec::new();
    write_message(&mut out, encoded, &options)?;
    Ok(out)
}

/// How many lists and numbers each column of a record batch holds, and where they stand in its body.
#[derive(Debug, Clone, Copy)]
pub struct Body {
    pub rows: usize,
    /// Numbers in each column.
    pub values: [usize; 4],
}

/// Bytes from the body's beginning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    pub ends: usize,
    pub values: usize,
}

impl Body {
    pub fn places(&self) -> [Place; 4] {
        let mut at = 0;
        self.values.map(|count| {
            let ends = at;
            let values = ends + padded((self.rows + 1) * 4);
            at = values + padded(count * 4);
            Place { ends, values }
        })
    }

    pub fn len(&self) -> usize {
        let last = self.places()[3];
        last.values + padded(self.values[3] * 4)
    }

    /// What stands before the body, padded so that the body begins at a multiple of 64.
    pub fn head(&self) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let node = |count: usize| FieldNode::new(count as i64, 0);
        let nodes: Vec<_> = self.values.iter().flat_map(|count| [node(self.rows), node(*count)]).collect();
        let buffer = |start: usize, count: usize| Buffer::new(start as i64, (count * 4) as i64);
        let buffers: Vec<_> = self
            .places()
            .iter()
            .zip(self.values)
            .flat_map(|(place, count)| {
                // No list and no number is null, so that the bits which would say so are left out.
                let empty = |at: usize| buffer(at, 0);
                [
                    empty(place.ends),
                    buffer(place.ends, self.rows + 1),
                    empty(place.values),
                    buffer(place.values, count),
                ]
            })
            .collect();
        let (nodes, buffers) = (builder.create_vector(&nodes), builder.create_vector(&buffers));
        let mut batch = RecordBatchBuilder::new(&mut builder);
        batch.add_length(self.rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        let batch = batch.finish();
        let mut message = MessageBuilder::new(&mut builder);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_bodyLength(self.len() as i64);
        message.add_header(batch.as_union_value());
        let message = message.finish();
        builder.finish(message, None);
        framed(builder.finished_data())
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = padded(message.len() + 8);
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&END[..4]);
    out.extend_from_slice(&(length as u32 - 8).to_le_bytes());
    out.extend_from_slice(message);
    out.resize(length, 0);
    out
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
