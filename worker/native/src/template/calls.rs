//! The forms in which messages that call tools are given to a template.

use std::borrow::Cow;

use super::engine::FAILED;
use crate::problem::Fault;
use crate::rows::{Object, Value};

#[derive(Clone, Copy)]
struct Form {
    /// Arguments that are JSON in a text become an object.
    parsed: bool,
    /// A message without content has an empty one.
    empty_content: bool,
}

/// In the order of preference.
const FORMS: [Form; 4] = [
    Form { parsed: true, empty_content: false },
    Form { parsed: true, empty_content: true },
    Form { parsed: false, empty_content: false },
    Form { parsed: false, empty_content: true },
];

/// Templates differ in what they expect of a message that calls tools: arguments as an object or as JSON in a text, no
/// content or an empty one. The first form that the template renders is taken.
pub fn in_any_form<T>(
    messages: &[Value<'_>],
    mut render: impl FnMut(&[Value<'_>]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    if !any(messages) {
        return render(messages);
    }
    let mut first = None;
    for form in FORMS {
        match render(&written(messages, form)) {
            Err(fault) if fault.code == FAILED => {
                first.get_or_insert(fault);
            }
            other => return other,
        }
    }
    Err(first.unwrap_or_else(|| {
        Fault::new(FAILED, "the chat template renders no form of the row's calls of tools")
    }))
}

fn any(messages: &[Value<'_>]) -> bool {
    messages
        .iter()
        .any(|message| matches!(message, Value::Object(object) if object.present("tool_calls").is_some()))
}

fn written<'m>(messages: &'m [Value<'_>], form: Form) -> Vec<Value<'m>> {
    messages.iter().map(|message| message_in(message, form)).collect()
}

fn message_in<'m>(message: &'m Value<'_>, form: Form) -> Value<'m> {
    let Value::Object(object) = message else { return message.borrowed() };
    let entry = |(key, value): &'m (Cow<'_, str>, Value<'_>)| {
        let value = match (key.as_ref(), value) {
            ("content", Value::Null) if form.empty_content => Value::Text("".into()),
            ("tool_calls", Value::List(calls)) if form.parsed => {
                Value::List(calls.iter().map(parsed).collect())
            }
            _ => value.borrowed(),
        };
        (Cow::Borrowed(key.as_ref()), value)
    };
    Value::Object(Object(object.0.iter().map(entry).collect()))
}

/// A call whose arguments are an object, where they can be one; on any level, as `function` stands between.
fn parsed<'m>(call: &'m Value<'_>) -> Value<'m> {
    let Value::Object(object) = call else { return call.borrowed() };
    let entry = |(key, value): &'m (Cow<'_, str>, Value<'_>)| {
        let value = match (key.as_ref(), value) {
            ("arguments", Value::Text(text)) => match Value::parse(text) {
                Ok(arguments @ Value::Object(_)) => arguments,
                _ => value.borrowed(),
            },
            ("function", Value::Object(_)) => parsed(value),
            _ => value.borrowed(),
        };
        (Cow::Borrowed(key.as_ref()), value)
    };
    Value::Object(Object(object.0.iter().map(entry).collect()))
}
