//! `--set dotted.path=value`: changes to the tree before anything is checked, so that they are checked like the file.

use serde::{Deserialize, Serialize};

use super::base::ADAPTER;
use super::check::check;
use super::config::CONFIG;
use super::document::Document;
use super::json::{Member, Node, Object, Value, parse};
use super::places;
use super::root::{ROOT, TRAINING};
use crate::diagnostic::{Code, Problem, did_you_mean};
use crate::foreign;
use crate::ledger::{Kind, Section};
use crate::shell::quoted;
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

    /// Whether it changes the setting or section at `path`, or a part of it. `[]` in `path` is any entry of a list.
    pub fn reaches(&self, path: &str) -> bool {
        let (own, other) = (tokens(&self.path), tokens(path));
        own.iter().zip(&other).all(|(mine, its)| its.is_empty() || mine == its)
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
        let path_span = Span::new(number, 0, set.path.len().min(text.len()));
        problems.extend(Change { set, path_span, value }.apply(root));
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

static MANIFEST: Kind = Kind::Object(&ROOT);
static ANYTHING: Kind = Kind::Any;

/// A value, and where it belongs.
struct Change<'a> {
    set: &'a Set,
    path_span: Span,
    value: Node,
}

/// The places that give a setting of `training.config`.
struct Layers {
    /// `training.config` itself, or the short form of version 1.0.
    shared: Option<Node>,
    /// What bases have instead: the path of the base's `overrides`, and the value.
    own: Vec<(Vec<String>, Node)>,
    /// Whether every base has its own.
    all_own: bool,
}

impl Change<'_> {
    fn apply(self, root: &mut Node) -> Vec<Problem> {
        let problem = |message| Problem::new(Code::InvalidSet, self.path_span, message);
        let tokens = canonical(tokens(&self.set.path), root);
        if tokens.is_empty() {
            return vec![problem("the path is empty".to_owned()).hint("write dotted.path=value")];
        }
        if tokens.iter().any(String::is_empty) {
            let problem = problem(format!("`{}` has an empty part", self.set.path));
            return vec![problem.hint("write dotted.path=value, such as training.config.epochs=2")];
        }
        let setting = match self.setting(&tokens) {
            Ok(setting) => setting,
            Err(problem) => return vec![problem],
        };
        let part = setting.filter(|(at, _)| at + 1 < tokens.len());
        match part {
            Some((at, entry)) if tokens[..at] == ["training", "config"] => {
                self.put_in_layers(root, &tokens[at], &entry, &tokens[at + 1..])
            }
            Some((at, entry)) => {
                let before = find(root, &tokens[..at]).and_then(|place| written(place, entry.keys)).cloned();
                let whole = self.whole(before, &entry, &tokens[at + 1..]);
                whole
                    .and_then(|whole| self.put(root, &MANIFEST, &tokens[..=at], whole))
                    .err()
                    .into_iter()
                    .collect()
            }
            None => self.put(root, &MANIFEST, &tokens, self.value.clone()).err().into_iter().collect(),
        }
    }

    /// Follows the path in the ledger, which says what may be there. Gives the token that is a setting of the adapter's
    /// training: one whose layers go over one another.
    fn setting(&self, tokens: &[String]) -> Result<Option<(usize, Entry)>, Problem> {
        let (mut kind, mut setting) = (&MANIFEST, None);
        for (at, token) in tokens.iter().enumerate() {
            let inner = entry(kind, token)
                .map_err(|section| unknown(section, self.set, &tokens[at..], self.path_span))?;
            let has_layers = [&CONFIG, &ADAPTER].iter().any(|layered| kind.holds(layered));
            kind = inner.kind;
            if has_layers && !inner.keys.is_empty() {
                setting = Some((at, inner));
            }
        }
        Ok(setting)
    }

    /// Changes a part of a setting in each layer that gives it, so that no base's own value hides the change.
    fn put_in_layers(&self, root: &mut Node, key: &str, entry: &Entry, rest: &[String]) -> Vec<Problem> {
        let layers = Layers::of(root, key, entry.keys);
        let mut problems = Vec::new();
        for (overrides, before) in layers.own {
            let span = before.span;
            let path = [overrides, vec![key.to_owned()]].concat();
            let whole = self.whole(Some(before), entry, rest);
            // The problem is that base's, which may not be the one that is used.
            let whole = whole.map_err(|problem| Problem { span, ..problem });
            problems.extend(whole.and_then(|whole| self.put(root, &MANIFEST, &path, whole)).err());
        }
        let path = ["training", "config", key].map(str::to_owned);
        match self.whole(layers.shared, entry, rest) {
            // No base uses it, and only a base that `--model` adds may come to.
            Ok(whole) if layers.all_own && !is_valid(key, &whole) => {}
            Err(_) if layers.all_own => {}
            whole => problems.extend(whole.and_then(|whole| self.put(root, &MANIFEST, &path, whole)).err()),
        }
        problems
    }

    /// A setting with one part of it changed: as a whole it is an argument now.
    fn whole(&self, before: Option<Node>, entry: &Entry, rest: &[String]) -> Result<Node, Problem> {
        let mut whole = before.unwrap_or(Node { span: self.path_span, value: Value::Null });
        self.put(&mut whole, entry.kind, rest, self.value.clone())?;
        Ok(Node { span: self.path_span, ..whole })
    }

    /// Puts a value into a tree of this kind.
    fn put(
        &self,
        root: &mut Node,
        kind: &'static Kind,
        tokens: &[String],
        value: Node,
    ) -> Result<(), Problem> {
        let Some((last, before)) = tokens.split_last() else { return Ok(()) };
        let of = |kind, token| entry(kind, token).unwrap_or(Entry::of(&ANYTHING));
        let (mut kind, mut place) = (kind, root);
        for token in before {
            place = step(place, token, kind, &self.set.path, self.path_span)?;
            kind = of(kind, token).kind;
        }
        let span = value.span;
        *step(place, last, kind, &self.set.path, self.path_span)? = value;
        if let Value::Object(object) = &mut place.value {
            // Other spellings of the key would contradict it.
            let keys = of(kind, last).keys;
            object.members.retain(|member| member.key == *last || !keys.contains(&member.key.as_str()));
            if let Some(member) = object.members.iter_mut().find(|member| member.key == *last) {
                member.key_span = span;
            }
        }
        Ok(())
    }
}

