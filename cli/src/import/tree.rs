//! A configuration as its file says it, YAML or JSON, with lines. What a hostile file may cost is bounded.

mod brackets;

use std::collections::HashMap;

use expert_contract::manifest::json;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::json;

/// A configuration has a hundred values; these bounds only stop files that are something else.
pub const MAX_BYTES: u64 = 1 << 20;
const MAX_VALUES: usize = 10_000;
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub line: usize,
    pub value: Value,
}

impl Value {
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub fn entries(&self) -> &[Entry] {
        if let Self::Map(entries) = self { entries } else { &[] }
    }

    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok().filter(|it: &f64| it.is_finite()),
            _ => None,
        }
    }

    /// On or off, also as a quoted word, which the trainers' readers take too.
    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            Self::Text(text) => match text.trim().to_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true),
                "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it says nothing: null, empty, or off.
    pub fn is_off(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Number(number) => *number == 0.0,
            Self::Text(text) => {
                text.is_empty() || ["none", "null", "false", "no", "off"].contains(&&*text.to_lowercase())
            }
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
        }
    }

    /// The texts of a list, or of a text with commas.
    pub fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::Text(text) => {
                Some(text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect())
            }
            Self::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
            _ => None,
        }
    }

    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(flag) => json!(flag),
            Self::Number(number) => json::number_json(*number),
            Self::Text(text) => json!(text),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(entries) => entries.iter().map(|it| (it.key.clone(), it.value.json())).collect(),
        }
    }
}

/// Why a file is not a configuration, and the line where that shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub line: Option<usize>,
    pub message: String,
}

fn unreadable<T>(line: usize, message: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable { line: Some(line), message: message.into() })
}

/// A text that begins with a brace is JSON, every other one YAML.
pub fn read(text: &str) -> Result<Value, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = if text.trim_start().starts_with('{') { from_json(text) } else { from_yaml(text) }?;
    match value {
        Value::Map(_) => Ok(value),
        _ => Err(Unreadable { line: None, message: "it has no keys with values".to_owned() }),
    }
}

fn from_json(text: &str) -> Result<Value, Unreadable> {
    let parsed = json::parse(text, 0);
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |at: u32| ends.partition_point(|end| *end < at as usize) + 1;
    let error = parsed
        .problems
        .iter()
        .find(|(problem, _)| problem.severity == expert_contract::diagnostic::Severity::Error);
    if let Some((problem, _)) = error {
        return unreadable(line(problem.span.start), problem.message.clone());
    }
    let root = parsed
        .root
        .unwrap_or(json::Node { span: expert_contract::source::Span::default(), value: json::Value::Null });
    let value = of_node(&root, &line);
    if size(&value) > 2 * MAX_VALUES {
        return unreadable(1, format!("it has more than {MAX_VALUES} values"));
    }
    Ok(value)
}

/// The reader of JSON has bounded depth and number of values already.
fn of_node(node: &json::Node, line: &dyn Fn(u32) -> usize) -> Value {
    match &node.value {
        json::Value::Null | json::Value::Unreadable => Value::Null,
        json::Value::Bool(flag) => Value::Bool(*flag),
        json::Value::Number(number) => Value::Number(*number),
        json::Value::Text(text) => Value::Text(text.clone()),
        json::Value::List(items) => Value::List(items.iter().map(|item| of_node(item, line)).collect()),
        json::Value::Object(object) => {
            let entry = |member: &json::Member| Entry {
                key: member.key.clone(),
                line: line(member.key_span.start),
                value: of_node(&member.node, line),
            };
            Value::Map(object.members.iter().map(entry).collect())
        }
    }
}

/// A list or map that is still open.
struct Open {
    anchor: usize,
    value: Value,
    /// A map's key that waits for its value.
    key: Option<(String, usize)>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
    root: Option<Value>,
}

/// This reader wants lists and maps in brackets deeper than their key; the trainers' readers take them at any depth.
fn from_yaml(text: &str) -> Result<Value, Unreadable> {
    parsed(text).or_else(|error| parsed(&brackets::indented(text)).map_err(|_| error))
}

