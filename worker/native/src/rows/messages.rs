//! A list of messages: whose they are, what they say, and what a chat template must know to render them.

use std::borrow::Cow;

use super::fields::{self, short, system_of, wrong};
use super::row::{Shape, Shaped, Shaper, TrainOn, Turn};
use super::value::{Object, Value};
use crate::problem::Fault;

/// What says of an answer whether it is learned: `weight` in OpenAI's fine-tuning files, `train` in Axolotl's, `loss` in
/// ms-swift's.
const FLAGS: [&str; 3] = ["weight", "train", "loss"];
/// Of a flag that asks to learn an answer that is not learned, in the names of unused fields.
const NOT_LEARNED: &str = " of earlier answers";
const PLAIN: [&str; 4] = ["role", "content", "from", "value"];
/// What a template must know, and what a row means that has it.
const CALLS: [(&str, &str); 2] = [("tool_calls", "calls tools"), ("function_call", "calls a function")];

impl Shaper {
    /// Names what is left out in `unused`.
    pub(super) fn messages<'a>(
        &self,
        messages: Vec<Value<'a>>,
        row: &Object<'a>,
        unused: &mut Vec<String>,
    ) -> Shape<'a> {
        let mut out = Vec::with_capacity(messages.len() + 1);
        let first = messages.first().and_then(role_of).map(|role| known_role(role.into()));
        let told = first.is_some_and(|role| role == "system" || role == "developer");
        match system_of(row)?.filter(|text| !text.trim().is_empty()) {
            Some(system) if !told => out.push(entry("system", system)),
            // The dialogue has its own.
            Some(system) if messages.first().map(content) != Some(system.as_ref()) => {
                unused.extend(fields::first(row, fields::SYSTEMS).map(str::to_owned));
            }
            _ => {}
        }
        self.refuse_media(&messages, row)?;
        let mut unlearned = Vec::new();
        let last = messages.iter().rposition(|message| is_answer(message) && flag_of(message) != Some(false));
        for (at, message) in messages.into_iter().enumerate() {
            if is_answer(&message) && flag_of(&message) == Some(false) {
                self.refuse_flag(at, &message)?;
                unlearned.push(out.len());
            }
            let is_learned = match self.train_on {
                TrainOn::All => true,
                TrainOn::Assistant => is_answer(&message),
                TrainOn::Completions => Some(at) == last,
            };
            out.push(self.message(at, message, is_learned, unused)?);
        }
        let tools = self.tools(row)?;
        let Some(answer) = last_learned(&out, &unlearned) else {
            return Err(if unlearned.is_empty() { no_assistant(&out) } else { nothing_learned() });
        };
        // A call of tools or thoughts are something to learn.
        if !has_more(&out[answer]) && content(&out[answer]).trim().is_empty() {
            return Err(Fault::new(
                "empty_completion",
                "the last assistant message is empty: there is nothing to learn from the row",
            ));
        }
        if tools.is_some() || out.iter().any(has_more) {
            return Ok(Shaped::Rich { messages: out, tools, unlearned });
        }
        let mut turns: Vec<Turn<'_>> = out.into_iter().filter_map(plain).collect();
        for at in unlearned {
            turns[at].unlearned = true;
        }
        Ok(Shaped::Turns(turns))
    }

    /// Where every token is learned, an answer cannot be left out.
    fn refuse_flag(&self, at: usize, message: &Value<'_>) -> Result<(), Fault> {
        if self.train_on != TrainOn::All {
            return Ok(());
        }
        let name = flags_of(message).find(|(_, yes)| !yes).map_or("weight", |(name, _)| name);
        let message = format!(
            "message {} has {name:?} 0 or false, so it is not to be learned, and \"train_on\": \"all\" learns every token",
            at + 1
        );
        Err(Fault::new("weighted_message", message)
            .hint("learn the other answers; set in training.dataset: \"train_on\": \"assistant\""))
    }

    /// A mapping that names the messages asks for their text alone.
    fn refuse_media(&self, messages: &[Value<'_>], row: &Object<'_>) -> Result<(), Fault> {
        if !self.mapping.is_empty() {
            return Ok(());
        }
        let read =
            fields::first(row, fields::DIALOGUES).map_or(vec!["prompt", "completion"], |name| vec![name]);
        for (at, message) in messages.iter().enumerate() {
            let Value::Object(object) = message else { continue };
            if let Some((name, _)) = object.0.iter().find(|(name, value)| fields::is_media(name, value)) {
                return Err(fields::media(row, &format!("message {}", at + 1), name, &read));
            }
        }
        Ok(())
    }

    /// A message under today's names, its parts joined, without what the template does not look at.
    fn message<'a>(
        &self,
        at: usize,
        message: Value<'a>,
        is_learned: bool,
        unused: &mut Vec<String>,
    ) -> Result<Value<'a>, Fault> {
        let is_answer = is_answer(&message);
        let Value::Object(object) = message else {
            let message = format!("message {} is {}, not an object", at + 1, message.kind());
            return Err(Fault::new("wrong_type", message));
        };
        let role = match object.get("role").or_else(|| object.get("from")) {
            Some(Value::Text(role)) if is_call(role) => return self.call(at, role, &object),
            Some(Value::Text(role)) => known_role(role.clone()),
            Some(other) => return Err(wrong("role", "text", other)),
            None => return Err(Fault::new("missing_field", format!("message {} has no \"role\"", at + 1))),
        };
        for (key, does) in CALLS {
            if object.present(key).is_some_and(|value| !is_empty(value)) && !self.knows(key) {
                return Err(unknown_to_template(does, key));
            }
        }
        let calls = CALLS.iter().any(|(key, _)| object.present(key).is_some_and(|value| !is_empty(value)));
        let said = match object.get("content").or_else(|| object.get("value")) {
            Some(Value::Text(content)) => Value::Text(content.clone()),
            Some(Value::List(parts)) => Value::Text(joined(at, parts)?),
            None | Some(Value::Null) if calls => Value::Null,
            Some(other) => return Err(wrong("content", "text", other)),
            None => {
                return Err(Fault::new("missing_field", format!("message {} has no \"content\"", at + 1)));
            }
        };
        let mut out = vec![("role".into(), Value::Text(role)), ("content".into(), said)];
        for (key, value) in object.0 {
            if PLAIN.contains(&key.as_ref()) || value == Value::Null || is_empty(&value) {
                continue;
            }
            if FLAGS.contains(&key.as_ref()) {
                // Never for the template: a flag must not change the text.
                match flag(&value) {
                    Some(yes) if !yes || is_learned => {}
                    Some(_) if is_answer => note(unused, format!("messages.{key}{NOT_LEARNED}")),
                    _ => note(unused, format!("messages.{key}")),
                }
                continue;
            }
            if self.knows(&key) {
                value.readable()?;
                out.push((key, value));
            } else {
                note(unused, format!("messages.{}", short(&key)));
            }
        }
        Ok(Value::Object(Object(out)))
    }

    /// A turn that calls tools, as ShareGPT and ms-swift write it: the answer's text is the call, or a list of calls.
    fn call<'a>(&self, at: usize, role: &str, object: &Object<'a>) -> Result<Value<'a>, Fault> {
        if !self.knows("tool_calls") {
            return Err(unknown_to_template("calls tools", role));
        }
        let said = object.get("content").or_else(|| object.get("value"));
        let calls = match said.and_then(Value::text).map(Value::parse) {
            Some(Ok(Value::List(calls))) => calls,
            Some(Ok(call)) => vec![call],
            _ => Vec::new(),
        };
        let is_named = |call: &Value<'_>| matches!(call, Value::Object(call) if call.get("name").and_then(Value::text).is_some());
        if calls.is_empty() || !calls.iter().all(is_named) {
            let message = format!(
                "message {} is a {role:?} whose text is not a call, as {{\"name\": ..., \"arguments\": {{...}}}}",
                at + 1
            );
            return Err(Fault::new("wrong_type", message));
        }
        let calls = calls.into_iter().map(|call| {
            let kind = ("type".into(), Value::Text("function".into()));
            Value::Object(Object(vec![kind, ("function".into(), call.into_owned())]))
        });
        Ok(Value::Object(Object(vec![
            ("role".into(), Value::Text("assistant".into())),
            ("content".into(), Value::Null),
            ("tool_calls".into(), Value::List(calls.collect())),
        ])))
    }

    /// The tools that the row offers: a list, or the same as JSON in a text.
    fn tools<'a>(&self, row: &Object<'a>) -> Result<Option<Value<'a>>, Fault> {
        let tools = match row.present("tools") {
            None => return Ok(None),
            Some(Value::Text(Cow::Borrowed(text))) if !text.trim().is_empty() => Value::parse(text)
                .map_err(|_| Fault::new("wrong_type", "the field \"tools\" is a text that is not JSON"))?,
            Some(tools) => tools.readable()?.clone(),
        };
        if is_empty(&tools) {
            return Ok(None);
        }
        if self.knows("tools") {
            return Ok(Some(tools));
        }
        let line =
            fields::mapping(&[("messages", fields::first(row, fields::DIALOGUES).unwrap_or("messages"))]);
        let message = "the row offers \"tools\", which the chat template of this base does not render";
        Err(Fault::new("tools_unknown", message).hint(format!(
            "choose a base or prompt_template that renders tools, or leave them out; add to training.dataset: {line}"
        )))
    }

    /// Whether the chat template looks at such a key.
    fn knows(&self, key: &str) -> bool {
        self.whole_messages || self.template_words.contains(key)
    }
}

