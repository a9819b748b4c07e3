//! From another trainer's configuration to a manifest. Every key of it is carried over, or listed with the reason.

mod data;
mod keys;
mod layers;
mod running_text;
#[cfg(test)]
mod tests;
mod tool;
mod tree;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Diagnostic, Severity};
use expert_contract::foreign::{self, Meaning};
use expert_contract::ledger::{Field, Kind, Section};
use expert_contract::manifest::{Options, ROOT};
use expert_contract::read;
use expert_contract::secret::covered;
use serde::Serialize;
use serde_json::{Value as Json, json};

pub use tool::Tool;
pub use tree::{MAX_BYTES, Unreadable, Value};

use tree::Entry;

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It has the same meaning here.
    Carried,
    /// It has a meaning that comes near.
    Changed,
    /// Not written there: the other trainer's default, which differs from the one here.
    Default,
    /// Nothing here does it.
    Left,
    /// Nothing needs to be said here.
    Unneeded,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyFate {
    pub key: String,
    /// Where it is in the file; null for a default and for what a YAML merge key brought.
    pub line: Option<usize>,
    pub value: String,
    pub fate: Fate,
    /// The keys here.
    pub here: Vec<String>,
    pub why: String,
    pub instead: String,
}

/// A file that belongs into the expert's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// From the working directory, or a URL.
    pub from: String,
    /// Relative to the expert's folder.
    pub to: String,
}

/// Whether data has to be downloaded first.
pub fn is_remote(from: &str) -> bool {
    from.contains("://")
}

#[derive(Debug)]
pub struct Imported {
    pub manifest: String,
    pub lines: Vec<KeyFate>,
    pub copies: Vec<Copy>,
    /// What `validate` has to say about the manifest: warnings only.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why there is no manifest.
#[derive(Debug)]
pub enum Refused {
    Unreadable(Unreadable),
    /// The keys are those of no trainer that is known.
    Unknown,
    /// The keys are those of this trainer, whose configurations are not read.
    Unread(&'static str),
    /// Another method than supervised fine-tuning: the key with its value.
    Method(String, Option<usize>),
    /// The manifest does not validate without keys that it cannot do without.
    Invalid(String),
}

/// `text` is the configuration, `file` where it is, `name` the expert's name, `folder` the expert's folder to be.
pub fn import(
    text: &str,
    file: &Path,
    tool: Option<Tool>,
    name: &str,
    folder: &Path,
) -> Result<Imported, Refused> {
    let source = tree::read(text).map_err(Refused::Unreadable)?;
    let tool = match tool {
        Some(tool) => tool,
        None => match tool::unread(&source) {
            Some(trainer) => return Err(Refused::Unread(trainer)),
            None => Tool::of(&source).ok_or(Refused::Unknown)?,
        },
    };
    let source = if tool == Tool::Trl { tool::flat(source) } else { source };
    if let Some((key, line)) = tool::other_method(tool, &source) {
        return Err(Refused::Method(key, line));
    }
    let beside = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut import = Import {
        tool,
        source: &source,
        beside,
        manifest: json!({}),
        lines: Vec::new(),
        copies: Vec::new(),
        placed: BTreeMap::new(),
    };
    if let Some((key, line)) = data::ranked(&import) {
        return Err(Refused::Method(key, line));
    }
    import.put("name", json!(name));
    import.put("version", json!("0.1.0"));
    import.put("schema_version", json!("2.0"));
    import.put("description", json!(format!("Imported from {}'s {}.", tool.name(), file_name(file))));
    data::read(&mut import);
    tool::whole_model(&mut import);
    for entry in keys::deciding_first(source.entries()) {
        if !import
            .lines
            .iter()
            .any(|line| line.key == entry.key || line.key.starts_with(&format!("{}[", entry.key)))
        {
            import.key(entry);
        }
    }
    tool::defaults(&mut import);
    import.valid(folder)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

struct Import<'a> {
    tool: Tool,
    source: &'a Value,
    /// The folder of the configuration.
    beside: PathBuf,
    manifest: Json,
    lines: Vec<KeyFate>,
    copies: Vec<Copy>,
    /// Names in the expert's `datasets`, in small letters, and the files that get them.
    placed: BTreeMap<String, String>,
}

impl Import<'_> {
    fn key(&mut self, entry: &Entry) {
        let Entry { key, value, .. } = entry;
        if *value == Value::Null {
            return keys::empty(self, entry);
        }
        if keys::special(self, entry) {
            return;
        }
        match foreign::meaning(key) {
            Some(Meaning::Same(path)) => self.carry(entry, path, value.json()),
            Some(Meaning::Switch(path, word)) => match value {
                _ if value.is_off() => self.unneeded(entry, "off, as here"),
                _ => self.carry(entry, path, json!(word)),
            },
            Some(Meaning::Absent(why, _)) if value.is_off() => {
                self.unneeded(entry, &format!("off, as here: {why}"));
            }
            Some(Meaning::Absent(why, instead)) => self.left(entry, why, instead),
            Some(Meaning::Unneeded(why)) => self.unneeded(entry, why),
            Some(Meaning::Flag(_)) if value.is_off() => self.unneeded(entry, "off, as here"),
            Some(Meaning::Flag(flag)) => self.left(entry, "it is said on the command line", flag),
            _ if key.starts_with(tool::NESTED) => {
                let outer = key.trim_start_matches(tool::NESTED);
                self.left(entry, &format!("`{outer}` outside of it decides"), "keep one of the two");
            }
            Some(Meaning::Composed(path)) => {
                self.left(entry, "this value has no counterpart", &format!("see {path} in docs/manifest.md"));
            }
            None => match config().field(key) {
                Some(field) if field.class == expert_contract::ledger::Class::Honoured => {
                    self.carry(entry, &format!("training.config.{}", field.keys[0]), value.json());
                }
                _ => self.unknown(entry),
            },
        }
    }