fn parsed(text: &str) -> Result<Value, Unreadable> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Unreadable {
            line: Some(error.marker().line()),
            message: format!("this is not valid YAML: {}", error.info()),
        })?;
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                builder.leaf(scalar(&text, style, tag.as_deref()), anchor, line)?;
            }
            Event::SequenceStart(anchor, _) => builder.begin(Value::List(Vec::new()), anchor, line)?,
            Event::MappingStart(anchor, _) => builder.begin(Value::Map(Vec::new()), anchor, line)?,
            Event::SequenceEnd | Event::MappingEnd => builder.end(line)?,
            Event::Alias(anchor) => builder.alias(anchor, line)?,
            Event::DocumentStart(_) if builder.root.is_some() => {
                return unreadable(line, "a second document begins here; a configuration is one");
            }
            _ => {}
        }
    }
    Ok(builder.root.unwrap_or(Value::Null))
}

impl Builder {
    fn count(&mut self, more: usize, line: usize) -> Result<(), Unreadable> {
        self.values += more;
        if self.values > MAX_VALUES {
            return unreadable(line, format!("it has more than {MAX_VALUES} values, anchors included"));
        }
        Ok(())
    }

    fn leaf(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Unreadable> {
        self.count(1, line)?;
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), 1));
        }
        self.place(value, line)
    }

    fn begin(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Unreadable> {
        self.count(1, line)?;
        if self.open.len() >= MAX_DEPTH {
            return unreadable(line, format!("it is nested more than {MAX_DEPTH} deep"));
        }
        self.open.push(Open { anchor, value, key: None });
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), Unreadable> {
        let Some(Open { anchor, value, .. }) = self.open.pop() else { return Ok(()) };
        if anchor > 0 {
            let size = size(&value);
            self.anchors.insert(anchor, (value.clone(), size));
        }
        self.place(value, line)
    }

    /// A copy of what the anchor names, which counts as if it were written here.
    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), Unreadable> {
        let Some((_, size)) = self.anchors.get(&anchor) else {
            return unreadable(line, "an alias stands inside of what it repeats");
        };
        self.count(*size, line)?;
        let value = self.anchors.get(&anchor).map_or(Value::Null, |(value, _)| value.clone());
        self.place(value, line)
    }

    fn place(&mut self, value: Value, line: usize) -> Result<(), Unreadable> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match (&mut open.value, open.key.take()) {
            (Value::List(items), _) => items.push(value),
            (Value::Map(_), None) => match value {
                Value::Text(key) => open.key = Some((key, line)),
                Value::Number(_) | Value::Bool(_) | Value::Null => {
                    open.key = Some((value.json().to_string(), line));
                }
                Value::List(_) | Value::Map(_) => return unreadable(line, "a key is a list or a map"),
            },
            (Value::Map(entries), Some((key, _))) if key == "<<" => merge(entries, value),
            (Value::Map(entries), Some((key, line))) => {
                if let Some(first) = entries.iter().find(|entry| entry.key == key && entry.line != 0) {
                    return unreadable(
                        line,
                        format!("`{key}` is written twice, first in line {}", first.line),
                    );
                }
                entries.retain(|entry| entry.key != key);
                entries.push(Entry { key, line, value });
            }
            _ => {}
        }
        Ok(())
    }
}

/// YAML's merge key: the map's own keys win. Line 0 marks what was merged.
fn merge(entries: &mut Vec<Entry>, value: Value) {
    match value {
        Value::Map(merged) => {
            for entry in merged {
                if !entries.iter().any(|own| own.key == entry.key) {
                    entries.push(Entry { line: 0, ..entry });
                }
            }
        }
        Value::List(maps) => maps.into_iter().for_each(|map| merge(entries, map)),
        _ => {}
    }
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::List(items) => items.iter().map(size).sum(),
        Value::Map(entries) => entries.iter().map(|entry| 1 + size(&entry.value)).sum(),
        _ => 0,
    }
}

/// A plain scalar by its look, as the trainers' own readers see it: YAML 1.1's booleans, and `2e-4` as a number.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::Text(text.to_owned()), Value::Number),
    }
}