fn unknown_to_template(does: &str, key: &str) -> Fault {
    let message = format!("a message {does} ({key:?}), which the chat template of this base does not render");
    Fault::new("tools_unknown", message).hint(
        "choose a base or prompt_template that renders tool calls, or leave such rows out; add to training.dataset: \"on_bad_row\": \"skip\"",
    )
}

/// The words of a template, and whether it may print a message whole.
pub fn template_words(template: &str) -> (std::collections::BTreeSet<String>, bool) {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let words = template.split(|character: char| !is_word(character)).filter(|word| !word.is_empty());
    let dense: String = template.chars().filter(|character| !character.is_whitespace()).collect();
    let whole = [
        "message|",
        "messages|tojson",
        "messages|string",
        "message.items",
        "{{message}}",
        "{{messages}}",
        "inmessage%",
    ];
    (words.map(str::to_owned).collect(), whole.iter().any(|part| dense.contains(part)))
}

/// The texts of content parts, one after the other, as templates that know parts print them.
fn joined<'a>(at: usize, parts: &[Value<'a>]) -> Result<Cow<'a, str>, Fault> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Value::Text(text) => texts.push(text.clone()),
            Value::Object(object) => match (object.get("type").and_then(Value::text), object.get("text")) {
                (None | Some("text" | "input_text" | "output_text"), Some(Value::Text(text))) => {
                    texts.push(text.clone());
                }
                (Some("text"), None | Some(Value::Null)) => {}
                (kind, _) => {
                    let kind = short(kind.unwrap_or("unknown"));
                    let message =
                        format!("message {} has a part of type {kind:?}; only text is learned", at + 1);
                    return Err(Fault::new("not_text", message).hint(
                        "leave such parts out of the rows, or leave the rows out; add to training.dataset: \"on_bad_row\": \"skip\"",
                    ));
                }
            },
            other => return Err(wrong("content", "text or a list of parts", other)),
        }
    }
    Ok(match texts.len() {
        1 => texts.swap_remove(0),
        _ => Cow::Owned(texts.concat()),
    })
}