    fn unknown(&mut self, entry: &Entry) {
        let near = expert_contract::diagnostic::closest(&entry.key, foreign::names());
        let instead = near.map_or_else(
            || "look for it in docs/manifest.md, or do without it".to_owned(),
            |near| format!("if `{near}` is meant, correct it and import again"),
        );
        self.left(entry, &format!("not known as a key of {}", self.tool.name()), &instead);
    }

    fn line(&mut self, entry: &Entry, fate: Fate, here: Vec<String>, why: &str, instead: &str) {
        self.lines.push(KeyFate {
            key: entry.key.clone(),
            line: (entry.line > 0).then_some(entry.line),
            value: shown(&entry.key, &entry.value),
            fate,
            here,
            why: why.to_owned(),
            instead: instead.to_owned(),
        });
    }

    fn carry(&mut self, entry: &Entry, path: &str, value: Json) {
        let path = first_base(path);
        let value = self.fitted(&path, value);
        self.set(entry, Fate::Carried, &path, value, ["", ""]);
    }

    fn change(&mut self, entry: &Entry, path: &str, value: Json, why: &str, instead: &str) {
        self.set(entry, Fate::Changed, &first_base(path), value, [why, instead]);
    }

    /// The first key that names a setting decides it; one that would change it is left.
    fn set(&mut self, entry: &Entry, fate: Fate, path: &str, value: Json, [why, instead]: [&str; 2]) {
        let first = self.lines.iter().find(|line| line.here.iter().any(|here| names(here, path)));
        if let Some(first) = first.filter(|_| self.at(path) != Some(&value)) {
            let why = format!("`{}` decides {path}", first.key);
            return self.left(entry, &why, &format!("set {path} to {value} if that is meant"));
        }
        self.line(entry, fate, vec![format!("{path} = {value}")], why, instead);
        self.put(path, value);
    }

    /// A further setting of the key whose line was written last.
    fn also(&mut self, path: &str, value: Json) {
        if let Some(line) = self.lines.last_mut() {
            line.here.push(format!("{path} = {value}"));
        }
        self.put(path, value);
    }

    fn left(&mut self, entry: &Entry, why: &str, instead: &str) {
        self.line(entry, Fate::Left, Vec::new(), why, instead);
    }

    fn unneeded(&mut self, entry: &Entry, why: &str) {
        self.line(entry, Fate::Unneeded, Vec::new(), why, "");
    }

    /// A default of the other trainer that is another one here and is used where the file says nothing.
    fn default(&mut self, key: &str, path: &str, value: Json) {
        let path = first_base(path);
        if self.at(&path).is_some() {
            return;
        }
        let entry = Entry { key: key.to_owned(), line: 0, value: Value::Null };
        let why = format!("the default of {}", self.tool.name());
        self.line(&entry, Fate::Default, vec![format!("{path} = {value}")], &why, "");
        self.put(&path, value);
    }