/// `inf` and `nan` stay text. As in YAML 1.1, which PyYAML reads, `010` is 8 and `0x2` is 2.
fn number(text: &str) -> Option<f64> {
    let (sign, bare) =
        text.strip_prefix('-').map_or((1.0, text.trim_start_matches('+')), |bare| (-1.0, bare));
    let bare = bare.replace('_', "");
    let other = bare.strip_prefix('0').and_then(|rest| {
        let (radix, digits) = match rest.split_at_checked(1)? {
            ("x", digits) => (16, digits),
            ("b", digits) => (2, digits),
            _ => (8, rest),
        };
        u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
    });
    if let Some(number) = other {
        return Some(sign * f64::from(number));
    }
    let begins = text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let digits = text.replace('_', "");
    digits.parse().ok().filter(|number: &f64| begins && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_read_as_the_trainers_read_it() {
        let text = "# a comment\na: 2e-4\nb: 1_000\nc: yes\nd:\ne: '8'\nf: [x, 'y z']\ng:\n  - h: 1\n    i: off\nj: !!str 5\nk: 1e400\nl: [010, -0x1F, 0b11, 0o7, 08, 0, 0.5, 0x]\n";
        let value = read(text).unwrap();
        let expected = json!({"a": 2e-4, "b": 1000, "c": true, "d": null, "e": "8", "f": ["x", "y z"], "g": [{"h": 1, "i": false}], "j": "5", "k": "1e400", "l": [8, -31, 3, "0o7", 8, 0, 0.5, "0x"]});
        assert_eq!(value.json(), expected);
        assert_eq!(
            value.entries().iter().map(|it| it.line).collect::<Vec<_>>(),
            [2, 3, 4, 5, 6, 7, 8, 11, 12, 13]
        );
    }

    #[test]
    fn anchors_and_merge_keys_are_followed() {
        let text = "base: &b {x: 1, y: 2}\nall:\n  <<: *b\n  y: 3\nagain: *b\n";
        let value = read(text).unwrap();
        assert_eq!(value.get("all").unwrap().json(), json!({"x": 1, "y": 3}));
        assert_eq!(value.get("again").unwrap().json(), json!({"x": 1, "y": 2}));
    }

    #[test]
    fn brackets_may_end_at_any_depth() {
        let text = "a: [\n  \"q_proj\",  # ] of\n# [ none\n'it''s, [',\n{b: d'or}\n]\nc: true\nd:\n- e: {\n  f: [\n1\n]}\n  g: |\n    x: [\n  h: \"[\n    y\"\ni: &all [\n]\nj: z [\n";
        let value = read(text).unwrap();
        let expected = json!({
            "a": ["q_proj", "it's, [", {"b": "d'or"}],
            "c": true,
            "d": [{"e": {"f": [1]}, "g": "x: [\n", "h": "[ y"}],
            "i": [],
            "j": "z [",
        });
        assert_eq!(value.json(), expected);
        let lines: Vec<_> = value.entries().iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 7, 8, 17, 19]);
    }

    #[test]
    fn json_is_read_with_its_lines() {
        let value = read("{\n  \"lora_r\": 8,\n\t\"x\": [1, null]\n}").unwrap();
        assert_eq!(value.json(), json!({"lora_r": 8, "x": [1, null]}));
        assert_eq!(value.entries()[1].line, 3);
        assert_eq!(read("{\"a\": }").unwrap_err().line, Some(1));
    }

    #[test]
    fn other_files_are_refused_with_their_line() {
        for (text, line) in [
            ("a: 1\nb: [1, 2\n", Some(3)),
            ("- 1\n- 2\n", None),
            ("just text", None),
            ("", None),
            ("a: 1\na: 2\n", Some(2)),
            ("a: 1\n---\nb: 2\n", Some(2)),
            ("a: *nothing\n", Some(1)),
            ("a: &x [*x]\n", Some(1)),
            ("? [a, b]\n: 1\n", Some(1)),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error:?}");
        }
    }

    #[test]
    fn hostile_files_are_refused_at_once() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let inside = vec![format!("*a{}", level - 1); 10].join(", ");
            laughs += &format!("a{level}: &a{level} [{inside}]\n");
        }
        let deep = format!("a: {}", "[".repeat(200_000));
        let block = (0..2_000).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>();
        let many = "a: [".to_owned() + &"1, ".repeat(300_000);
        let dashes = "- ".repeat(100_000);
        let keys = (0..30_000).map(|key| "k".to_owned() + &key.to_string() + ": 1\n").collect::<String>();
        let nested_json = "{\"a\":".repeat(100_000);
        let members: Vec<String> = (0..30_000).map(|key| format!("\"k{key}\":1")).collect();
        let wide_json = format!("{{{}}}", members.join(","));
        for text in [laughs, deep, block, many, dashes, keys, nested_json, wide_json] {
            assert!(read(&text).is_err(), "{}", &text[..40]);
        }
    }
}
