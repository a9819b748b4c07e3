//! The key ledger: every key of the manifest, its values, and whether it has an effect.
//!
//! Checking, decoding, the JSON Schema and the reference all read these tables; no key is described anywhere else.

use serde_json::Value;

/// The keys of one object.
#[derive(Debug)]
pub struct Section {
    /// Dotted path, with `[]` for the members of a list.
    pub path: &'static str,
    pub doc: &'static str,
    pub fields: &'static [Field],
    pub unknown: Unknown,
    /// Keys that must be there.
    pub required: &'static [&'static str],
    /// A plain string instead of the object sets this key.
    pub text_key: Option<&'static str>,
    /// Keys with these endings are metadata.
    pub metadata_endings: &'static [&'static str],
    /// A section whose keys may appear here too, as in version 1.0 of the format.
    pub shorthand: Option<&'static Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Every key here has an effect; an unknown one is an error.
    Refuse,
    /// Free-form metadata is allowed here.
    Keep,
}

#[derive(Debug)]
pub struct Field {
    /// The name, then the other spellings that are read as well.
    pub keys: &'static [&'static str],
    pub kind: Kind,
    pub class: Class,
    /// The default; null if it depends on something else, which `doc` says.
    pub default: fn() -> Option<Value>,
    pub doc: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Honoured,
    /// Accepted, reported as without effect: why, and what to do instead.
    Advice {
        reason: &'static str,
        instead: &'static str,
    },
    /// Kept for other readers of the manifest; not checked.
    Metadata,
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Advice { .. } => "advice",
            Self::Metadata => "metadata",
        }
    }
}

/// What a value may be.
#[derive(Debug)]
pub enum Kind {
    Any,
    Null,
    Bool,
    Text,
    Integer {
        min: i64,
        max: i64,
    },
    Number(Range),
    Word(&'static [&'static str]),
    List(&'static Kind),
    /// An object with free keys.
    Map(&'static Kind),
    Object(&'static Section),
    OneOf(&'static [Kind]),
}

#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub min: f64,
    pub max: f64,
    /// Whether the ends themselves are allowed.
    pub min_included: bool,
    pub max_included: bool,
}

impl Range {
    pub fn holds(&self, number: f64) -> bool {
        let above = if self.min_included { number >= self.min } else { number > self.min };
        let below = if self.max_included { number <= self.max } else { number < self.max };
        above && below
    }
}

/// Whole numbers beyond this are not exact in JSON readers.
pub const LARGEST: i64 = 9_007_199_254_740_991;

pub const COUNT: Kind = Kind::Integer { min: 1, max: LARGEST };
pub const WHOLE: Kind = Kind::Integer { min: 0, max: LARGEST };
pub const POSITIVE: Kind =
    Kind::Number(Range { min: 0.0, max: f64::MAX, min_included: false, max_included: true });
pub const NOT_NEGATIVE: Kind =
    Kind::Number(Range { min: 0.0, max: f64::MAX, min_included: true, max_included: true });
/// From 0 to 1, both included.
pub const SHARE: Kind = Kind::Number(Range { min: 0.0, max: 1.0, min_included: true, max_included: true });
/// From 0 to below 1.
pub const FRACTION: Kind =
    Kind::Number(Range { min: 0.0, max: 1.0, min_included: true, max_included: false });
/// Between 0 and 1, neither included.
pub const PART: Kind = Kind::Number(Range { min: 0.0, max: 1.0, min_included: false, max_included: false });
pub const TEXTS: Kind = Kind::List(&Kind::Text);

impl Field {
    pub fn name(&self) -> &'static str {
        self.keys[0]
    }

    pub fn is_honoured(&self) -> bool {
        self.class == Class::Honoured
    }
}

impl Section {
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.keys.contains(&key))
    }

    pub fn is_metadata_ending(&self, key: &str) -> bool {
        self.metadata_endings.iter().any(|ending| key.ends_with(ending))
    }

    /// Names of everything that has an effect here.
    pub fn honoured_names(&self) -> impl Iterator<Item = &'static str> {
        let own = self.fields.iter().filter(|field| field.is_honoured());
        let borrowed =
            self.shorthand.into_iter().flat_map(|section| section.fields).filter(|field| field.is_honoured());
        own.chain(borrowed).map(Field::name)
    }
}

impl Kind {
    /// The sections that a value of this kind may hold.
    pub fn sections(&self) -> Vec<&'static Section> {
        match self {
            Self::Object(section) => vec![section],
            Self::List(inner) | Self::Map(inner) => inner.sections(),
            Self::OneOf(kinds) => kinds.iter().flat_map(Self::sections).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is an object of this section, or has such objects.
    pub fn holds(&self, section: &Section) -> bool {
        self.sections().iter().any(|inner| std::ptr::eq(*inner, section))
    }

    /// In a sentence after "expected".
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "any value".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Integer { min, max } if min == max => min.to_string(),
            Self::Integer { min, max: LARGEST } => format!("a whole number of at least {min}"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number(range) => describe_range(range),
            Self::Word(words) if words.len() > 12 => "one of its words".to_owned(),
            Self::Word([word]) => format!("\"{word}\""),
            Self::Word(words) => {
                let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(" or ")
            }
            Self::List(inner) => format!("a list ({} each)", inner.describe()),
            Self::Map(inner) => format!("an object ({} each)", inner.describe()),
            Self::Object(section) if section.text_key.is_some() => "an object or a text".to_owned(),
            Self::Object(_) => "an object".to_owned(),
            Self::OneOf(kinds) => kinds.iter().map(Self::describe).collect::<Vec<_>>().join(", or "),
        }
    }
}

fn describe_range(range: &Range) -> String {
    let lower = match (range.min_included, range.min) {
        (true, min) => format!(" of at least {min}"),
        (false, min) => format!(" above {min}"),
    };
    let upper = match (range.max_included, range.max) {
        (_, max) if max >= f64::MAX => String::new(),
        (true, max) => format!(" up to {max}"),
        (false, max) => format!(" below {max}"),
    };
    let and = if lower.is_empty() || upper.is_empty() { "" } else { " and" };
    format!("a number{lower}{and}{upper}")
}

/// A field with the path at which it stands.
#[derive(Debug, Clone)]
pub struct Entry {
    pub path: String,
    pub section: &'static Section,
    pub field: &'static Field,
}

/// Every field of a section and of the sections inside it, in the order of the tables.
pub fn entries(section: &'static Section) -> Vec<Entry> {
    let mut all = Vec::new();
    collect(section, section.path, &mut all);
    all
}

fn collect(section: &'static Section, path: &str, all: &mut Vec<Entry>) {
    for field in section.fields {
        let path = if path.is_empty() { field.name().to_owned() } else { format!("{path}.{}", field.name()) };
        all.push(Entry { path: path.clone(), section, field });
        for (inner, listed) in nested(&field.kind) {
            collect(inner, &format!("{path}{listed}"), all);
        }
    }
}

fn nested(kind: &'static Kind) -> Vec<(&'static Section, &'static str)> {
    match kind {
        Kind::Object(section) => vec![(section, "")],
        Kind::List(inner) => inner.sections().into_iter().map(|section| (section, "[]")).collect(),
        // A map of the same objects is the list's other spelling.
        Kind::OneOf(kinds) => kinds.iter().map(nested).find(|found| !found.is_empty()).unwrap_or_default(),
        _ => Vec::new(),
    }
}
