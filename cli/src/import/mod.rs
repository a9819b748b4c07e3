//! From another trainer's configuration to a manifest. Every key of it is carried over, or listed with the reason.

mod data;
mod defaults;
mod draft;
mod keys;
mod layers;
mod running_text;
#[cfg(test)]
mod tests;
mod tool;
mod tree;
mod written;

use std::collections::BTreeMap;
use std::path::Path;

use expert_contract::diagnostic::{Diagnostic, Severity};
use expert_contract::foreign::{self, Meaning};
use expert_contract::ledger::{Kind, Section};
use expert_contract::manifest::{Options, ROOT};
use expert_contract::read;
use serde_json::json;

pub use draft::{Copy, Fate, KeyFate, is_pattern, is_remote, matches_files};
pub use tool::Tool;
pub use tree::{MAX_BYTES, Unreadable, Value};

use draft::{Import, field_at, is_at_or_below, names, section};
use tree::Entry;

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
    /// The file is not the configuration of a known trainer.
    Unknown,
    /// The keys are those of this trainer, whose configurations are not read.
    Unread(&'static str),
    /// Another method than supervised fine-tuning: the key with its value.
    Method(String, Option<usize>),
    /// The manifest does not validate without keys that it cannot do without; and the values that were left out before,
    /// which may be the reason.
    Invalid(String, Vec<String>),
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
    defaults::whole_model(&mut import);
    for entry in keys::deciding_first(source.entries()) {
        if !import
            .lines
            .iter()
            .any(|line| line.key == entry.key || line.key.starts_with(&format!("{}[", entry.key)))
        {
            import.key(entry);
        }
    }
    defaults::set(&mut import);
    import.valid(folder)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
        // A key that every trainer and this program have has no row of other names.
        let own = config().fields.iter().flat_map(|field| field.keys.iter().copied());
        let near = expert_contract::diagnostic::closest(&entry.key, foreign::names().chain(own));
        let instead = near.map_or_else(
            || "look for it in docs/manifest.md, or do without it".to_owned(),
            |near| format!("if `{near}` is meant, correct it and import again"),
        );
        self.left(entry, &format!("not known as a key of {}", self.tool.name()), &instead);
    }

    /// Leaves out, and lists, what the manifest does not validate with.
    fn valid(mut self, folder: &Path) -> Result<Imported, Refused> {
        // What is wrong with each, and how it is said.
        let mut dropped: Vec<(String, String)> = Vec::new();
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
                dropped.retain(|(why, _)| *why != error.message);
                let dropped = dropped.into_iter().map(|(_, said)| said).collect();
                return Err(Refused::Invalid(error.message.clone(), dropped));
            };
            let hint = error.hint.as_deref().unwrap_or("see docs/manifest.md");
            let instead = format!("{hint}; until then the default holds");
            for line in &mut self.lines {
                if line.here.iter().any(|here| is_at_or_below(here, &path)) {
                    line.here.retain(|here| !is_at_or_below(here, &path));
                    line.fate = Fate::Left;
                    let place = line.line.map_or(String::new(), |line| format!("line {line}: "));
                    let said = format!("{place}{} is {}: {}", line.key, line.value, error.message);
                    dropped.push((error.message.clone(), said));
                    line.why.clone_from(&error.message);
                    line.instead.clone_from(&instead);
                }
            }
        }
    }

    /// The longest written path at or above the problem's; or its own, where keys of a map were written one by one.
    fn drop_written(&mut self, path: &str) -> Option<String> {
        let is_map = field_at(path).is_some_and(|field| matches!(field.kind, Kind::Map(_)));
        let is_part = |line: &KeyFate| line.here.iter().any(|here| is_at_or_below(here, path));
        if is_map && self.lines.iter().any(is_part) && self.remove(path) {
            return Some(path.to_owned());
        }
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

fn config() -> &'static Section {
    section("training.config").unwrap_or(&ROOT)
}
