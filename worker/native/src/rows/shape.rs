//! From a row to the dialogue that it is, whatever shape it was written in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::dialogue;
use super::value::{Object, Value};
use crate::problem::Fault;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<'a> {
    pub role: Cow<'a, str>,
    pub content: Cow<'a, str>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shaped<'a> {
    /// Learned as it stands.
    Text(Cow<'a, str>),
    /// Plain messages.
    Turns(Vec<Turn<'a>>),
    /// Messages with more than role and content, or with tools: rendered by the template from the values themselves.
    Rich { messages: Vec<Value<'a>>, tools: Option<Value<'a>> },
}

/// How rows are read.
#[derive(Debug, Clone, Default)]
pub struct Shaper {
    /// Canonical field -> dotted path in the row.
    pub mapping: BTreeMap<String, String>,
    /// Parse a text that is itself a rendered dialogue.
    pub parse_dialogue: bool,
}

type Shape<'a> = Result<Shaped<'a>, Fault>;

impl Shaper {
    pub fn shape<'a>(&self, row: &'a Value<'_>) -> Shape<'a> {
        let Value::Object(row) = row else {
            return Err(Fault::new("not_object", format!("the row is {}, not an object", row.kind())));
        };
        let row = row.borrowed();
        if self.mapping.is_empty() { self.recognise(&row) } else { self.recognise(&self.mapped(&row)?) }
    }

    /// The row under its canonical names; unmapped fields are dropped, unless they have a canonical name.
    fn mapped<'a>(&self, row: &Object<'a>) -> Result<Object<'a>, Fault> {
        let mut out = Object::default();
        for (name, path) in &self.mapping {
            match row.path(path) {
                Some(value) => out.0.push((Cow::Owned(name.clone()), value.clone())),
                None if matches!(name.as_str(), "input" | "system" | "tools") => {}
                None => {
                    let message =
                        format!("the row has no field {path:?}, to which field_mapping sends {name:?}");
                    return Err(Fault::new("missing_field", message));
                }
            }
        }
        Ok(out)
    }

    fn recognise<'a>(&self, row: &Object<'a>) -> Shape<'a> {
        if let Some(messages) = row.present("messages").or_else(|| row.present("conversations")) {
            return messages_row(messages, row);
        }
        if row.present("prompt").is_some() && row.get("completion").is_some() {
            return completion_row(row);
        }
        if row.present("instruction").is_some() {
            return instruction_row(row, "instruction");
        }
        if matches!(row.get("input"), Some(Value::Object(_))) {
            return task_row(row);
        }
        if let Some(text) = row.get("text") {
            return self.text_row(text.clone());
        }
        if row.present("input").is_some() && answer(row).is_some() {
            return instruction_row(row, "input");
        }
        if row.present("prompt").is_some() && answer(row).is_some() {
            return instruction_row(row, "prompt");
        }
        Err(unknown(row))
    }

    fn text_row<'a>(&self, value: Value<'a>) -> Shape<'a> {
        let Value::Text(text) = value else {
            return Err(wrong("text", "text", &value));
        };
        if text.trim().is_empty() {
            return Err(Fault::new("empty_text", "the field \"text\" is empty"));
        }
        if self.parse_dialogue
            && let Some(turns) = dialogue::parse(&text)
        {
            return Ok(Shaped::Turns(turns));
        }
        Ok(Shaped::Text(text))
    }
}

fn unknown(row: &Object<'_>) -> Fault {
    let keys: Vec<_> = row.0.iter().take(12).map(|(key, _)| format!("{key:?}")).collect();
    let message = format!(
        "none of the known shapes (text; messages; prompt + completion; instruction + output; task + input + output) fits its fields {}: name them with field_mapping",
        keys.join(", ")
    );
    Fault::new("unknown_shape", message)
}

fn wrong(field: &str, wanted: &str, value: &Value<'_>) -> Fault {
    Fault::new("wrong_type", format!("the field {field:?} is {}, not {wanted}", value.kind()))
}

fn string<'a>(row: &Object<'a>, field: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    match row.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(field, "text", other)),
    }
}