impl Layers {
    fn of(root: &Node, key: &str, keys: &[&str]) -> Self {
        let training = written(root, &["training"]);
        let config = training.and_then(|training| written(training, &["config"]));
        let shared = [config, training].into_iter().flatten().find_map(|place| written(place, keys)).cloned();
        let described = ADAPTER.field(key).map_or(&[][..], |field| field.keys);
        let bases = bases(root);
        let mut own = Vec::new();
        for (path, base) in &bases {
            let adapters =
                written(base, &["adapters"]).filter(|list| list.as_list().is_some_and(|it| !it.is_empty()));
            let adapter = adapters.or_else(|| written(root, &["adapters"])).and_then(Node::as_list);
            let adapter = adapter.and_then(<[_]>::first).filter(|_| shared.is_none());
            let overrides = written(base, &["overrides"]).and_then(|place| written(place, keys));
            let value = overrides.or_else(|| adapter.and_then(|adapter| written(adapter, described)));
            own.extend(
                value.map(|value| ([path.clone(), vec!["overrides".to_owned()]].concat(), value.clone())),
            );
        }
        let all_own = !bases.is_empty() && own.len() == bases.len();
        Self { shared, own, all_own }
    }
}

/// The base models of either version, each with its path.
fn bases(root: &Node) -> Vec<(Vec<String>, &Node)> {
    let listed = written(root, &["base_models"]).and_then(Node::as_list).unwrap_or_default();
    if listed.is_empty() {
        return written(root, &["base_model"])
            .map(|base| (vec!["base_model".to_owned()], base))
            .into_iter()
            .collect();
    }
    let path = |index: usize| vec!["base_models".to_owned(), index.to_string()];
    listed.iter().enumerate().map(|(index, base)| (path(index), base)).collect()
}

/// Whether `training.config` may hold this value.
fn is_valid(key: &str, value: &Node) -> bool {
    let member = Member { key: key.to_owned(), key_span: value.span, node: value.clone() };
    let config = Node { span: value.span, value: Value::Object(Object { members: vec![member] }) };
    let mut problems = Vec::new();
    check(&CONFIG, &config, &mut problems);
    problems.is_empty()
}

/// The value of an object under any of these keys.
fn written<'a>(place: &'a Node, keys: &[&str]) -> Option<&'a Node> {
    let object = place.as_object()?;
    keys.iter().find_map(|key| object.get(key))
}

/// What is at a path.
fn find<'a>(root: &'a Node, path: &[String]) -> Option<&'a Node> {
    path.iter().try_fold(root, |place, token| match &place.value {
        Value::List(items) => items.get(token.parse::<usize>().ok()?),
        _ => written(place, &[token]),
    })
}

/// `base_models[0].overrides.rank` and `base_models.0.overrides.rank` are one path.
fn tokens(path: &str) -> Vec<String> {
    if path.is_empty() {
        return Vec::new();
    }
    path.replace('[', ".").replace(']', "").split('.').map(str::to_owned).collect()
}

/// Where the manifest has it: the first base of version 1.0 is `base_model`, and `training.rank` is a short form of
/// `training.config.rank`.
fn canonical(mut tokens: Vec<String>, root: &Node) -> Vec<String> {
    let has = |key: &str| root.as_object().is_some_and(|object| object.get(key).is_some());
    let path: Vec<&str> = tokens.iter().map(String::as_str).collect();
    match path[..] {
        ["base_models", "0", ..] if has("base_model") && !has("base_models") => {
            tokens.splice(..2, ["base_model".to_owned()]);
        }
        ["training", key, ..] if TRAINING.field(key).is_none() && CONFIG.field(key).is_some() => {
            tokens.insert(1, "config".to_owned());
        }
        _ => {}
    }
    tokens
}