/// Whether the message says that it is to be learned; no wins.
fn flag_of(message: &Value<'_>) -> Option<bool> {
    flags_of(message).map(|(_, yes)| yes).min()
}

fn flags_of(message: &Value<'_>) -> impl Iterator<Item = (&'static str, bool)> {
    let said = move |name: &'static str| match message {
        Value::Object(message) => message.get(name).and_then(flag).map(|yes| (name, yes)),
        _ => None,
    };
    FLAGS.into_iter().filter_map(said)
}

/// Names a field once.
fn note(unused: &mut Vec<String>, name: String) {
    if !unused.contains(&name) {
        unused.push(name);
    }
}

/// What one of the flags says; None of a number other than 0 and 1.
fn flag(value: &Value<'_>) -> Option<bool> {
    let number = match value {
        Value::Bool(yes) => return Some(*yes),
        Value::Integer(number) => *number as f64,
        Value::Unsigned(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) if text.trim().eq_ignore_ascii_case("true") => 1.0,
        Value::Text(text) if text.trim().eq_ignore_ascii_case("false") => 0.0,
        Value::Text(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    match number {
        0.0 => Some(false),
        1.0 => Some(true),
        _ => None,
    }
}

fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        Value::Text(text) => text.trim().is_empty(),
        Value::Object(object) => object.0.is_empty(),
        _ => false,
    }
}

pub fn entry<'a>(role: impl Into<Cow<'a, str>>, content: Cow<'a, str>) -> Value<'a> {
    Value::Object(Object(vec![
        ("role".into(), Value::Text(role.into())),
        ("content".into(), Value::Text(content)),
    ]))
}

