//! Pydantic models from the JSON Schemas of the contract's types, for the worker. Our own generator, because
//! datamodel-code-generator names the members of a tagged union by number and cannot bound unsigned integers.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::Schema;
use serde_json::{Map, Value};

/// As in `pyproject.toml`.
const LINE: usize = 110;
/// Words that cannot name a field in Python; the model gives such a field a trailing underscore and an alias.
const KEYWORDS: &[&str] =
    &["class", "from", "global", "import", "in", "is", "lambda", "not", "pass", "return"];
/// Where the models' bases and the types of their fields are.
const BASES: &[&str] = &["expert_worker.document", "expert_worker.record_reader"];

/// How the members of a tagged union are named.
#[derive(Debug, Clone, Copy)]
pub enum Members {
    /// `ResumeNewest`
    AfterUnion,
    /// `TrainRequest`
    BeforeUnion,
    /// `Progress`; a name that Python has already taken gets the suffix.
    Bare { suffix: &'static str },
}

/// What the models of a module are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Documents that both sides write and read: closed, every value as its type demands.
    Exchanged,
    /// Documents that the worker writes: the same, and a number that is not finite is null.
    Written,
    /// Files of any version, damaged or forged: every value may be absent, and one that does not fit is left out.
    Recorded,
}

/// One Python module with the types of one document.
pub struct Module<'a> {
    /// Dotted name, by which later modules import from this one.
    pub name: &'a str,
    pub doc: &'a str,
    pub schemas: Vec<Schema>,
    pub form: Form,
    /// Unions whose members are not named by [`Members::AfterUnion`].
    pub unions: &'a [(&'a str, Members)],
    /// Lines after the imports.
    pub constants: &'a str,
}

/// The text of each module. A type belongs to the first module that has it; later ones import it. Models of recorded
/// files are complete in their module.
///
/// # Errors
///
/// Two different types have one name.
pub fn modules(all: &[Module<'_>]) -> Result<Vec<String>, String> {
    let (mut homes, mut shapes) = (BTreeMap::new(), BTreeMap::new());
    let mut written = Vec::new();
    for module in all {
        for schema in &module.schemas {
            one_type_per_name(schema.as_value(), &mut shapes)?;
        }
        written.push(Writer::new(module, &homes).run(&mut homes));
    }
    Ok(written)
}

/// Refuses a name whose type has other fields than the type known by it.
fn one_type_per_name(root: &Value, shapes: &mut BTreeMap<String, Value>) -> Result<(), String> {
    let types: BTreeMap<_, _> = types(root).into_iter().collect();
    for (name, schema) in &types {
        // schemars distinguishes the types of one schema by a number.
        let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let shape = shape(schema);
        if (bare != name && types.contains_key(bare)) || shapes.get(name).is_some_and(|known| *known != shape)
        {
            return Err(format!("two types are called {bare}: rename one of them"));
        }
        shapes.insert(name.clone(), shape);
    }
    Ok(())
}

/// A type without what depends on whether it is read or written.
fn shape(schema: &Value) -> Value {
    const SKIPPED: [&str; 6] = ["$schema", "title", "description", "definitions", "required", "default"];
    match schema {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, _)| !SKIPPED.contains(&key.as_str()));
            let inner = kept.map(|(key, it)| {
                let properties = it.as_object().filter(|_| key == "properties");
                let it = properties.map_or_else(
                    || shape(it),
                    |them| them.iter().map(|(name, it)| (name.clone(), shape(it))).collect(),
                );
                (key.clone(), it)
            });
            inner.collect()
        }
        Value::Array(items) => items.iter().map(shape).collect(),
        other => other.clone(),
    }
}

struct Writer<'a> {
    module: &'a Module<'a>,
    homes: BTreeMap<String, String>,
    types: BTreeMap<String, Value>,
    done: Vec<String>,
    body: String,
    /// Two empty lines stand around a class, one between other definitions.
    after_class: bool,
    /// Names used from pydantic, typing and the models' base.
    used: Vec<&'static str>,
    imported: BTreeMap<String, Vec<String>>,
}

