//! A row's value, borrowing its strings from the file where they hold no escapes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::layout::string_end;

/// From here on a number may be an integer that has been rounded.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// Keys of an object that are compared with one another; more are looked up.
const FEW_KEYS: usize = 16;

use crate::problem::Fault;

/// In the order in which the keys are written; of equal keys the last one counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object<'a>(pub Vec<(Cow<'a, str>, Value<'a>)>);

#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    /// An integer of more than 64 bits, as it is written.
    Digits(Cow<'a, str>),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Object(Object<'a>),
    /// Bytes that are not text, or another type that no row is read from. Only a row that needs it is refused.
    Unreadable(Box<Fault>),
}

impl<'a> Object<'a> {
    /// Of equal keys the last value, in the place of the first, as Python reads them.
    fn drop_repeated_keys(&mut self) {
        let is_repeated = |at: usize| self.0[..at].iter().any(|(key, _)| *key == self.0[at].0);
        if self.0.len() <= FEW_KEYS && !(1..self.0.len()).any(is_repeated) {
            return;
        }
        let mut places = HashMap::with_capacity(self.0.len());
        let mut kept: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(self.0.len());
        for (key, value) in std::mem::take(&mut self.0) {
            let place = *places.entry(key.clone()).or_insert(kept.len());
            match kept.get_mut(place) {
                Some((_, earlier)) => *earlier = value,
                None => kept.push((key, value)),
            }
        }
        self.0 = kept;
    }

    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value, unless it is absent or null.
    pub fn present(&self, key: &str) -> Option<&Value<'a>> {
        self.get(key).filter(|value| !matches!(value, Value::Null))
    }

    /// The same object with texts that are borrowed from this one, so that copies of it copy none.
    pub fn borrowed(&self) -> Object<'_> {
        Object(self.0.iter().map(|(key, value)| (Cow::Borrowed(key.as_ref()), value.borrowed())).collect())
    }

    /// Follows a dotted path; a key that itself holds dots wins over the path.
    pub fn path(&self, path: &str) -> Option<&Value<'a>> {
        if let Some(value) = self.get(path) {
            return Some(value);
        }
        let (head, rest) = path.split_once('.')?;
        match self.get(head)? {
            Value::Object(inner) => inner.path(rest),
            _ => None,
        }
    }
}

impl<'a> Value<'a> {
    /// Reads JSON as Python does: integers have any length, and of equal keys the last one counts.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let mut value = ValueSeed.deserialize(&mut reader)?;
        reader.end()?;
        let is_rounded = value.any_float(&|number| number.abs() >= TWO_TO_63);
        value.settle(&mut is_rounded.then_some(Numbers(text)));
        Ok(value)
    }

    fn any_float(&self, holds: &impl Fn(f64) -> bool) -> bool {
        match self {
            Self::Float(number) => holds(*number),
            Self::List(items) => items.iter().any(|item| item.any_float(holds)),
            Self::Object(object) => object.0.iter().any(|(_, value)| value.any_float(holds)),
            _ => false,
        }
    }

    /// Gives rounded integers their digits back, out of all numbers of the text, and drops repeated keys.
    fn settle(&mut self, written: &mut Option<Numbers<'a>>) {
        match self {
            Self::Integer(_) | Self::Unsigned(_) | Self::Float(_) => {
                let digits = written.as_mut().and_then(Iterator::next);
                let is_integer = |text: &&str| text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
                if let (Self::Float(number), Some(digits)) = (&self, digits.filter(is_integer))
                    && number.abs() >= TWO_TO_63
                {
                    *self = Self::Digits(Cow::Borrowed(digits));
                }
            }
            Self::List(items) => items.iter_mut().for_each(|item| item.settle(written)),
            Self::Object(object) => {
                object.0.iter_mut().for_each(|(_, value)| value.settle(written));
                object.drop_repeated_keys();
            }
            _ => {}
        }
    }
}

/// The numbers of a text that is JSON, as they are written.
struct Numbers<'a>(&'a str);