/// The place of the last answer that may be learned.
pub fn last_learned(messages: &[Value<'_>], unlearned: &[usize]) -> Option<usize> {
    messages
        .iter()
        .enumerate()
        .rposition(|(at, message)| role_of(message) == Some("assistant") && !unlearned.contains(&at))
}

pub fn role_of<'m>(message: &'m Value<'_>) -> Option<&'m str> {
    let Value::Object(object) = message else { return None };
    object.get("role").or_else(|| object.get("from")).and_then(Value::text)
}

pub fn content<'m>(message: &'m Value<'_>) -> &'m str {
    let Value::Object(object) = message else { return "" };
    object.get("content").and_then(Value::text).unwrap_or_default()
}

const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Thoughts beside a message's content.
pub fn thoughts<'m>(message: &'m Value<'_>) -> impl Iterator<Item = &'m str> {
    let Value::Object(object) = message else { return None.into_iter().flatten() };
    let texts = THOUGHTS.into_iter().filter_map(|key| object.get(key).and_then(Value::text)).map(str::trim);
    Some(texts.filter(|thought| !thought.is_empty())).into_iter().flatten()
}

/// What a message says: its content, its thoughts and the arguments of its calls.
pub fn said<'m, 'v>(message: &'m Value<'v>) -> Vec<&'m Value<'v>> {
    let Value::Object(message) = message else { return vec![message] };
    let calls = CALLS.into_iter().filter_map(|(key, _)| message.present(key)).flat_map(|calls| match calls {
        Value::List(calls) => calls.as_slice(),
        call => std::slice::from_ref(call),
    });
    let arguments = calls.filter_map(|call| {
        let Value::Object(call) = call else { return None };
        let call = match call.get("function") {
            Some(Value::Object(function)) => function,
            _ => call,
        };
        call.present("arguments")
    });
    ["content", "reasoning_content", "thinking"]
        .into_iter()
        .filter_map(|key| message.present(key))
        .chain(arguments)
        .collect()
}

/// Whether a message says more than who speaks and what.
fn has_more(message: &Value<'_>) -> bool {
    matches!(message, Value::Object(object) if object.0.len() > 2 || object.present("content").is_none())
}

fn plain(message: Value<'_>) -> Option<Turn<'_>> {
    let Value::Object(object) = message else { return None };
    let mut texts = object.0.into_iter().filter_map(|(_, value)| match value {
        Value::Text(text) => Some(text),
        _ => None,
    });
    Some(Turn::new(texts.next()?, texts.next()?))
}

/// Roles, and the names that data sets have for them in any case. Other roles are the template's own.
const ROLES: [(&str, &[&str]); 4] = [
    ("system", &[]),
    ("user", &["human"]),
    ("assistant", &["gpt", "model", "ai", "bot", "chatgpt"]),
    ("tool", &["observation", "tool_response"]),
];
/// Roles of turns that are calls.
const CALL_ROLES: [&str; 2] = ["function_call", "tool_call"];

fn is_answer(message: &Value<'_>) -> bool {
    role_of(message).is_some_and(|role| is_call(role) || known_role(role.into()) == "assistant")
}

fn is_call(role: &str) -> bool {
    CALL_ROLES.iter().any(|name| role.eq_ignore_ascii_case(name))
}

fn known_role(role: Cow<'_, str>) -> Cow<'_, str> {
    let is_called = |name: &&str| role.eq_ignore_ascii_case(name);
    let known = ROLES.iter().find(|(name, others)| is_called(name) || others.iter().any(&is_called));
    known.map_or(role, |(name, _)| Cow::Borrowed(*name))
}

fn nothing_learned() -> Fault {
    let message =
        "no answer of the row is to be learned: each has \"weight\", \"train\" or \"loss\" 0 or false";
    Fault::new("weighted_message", message)
        .hint("leave such rows out; add to training.dataset: \"on_bad_row\": \"skip\"")
}

fn no_assistant(messages: &[Value<'_>]) -> Fault {
    let mut roles: Vec<_> = messages.iter().filter_map(|it| Some(format!("{:?}", role_of(it)?))).collect();
    roles.dedup();
    roles.truncate(8);
    let found =
        if roles.is_empty() { "no messages".to_owned() } else { format!("the roles {}", roles.join(", ")) };
    let message =
        format!("the row has {found}, and none is \"assistant\": there is nothing to learn from it");
    Fault::new("no_assistant", message)
}
