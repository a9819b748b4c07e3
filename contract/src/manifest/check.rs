//! Checks a document against the ledger: unknown keys, types, ranges, enum values, and keys without effect.

use super::base::BASE_MODEL;
use super::config::CONFIG;
use super::json::{Member, Node, Object, Value, is_comment};
use super::places;
use crate::diagnostic::{Code, Problem, closest, did_you_mean, one_of};
use crate::foreign;
use crate::ledger::{Class, Field, Kind, LARGEST, Section, Unknown};
use crate::secret::is_secret_key;

/// Every problem of `node` as an object of `section`.
pub fn check(section: &'static Section, node: &Node, problems: &mut Vec<Problem>) {
    Checker { problems, hints: true, guesses: MAX_GUESSES }.kind(&Kind::Object(section), node, section.path);
}

struct Checker<'a> {
    problems: &'a mut Vec<Problem>,
    /// Off while an alternative is only tried, to avoid recursion.
    hints: bool,
    /// How many more unknown keys get a suggestion; a file with thousands of them does not need one for each.
    guesses: usize,
}

const MAX_GUESSES: usize = 500;

impl Checker<'_> {
    fn kind(&mut self, kind: &Kind, node: &Node, name: &str) {
        match (kind, &node.value) {
            (_, Value::Unreadable) => {}
            (Kind::Integer { min, max }, Value::Number(number)) => {
                self.integer(*number, *min, *max, kind, node, name);
            }
            (Kind::Number(range), Value::Number(number)) if !range.holds(*number) => {
                self.range(kind, node, name);
            }
            (Kind::Word(words), Value::Text(text)) if !words.contains(&text.as_str()) => {
                self.word(words, text, node, name);
            }
            (Kind::List(inner), Value::List(items)) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| self.kind(inner, item, &format!("{name}[{index}]")));
            }
            (Kind::Map(inner), Value::Object(object)) => {
                let members = object.members.iter().filter(|member| !is_comment(&member.key));
                members.for_each(|member| self.kind(inner, &member.node, &format!("{name}.{}", member.key)));
            }
            (Kind::Object(section), Value::Object(object)) => self.object(section, object, node),
            (Kind::Object(section), Value::Text(_)) if section.text_key.is_some() => {
                let key = section.text_key.unwrap_or_default();
                if let Some(field) = section.field(key) {
                    self.kind(&field.kind, node, name);
                }
            }
            (Kind::OneOf(kinds), _) => self.one_of(kinds, kind, node, name),
            _ if fits(kind, node) => {}
            _ => self.wrong_type(kind, node, name),
        }
    }

    /// The alternative with the value's type checks it.
    fn one_of(&mut self, kinds: &[Kind], all: &Kind, node: &Node, name: &str) {
        let alternatives: Vec<_> = kinds.iter().filter(|kind| fits(kind, node)).collect();
        match alternatives.as_slice() {
            [] => self.wrong_type(all, node, name),
            [only] => {
                let before = self.problems.len();
                self.kind(only, node, name);
                let other = if self.hints { retyped(all, node) } else { None };
                if let (Some(problem), Some(other)) = (self.problems.get_mut(before), other)
                    && problem.code == Code::UnknownWord
                    && problem.hint.as_deref().is_some_and(|hint| hint.starts_with("use one of"))
                {
                    problem.hint = Some(other);
                }
            }
            several => {
                let mut found = Vec::new();
                for kind in several {
                    let mut problems = Vec::new();
                    Checker { problems: &mut problems, hints: self.hints, guesses: self.guesses }
                        .kind(kind, node, name);
                    if problems.is_empty() {
                        return;
                    }
                    found.push(problems);
                }
                self.problems.extend(found.into_iter().next().unwrap_or_default());
            }
        }
    }

    fn object(&mut self, section: &'static Section, object: &Object, node: &Node) {
        for member in object.members.iter().filter(|member| !is_comment(&member.key)) {
            let shorthand = section.shorthand.and_then(|section| section.field(&member.key));
            match section.field(&member.key).or(shorthand) {
                Some(field) => self.field(section, field, member),
                None if section.is_metadata_ending(&member.key) => {}
                None => self.unknown(section, member),
            }
        }
        self.aliases(section, object);
        self.beside(section, object);
        for key in section.required {
            let keys = section.field(key).map_or(&[][..], |field| field.keys);
            if !keys.iter().any(|key| object.get(key).is_some()) {
                let message = format!("{} lacks `{key}`", title(section));
                let hint = section.field(key).map(|field| format!("add it. {}", field.doc));
                self.problems.push(Problem::new(Code::MissingKey, node.span, message).maybe_hint(hint));
            }
        }
    }

    fn field(&mut self, section: &Section, field: &'static Field, member: &Member) {
        match field.class {
            Class::Honoured => {
                let path = if section.path.is_empty() { String::new() } else { format!("{}.", section.path) };
                self.kind(&field.kind, &member.node, &format!("{path}{}", member.key));
            }
            Class::Advice { reason, instead } => {
                let message = format!("`{}` has no effect: {reason}", member.key);
                self.problems.push(Problem::new(Code::NoEffect, member.key_span, message).hint(instead));
            }
            Class::Metadata => {}
        }
    }

    /// Two spellings of one key must agree.
    fn aliases(&mut self, section: &Section, object: &Object) {
        for field in section.fields.iter().filter(|field| field.keys.len() > 1) {
            let found: Vec<_> = field.keys.iter().filter_map(|key| object.member(key)).collect();
            let Some((first, others)) = found.split_first() else { continue };
            for other in others {
                if other.node.to_json() == first.node.to_json() {
                    let message = format!("`{}` duplicates `{}`", other.key, first.key);
                    let hint = "keep one of the two spellings";
                    self.problems.push(Problem::new(Code::NoEffect, other.key_span, message).hint(hint));
                } else {
                    let message = format!(
                        "`{}` and `{}` are one setting and have different values",
                        first.key, other.key
                    );
                    let hint = format!("keep `{}`", first.key);
                    self.problems.push(Problem::new(Code::Conflict, other.key_span, message).hint(hint));
                }
            }
        }
    }

    /// A setting of an inner section may be written beside that section; in both places it must be the same.
    fn beside(&mut self, section: &Section, object: &Object) {
        let Some(borrowed) = section.shorthand else { return };
        let holder = section.fields.iter().find(|field| field.kind.holds(borrowed));
        let own = holder.and_then(|field| object.get(field.name()));
        let Some(own) = own.and_then(Node::as_object) else { return };
        for field in borrowed.fields.iter().filter(|field| field.is_honoured()) {
            let written = |object: &Object| field.keys.iter().find_map(|key| object.member(key)).cloned();
            let (Some(inside), Some(beside)) = (written(own), written(object)) else { continue };
            // An argument goes over what the file says.
            let one_layer = inside.node.span.is_argument() == beside.node.span.is_argument();
            if one_layer && inside.node.to_json() != beside.node.to_json() {
                let (outer, inner) = (format!("{}.{}", section.path, beside.key), inside.key);
                let inner = format!("{}.{inner}", borrowed.path);
                let message = format!("`{outer}` and `{inner}` are one setting and have different values");
                let hint = format!("keep `{inner}`");
                self.problems.push(Problem::new(Code::Conflict, beside.key_span, message).hint(hint));
            }
        }
    }

    fn unknown(&mut self, section: &Section, member: &Member) {
        let key = &member.key;
        let guesses = self.guesses > 0;
        self.guesses = self.guesses.saturating_sub(1);
        if is_secret_key(key) && member.node.as_text().is_some_and(|text| !text.is_empty()) {
            let message =
                format!("`{key}` holds a secret, and everybody who reads the manifest would have it");
            let hint = "remove it, and change the secret if anybody has seen it; the worker takes tokens from the \
                        environment, such as HF_TOKEN, or from `hf auth login`";
            return self.problems.push(Problem::new(Code::Credentials, member.key_span, message).hint(hint));
        }
        match section.unknown {
            Unknown::Refuse => {
                let message = format!("`{key}` is not a key of {}", title(section));
                let names = section.fields.iter().flat_map(|field| field.keys).copied();
                let hint = elsewhere(section, member)
                    .or_else(|| foreign::key(key))
                    .or_else(|| did_you_mean(key, names.filter(|_| guesses)))
                    .unwrap_or_else(|| "remove it, or begin it with `_` to keep it as a comment".to_owned());
                self.problems.push(Problem::new(Code::UnknownKey, member.key_span, message).hint(hint));
            }
            Unknown::Keep => {
                let names = section.honoured_names().filter(|_| guesses);
                let near = || {
                    closest(key, names).map(|near| format!("did you mean `{near}`? else begin it with `_`"))
                };
                let hint = elsewhere(section, member).or_else(|| foreign::counterpart(key)).or_else(near);
                if let Some(hint) = hint {
                    let message = format!("`{key}` is kept as metadata and has no effect");
                    self.problems.push(Problem::new(Code::LikelyTypo, member.key_span, message).hint(hint));
                }
            }
        }
    }

    fn integer(&mut self, number: f64, min: i64, max: i64, kind: &Kind, node: &Node, name: &str) {
        if number.fract() != 0.0 {
            self.wrong_type(kind, node, name);
        } else if number < min as f64 || number > max as f64 {
            self.range(kind, node, name);
        }
    }

    fn range(&mut self, kind: &Kind, node: &Node, name: &str) {
        let too_large =
            matches!((kind, &node.value), (Kind::Integer { max: LARGEST, .. }, Value::Number(n)) if *n > 0.0);
        let expected = if too_large { format!("a whole number up to {LARGEST}") } else { kind.describe() };
        let message = format!("`{name}` is {}, which is out of range", shown(node));
        self.problems
            .push(Problem::new(Code::OutOfRange, node.span, message).hint(format!("write {expected}")));
    }

    fn word(&mut self, words: &[&str], text: &str, node: &Node, name: &str) {
        let message = format!("invalid value {} for `{name}`", shown(node));
        let hint = if name.ends_with("config.method") || name == "training.method" {
            "only `sft` (supervised fine-tuning) is supported".to_owned()
        } else {
            foreign::value(name, text).unwrap_or_else(|| one_of(text, words))
        };
        self.problems.push(Problem::new(Code::UnknownWord, node.span, message).hint(hint));
    }

    fn wrong_type(&mut self, kind: &Kind, node: &Node, name: &str) {
        let found = match &node.value {
            Value::Number(_) => format!("the number {}", shown(node)),
            Value::Text(_) => format!("the text {}", shown(node)),
            Value::Bool(_) => shown(node),
            _ => node.type_name().to_owned(),
        };
        let subject = if name.is_empty() { "the manifest".to_owned() } else { format!("`{name}`") };
        let message = format!("{subject} is {found}, expected {}", kind.describe());
        let code = if name.is_empty() { Code::NotAnObject } else { Code::WrongType };
        let is_data = name.starts_with("training.dataset") && name.ends_with("path");
        let hint = match &node.value {
            Value::List(_) if is_data => Some(SEVERAL_FILES.to_owned()),
            _ if self.hints => retyped(kind, node),
            _ => None,
        };
        self.problems.push(
            Problem::new(code, node.span, message)
                .hint(hint.unwrap_or_else(|| format!("write {}", kind.describe()))),
        );
    }
}

