//! JSON Schema (draft-07, which editors read) of the documents.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::cluster::CLUSTER;
use crate::event::Event;
use crate::ledger::{Class, Field, Kind, Range, Section, Unknown};
use crate::manifest::ROOT;
use crate::plan::Plan;
use crate::results::{
    BaseResult, BenchResult, CacheRecord, CheckpointRecord, EvaluationResult, ExpertRecord, ExportResult,
    GenerateResult, PlanRecord, PretokenizeResult, ProductSpeed, RunRecord, SearchRecord,
};
use crate::routing::{RouteRequest, RouteResult};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// The manifest, from the field ledger.
pub fn manifest() -> Schema {
    let mut definitions = Map::new();
    define(&ROOT, &mut definitions);
    let mut root = definitions.remove(&identifier(&ROOT)).unwrap_or_default();
    if let Value::Object(object) = &mut root {
        object.insert("$schema".to_owned(), DRAFT.into());
        object.insert("title".to_owned(), "The manifest of an expert".into());
        object.insert("definitions".to_owned(), definitions.into());
    }
    Schema::try_from(root).unwrap_or_default()
}

/// The machines of `plan --all --cluster`.
pub fn cluster() -> Schema {
    let mut definitions = Map::new();
    define(&CLUSTER, &mut definitions);
    let mut root = definitions.remove(&identifier(&CLUSTER)).unwrap_or_default();
    if let Value::Object(object) = &mut root {
        object.insert("$schema".to_owned(), DRAFT.into());
        object.insert("title".to_owned(), "The machines of plan --all --cluster".into());
        object.insert("definitions".to_owned(), definitions.into());
    }
    Schema::try_from(root).unwrap_or_default()
}

pub fn plan() -> Schema {
    derived::<Plan>()
}

pub fn event() -> Schema {
    derived::<Event>()
}

/// What the worker reports and records, every field that it writes being required.
pub fn results() -> Vec<Schema> {
    vec![
        written::<RunRecord>(),
        written::<EvaluationResult>(),
        written::<PretokenizeResult>(),
        written::<CacheRecord>(),
        written::<CheckpointRecord>(),
        written::<BaseResult>(),
        written::<ProductSpeed>(),
        written::<BenchResult>(),
        written::<ExportResult>(),
        written::<GenerateResult>(),
        written::<ExpertRecord>(),
    ]
}

/// What `route` asks of the worker, and its answer.
pub fn routing() -> Vec<Schema> {
    vec![derived::<RouteRequest>(), derived::<RouteResult>()]
}

/// The files of a run and of its token cache.
pub fn records() -> Vec<Schema> {
    vec![
        derived::<RunRecord>(),
        derived::<PlanRecord>(),
        derived::<EvaluationResult>(),
        derived::<CacheRecord>(),
        derived::<SearchRecord>(),
    ]
}

fn written<T: JsonSchema>() -> Schema {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<T>()
}

fn derived<T: JsonSchema>() -> Schema {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>()
}

/// `training.config` is defined once, as `training_config`.
fn identifier(section: &Section) -> String {
    if section.path.is_empty() {
        "manifest".to_owned()
    } else {
        section.path.replace("[]", "").replace('.', "_")
    }
}

fn define(section: &'static Section, definitions: &mut Map<String, Value>) {
    let name = identifier(section);
    if definitions.contains_key(&name) {
        return;
    }
    definitions.insert(name.clone(), Value::Null);
    let schema = object(section, definitions);
    definitions.insert(name, schema);
}

fn object(section: &'static Section, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    let borrowed = section.shorthand.into_iter().flat_map(|shorthand| shorthand.fields);
    for field in section.fields.iter().chain(borrowed) {
        for (index, key) in field.keys.iter().enumerate() {
            properties.entry(*key).or_insert_with(|| property(field, index, &mut *definitions));
        }
    }
    let mut patterns = Map::from_iter([("^_".to_owned(), json!({"description": "A comment."}))]);
    for ending in section.metadata_endings {
        patterns.insert(format!("{ending}$"), json!({"description": "Metadata."}));
    }
    let mut schema = json!({
        "type": "object",
        "description": section.doc.trim(),
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": section.unknown == Unknown::Keep,
    });
    let required: Vec<_> = section.required.iter().map(|key| requirement(section, key)).collect();
    if !required.is_empty() {
        schema["allOf"] = required.into();
    }
    schema
}

/// Any of a key's spellings fulfils it.
fn requirement(section: &Section, key: &str) -> Value {
    let keys = section.field(key).map_or(&[][..], |field| field.keys);
    match keys {
        [only] => json!({"required": [only]}),
        several => {
            let choices: Vec<_> = several.iter().map(|key| json!({"required": [key]})).collect();
            json!({"anyOf": choices})
        }
    }
}

fn property(field: &'static Field, spelling: usize, definitions: &mut Map<String, Value>) -> Value {
    // Keys without effect are not checked, so their type is not restricted.
    let mut schema = if field.is_honoured() { kind(&field.kind, definitions) } else { json!({}) };
    let description = match field.class {
        _ if spelling > 0 => format!("Another spelling of `{}`. {}", field.name(), field.doc),
        Class::Advice { reason, .. } => format!("{} Has no effect: {reason}.", field.doc),
        Class::Metadata => format!("{} Metadata.", field.doc),
        Class::Honoured => field.doc.to_owned(),
    };
    if schema.get("$ref").is_some() {
        schema = json!({"allOf": [schema]});
    }
    schema["description"] = description.into();
    if let Some(default) = (field.default)().filter(|default| !default.is_null()) {
        schema["default"] = default;
    }
    schema
}

fn kind(of: &'static Kind, definitions: &mut Map<String, Value>) -> Value {
    match of {
        Kind::Any => json!({}),
        Kind::Null => json!({"type": "null"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Text => json!({"type": "string"}),
        Kind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Number(range) => number(range),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::List(inner) => json!({"type": "array", "items": kind(inner, definitions)}),
        Kind::Map(inner) => {
            json!({"type": "object", "patternProperties": {"^_": {}, "^[^_]": kind(inner, definitions)}})
        }
        Kind::Object(section) => {
            define(section, definitions);
            let reference = json!({"$ref": format!("#/definitions/{}", identifier(section))});
            match section.text_key.and_then(|key| section.field(key)) {
                Some(field) => json!({"anyOf": [reference, text_form(&field.kind, definitions)]}),
                None => reference,
            }
        }
        Kind::OneOf(kinds) => {
            let choices: Vec<_> = kinds.iter().map(|choice| kind(choice, definitions)).collect();
            json!({"anyOf": choices})
        }
    }
}

/// A text that stands for an object is what its one key would be, null left out.
fn text_form(of: &'static Kind, definitions: &mut Map<String, Value>) -> Value {
    match of {
        Kind::OneOf(kinds) => kinds
            .iter()
            .find(|choice| !matches!(choice, Kind::Null))
            .map_or(json!({}), |choice| kind(choice, definitions)),
        other => kind(other, definitions),
    }
}

fn number(range: &Range) -> Value {
    let mut schema = json!({"type": "number"});
    schema[if range.min_included { "minimum" } else { "exclusiveMinimum" }] =
        crate::manifest::json::number_json(range.min);
    if range.max < f64::MAX {
        schema[if range.max_included { "maximum" } else { "exclusiveMaximum" }] =
            crate::manifest::json::number_json(range.max);
    }
    schema
}