impl<'a> Writer<'a> {
    fn new(module: &'a Module<'a>, homes: &BTreeMap<String, String>) -> Self {
        let types = module.schemas.iter().flat_map(|schema| types(schema.as_value())).collect();
        Self {
            module,
            homes: if module.form == Form::Recorded { BTreeMap::new() } else { homes.clone() },
            types,
            done: Vec::new(),
            body: String::new(),
            after_class: false,
            used: Vec::new(),
            imported: BTreeMap::new(),
        }
    }

    fn run(mut self, homes: &mut BTreeMap<String, String>) -> String {
        for schema in &self.module.schemas {
            let title = text(schema.as_value(), "title").to_owned();
            self.define(&title);
        }
        if self.module.form != Form::Recorded {
            homes.extend(self.done.iter().map(|name| (name.clone(), self.module.name.to_owned())));
        }
        let constants = match self.module.constants {
            "" => String::new(),
            lines => format!("\n{lines}\n"),
        };
        format!(
            "\"\"\"{}\n\nGenerated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.\n\"\"\"\n\n{}{constants}{}",
            self.module.doc,
            self.imports(),
            self.body,
        )
    }

    fn imports(&self) -> String {
        let mut lines = String::new();
        for (from, names) in [
            ("typing", &["Annotated", "Literal"][..]),
            ("pydantic", &["Field", "JsonValue"]),
            (BASES[0], &["U8", "U32", "U64", "Document", "OpenDocument", "OutputDocument"]),
            (BASES[1], &["Count", "Number", "RecordedDocument", "Text", "Whole"]),
        ] {
            let found: Vec<_> = names.iter().filter(|name| self.used.contains(name)).copied().collect();
            if !found.is_empty() {
                let _ = writeln!(lines, "from {from} import {}", found.join(", "));
            }
            if !BASES.contains(&from) && !found.is_empty() {
                lines.push('\n');
            }
        }
        for (from, names) in &self.imported {
            let one = format!("from {from} import {}\n", names.join(", "));
            if one.len() <= LINE {
                lines.push_str(&one);
            } else {
                let _ = writeln!(lines, "from {from} import (\n    {},\n)", names.join(",\n    "));
            }
        }
        lines
    }

    fn uses(&mut self, name: &'static str) -> &'static str {
        if !self.used.contains(&name) {
            self.used.push(name);
        }
        name
    }

    /// Writes a type after those that it refers to.
    fn define(&mut self, name: &str) {
        if self.done.iter().any(|done| done == name) {
            return;
        }
        if let Some(home) = self.homes.get(name) {
            let names = self.imported.entry(home.clone()).or_default();
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
                names.sort();
            }
            return;
        }
        let Some(schema) = self.types.get(name).cloned() else { return };
        if self.module.form == Form::Recorded && is_words(&schema) {
            return;
        }
        for reference in references(&schema) {
            self.define(&reference);
        }
        let schema = if self.module.form == Form::Recorded { merged(&schema) } else { schema };
        let written = match (schema.get("oneOf").and_then(Value::as_array), schema.get("properties")) {
            (Some(members), _) => self.choice(name, &schema, members),
            (None, Some(_)) => self.class(name, &schema),
            (None, None) => self.alias(name, &schema),
        };
        if self.after_class && !written.starts_with("\n\n") {
            self.body.push('\n');
        }
        self.after_class = schema.get("properties").is_some();
        self.body.push_str(&written);
        self.done.push(name.to_owned());
    }

    fn class(&mut self, name: &str, schema: &Value) -> String {
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let base = self.uses(match self.module.form {
            Form::Exchanged if closed => "Document",
            Form::Exchanged => "OpenDocument",
            Form::Written => "OutputDocument",
            Form::Recorded => "RecordedDocument",
        });
        let mut lines = format!("\n\nclass {name}({base}):\n");
        if let Some(doc) = schema.get("description").and_then(Value::as_str) {
            let _ = writeln!(lines, "{}\n", docstring(doc));
        }
        let fields = self.fields(schema);
        lines + if fields.is_empty() { "    pass\n" } else { &fields }
    }

