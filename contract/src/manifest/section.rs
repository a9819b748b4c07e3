//! `section!`: one declaration gives an object's struct, its decoding and its part of the ledger.

/// A line of a table as `plan` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub key: &'static str,
    /// None if the value is an object with keys.
    pub value: Option<serde_json::Value>,
    pub origin: super::setting::Origin,
    pub span: crate::source::Span,
}

macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        $name:ident = $table:ident at $path:literal {
            $($option:ident: $setting:expr,)*
        }
        honoured {
            $($field:ident [$($key:literal),+]: $type:ty = $default:expr, $kind:expr, $field_doc:literal;)*
        }
        kept {
            $([$($other:literal),+]: $other_kind:expr, $class:expr, $other_doc:literal;)*
        }
    ) => {
        // The sentences are the reference's, where LoRA is a name and not code.
        #[allow(clippy::doc_markdown)]
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(#[doc = $field_doc] pub $field: $crate::manifest::setting::Setting<$type>,)*
        }

        pub static $table: $crate::ledger::Section = $crate::ledger::Section {
            $($option: $setting,)*
            ..$crate::ledger::Section {
                path: $path,
                doc: concat!($($doc),+),
                fields: &[
                    $($crate::ledger::Field {
                        keys: &[$($key),+],
                        kind: $kind,
                        class: $crate::ledger::Class::Honoured,
                        default: || <$type as $crate::manifest::setting::Decode>::show(&$default),
                        doc: $field_doc,
                    },)*
                    $($crate::ledger::Field {
                        keys: &[$($other),+],
                        kind: $other_kind,
                        class: $class,
                        default: || None,
                        doc: $other_doc,
                    },)*
                ],
                unknown: $crate::ledger::Unknown::Refuse,
                required: &[],
                text_key: None,
                metadata_endings: &[],
                shorthand: None,
            }
        };

        // A section without honoured keys reads nothing.
        #[allow(unused_variables)]
        impl $name {
            /// Reads the keys that are present and valid; everything else keeps its default.
            pub fn from_object(object: &$crate::manifest::json::Object) -> Self {
                Self { $($field: $crate::manifest::setting::read(object, &[$($key),+], $default),)* }
            }

            /// Of each value, the one whose origin wins.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }

            /// The same values, attributed to another layer.
            #[must_use]
            pub fn moved(self, origin: $crate::manifest::setting::Origin) -> Self {
                Self { $($field: self.$field.moved(origin),)* }
            }

            /// The same values, those of `--preset` attributed to it.
            #[must_use]
            pub fn attribute_presets(self, is_preset: impl Fn($crate::source::Span) -> bool) -> Self {
                Self { $($field: self.$field.attribute_presets(&is_preset),)* }
            }

            /// Every setting with its value and where it came from.
            pub fn shown(&self) -> Vec<$crate::manifest::section::Shown> {
                vec![$($crate::manifest::section::Shown {
                    key: [$($key),+][0],
                    value: $crate::manifest::setting::Decode::show(&self.$field.value),
                    origin: self.$field.origin,
                    span: self.$field.span,
                },)*]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_object(&$crate::manifest::json::Object::default())
            }
        }

        impl $crate::manifest::setting::Decode for $name {
            fn decode(node: &$crate::manifest::json::Node) -> Option<Self> {
                use $crate::manifest::json::{Member, Object, Value};
                match (&node.value, $table.text_key) {
                    (Value::Object(object), _) => Some(Self::from_object(object)),
                    (Value::Text(_), Some(key)) => {
                        let member = Member { key: key.to_owned(), key_span: node.span, node: node.clone() };
                        Some(Self::from_object(&Object { members: vec![member] }))
                    }
                    _ => None,
                }
            }

            fn show(&self) -> Option<serde_json::Value> {
                None
            }
        }
    };
}

pub(crate) use section;
