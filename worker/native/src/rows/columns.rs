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
const JSON_COLUMN: &str = "__json__";
/// The last column: why a row cannot be read, where it cannot.
const BROKEN_COLUMN: &str = "__broken__";

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
        let schema = self.0.schema_ref();
        let broken = self
            .0
            .columns()
            .last()
            .filter(|_| schema.fields().last().is_some_and(|field| field.name() == BROKEN_COLUMN));
        if let Some(reason) = broken.filter(|column| column.is_valid(at)) {
            return Err(Fault::new("damaged", reason.as_string::<i32>().value(at)));
        }
        let fields = self.0.num_columns() - usize::from(broken.is_some());
        if fields == 1 && schema.field(0).name() == JSON_COLUMN {
            let text = self.0.column(0).as_string::<i64>().value(at);
            check_length(text.len())?;
            return Value::parse(text).map_err(|error| Fault::new("not_json", error.to_string()));
        }
        let columns = self.0.columns()[..fields].iter().zip(schema.fields());
        let entries = columns
            .map(|(column, field)| {
                let found = value(column.as_ref(), at).map_err(|fault| Fault {
                    message: format!("the column {:?}: {}", short(field.name()), fault.message),
                    ..fault
                })?;
                Ok((Cow::Owned(field.name().clone()), found))
            })
            .collect::<Result<_, Fault>>()?;
        let row = Value::Object(Object(entries));
        check_length(row.text_bytes())?;
        Ok(row)
    }
}

fn utf8(bytes: &[u8]) -> Result<Value<'_>, Fault> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Fault::new("not_utf8", format!("byte {} is not UTF-8", error.valid_up_to() + 1)))?;
    Ok(Value::Text(text.into()))
}

fn value(column: &dyn Array, at: usize) -> Result<Value<'_>, Fault> {
    if column.is_null(at) {
        return Ok(Value::Null);
    }
    let integer = |value: i64| Ok(Value::Integer(value));
    match column.data_type() {
        DataType::Null => Ok(Value::Null),
        DataType::Boolean => Ok(Value::Bool(column.as_boolean().value(at))),
        DataType::Int8 => integer(column.as_primitive::<Int8Type>().value(at).into()),
        DataType::Int16 => integer(column.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => integer(column.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => integer(column.as_primitive::<Int64Type>().value(at)),
        DataType::UInt8 => integer(column.as_primitive::<UInt8Type>().value(at).into()),
        DataType::UInt16 => integer(column.as_primitive::<UInt16Type>().value(at).into()),
        DataType::UInt32 => integer(column.as_primitive::<UInt32Type>().value(at).into()),
        DataType::UInt64 => Ok(Value::Unsigned(column.as_primitive::<UInt64Type>().value(at))),
        DataType::Float16 => Ok(Value::Float(column.as_primitive::<Float16Type>().value(at).to_f64())),
        // In the digits of 32 bits: 0.1, not 0.10000000149.
        DataType::Float32 => {
            let number = column.as_primitive::<Float32Type>().value(at);
            Ok(Value::Float(number.to_string().parse().unwrap_or_else(|_| number.into())))
        }
        DataType::Float64 => Ok(Value::Float(column.as_primitive::<Float64Type>().value(at))),
        DataType::Utf8 => Ok(Value::Text(column.as_string::<i32>().value(at).into())),
        DataType::LargeUtf8 => Ok(Value::Text(column.as_string::<i64>().value(at).into())),
        DataType::Utf8View => Ok(Value::Text(column.as_string_view().value(at).into())),
        DataType::Binary => utf8(column.as_binary::<i32>().value(at)),
        DataType::LargeBinary => utf8(column.as_binary::<i64>().value(at)),
        DataType::List(_) => {
            list(column.as_list::<i32>().value_offsets(), at, column.as_list::<i32>().values().as_ref())
        }
        DataType::LargeList(_) => {
            let column = column.as_list::<i64>();
            let range = column.value_offsets()[at] as usize..column.value_offsets()[at + 1] as usize;
            items(column.values().as_ref(), range)
        }
        // A column gives every object the keys of all: a null is a key that this one does not have, as in TRL.
        DataType::Struct(fields) => {
            let columns = column.as_struct().columns().iter().zip(fields);
            let entries = columns
                .filter(|(column, _)| column.is_valid(at))
                .map(|(column, field)| Ok((Cow::Owned(field.name().clone()), value(column.as_ref(), at)?)))
                .collect::<Result<Vec<_>, Fault>>()?;
            Ok(Value::Object(Object(entries)))
        }
        other => Err(Fault::new("wrong_type", format!("values of type {other} cannot be read"))),
    }
}

fn list<'a>(offsets: &[i32], at: usize, values: &'a dyn Array) -> Result<Value<'a>, Fault> {
    items(values, offsets[at] as usize..offsets[at + 1] as usize)
}

fn items(values: &dyn Array, range: std::ops::Range<usize>) -> Result<Value<'_>, Fault> {
    range.map(|at| value(values, at)).collect::<Result<_, _>>().map(Value::List)
}