    fn fields(&mut self, schema: &Value) -> String {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let listed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let required: Vec<&str> = listed
            .filter(|key| self.module.form != Form::Recorded && properties[*key].get(ADDED_LATER).is_none())
            .collect();
        let optional = properties.keys().map(String::as_str).filter(|key| !required.contains(key));
        let mut lines = String::new();
        for key in required.iter().copied().chain(optional) {
            let property = &properties[key];
            if let Some(doc) = property.get("description").and_then(Value::as_str) {
                for line in wrap(doc, LINE - 6) {
                    let _ = writeln!(lines, "    # {line}");
                }
            }
            let kind = self.kind(property);
            let alias = KEYWORDS.contains(&key);
            let name = if alias { format!("{key}_") } else { key.to_owned() };
            let (kind, default) = match self.module.form {
                Form::Recorded => self.recorded(property, kind),
                _ if required.contains(&key) => (kind, None),
                _ if property.get("type").is_some_and(|it| it == "object") => {
                    (kind, Some(format!("{}(default_factory=dict)", self.uses("Field"))))
                }
                _ => (kind, Some(default(property))),
            };
            let value = match (alias, default) {
                (true, None) => format!(" = {}(alias=\"{key}\")", self.uses("Field")),
                (true, Some(value)) => format!(" = {}({value}, alias=\"{key}\")", self.uses("Field")),
                (false, Some(value)) => format!(" = {value}"),
                // The tag of a union's member is known, so a caller need not name it.
                (false, None) => property.get("const").map(|tag| format!(" = {tag}")).unwrap_or_default(),
            };
            let _ = writeln!(lines, "    {name}: {kind}{value}");
        }
        lines
    }

    /// The type and default of a value that may be absent.
    fn recorded(&mut self, property: &Value, kind: String) -> (String, Option<String>) {
        match kind.as_str() {
            _ if kind.ends_with("| None") => (kind, Some("None".to_owned())),
            _ if kind.starts_with("tuple[") && property.get("items").is_some_and(Value::is_object) => {
                (kind, Some("()".to_owned()))
            }
            _ if kind.starts_with("dict[") => {
                (kind, Some(format!("{}(default_factory=dict)", self.uses("Field"))))
            }
            name if self.done.iter().any(|done| done == name) => {
                let empty = format!("{name}()");
                (kind, Some(empty))
            }
            _ => (format!("{kind} | None"), Some("None".to_owned())),
        }
    }

    /// An enum with data: a class for each member, and their union by the tag that distinguishes them. An enum without
    /// data, whose words have descriptions: a literal.
    fn choice(&mut self, name: &str, schema: &Value, members: &[Value]) -> String {
        if let Some(words) = members.iter().map(words).collect::<Option<Vec<_>>>() {
            return self.literal(name, schema, &words.concat());
        }
        let mut lines = String::new();
        let (mut names, mut discriminator) = (Vec::new(), String::new());
        let naming = self.module.unions.iter().find(|(union, _)| *union == name);
        let naming = naming.map_or(Members::AfterUnion, |(_, naming)| *naming);
        for member in members {
            let Some((key, tag)) = tag(member) else { continue };
            let member_name = named(naming, name, tag);
            lines += &self.class(&member_name, member);
            discriminator = if KEYWORDS.contains(&key) { format!("{key}_") } else { key.to_owned() };
            names.push(member_name);
        }
        self.done.extend(names.clone());
        let (annotated, field) = (self.uses("Annotated"), self.uses("Field"));
        let tail = format!("{field}(discriminator=\"{discriminator}\")");
        let one = format!("{name} = {annotated}[{}, {tail}]", names.join(" | "));
        lines.push_str("\n\n");
        if one.len() <= LINE {
            return lines + &one + "\n";
        }
        // As ruff formats it.
        let union = format!("    {},", names.join(" | "));
        if union.len() <= LINE {
            lines + &format!("{name} = {annotated}[\n{union}\n    {tail},\n]\n")
        } else {
            lines + &format!("{name} = {annotated}[\n    {},\n    {tail},\n]\n", names.join("\n    | "))
        }
    }