/// For a list of files where one path is expected.
const SEVERAL_FILES: &str = "name the folder that holds the files, a pattern such as \"datasets/part-*.jsonl\", or \
                             each file in `training.dataset.tasks`";

/// The place at which a key and its value have an effect, for one that is written in `section`.
fn elsewhere(section: &Section, member: &Member) -> Option<String> {
    let (path, field) = places::of_key(&member.key)?;
    let of_base = path.strip_prefix(CONFIG.path).filter(|_| section.path == BASE_MODEL.path);
    let path = of_base.map_or_else(|| path.clone(), |key| format!("{}.overrides{key}", section.path));
    let mut problems = Vec::new();
    Checker { problems: &mut problems, hints: false, guesses: 0 }.kind(&field.kind, &member.node, &path);
    let at = if path.contains('.') { "" } else { " at the top of the manifest" };
    let hint = format!("it has an effect as `{path}`{at}: move it there, or begin it with `_`");
    problems.is_empty().then_some(hint)
}

/// A value in quotes or brackets that would be right without them, or the other way round.
fn retyped(kind: &Kind, node: &Node) -> Option<String> {
    let candidate = match &node.value {
        Value::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Value::Bool(true),
            "false" | "no" | "off" => Value::Bool(false),
            "null" | "none" => Value::Null,
            text => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map_or(Value::Null, Value::Number)
            }
        },
        Value::Number(number) if [0.0, 1.0].contains(number) => Value::Bool(*number > 0.0),
        _ => Value::Null,
    };
    let bare = Node { span: node.span, value: candidate };
    let accepts = |value: &Node| {
        let mut problems = Vec::new();
        Checker { problems: &mut problems, hints: false, guesses: 0 }.kind(kind, value, "value");
        problems.is_empty()
    };
    if node.value != bare.value && !bare.is_null() && accepts(&bare) {
        let how = if node.as_text().is_some() { " without quotes" } else { "" };
        return Some(format!("write {}{how}", bare.to_json()));
    }
    let quoted = Node { span: node.span, value: Value::Text(shown(node).trim_matches('"').to_owned()) };
    if matches!(node.value, Value::Number(_) | Value::Bool(_)) && accepts(&quoted) {
        return Some(format!("write \"{}\"", shown(node)));
    }
    let items = items(node);
    let in_list = if node.as_object().is_some() { "{...}".to_owned() } else { joined(&items) };
    let listed = Node { span: node.span, value: Value::List(items) };
    accepts(&listed).then(|| format!("write [{in_list}]"))
}

