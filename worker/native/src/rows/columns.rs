//! Rows out of Arrow columns, their strings borrowed from the columns' buffers.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::fields::short;
use super::lines::check_length;
use super::value::{Object, Value};
use crate::problem::Fault;

/// The name of a lone column whose texts are the rows, as JSON.
pub const JSON_COLUMN: &str = "__json__";
/// The last column: why a row cannot be read, where it cannot. In a row in JSON, the key of an object that stands for a
/// value that cannot be read.
pub const BROKEN_COLUMN: &str = "__broken__";

/// A batch of rows that some other reader has made.
pub struct Columns(pub RecordBatch);

impl Columns {
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn row(&self, at: usize) -> Result<Value<'_>, Fault> {
        let fields = self.fields(at)?;
        if let Some(text) = self.written(fields, at) {
            check_length(text.len())?;
            return Value::parse(text).map_err(|error| Fault::new("not_json", error.to_string()));
        }
        let columns = self.0.columns()[..fields].iter().zip(self.0.schema_ref().fields());
        let entries = columns.map(|(column, field)| {
            let name = field.name();
            (Cow::Owned(name.clone()), value(column.as_ref(), at, name))
        });
        let row = Value::Object(Object(entries.collect()));
        check_length(row.text_bytes())?;
        Ok(row)
    }

    /// The row in JSON, of which `row_of_json` makes the same one.
    pub fn json(&self, at: usize) -> Result<String, Fault> {
        if let Some(text) = self.written(self.fields(at)?, at) {
            return Ok(text.to_owned());
        }
        let mut row = self.row(at)?;
        name_unreadable(&mut row);
        serde_json::to_string(&row).map_err(|error| Fault::new("not_json", error.to_string()))
    }

    /// The number of columns that hold fields of the row, or why it cannot be read.
    fn fields(&self, at: usize) -> Result<usize, Fault> {
        let schema = self.0.schema_ref();
        match (self.0.columns().split_last(), schema.fields().last()) {
            (Some((reason, fields)), Some(field)) if field.name() == BROKEN_COLUMN => {
                if reason.is_valid(at) {
                    return Err(Fault::new("damaged", reason.as_string::<i32>().value(at)));
                }
                Ok(fields.len())
            }
            _ => Ok(self.0.num_columns()),
        }
    }

    /// The row as it is written, where the only column holds rows in JSON.
    fn written(&self, fields: usize, at: usize) -> Option<&str> {
        let is_json = fields == 1 && self.0.schema_ref().field(0).name() == JSON_COLUMN;
        is_json.then(|| self.0.column(0).as_string::<i64>().value(at))
    }
}

/// A row in JSON that was one of a table.
pub fn row_of_json(text: &str) -> serde_json::Result<Value<'_>> {
    let mut row = Value::parse(text)?;
    mark_unreadable(&mut row);
    Ok(row)
}

fn mark_unreadable(value: &mut Value<'_>) {
    match value {
        Value::List(items) => items.iter_mut().for_each(mark_unreadable),
        Value::Object(object) => match object.0.as_slice() {
            [(key, Value::Text(reason))] if key == BROKEN_COLUMN => {
                *value = Value::Unreadable(Fault::new("damaged", reason.clone()).into());
            }
            _ => object.0.iter_mut().for_each(|(_, value)| mark_unreadable(value)),
        },
        _ => {}
    }
}

/// What `mark_unreadable` undoes: JSON has no place for a value that cannot be read.
fn name_unreadable(value: &mut Value<'_>) {
    match value {
        Value::Unreadable(fault) => {
            let reason = Value::Text(std::mem::take(&mut fault.message).into());
            *value = Value::Object(Object(vec![(BROKEN_COLUMN.into(), reason)]));
        }
        Value::List(items) => items.iter_mut().for_each(name_unreadable),
        Value::Object(object) => object.0.iter_mut().for_each(|(_, value)| name_unreadable(value)),
        _ => {}
    }
}

fn unreadable(code: &'static str, name: &str, reason: &str) -> Value<'static> {
    Value::Unreadable(Fault::new(code, format!("the column {:?}: {reason}", short(name))).into())
}

fn utf8<'a>(bytes: &'a [u8], name: &str) -> Value<'a> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.into()),
        Err(error) => unreadable("not_utf8", name, &format!("byte {} is not UTF-8", error.valid_up_to() + 1)),
    }
}

/// Not-a-number stands for an absent value in tables.
fn float(number: f64) -> Value<'static> {
    if number.is_finite() { Value::Float(number) } else { Value::Null }
}

/// `name` is that of the whole column.
fn value<'a>(column: &'a dyn Array, at: usize, name: &str) -> Value<'a> {
    if is_null(column, at) {
        return Value::Null;
    }
    let integer = Value::Integer;
    match column.data_type() {
        DataType::Boolean => Value::Bool(column.as_boolean().value(at)),
        DataType::Int8 => integer(column.as_primitive::<Int8Type>().value(at).into()),
        DataType::Int16 => integer(column.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => integer(column.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => integer(column.as_primitive::<Int64Type>().value(at)),
        DataType::UInt8 => integer(column.as_primitive::<UInt8Type>().value(at).into()),
        DataType::UInt16 => integer(column.as_primitive::<UInt16Type>().value(at).into()),
        DataType::UInt32 => integer(column.as_primitive::<UInt32Type>().value(at).into()),
        DataType::UInt64 => Value::Unsigned(column.as_primitive::<UInt64Type>().value(at)),
        DataType::Float16 => float(column.as_primitive::<Float16Type>().value(at).to_f64()),
        // In the digits of 32 bits: 0.1, not 0.10000000149.
        DataType::Float32 => {
            let number = column.as_primitive::<Float32Type>().value(at);
            float(number.to_string().parse().unwrap_or_else(|_| number.into()))
        }
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(at)),
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(at).into()),
        DataType::LargeUtf8 => Value::Text(column.as_string::<i64>().value(at).into()),
        DataType::Utf8View => Value::Text(column.as_string_view().value(at).into()),
        DataType::Binary => utf8(column.as_binary::<i32>().value(at), name),
        DataType::LargeBinary => utf8(column.as_binary::<i64>().value(at), name),
        DataType::List(_) => {
            let column = column.as_list::<i32>();
            let offsets = column.value_offsets();
            items(column.values().as_ref(), offsets[at] as usize..offsets[at + 1] as usize, name)
        }
        DataType::LargeList(_) => {
            let column = column.as_list::<i64>();
            let offsets = column.value_offsets();
            items(column.values().as_ref(), offsets[at] as usize..offsets[at + 1] as usize, name)
        }
        // A column gives every object the keys of all: a null is a key that this one does not have, as in TRL.
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns().iter().zip(fields);
            let entries = columns
                .filter(|(column, _)| !is_null(column.as_ref(), at))
                .map(|(column, field)| (Cow::Owned(field.name().clone()), value(column.as_ref(), at, name)));
            Value::Object(Object(entries.collect()))
        }
        other => unreadable("wrong_type", name, &format!("values of type {other} cannot be read")),
    }
}

/// A column of nothing but nulls has no mask of them.
fn is_null(column: &dyn Array, at: usize) -> bool {
    column.is_null(at) || column.data_type() == &DataType::Null
}

fn items<'a>(values: &'a dyn Array, range: std::ops::Range<usize>, name: &str) -> Value<'a> {
    Value::List(range.map(|at| value(values, at, name)).collect())
}