impl<'a> Iterator for Numbers<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let start = self.0.find(|sign: char| matches!(sign, '"' | '-' | '0'..='9'))?;
            let rest = &self.0[start..];
            if !rest.starts_with('"') {
                let is_part = |sign: char| matches!(sign, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
                let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
                self.0 = &rest[end..];
                return Some(&rest[..end]);
            }
            self.0 = &rest[string_end(rest.as_bytes(), 1)?..];
        }
    }
}

impl Value<'_> {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Unsigned(_) | Self::Digits(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Unreadable(_) => "not readable",
        }
    }

    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Unsigned(value) => Value::Unsigned(*value),
            Self::Digits(digits) => Value::Digits(Cow::Borrowed(digits)),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::List(items) => Value::List(items.iter().map(Value::borrowed).collect()),
            Self::Object(object) => Value::Object(object.borrowed()),
            Self::Unreadable(fault) => Value::Unreadable(fault.clone()),
        }
    }

    /// With copies of its texts.
    pub fn into_owned(self) -> Value<'static> {
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Unsigned(value) => Value::Unsigned(value),
            Self::Digits(digits) => Value::Digits(text(digits)),
            Self::Float(value) => Value::Float(value),
            Self::Text(value) => Value::Text(text(value)),
            Self::List(items) => Value::List(items.into_iter().map(Value::into_owned).collect()),
            Self::Object(object) => Value::Object(Object(
                object.0.into_iter().map(|(key, value)| (text(key), value.into_owned())).collect(),
            )),
            Self::Unreadable(fault) => Value::Unreadable(fault),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether there is nothing in it, such as in the struct of a null picture.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => text.trim().is_empty(),
            Self::List(items) => items.iter().all(Value::is_blank),
            Self::Object(object) => object.0.iter().all(|(_, value)| value.is_blank()),
            _ => false,
        }
    }

    /// Why something in it cannot be read, if so.
    pub fn unreadable(&self) -> Option<&Fault> {
        match self {
            Self::Unreadable(fault) => Some(fault),
            Self::List(items) => items.iter().find_map(Value::unreadable),
            Self::Object(object) => object.0.iter().find_map(|(_, value)| value.unreadable()),
            _ => None,
        }
    }

    /// For a value that is read whole, whatever is in it.
    pub fn readable(&self) -> Result<&Self, Fault> {
        self.unreadable().map_or(Ok(self), |fault| Err(fault.clone()))
    }

    /// Bytes of all texts in it.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(Value::text_bytes).sum(),
            Self::Object(object) => object.0.iter().map(|(_, value)| value.text_bytes()).sum(),
            _ => 0,
        }
    }

    /// Whether any text in it, keys included, is one that `holds`.
    pub fn any_text(&self, holds: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Text(text) => holds(text),
            Self::List(items) => items.iter().any(|item| item.any_text(holds)),
            Self::Object(object) => object.0.iter().any(|(key, value)| holds(key) || value.any_text(holds)),
            _ => false,
        }
    }

    /// Text as it is; anything else as compact JSON.
    pub fn as_words(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            other => Cow::Owned(serde_json::to_string(other).unwrap_or_default()),
        }
    }
}

/// Reads a value whose rounded integers and repeated keys are still to be settled.
struct ValueSeed;

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Value::Unsigned(value), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = input.next_element_seed(ValueSeed)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(4);
        while let Some(Key(key)) = input.next_key()? {
            entries.push((key, input.next_value_seed(ValueSeed)?));
        }
        Ok(Value::Object(Object(entries)))
    }
}

/// An object's key, borrowed where it can be.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a key")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        input.deserialize_str(KeyVisitor)
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null | Self::Unreadable(_) => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Integer(value) => out.serialize_i64(*value),
            Self::Unsigned(value) => out.serialize_u64(*value),
            Self::Digits(digits) => {
                RawValue::from_string(digits.to_string()).map_err(S::Error::custom)?.serialize(out)
            }
            Self::Float(value) => out.serialize_f64(*value),
            Self::Text(text) => out.serialize_str(text),
            Self::List(items) => out.collect_seq(items),
            Self::Object(object) => object.serialize(out),
        }
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
