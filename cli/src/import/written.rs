//! The manifest's text: two spaces of indent, keys in the order of the ledger.

use expert_contract::ledger::{Kind, Section};
use expert_contract::manifest::ROOT;
use serde_json::{Map, Value};

/// The few keys that come first; the others follow as the ledger has them.
const FIRST: [&str; 4] = ["name", "version", "schema_version", "description"];

pub fn text(manifest: &Value) -> String {
    let mut text = String::new();
    write(manifest, Some(&ROOT), 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, section: Option<&'static Section>, depth: usize, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push_str("{\n");
            for (at, key) in ordered(members, section).into_iter().enumerate() {
                out.push_str(if at > 0 { ",\n" } else { "" });
                out.push_str(&"  ".repeat(depth + 1));
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                let inner = section.and_then(|it| it.field(key)).and_then(|it| inner(&it.kind));
                write(&members[key], inner, depth + 1, out);
            }
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
            out.push('}');
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            out.push_str("[\n");
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ",\n" } else { "" });
                out.push_str(&"  ".repeat(depth + 1));
                write(item, section, depth + 1, out);
            }
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn inner(kind: &Kind) -> Option<&'static Section> {
    kind.sections().first().copied()
}

fn ordered<'a>(members: &'a Map<String, Value>, section: Option<&'static Section>) -> Vec<&'a String> {
    let fields = section.map_or(&[][..], |section| section.fields);
    let place = |key: &str| {
        let first = FIRST.iter().position(|it| *it == key);
        let field = fields.iter().position(|field| field.keys.contains(&key));
        (first.unwrap_or(FIRST.len()), field.unwrap_or(fields.len()))
    };
    let mut keys: Vec<&String> = members.keys().collect();
    keys.sort_by_key(|key| place(key));
    keys
}