const ANSWERS: [&str; 4] = ["output", "response", "completion", "answer"];

fn answer(row: &Object<'_>) -> Option<&'static str> {
    ANSWERS.into_iter().find(|name| row.get(name).is_some())
}

/// The learned side of a row: text, or JSON written out where the row holds a value.
fn answer_text<'a>(row: &Object<'a>) -> Result<Cow<'a, str>, Fault> {
    let Some(name) = answer(row) else {
        return Err(Fault::new(
            "missing_field",
            "the row has no \"output\" (nor \"response\", \"completion\", \"answer\")",
        ));
    };
    let text = match row.get(name) {
        Some(Value::Text(text)) => text.clone(),
        Some(value @ (Value::Object(_) | Value::List(_))) => Cow::Owned(value.as_words().into_owned()),
        Some(other) => return Err(wrong(name, "text", other)),
        None => Cow::Borrowed(""),
    };
    if text.trim().is_empty() {
        return Err(Fault::new(
            "empty_completion",
            format!("the field {name:?} is empty: there is nothing to learn from the row"),
        ));
    }
    Ok(text)
}

fn turns<'a>(system: Option<Cow<'a, str>>, user: Cow<'a, str>, answer: Cow<'a, str>) -> Shaped<'a> {
    let mut turns = Vec::with_capacity(3);
    if let Some(content) = system.filter(|text| !text.is_empty()) {
        turns.push(Turn { role: "system".into(), content });
    }
    turns.push(Turn { role: "user".into(), content: user });
    turns.push(Turn { role: "assistant".into(), content: answer });
    Shaped::Turns(turns)
}

fn completion_row<'a>(row: &Object<'a>) -> Shape<'a> {
    match (row.get("prompt"), row.get("completion")) {
        (Some(Value::List(prompt)), Some(Value::List(completion))) => {
            let all: Vec<_> = prompt.iter().chain(completion).cloned().collect();
            messages_row(&Value::List(all), row)
        }
        (Some(Value::Text(prompt)), Some(_)) => {
            Ok(turns(string(row, "system")?, prompt.clone(), answer_text(&only(row, "completion"))?))
        }
        (Some(other), _) => Err(wrong("prompt", "text or messages", other)),
        (None, _) => Err(unknown(row)),
    }
}

fn only<'a>(row: &Object<'a>, field: &str) -> Object<'a> {
    Object(row.0.iter().filter(|(name, _)| name == field).cloned().collect())
}

fn instruction_row<'a>(row: &Object<'a>, asked: &str) -> Shape<'a> {
    let question = string(row, asked)?.unwrap_or_default();
    let context = if asked == "input" { None } else { row.present("input") };
    let user = match context {
        None => question,
        Some(Value::Object(fields)) => Cow::Owned(joined(Some(&question), fields)),
        Some(value) if value.as_words().is_empty() => question,
        Some(value) => Cow::Owned(format!("{question}\n\n{}", value.as_words())),
    };
    Ok(turns(string(row, "system")?, user, answer_text(row)?))
}

fn task_row<'a>(row: &Object<'a>) -> Shape<'a> {
    let Some(Value::Object(fields)) = row.get("input") else { return Err(unknown(row)) };
    let instruction = string(fields, "instruction")?;
    let rest = Object(fields.0.iter().filter(|(name, _)| name != "instruction").cloned().collect());
    if rest.0.is_empty() && instruction.is_none() {
        return Err(Fault::new("missing_field", "the field \"input\" is empty"));
    }
    let user = Cow::Owned(joined(instruction.as_deref(), &rest));
    Ok(turns(string(row, "system")?, user, answer_text(row)?))
}

/// An instruction, a blank line, and the fields: a single one bare, several each under its name.
fn joined(instruction: Option<&str>, fields: &Object<'_>) -> String {
    let present: Vec<_> = fields.0.iter().filter(|(_, value)| !matches!(value, Value::Null)).collect();
    let parts = present.iter().map(|(name, value)| match present.len() {
        1 => value.as_words().into_owned(),
        _ => format!("{name}:\n{}", value.as_words()),
    });
    instruction.map(str::to_owned).into_iter().chain(parts).collect::<Vec<_>>().join("\n\n")
}

