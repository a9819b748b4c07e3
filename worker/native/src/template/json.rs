//! `json.dumps` and `repr` as Python writes them, for values inside templates.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr, ValueKind};

use crate::rows;

pub fn to_jinja(value: &rows::Value<'_>) -> Value {
    match value {
        rows::Value::Null | rows::Value::Unreadable(_) => Value::from(()),
        rows::Value::Bool(value) => Value::from(*value),
        rows::Value::Integer(value) => Value::from(*value),
        rows::Value::Unsigned(value) => Value::from(*value),
        rows::Value::Digits(digits) => digits
            .parse::<i128>()
            .map_or_else(|_| Value::from_object(Digits(digits.as_ref().into())), Value::from),
        rows::Value::Float(value) => Value::from(*value),
        rows::Value::Text(text) => Value::from(text.as_ref()),
        rows::Value::List(items) => items.iter().map(to_jinja).collect(),
        rows::Value::Object(object) => {
            Value::from_pairs(object.0.iter().map(|(key, value)| (key.to_string(), to_jinja(value))))
        }
    }
}

/// An integer of more than 128 bits: templates print it, and cannot calculate with it.
struct Digits(Box<str>);

impl fmt::Debug for Digits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Object for Digits {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

fn is_digits(value: &Value) -> bool {
    value.downcast_object_ref::<Digits>().is_some()
}

/// The options of `tojson`.
pub struct Style {
    indent: Option<usize>,
    item: String,
    key: String,
    sort: bool,
    ascii: bool,
}

impl Style {
    pub fn new(indent: Option<usize>, separators: Option<&[String]>, sort: bool, ascii: bool) -> Self {
        let (item, key) = match separators {
            Some([item, key]) => (item.clone(), key.clone()),
            _ if indent.is_some() => (",".into(), ": ".into()),
            _ => (", ".into(), ": ".into()),
        };
        Self { indent, item, key, sort, ascii }
    }
}

pub fn dumps(value: &Value, style: &Style) -> String {
    let mut out = String::new();
    write(value, style, 0, &mut out);
    out
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            if style.sort {
                keys.sort();
            }
            members(&keys, ['{', '}'], style, depth, out, |key, out| {
                string(&key.to_string(), style.ascii, out);
                out.push_str(&style.key);
                write(&value.get_item(key).unwrap_or_default(), style, depth + 1, out);
            });
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            members(&items, ['[', ']'], style, depth, out, |item, out| write(item, style, depth + 1, out));
        }
        _ if is_digits(value) => out.push_str(&value.to_string()),
        _ => string(value.as_str().unwrap_or(&value.to_string()), style.ascii, out),
    }
}

fn members(
    items: &[Value],
    [open, close]: [char; 2],
    style: &Style,
    depth: usize,
    out: &mut String,
    each: impl Fn(&Value, &mut String),
) {
    out.push(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(&style.item);
        }
        line(style, depth + 1, out);
        each(item, out);
    }
    if !items.is_empty() {
        line(style, depth, out);
    }
    out.push(close);
}

fn line(style: &Style, depth: usize, out: &mut String) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}

fn string(text: &str, ascii: bool, out: &mut String) {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    if !ascii {
        return out.push_str(&quoted);
    }
    for character in quoted.chars() {
        if matches!(character, ' '..='~') {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

pub fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
}

/// Rust and Python agree on the shortest digits; Python writes the exponent with a sign and two digits.
fn float(value: f64) -> String {
    let text = format!("{value:?}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return match text.as_str() {
            "inf" => "Infinity".into(),
            "-inf" => "-Infinity".into(),
            _ => text,
        };
    };
    let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
    format!("{digits}e{sign}{size:0>2}")
}

/// How Python prints a list or a dict.
pub fn python_repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::None => "None".into(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::Number => number(value),
        ValueKind::Map => {
            let entry = |key: Value| {
                format!("{}: {}", python_repr(&key), python_repr(&value.get_item(&key).unwrap_or_default()))
            };
            let entries: Vec<String> = value.try_iter().into_iter().flatten().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<String> =
                value.try_iter().into_iter().flatten().map(|item| python_repr(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        _ if is_digits(value) => value.to_string(),
        _ => quoted(value.as_str().unwrap_or(&value.to_string())),
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
}
