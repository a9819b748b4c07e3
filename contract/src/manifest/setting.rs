//! Values that remember where they came from.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde_json::Value as Json;

use super::json::{Node, Object, Value, is_comment, number_json};
use crate::source::Span;

/// The source of a value; a later one wins over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The key is absent.
    Default,
    /// `base_models[].adapters[]`, used for keys that `training.config` leaves out.
    Adapter,
    /// The manifest, at the key itself.
    Manifest,
    /// `base_models[].overrides`.
    Overrides,
    /// `--preset`.
    Preset,
    /// `--set`, or a flag that stands for one.
    CommandLine,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Adapter => "adapters[]",
            Self::Manifest => "manifest",
            Self::Overrides => "overrides",
            Self::Preset => "preset",
            Self::CommandLine => "command line",
        }
    }

    fn of(span: Span) -> Self {
        if span.is_argument() { Self::CommandLine } else { Self::Manifest }
    }
}

/// A value, and where it was written. The places of a default are empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
    pub span: Span,
    pub key: Span,
}

impl<T> Setting<T> {
    pub fn absent(value: T) -> Self {
        Self { value, origin: Origin::Default, span: Span::default(), key: Span::default() }
    }

    pub fn is_given(&self) -> bool {
        self.origin != Origin::Default
    }

    /// Whether an invalid value is written, which has been reported already.
    pub fn is_broken(&self) -> bool {
        !self.is_given() && self.span != Span::default()
    }

    /// Of two, the one whose origin wins; `self` where they are equal.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let tells_of_a_mistake = other.origin == self.origin && other.is_broken() && !self.is_broken();
        if other.origin > self.origin || tells_of_a_mistake { other } else { self }
    }

    /// The same, attributed to another layer; command line values keep theirs.
    #[must_use]
    pub fn moved(mut self, origin: Origin) -> Self {
        if self.origin == Origin::Manifest {
            self.origin = origin;
        }
        self
    }

    /// The same, attributed to `--preset` where one of its arguments gave the value.
    #[must_use]
    pub fn attribute_presets(mut self, is_preset: impl Fn(Span) -> bool) -> Self {
        if self.origin == Origin::CommandLine && is_preset(self.span) {
            self.origin = Origin::Preset;
        }
        self
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), origin: self.origin, span: self.span, key: self.key }
    }
}

impl<T> Deref for Setting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Built from a node whose kind has been checked; a node that does not fit gives none.
pub trait Decode: Sized {
    fn decode(node: &Node) -> Option<Self>;

    /// The value as JSON, for tables; objects with keys have no single value.
    fn show(&self) -> Option<Json>;
}

/// The value under the first of `keys` that is there and fits.
pub fn read<T: Decode>(object: &Object, keys: &[&str], default: T) -> Setting<T> {
    let Some(member) = keys.iter().find_map(|key| object.member(key)) else {
        return Setting::absent(default);
    };
    let span = member.node.span;
    match T::decode(&member.node) {
        Some(value) => Setting { value, origin: Origin::of(span), span, key: member.key_span },
        None => Setting { value: default, origin: Origin::Default, span, key: member.key_span },
    }
}

impl Decode for bool {
    fn decode(node: &Node) -> Option<Self> {
        if let Value::Bool(flag) = node.value { Some(flag) } else { None }
    }

    fn show(&self) -> Option<Json> {
        Some((*self).into())
    }
}

impl Decode for f64 {
    fn decode(node: &Node) -> Option<Self> {
        if let Value::Number(number) = node.value { Some(number) } else { None }
    }

    fn show(&self) -> Option<Json> {
        Some(number_json(*self))
    }
}

impl Decode for u64 {
    fn decode(node: &Node) -> Option<Self> {
        f64::decode(node)
            .filter(|number| number.fract() == 0.0 && (0.0..9.1e15).contains(number))
            .map(|n| n as Self)
    }

    fn show(&self) -> Option<Json> {
        Some((*self).into())
    }
}

impl Decode for u32 {
    fn decode(node: &Node) -> Option<Self> {
        u64::decode(node).and_then(|number| Self::try_from(number).ok())
    }

    fn show(&self) -> Option<Json> {
        Some((*self).into())
    }
}

impl Decode for String {
    fn decode(node: &Node) -> Option<Self> {
        node.as_text().map(str::to_owned)
    }

    fn show(&self) -> Option<Json> {
        Some(self.as_str().into())
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node) -> Option<Self> {
        if node.is_null() { Some(None) } else { T::decode(node).map(Some) }
    }

    fn show(&self) -> Option<Json> {
        self.as_ref().map_or(Some(Json::Null), T::show)
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node) -> Option<Self> {
        node.as_list().map(|items| items.iter().filter_map(T::decode).collect())
    }

    fn show(&self) -> Option<Json> {
        self.iter().map(T::show).collect()
    }
}

impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(node: &Node) -> Option<Self> {
        let members = node.as_object()?.members.iter().filter(|member| !is_comment(&member.key));
        Some(members.filter_map(|member| Some((member.key.clone(), T::decode(&member.node)?))).collect())
    }

    fn show(&self) -> Option<Json> {
        let entries: Option<serde_json::Map<_, _>> =
            self.iter().map(|(key, value)| value.show().map(|value| (key.clone(), value))).collect();
        entries.map(Json::Object)
    }
}
