//! Edits a manifest's text: changes the values and keeps everything else as it is.

use std::fmt;
use std::path::Path;

use expert_contract::ledger::Section;
use expert_contract::manifest::json::{Node, Object, parse};
use expert_contract::manifest::{Options, ROOT};
use expert_contract::read;
use fs_err as fs;
use serde_json::Value;

use crate::failure::Failure;
use crate::sys::durable;

/// One setting of `training.config`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub key: &'static str,
    pub value: Value,
}

/// One line of the file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Counts from 1.
    pub line: usize,
    pub key: &'static str,
    /// The present value; None for a new key.
    pub before: Option<String>,
    pub after: String,
}

impl fmt::Display for Changed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: \"{}\": ", self.line, self.key)?;
        match &self.before {
            Some(before) => write!(to, "{before} -> {}", self.after),
            None => write!(to, "new: {}", self.after),
        }
    }
}

struct Replacement {
    start: usize,
    end: usize,
    text: String,
}

/// The text with the new settings for `bases[base]`, and the changes. None where the text has no
/// `training.config` to write to.
pub fn apply(text: &str, base: usize, settings: &[Setting]) -> Option<(String, Vec<Changed>)> {
    let root = parse(text, 0).root?;
    let config = member(member(&root, "training")?, "config")?.as_object()?;
    let overrides = overrides(&root, base);
    let mut replacements = Vec::new();
    let mut changed = Vec::new();
    let mut fresh: Vec<&Setting> = Vec::new();
    for setting in settings {
        let names = spellings(setting.key);
        let place = overrides.and_then(|object| find(object, names)).or_else(|| find(config, names));
        let Some(node) = place else {
            fresh.push(setting);
            continue;
        };
        let (start, end) = (node.span.start as usize, node.span.end as usize);
        let after = setting.value.to_string();
        if text[start..end] != after {
            let before = Some(text[start..end].to_owned());
            changed.push(Changed {
                line: line_of(text, start),
                key: setting.key,
                before,
                after: after.clone(),
            });
            replacements.push(Replacement { start, end, text: after });
        }
    }
    // Settings for this base only go to its overrides, if it has any.
    let target = overrides.filter(|object| !object.members.is_empty()).unwrap_or(config);
    if let (Some(last), false) = (target.members.last(), fresh.is_empty()) {
        let at = last.node.span.end as usize;
        let separator = separator(text, last.key_span.start as usize);
        let mut inserted = String::new();
        for setting in fresh {
            inserted += &format!(",{separator}\"{}\": {}", setting.key, setting.value);
            let after = setting.value.to_string();
            changed.push(Changed { line: line_of(text, at), key: setting.key, before: None, after });
        }
        replacements.push(Replacement { start: at, end: at, text: inserted });
    }
    Some((replaced(text, replacements), changed))
}

/// Which of the manifest's bases the settings are for; none where it is not one of them.
pub fn base_of(named: Option<&str>, file: &Path) -> Option<usize> {
    let Some(named) = named else { return Some(0) };
    // A manifest with errors is reported when the plan is made.
    read::load(file, &Options::default()).manifest.map_or(Some(0), |manifest| manifest.find_base(named))
}

pub fn no_place_for_base() -> Failure {
    Failure::bad_input("unknown-model", "--write has no place for a base that is not in the manifest")
        .hint("add the base to base_models first, or leave --write out")
}

pub fn edited(file: &Path, base: usize, settings: &[Setting]) -> Result<(String, Vec<Changed>), Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::reading("read", file, &error))?;
    apply(&text, base, settings).ok_or_else(|| {
        Failure::bad_input("no-config", format!("{} has no training.config to write to", file.display()))
    })
}

/// The written text must still be a valid manifest.
pub fn write(text: &str, file: &Path) -> Result<(), Failure> {
    let loaded = read::from_bytes(text.as_bytes().to_vec(), file, &Options::default());
    if !loaded.ok() {
        return Err(Failure::manifest(file, loaded.diagnostics));
    }
    durable::write(file, text.as_bytes()).map_err(|error| Failure::writing("write", file, &error))
}

fn replaced(text: &str, mut replacements: Vec<Replacement>) -> String {
    replacements.sort_by_key(|it| std::cmp::Reverse(it.start));
    let mut text = text.to_owned();
    for it in replacements {
        text.replace_range(it.start..it.end, &it.text);
    }
    text
}

fn member<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    node.as_object()?.get(key)
}

/// Of either version of the format.
fn overrides(root: &Node, base: usize) -> Option<&Object> {
    let list = member(root, "base_models").and_then(Node::as_list);
    let base = list.map_or_else(|| member(root, "base_model"), |list| list.get(base))?;
    member(base, "overrides")?.as_object()
}

fn find<'a>(object: &'a Object, names: &[&str]) -> Option<&'a Node> {
    names.iter().find_map(|name| object.get(name))
}

/// The key and its other spellings, by the ledger.
fn spellings(key: &'static str) -> &'static [&'static str] {
    fn config(section: &'static Section) -> Option<&'static Section> {
        section.field("training")?.kind.sections().first()?.field("config")?.kind.sections().first().copied()
    }
    config(&ROOT).and_then(|section| section.field(key)).map_or(&[], |field| field.keys)
}

/// The separator of two members: a line break with the last one's indentation, or a space.
fn separator(text: &str, key_start: usize) -> String {
    let line_start = text[..key_start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start..key_start];
    if line_start > 0 && before.chars().all(|c| c == ' ' || c == '\t') {
        let ending = if text[..line_start].ends_with("\r\n") { "\r\n" } else { "\n" };
        format!("{ending}{before}")
    } else {
        " ".to_owned()
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "{\r\n  \"_note\": \"kept  as it is\",\r\n  \"base_models\": [{\"name\": \"a\"}, {\"name\": \"b\", \"overrides\": {\"batch_size\":  4}}],\r\n  \"training\": {\"config\": {\r\n    \"_why\": \"because\",\r\n    \"per_device_train_batch_size\": 16,\r\n    \"rank\": 8\r\n  }}\r\n}\r\n";

    fn settings() -> Vec<Setting> {
        vec![
            Setting { key: "batch_size", value: json!(8) },
            Setting { key: "gradient_accumulation_steps", value: json!(2) },
        ]
    }

    #[test]
    fn a_value_changes_in_its_place_under_any_spelling_and_a_new_key_follows_the_last() {
        let (text, changed) = apply(TEXT, 0, &settings()).unwrap();
        let wanted = TEXT
            .replace("batch_size\": 16", "batch_size\": 8")
            .replace("\"rank\": 8", "\"rank\": 8,\r\n    \"gradient_accumulation_steps\": 2");
        assert_eq!(text, wanted);
        assert_eq!(
            (changed[0].line, changed[0].before.as_deref(), changed[0].after.as_str()),
            (6, Some("16"), "8")
        );
        assert_eq!((changed[1].key, changed[1].before.as_deref()), ("gradient_accumulation_steps", None));
    }

    #[test]
    fn what_a_base_overrides_is_changed_there() {
        let (text, _) = apply(TEXT, 1, &settings()).unwrap();
        let wanted =
            TEXT.replace("{\"batch_size\":  4}", "{\"batch_size\":  8, \"gradient_accumulation_steps\": 2}");
        assert_eq!(text, wanted);
    }

    #[test]
    fn an_equal_value_does_not_count_as_a_change() {
        let same = [Setting { key: "rank", value: json!(8) }];
        assert_eq!(apply(TEXT, 0, &same), Some((TEXT.to_owned(), Vec::new())));
        assert_eq!(apply("{}", 0, &same), None);
    }
}