    fn alias(&mut self, name: &str, schema: &Value) -> String {
        match words(schema) {
            Some(words) => self.literal(name, schema, &words),
            None => format!("\n{name} = {}\n", self.kind(schema)),
        }
    }

    fn literal(&mut self, name: &str, schema: &Value, words: &[String]) -> String {
        let mut lines = String::from("\n");
        if let Some(doc) = schema.get("description").and_then(Value::as_str) {
            for line in wrap(doc, LINE - 2) {
                let _ = writeln!(lines, "# {line}");
            }
        }
        let literal = self.uses("Literal");
        let one = format!("{name} = {literal}[{}]", words.join(", "));
        lines
            + &if one.len() <= LINE {
                one + "\n"
            } else {
                format!("{name} = {literal}[\n    {},\n]\n", words.join(",\n    "))
            }
    }

    /// The Python type of a value.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some(name) = reference(schema) {
            if self.module.form == Form::Recorded && self.types.get(name).is_some_and(is_words) {
                return self.uses("Text").to_owned();
            }
            return name.to_owned();
        }
        for key in ["anyOf", "allOf"] {
            if let Some(parts) = schema.get(key).and_then(Value::as_array) {
                return parts.iter().map(|part| self.kind(part)).collect::<Vec<_>>().join(" | ");
            }
        }
        if self.module.form == Form::Recorded && is_words(schema) {
            return self.uses("Text").to_owned();
        }
        if let Some(tag) = schema.get("const") {
            return format!("{}[{tag}]", self.uses("Literal"));
        }
        if let Some(words) = words(schema) {
            return format!("{}[{}]", self.uses("Literal"), words.join(", "));
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.plain(name, schema),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                names.map(|name| self.plain(name, schema)).collect::<Vec<_>>().join(" | ")
            }
            _ => self.uses("JsonValue").to_owned(),
        }
    }

    fn plain(&mut self, name: &str, schema: &Value) -> String {
        match name {
            "null" => "None".to_owned(),
            "boolean" => "bool".to_owned(),
            "string" if self.module.form == Form::Recorded => self.uses("Text").to_owned(),
            "string" => match schema.get("pattern") {
                Some(pattern) => {
                    format!("{}[str, {}(pattern={pattern})]", self.uses("Annotated"), self.uses("Field"))
                }
                None => "str".to_owned(),
            },
            "number" => match (schema.get("minimum"), schema.get("maximum")) {
                (Some(low), Some(high)) => {
                    format!("{}[float, {}(ge={low}, le={high})]", self.uses("Annotated"), self.uses("Field"))
                }
                _ if self.module.form == Form::Recorded => self.uses("Number").to_owned(),
                _ => "float".to_owned(),
            },
            // Of Rust's integers, those without a sign begin at 0.
            "integer" if self.module.form == Form::Recorded => {
                let signed = text(schema, "format").starts_with("int");
                self.uses(if signed { "Whole" } else { "Count" }).to_owned()
            }
            "integer" => match text(schema, "format") {
                "uint8" => self.uses("U8").to_owned(),
                "uint32" => self.uses("U32").to_owned(),
                "uint64" => self.uses("U64").to_owned(),
                _ => "int".to_owned(),
            },
            "array" => match schema.get("items") {
                Some(Value::Array(items)) => {
                    let items: Vec<_> = items.iter().map(|item| self.kind(item)).collect();
                    format!("tuple[{}]", items.join(", "))
                }
                Some(item) => format!("tuple[{}, ...]", self.kind(item)),
                None => format!("tuple[{}, ...]", self.uses("JsonValue")),
            },
            "object" => match schema.get("additionalProperties") {
                Some(inner @ Value::Object(_)) => format!("dict[str, {}]", self.kind(inner)),
                _ => format!("dict[str, {}]", self.uses("JsonValue")),
            },
            other => other.to_owned(),
        }
    }
}