fn messages_row<'a>(messages: &Value<'a>, row: &Object<'a>) -> Shape<'a> {
    let Value::List(messages) = messages else { return Err(wrong("messages", "a list", messages)) };
    let turns =
        messages.iter().enumerate().map(|(at, message)| turn(at, message)).collect::<Result<Vec<_>, _>>()?;
    let Some(last) =
        turns.iter().rev().find_map(|turn| turn.as_ref().filter(|turn| turn.role == "assistant"))
    else {
        return no_assistant(messages);
    };
    if last.content.trim().is_empty() && !has_more(messages) {
        return Err(Fault::new(
            "empty_completion",
            "the last assistant message is empty: there is nothing to learn from the row",
        ));
    }
    let tools = row.present("tools").cloned();
    if tools.is_some() || turns.iter().any(Option::is_none) || has_more(messages) {
        return Ok(Shaped::Rich { messages: messages.iter().map(renamed).collect(), tools });
    }
    Ok(Shaped::Turns(turns.into_iter().flatten().collect()))
}

fn no_assistant<'a>(messages: &[Value<'a>]) -> Shape<'a> {
    let rich = messages
        .iter()
        .any(|message| matches!(message, Value::Object(object) if object.get("tool_calls").is_some()));
    if rich {
        return Ok(Shaped::Rich { messages: messages.iter().map(renamed).collect(), tools: None });
    }
    Err(Fault::new("no_assistant", "the row has no assistant message: there is nothing to learn from it"))
}

/// Whether a message says more than who speaks and what.
fn has_more(messages: &[Value<'_>]) -> bool {
    let plain = |key: &str| matches!(key, "role" | "content" | "from" | "value");
    messages.iter().any(|message| {
        matches!(message, Value::Object(object) if object.0.iter().any(|(key, value)| !plain(key) && *value != Value::Null))
    })
}

/// Role and content of a message; none where its content is not plain text.
fn turn<'a>(at: usize, message: &Value<'a>) -> Result<Option<Turn<'a>>, Fault> {
    let Value::Object(object) = message else {
        return Err(Fault::new(
            "wrong_type",
            format!("message {} is {}, not an object", at + 1, message.kind()),
        ));
    };
    let field = |modern: &str, old: &str| object.get(modern).or_else(|| object.get(old)).cloned();
    let role = match field("role", "from") {
        Some(Value::Text(role)) => known_role(role),
        Some(other) => return Err(wrong("role", "text", &other)),
        None => return Err(Fault::new("missing_field", format!("message {} has no \"role\"", at + 1))),
    };
    match field("content", "value") {
        Some(Value::Text(content)) => Ok(Some(Turn { role, content })),
        Some(Value::List(_)) => Ok(None),
        None | Some(Value::Null) if object.present("tool_calls").is_some() => Ok(None),
        Some(other) => Err(wrong("content", "text", &other)),
        None => Err(Fault::new("missing_field", format!("message {} has no \"content\"", at + 1))),
    }
}

/// ShareGPT's names for the roles, in today's words.
fn known_role(role: Cow<'_, str>) -> Cow<'_, str> {
    match role.as_ref() {
        "human" => Cow::Borrowed("user"),
        "gpt" | "model" | "bot" => Cow::Borrowed("assistant"),
        _ => role,
    }
}

fn renamed<'a>(message: &Value<'a>) -> Value<'a> {
    let Value::Object(object) = message else { return message.clone() };
    let entry = |(key, value): &(Cow<'a, str>, Value<'a>)| match (key.as_ref(), value) {
        ("from" | "role", Value::Text(role)) => {
            (Cow::Borrowed("role"), Value::Text(known_role(role.clone())))
        }
        ("value", value) => (Cow::Borrowed("content"), value.clone()),
        _ => (key.clone(), value.clone()),
    };
    Value::Object(Object(object.0.iter().map(entry).collect()))
}
