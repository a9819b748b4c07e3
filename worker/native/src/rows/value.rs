//! A row's value, borrowing its strings from the file where they hold no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// In the order in which the keys are written; of equal keys the last one counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object<'a>(pub Vec<(Cow<'a, str>, Value<'a>)>);

#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Object(Object<'a>),
}

impl<'a> Object<'a> {
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

impl Value<'_> {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Unsigned(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Unsigned(value) => Value::Unsigned(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::List(items) => Value::List(items.iter().map(Value::borrowed).collect()),
            Self::Object(object) => Value::Object(object.borrowed()),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
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

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
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
        while let Some(item) = input.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(4);
        while let Some((Key(key), value)) = input.next_entry()? {
            entries.push((key, value));
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
            Self::Null => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Integer(value) => out.serialize_i64(*value),
            Self::Unsigned(value) => out.serialize_u64(*value),
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
