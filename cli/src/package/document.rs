//! The manifest as packaging reads and changes it: the keys that it needs, typed; everything else stays as it is.

use expert_contract::read::OF_ANY_BASE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A key of the document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key<T> {
    Typed(T),
    /// A value of another type, which is kept. Null is a value too.
    Other(Value),
    #[default]
    #[serde(skip)]
    Absent,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub name: Key<String>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub version: Key<String>,
    /// In version 1.0 of the format.
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub base_model: Key<Base>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub base_models: Key<Vec<Key<Base>>>,
    /// In version 1.0 of the format.
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub adapters: Key<Vec<Value>>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub training: Key<Training>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub evaluation: Key<Evaluation>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Base {
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub name: Key<String>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub template_path: Key<String>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub adapters: Key<Vec<Value>>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub overrides: Key<Map<String, Value>>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub config: Key<Map<String, Value>>,
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub decoding: Key<Decoding>,
    /// Version 1.0 of the format has keys of `config` here too.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decoding {
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub grammar_file: Key<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evaluation {
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub scorer: Key<Scorer>,
    /// Text is a file's name.
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub test_cases: Key<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scorer {
    /// A file and a function of it.
    #[serde(skip_serializing_if = "Key::is_absent")]
    pub python: Key<Value>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl<T> Key<T> {
    pub fn typed(&self) -> Option<&T> {
        match self {
            Self::Typed(value) => Some(value),
            Self::Other(_) | Self::Absent => None,
        }
    }

    pub fn typed_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Typed(value) => Some(value),
            Self::Other(_) | Self::Absent => None,
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Base {
    /// What holds for a base that the manifest does not name, of its first one.
    pub fn of_any_base(&self) -> Self {
        let mut base = Self { overrides: Key::Absent, template_path: Key::Absent, ..self.clone() };
        base.rest.retain(|key, _| OF_ANY_BASE.contains(&key.as_str()));
        base
    }
}

impl Document {
    /// Every base of either version of the format.
    pub fn bases_mut(&mut self) -> impl Iterator<Item = &mut Base> {
        let several = self.base_models.typed_mut().into_iter().flatten().filter_map(Key::typed_mut);
        several.chain(self.base_model.typed_mut())
    }

    /// Gives a base that is written as a text, its name, the form of the others.
    pub fn spell_bases(&mut self) {
        let several = self.base_models.typed_mut().into_iter().flatten();
        for base in several.chain([&mut self.base_model]) {
            if let Key::Other(Value::String(name)) = base {
                let name = Key::Typed(std::mem::take(name));
                *base = Key::Typed(Base { name, ..Base::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_changed_is_written_as_it_was_read() {
        for document in [
            json!({}),
            json!({"name": "n", "version": "1", "tags": ["a", null, 1.5, -3, 18_446_744_073_709_551_615_u64]}),
            json!({"name": null, "version": 2, "base_model": null, "base_models": null, "adapters": null}),
            json!({"training": null, "evaluation": null}),
            json!({"base_model": "Org/name", "base_models": ["Org/other", {"name": "a", "sha256": null}, 3]}),
            json!({"base_models": [{"name": null, "template_path": 1, "adapters": {}, "overrides": null}]}),
            json!({"training": {"rank": 4, "config": null, "decoding": {"grammar_file": null, "x": {}}}}),
            json!({"training": {"config": {"rank": 8, "use_dora": true}, "decoding": []}}),
            json!({"evaluation": {"scorer": "sql", "test_cases": [{"prompt": "p"}], "metrics": {"f": 1e-7}}}),
            json!({"evaluation": {"scorer": {"python": null, "rouge": {}}, "test_cases": null}}),
        ] {
            let read: Document = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), document);
        }
    }
}
