//! `--set dotted.path=value`: changes to the tree before anything is checked, so that they are checked like the file.

use serde::{Deserialize, Serialize};

use super::base::{BASE_MODEL, DECODING};
use super::config::CONFIG;
use super::dataset::DATASET;
use super::document::Document;

use super::json::{Member, Node, Object, Value, parse};
use super::root::{EVALUATION, ROOT};
use crate::diagnostic::{Code, Problem, did_you_mean};
use crate::foreign;
use crate::ledger::Section;
use crate::source::{Source, Span};

/// The option of settings that a preset gives; its name follows.
pub const PRESET: &str = "--preset";

/// One argument: a dotted path of the manifest and a JSON value; values that are not JSON are strings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    pub path: String,
    pub value: String,
    /// How messages name the option that it came from, such as `--set` or `--epochs`.
    pub option: String,
}

impl Set {
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), option: "--set".to_owned() }
    }

    /// For a flag that stands for a path, such as `--epochs`.
    pub fn flag(option: impl Into<String>, path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), option: option.into() }
    }

    /// `path=value` as given to `--set`.
    pub fn parse(argument: &str) -> Result<Self, String> {
        match argument.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => Ok(Self::new(path.trim(), value)),
            _ => Err(format!("`{argument}` is not `dotted.path=value`, such as training.config.epochs=2")),
        }
    }

    /// The argument as it is shown in messages, and where the value begins in it.
    fn text(&self) -> (String, usize) {
        if self.option == "--set" {
            (format!("{}={}", self.path, self.value), self.path.len() + 1)
        } else {
            (self.value.clone(), 0)
        }
    }
}

/// Sets each value; one that cannot be set is a problem that points at the argument.
pub fn apply(document: &mut Document, sets: &[Set]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for set in sets {
        let (text, value_at) = set.text();
        let number = document.sources.add(Source::new(set.option.as_str(), text.as_str()));
        let value = value(&text, value_at, number);
        let Some(root) = document.root.as_mut() else { continue };
        if let Err(problem) = put(root, set, value, Span::new(number, 0, set.path.len().min(text.len()))) {
            problems.push(problem);
        }
    }
    problems
}

/// A JSON value, or the text itself.
fn value(text: &str, at: usize, number: u32) -> Node {
    let parsed = parse(&text[at..], number);
    let whole = Span::new(number, at, text.len());
    match parsed.root.filter(|_| parsed.problems.is_empty()) {
        Some(mut node) => {
            shift(&mut node, at);
            node
        }
        None => Node { span: whole, value: Value::Text(text[at..].to_owned()) },
    }
}

/// Places count from the start of the argument, not of the value.
fn shift(node: &mut Node, by: usize) {
    node.span = moved(node.span, by);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Object(object) => object.members.iter_mut().for_each(|member| {
            member.key_span = moved(member.key_span, by);
            shift(&mut member.node, by);
        }),
        _ => {}
    }
}

fn moved(span: Span, by: usize) -> Span {
    Span::new(span.source, span.start as usize + by, span.end as usize + by)
}

fn put(root: &mut Node, set: &Set, value: Node, path_span: Span) -> Result<(), Problem> {
    let tokens = tokens(&set.path);
    let Some((last, before)) = tokens.split_last() else {
        return Err(
            Problem::new(Code::InvalidSet, path_span, "the path is empty").hint("write dotted.path=value")
        );
    };
    if tokens.iter().any(String::is_empty) {
        let problem = Problem::new(Code::InvalidSet, path_span, format!("`{}` has an empty part", set.path));
        return Err(problem.hint("write dotted.path=value, such as training.config.epochs=2"));
    }
    let mut section = Some(&ROOT);
    let mut place = root;
    for token in before {
        section = inner_section(section, token);
        place = step(place, token, &set.path, path_span)?;
    }
    if let Some(section) = section.filter(|section| !section_knows(section, last)) {
        let names = section.fields.iter().flat_map(|field| field.keys).copied();
        let message = format!("`{}` names no key of the manifest", set.path);
        let hint = full_path(last)
            .filter(|_| before.is_empty())
            .map(|path| format!("write --set {path}={}", set.value))
            .or_else(|| foreign::key(last))
            .or_else(|| did_you_mean(last, names))
            .unwrap_or_else(|| "`schema --ledger` lists every key".to_owned());
        return Err(Problem::new(Code::InvalidSet, path_span, message).hint(hint));
    }
    write(place, last, value, &set.path, path_span)
}

/// Where a key stands that was written without the path to it.
fn full_path(key: &str) -> Option<String> {
    let places: [(&str, &Section); 5] = [
        ("training.config", &CONFIG),
        ("training.dataset", &DATASET),
        ("evaluation", &EVALUATION),
        ("training.decoding", &DECODING),
        ("base_models.0", &BASE_MODEL),
    ];
    let holds = |section: &Section| section.honoured_names().any(|name| name == key);
    places.iter().find(|(_, section)| holds(section)).map(|(path, _)| format!("{path}.{key}"))
}

/// `base_models[0].overrides.rank` and `base_models.0.overrides.rank` are one path.
fn tokens(path: &str) -> Vec<String> {
    if path.is_empty() {
        return Vec::new();
    }
    path.replace('[', ".").replace(']', "").split('.').map(str::to_owned).collect()
}

/// Follows the ledger beside the tree; None in maps and metadata, where any key may stand.
fn inner_section(section: Option<&'static Section>, token: &str) -> Option<&'static Section> {
    let section = section?;
    if token.parse::<usize>().is_ok() {
        return Some(section);
    }
    section.field(token)?.kind.sections().first().copied()
}

fn section_knows(section: &Section, key: &str) -> bool {
    key.parse::<usize>().is_ok()
        || section.field(key).is_some()
        || section.shorthand.is_some_and(|s| s.field(key).is_some())
}

fn step<'a>(place: &'a mut Node, token: &str, path: &str, span: Span) -> Result<&'a mut Node, Problem> {
    if place.is_null() {
        place.value = Value::Object(Object::default());
    }
    let found = place.type_name();
    match &mut place.value {
        Value::List(items) => {
            let length = items.len();
            let missing = || {
                Problem::new(
                    Code::InvalidSet,
                    span,
                    format!("`{path}`: there is no entry {token}, the list has {length}"),
                )
                .hint("entries count from 0")
            };
            token.parse::<usize>().ok().and_then(|index| items.get_mut(index)).ok_or_else(missing)
        }
        Value::Object(object) => Ok(member(object, token, span)),
        _ => {
            let message = format!("`{path}`: {found} has no keys, so `{token}` cannot be set");
            Err(Problem::new(Code::InvalidSet, span, message))
        }
    }
}

/// The member of that name, made empty where there is none.
fn member<'a>(object: &'a mut Object, key: &str, span: Span) -> &'a mut Node {
    let index = object.members.iter().position(|member| member.key == key).unwrap_or_else(|| {
        let node = Node { span, value: Value::Object(Object::default()) };
        object.members.push(Member { key: key.to_owned(), key_span: span, node });
        object.members.len() - 1
    });
    &mut object.members[index].node
}

fn write(place: &mut Node, key: &str, value: Node, path: &str, span: Span) -> Result<(), Problem> {
    if matches!(place.value, Value::Object(_) | Value::Null) {
        let span = value.span;
        *step(place, key, path, span)? = value;
        if let Value::Object(object) = &mut place.value
            && let Some(member) = object.members.iter_mut().find(|member| member.key == key)
        {
            member.key_span = span;
        }
        return Ok(());
    }
    *step(place, key, path, span)? = value;
    Ok(())
}