/// What a list in place of this value would hold: a text may be a list as a shell or YAML writes it, `[a, b]` or `a,b`.
fn items(node: &Node) -> Vec<Node> {
    let text = |word: &str| Node { span: node.span, value: Value::Text(word.to_owned()) };
    let Some(words) = node.as_text().filter(|words| words.contains([',', '['])) else {
        return vec![node.clone()];
    };
    let words = words.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    words
        .map(|word| word.trim().trim_matches(['"', '\'']))
        .filter(|word| !word.is_empty())
        .map(text)
        .collect()
}

fn joined(items: &[Node]) -> String {
    items.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Whether a value has the JSON type that `kind` speaks of.
fn fits(kind: &Kind, node: &Node) -> bool {
    match (kind, &node.value) {
        (Kind::Any, _)
        | (Kind::Null, Value::Null)
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Text | Kind::Word(_), Value::Text(_))
        | (Kind::Integer { .. } | Kind::Number(_), Value::Number(_))
        | (Kind::List(_), Value::List(_))
        | (Kind::Map(_) | Kind::Object(_), Value::Object(_)) => true,
        (Kind::Object(section), Value::Text(_)) => section.text_key.is_some(),
        (Kind::OneOf(kinds), _) => kinds.iter().any(|kind| fits(kind, node)),
        _ => false,
    }
}

/// A short value as it reads in a message.
fn shown(node: &Node) -> String {
    let text = match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        _ => node.to_json().to_string(),
    };
    if text.chars().count() > 60 { format!("{}…", text.chars().take(59).collect::<String>()) } else { text }
}

fn title(section: &Section) -> String {
    if section.path.is_empty() { "the manifest".to_owned() } else { section.path.to_owned() }
}