/// What the ledger says of an entry: its kind, and every spelling of its key.
struct Entry {
    kind: &'static Kind,
    keys: &'static [&'static str],
}

impl Entry {
    fn of(kind: &'static Kind) -> Self {
        Self { kind, keys: &[] }
    }
}

/// The entry `token` of a value of this kind, or the section that has no such key. Whether a list is as long as that, and
/// whether a value has entries at all, only the tree knows.
fn entry(kind: &'static Kind, token: &str) -> Result<Entry, &'static Section> {
    match kind {
        Kind::Object(section) => match section.field(token) {
            Some(field) if field.is_honoured() => Ok(Entry { kind: &field.kind, keys: field.keys }),
            Some(_) => Ok(Entry::of(&ANYTHING)),
            None if section.is_metadata_ending(token) => Ok(Entry::of(&ANYTHING)),
            None => Err(section),
        },
        Kind::List(inner) | Kind::Map(inner) => Ok(Entry::of(inner)),
        Kind::OneOf(kinds) => {
            let shapes =
                kinds.iter().filter(|kind| matches!(kind, Kind::Object(_) | Kind::List(_) | Kind::Map(_)));
            let found = shapes.map(|kind| entry(kind, token)).reduce(Result::or);
            found.unwrap_or(Ok(Entry::of(&ANYTHING)))
        }
        _ => Ok(Entry::of(&ANYTHING)),
    }
}

/// The first of `rest` is not a key of the section.
fn unknown(section: &Section, set: &Set, rest: &[String], span: Span) -> Problem {
    let elsewhere = |rest: &[String]| {
        let (key, inner) = rest.split_first()?;
        let (path, _) = places::of_key(key)?;
        let inner = inner.iter().fold(String::new(), |path, token| path + "." + token);
        let whole = format!("{}{inner}={}", path.replace("[]", ".0"), set.value);
        Some(format!("write --set {}", quoted(&whole)))
    };
    let key = rest.first().map_or("", String::as_str);
    let names = [Some(section), section.shorthand].into_iter().flatten().flat_map(|section| section.fields);
    let hint = elsewhere(rest)
        .or_else(|| foreign::key(key))
        .or_else(|| did_you_mean(key, names.flat_map(|field| field.keys).copied()))
        .or_else(|| elsewhere(rest.last().map(std::slice::from_ref).unwrap_or_default()))
        .unwrap_or_else(|| "`schema --ledger` lists every key".to_owned());
    let message = format!("`{}` names no key of the manifest", set.path);
    Problem::new(Code::InvalidSet, span, message).hint(hint)
}

fn step<'a>(
    place: &'a mut Node,
    token: &str,
    kind: &Kind,
    path: &str,
    span: Span,
) -> Result<&'a mut Node, Problem> {
    open(place, token, kind, span);
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
            let problem = Problem::new(Code::InvalidSet, span, message);
            Err(problem.hint(format!("end the path before `{token}`, and set the value as a whole")))
        }
    }
}

/// Makes room for an entry: in nothing, in a list without entries, and in the short form of an object, which is a text.
fn open(place: &mut Node, token: &str, kind: &Kind, span: Span) {
    let nothing = || Node { span, value: Value::Null };
    let is_first = token == "0" && is_list(kind);
    let value = match &place.value {
        Value::Null if is_first => Value::List(vec![nothing()]),
        Value::List(items) if items.is_empty() && is_first => Value::List(vec![nothing()]),
        Value::Null if is_list(kind) && token.parse::<usize>().is_ok() => Value::List(Vec::new()),
        Value::Null => Value::Object(Object::default()),
        Value::Text(_) => match object_of(kind) {
            Some(section) => {
                let whole = |key: &str| Member { key: key.to_owned(), key_span: span, node: place.clone() };
                Value::Object(Object { members: section.text_key.map(whole).into_iter().collect() })
            }
            None => return,
        },
        _ => return,
    };
    place.value = value;
}

fn is_list(kind: &Kind) -> bool {
    match kind {
        Kind::List(_) => true,
        Kind::OneOf(kinds) => kinds.iter().any(is_list),
        _ => false,
    }
}

fn object_of(kind: &Kind) -> Option<&'static Section> {
    match kind {
        Kind::Object(section) => Some(section),
        Kind::OneOf(kinds) => kinds.iter().find_map(object_of),
        _ => None,
    }
}

/// The member of that name, made empty where there is none.
fn member<'a>(object: &'a mut Object, key: &str, span: Span) -> &'a mut Node {
    let index = object.members.iter().position(|member| member.key == key).unwrap_or_else(|| {
        let node = Node { span, value: Value::Null };
        object.members.push(Member { key: key.to_owned(), key_span: span, node });
        object.members.len() - 1
    });
    &mut object.members[index].node
}