/// Marks a field that records of older versions lack.
const ADDED_LATER: &str = "x-added-later";

fn is_words(schema: &Value) -> bool {
    match schema.get("oneOf").and_then(Value::as_array) {
        Some(members) => members.iter().all(|member| words(member).is_some()),
        None => words(schema).is_some(),
    }
}

/// A tagged union as one type with the fields of all its members: a recorded tag may be of another version.
fn merged(schema: &Value) -> Value {
    let Some(members) = schema.get("oneOf").and_then(Value::as_array) else { return schema.clone() };
    let mut properties: Map<String, Value> = Map::new();
    for (key, property) in members.iter().filter_map(|it| it.get("properties")?.as_object()).flatten() {
        match properties.get_mut(key) {
            None => {
                properties.insert(key.clone(), property.clone());
            }
            Some(known) if known == property || is_words(property) => {}
            Some(known) => *known = serde_json::json!({"anyOf": [known.clone(), property]}),
        }
    }
    serde_json::json!({"type": "object", "properties": properties})
}

/// The root type and the definitions beside it.
fn types(schema: &Value) -> Vec<(String, Value)> {
    let none = Map::new();
    let definitions = schema["definitions"].as_object().unwrap_or(&none);
    let named = definitions.iter().map(|(name, schema)| (name.clone(), schema.clone()));
    named.chain([(text(schema, "title").to_owned(), schema.clone())]).collect()
}

fn text<'v>(schema: &'v Value, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

/// Names of the types that a type refers to, in the order in which it has them.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(object) => {
            let own = reference(schema).map(str::to_owned);
            let inner =
                object.iter().filter(|(key, _)| *key != "definitions").flat_map(|(_, it)| references(it));
            own.into_iter().chain(inner).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// The words of an enum without data, quoted.
fn words(schema: &Value) -> Option<Vec<String>> {
    match (schema.get("enum"), schema.get("const"), schema.get("properties")) {
        (Some(Value::Array(words)), _, _) => Some(words.iter().map(Value::to_string).collect()),
        (None, Some(word @ Value::String(_)), None) => Some(vec![word.to_string()]),
        _ => None,
    }
}

/// The property that distinguishes a union's members, and its value for this one.
fn tag(member: &Value) -> Option<(&str, &str)> {
    let mut properties = member.get("properties")?.as_object()?.iter();
    properties.find_map(|(key, property)| Some((key.as_str(), property.get("const")?.as_str()?)))
}

fn named(naming: Members, union: &str, tag: &str) -> String {
    let tag: String = tag.split('_').map(capitalised).collect();
    match naming {
        Members::AfterUnion => format!("{union}{tag}"),
        Members::BeforeUnion => format!("{tag}{union}"),
        Members::Bare { suffix } if tag == "Warning" => format!("{tag}{suffix}"),
        Members::Bare { .. } => tag,
    }
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_uppercase() + rest
}

fn default(property: &Value) -> String {
    match property.get("default") {
        None if property.get("type").is_some_and(|it| it == "array") => "()".to_owned(),
        None | Some(Value::Null) => "None".to_owned(),
        Some(Value::Bool(true)) => "True".to_owned(),
        Some(Value::Bool(false)) => "False".to_owned(),
        Some(Value::Array(_)) => "()".to_owned(),
        Some(other) => other.to_string(),
    }
}

fn docstring(doc: &str) -> String {
    let one = format!("    \"\"\"{doc}\"\"\"");
    if one.len() <= LINE && !doc.contains('\n') {
        return one;
    }
    let lines = wrap(doc, LINE - 7);
    format!("    \"\"\"{}\n    \"\"\"", lines.join("\n    "))
}

/// Lines of at most `width` characters.
fn wrap(doc: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in doc.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].chars().count() + 1 + word.chars().count() <= width {
            let _ = write!(lines[last], " {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
