//! Tokens of rows, without a tokenizer: words, digits and signs, and what a chat template adds to each message.

use serde_json::{Map, Value};

use crate::rules::FIELDS;

/// Of the rows that were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    pub bytes: u64,
    pub tokens: u64,
    /// Tokens of each row.
    pub lengths: Vec<u32>,
}

/// This much is enough to know a file by.
const ROWS: u64 = 256;
const BYTES: u64 = 1 << 20;

impl Sample {
    pub fn takes(&self, row: u64, bytes: usize) -> bool {
        row < ROWS && self.bytes + bytes as u64 <= BYTES
    }

    pub fn add(&mut self, line: &str) {
        if let Ok(row) = serde_json::from_str::<Map<String, Value>>(line) {
            let tokens = tokens(&row);
            self.bytes += line.len() as u64;
            self.tokens += tokens;
            self.lengths.push(u32::try_from(tokens).unwrap_or(u32::MAX));
        }
    }
}

/// Within a sixth of what SmolLM2's tokenizer and template make of the rows of each expert in `experts/`.
fn tokens(row: &Map<String, Value>) -> u64 {
    const PERCENT: u64 = 107;
    const MESSAGE: u64 = 7;
    let known = || FIELDS.iter().filter_map(|name| row.get(*name));
    let pieces: u64 = if known().next().is_some() {
        known().map(pieces_of).sum()
    } else {
        row.values().map(pieces_of).sum()
    };
    let messages = ["messages", "conversations"].iter().find_map(|name| row.get(*name)?.as_array());
    pieces * PERCENT / 100 + MESSAGE * messages.map_or(2, Vec::len) as u64
}

fn pieces_of(value: &Value) -> u64 {
    match value {
        Value::String(text) => pieces(text),
        Value::Array(parts) => parts.iter().map(pieces_of).sum(),
        // The template writes the role.
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "role" && *name != "from")
            .map(|(_, it)| pieces_of(it))
            .sum(),
        Value::Number(number) => number.to_string().len() as u64,
        Value::Bool(_) => 1,
        Value::Null => 0,
    }
}

fn pieces(text: &str) -> u64 {
    // Letters of a word that are one piece, and the halves that a letter outside ASCII is.
    const WORD: u64 = 10;
    const CJK: char = '\u{2e80}';
    let (mut halves, mut letters) = (0, 0);
    for sign in text.chars() {
        if sign.is_ascii_alphabetic() {
            halves += if letters % WORD == 0 { 2 } else { 0 };
            letters += 1;
            continue;
        }
        letters = 0;
        halves += match sign {
            _ if sign.is_whitespace() => 0,
            _ if sign.is_ascii() || sign >= CJK => 2,
            _ => 1,
        };
    }
    halves / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_digits_and_signs_are_pieces() {
        for (text, expected) in [
            ("", 0),
            ("How many orders?", 4),
            ("\"unit_price\": 12.50,\n", 12),
            ("internationalization", 2),
            ("naïve café", 4),
            ("数据库", 3),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn only_fields_that_are_read_count_where_there_are_any() {
        let count = |text: &str| tokens(&serde_json::from_str(text).unwrap());
        let asked = count(r#"{"prompt": "one two", "completion": "three"}"#);
        assert_eq!(asked, 14 + 3);
        assert_eq!(
            count(r#"{"prompt": "one two", "completion": "three", "schema": ["a", "b", "c"]}"#),
            asked
        );
        assert_eq!(count(r#"{"mine": "one two", "yours": "three"}"#), asked);
        let messages = r#"{"messages": [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]}"#;
        assert_eq!(count(messages), asked);
    }
}