    /// A word by its name here, a number or a switch that is written as text as what it is.
    fn fitted(&self, path: &str, value: Json) -> Json {
        let Some(text) = value.as_str() else { return value };
        if let Some(word) = foreign::word_here(path, text) {
            return json!(word);
        }
        if let Some(flag) = Value::Text(text.to_owned()).flag()
            && field_at(path).is_some_and(|field| wants(&field.kind, &|kind| matches!(kind, Kind::Bool)))
        {
            return json!(flag);
        }
        let number = text.trim().parse().ok().filter(|it: &f64| it.is_finite());
        match number.filter(|_| field_at(path).is_some_and(|field| wants(&field.kind, &is_number))) {
            Some(number) => expert_contract::manifest::json::number_json(number),
            None => value,
        }
    }

    fn at(&self, path: &str) -> Option<&Json> {
        self.manifest.pointer(&pointer(path))
    }

    fn put(&mut self, path: &str, value: Json) {
        let mut place = &mut self.manifest;
        for part in path.split('.') {
            if part == "0" {
                if !place.is_array() {
                    *place = json!([{}]);
                }
                place = &mut place[0];
            } else {
                if !place.is_object() {
                    *place = json!({});
                }
                place = &mut place[part];
            }
        }
        *place = value;
    }

    fn remove(&mut self, path: &str) -> bool {
        let Some((before, last)) = path.rsplit_once('.') else { return false };
        let Some(Json::Object(object)) = self.manifest.pointer_mut(&pointer(before)) else { return false };
        object.remove(last).is_some()
    }

    /// Leaves out, and lists, what the manifest does not validate with.
    fn valid(mut self, folder: &Path) -> Result<Imported, Refused> {
        loop {
            let text = written::text(&self.manifest);
            let loaded = read::from_bytes(
                text.clone().into_bytes(),
                &folder.join("manifest.json"),
                &Options::default(),
            );
            let Some(error) = loaded.diagnostics.iter().find(|it| it.severity == Severity::Error) else {
                return Ok(Imported {
                    manifest: text,
                    lines: self.lines,
                    copies: self.copies,
                    diagnostics: loaded.diagnostics,
                });
            };
            let path = error.pointer.trim_start_matches('/').replace('/', ".");
            let Some(path) = self.drop_written(&path) else {
                return Err(Refused::Invalid(error.message.clone()));
            };
            let hint = error.hint.as_deref().unwrap_or("see docs/manifest.md");
            let instead = format!("{hint}; until then the default holds");
            for line in &mut self.lines {
                if line.here.iter().any(|here| names(here, &path)) {
                    line.here.retain(|here| !names(here, &path));
                    line.fate = Fate::Left;
                    line.why.clone_from(&error.message);
                    line.instead.clone_from(&instead);
                }
            }
        }
    }

    /// The longest written path at or above the problem's.
    fn drop_written(&mut self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        loop {
            let written = self.lines.iter().any(|line| line.here.iter().any(|here| names(here, &path)));
            if written && self.remove(&path) {
                return Some(path);
            }
            path.truncate(path.rfind('.')?);
        }
    }
}

/// Whether a line's `path = value` is of this path.
fn names(here: &str, path: &str) -> bool {
    here.split_once(" = ").is_some_and(|(written, _)| written == path)
}

/// A configuration has one base.
fn first_base(path: &str) -> String {
    path.replace("base_models[]", "base_models.0")
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn section(path: &str) -> Option<&'static Section> {
    let mut section = &ROOT;
    for part in path.split('.').filter(|part| !part.is_empty() && *part != "0") {
        section = section.field(part)?.kind.sections().first().copied()?;
    }
    Some(section)
}

fn config() -> &'static Section {
    section("training.config").unwrap_or(&ROOT)
}

fn field_at(path: &str) -> Option<&'static Field> {
    let (before, last) = path.rsplit_once('.').unwrap_or(("", path));
    section(before)?.field(last)
}

fn is_number(kind: &Kind) -> bool {
    matches!(kind, Kind::Integer { .. } | Kind::Number(_))
}

/// Whether the kind, or one of several, is such a one.
fn wants(kind: &Kind, is_such: &dyn Fn(&Kind) -> bool) -> bool {
    match kind {
        Kind::OneOf(kinds) => kinds.iter().any(|kind| wants(kind, is_such)),
        kind => is_such(kind),
    }
}

/// Short, and without secrets.
fn shown(key: &str, value: &Value) -> String {
    const LONGEST: usize = 48;
    let text = match value {
        Value::Null => return String::new(),
        Value::Map(entries) => {
            let plural = if entries.len() == 1 { "key" } else { "keys" };
            return format!("{{{} {plural}}}", entries.len());
        }
        other => covered(&format!("{}: {}", json!(key), other.json())),
    };
    let text = text.split_once(": ").map_or(text.as_str(), |(_, value)| value);
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).collect::<String>() + "…"
}
