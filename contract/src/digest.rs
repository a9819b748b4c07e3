//! One digest for documents: SHA-256 over RFC 8785 canonical JSON, in lower-case hex.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The digest of anything that serialises to JSON objects with string keys and finite numbers.
pub fn of(document: &impl Serialize) -> String {
    let value = serde_json::to_value(document).unwrap_or(Value::Null);
    hex(&Sha256::digest(canonical(&value)))
}

pub fn of_text(text: &str) -> String {
    hex(&Sha256::digest(text))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// RFC 8785: keys sorted by UTF-16 code units, numbers as ECMAScript prints doubles, no white space.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => {
            out.push_str(ryu_js::Buffer::new().format(number.as_f64().unwrap_or(f64::NAN)));
        }
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_value(item, out);
            }
            out.push('}');
        }
    }
}

/// `serde_json` escapes exactly what RFC 8785 asks for, and nothing else.
fn write_string(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_keys_follow_rfc_8785() {
        let value: Value = serde_json::from_str(
            r#"{"\ufb33":1,"\ud83d\ude02":2,"b":[5e-5,1E21,333333333.33333329,1.0,0.000001,1e-7,-0.0],"a":"\u000f\n\"\\/é"}"#,
        )
        .unwrap();
        assert_eq!(
            canonical(&value),
            "{\"a\":\"\\u000f\\n\\\"\\\\/é\",\"b\":[0.00005,1e+21,333333333.3333333,1,0.000001,1e-7,0],\"😂\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn integers_and_equal_floats_are_one_number() {
        assert_eq!(of(&serde_json::json!({"a": 1})), of(&serde_json::json!({"a": 1.0})));
        assert_ne!(of(&serde_json::json!({"a": 1})), of(&serde_json::json!({"a": "1"})));
    }
}
