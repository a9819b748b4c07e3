//! The manifest as it comes to be, key by key, and what became of each key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::foreign;
use expert_contract::ledger::{Field, Kind, Section};
use expert_contract::manifest::ROOT;
use expert_contract::paths::{self, NotData};
use expert_contract::secret::covered;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::tool::Tool;
use super::tree::{Entry, Value};
use crate::sys::paths::portable;

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

/// A file or folder to put into the expert's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// "data" or "adapter".
    pub what: &'static str,
    /// From the working directory, or a URL.
    pub from: String,
    /// Relative to the expert's folder.
    pub to: String,
}

/// Whether data has to be downloaded first.
pub fn is_remote(from: &str) -> bool {
    from.contains("://")
}

/// Whether it is a pattern of files, and no file that is there. In a URL `?` begins a query.
pub fn is_pattern(from: &str) -> bool {
    let is_one = if is_remote(from) { from.contains('*') } else { paths::is_pattern(from) };
    is_one && !Path::new(from).exists()
}

/// Whether a pattern's files are here, of whatever splits and formats they are.
pub fn matches_files(pattern: &Path) -> bool {
    let text = portable(pattern);
    let none = |why| matches!(why, NotData::Missing | NotData::NoFiles | NotData::Unreadable(..));
    is_pattern(&text) && paths::find_data(&text, pattern).map_or_else(|why| !none(why), |_| true)
}

/// A configuration that is being read.
pub(super) struct Import<'a> {
    pub(super) tool: Tool,
    pub(super) source: &'a Value,
    /// The folder of the configuration.
    pub(super) beside: PathBuf,
    pub(super) manifest: Json,
    pub(super) lines: Vec<KeyFate>,
    pub(super) copies: Vec<Copy>,
    /// Names in the expert's `datasets`, in small letters, and the files that get them.
    pub(super) placed: BTreeMap<String, String>,
}

impl Import<'_> {
    pub(super) fn line(&mut self, entry: &Entry, fate: Fate, here: Vec<String>, why: &str, instead: &str) {
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

    pub(super) fn carry(&mut self, entry: &Entry, path: &str, value: Json) {
        let path = first_base(path);
        let value = self.fitted(&path, value);
        self.set(entry, Fate::Carried, &path, value, ["", ""]);
    }

    pub(super) fn change(&mut self, entry: &Entry, path: &str, value: Json, why: &str, instead: &str) {
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
    pub(super) fn also(&mut self, path: &str, value: Json) {
        if let Some(line) = self.lines.last_mut() {
            line.here.push(format!("{path} = {value}"));
        }
        self.put(path, value);
    }

    pub(super) fn left(&mut self, entry: &Entry, why: &str, instead: &str) {
        self.line(entry, Fate::Left, Vec::new(), why, instead);
    }

    pub(super) fn unneeded(&mut self, entry: &Entry, why: &str) {
        self.line(entry, Fate::Unneeded, Vec::new(), why, "");
    }

    /// A default of the other trainer that is another one here and is used where the file says nothing.
    pub(super) fn default(&mut self, key: &str, path: &str, value: Json) {
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

    pub(super) fn at(&self, path: &str) -> Option<&Json> {
        self.manifest.pointer(&pointer(path))
    }

    pub(super) fn put(&mut self, path: &str, value: Json) {
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

    pub(super) fn remove(&mut self, path: &str) -> bool {
        let Some((before, last)) = path.rsplit_once('.') else { return false };
        let Some(Json::Object(object)) = self.manifest.pointer_mut(&pointer(before)) else { return false };
        object.remove(last).is_some()
    }

    pub(super) fn has_validation(&self) -> bool {
        ["validation_path", "validation_split"]
            .iter()
            .any(|key| self.at(&format!("training.dataset.{key}")).is_some())
    }
}

/// The word here for one of the other trainers', as a value of `key`.
pub(super) fn word_here(key: &str, words: &'static [&'static str], word: &str) -> Option<&'static str> {
    foreign::word_here(key, word).or_else(|| words.iter().find(|it| **it == word).copied())
}

/// Whether a line's `path = value` is of this path.
pub(super) fn names(here: &str, path: &str) -> bool {
    here.split_once(" = ").is_some_and(|(written, _)| written == path)
}

/// Whether a line's `path = value` is of this path, or of one below it.
pub(super) fn is_at_or_below(here: &str, path: &str) -> bool {
    let is_below = |written: &str| written.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    here.split_once(" = ").is_some_and(|(written, _)| written == path || is_below(written))
}

/// A configuration has one base.
fn first_base(path: &str) -> String {
    path.replace("base_models[]", "base_models.0")
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

pub(super) fn section(path: &str) -> Option<&'static Section> {
    let mut section = &ROOT;
    for part in path.split('.').filter(|part| !part.is_empty() && *part != "0") {
        section = section.field(part)?.kind.sections().first().copied()?;
    }
    Some(section)
}

pub(super) fn field_at(path: &str) -> Option<&'static Field> {
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
pub(super) fn shown(key: &str, value: &Value) -> String {
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
