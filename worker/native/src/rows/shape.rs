//! From a row to the dialogue that it is, whatever shape it was written in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::fields::{
    self, ANSWERS, CONTEXTS, DIALOGUES, QUESTIONS, SYSTEMS, first, scalar, short, system_of, words, wrong,
};
use super::row::{Row, Shape, Shaped, Shaper, TrainOn, Turn};
use super::value::{Object, Value};
use super::{dialogue, messages};
use crate::problem::Fault;

/// What a row is, and the fields that were read.
type Recognised<'a> = (Shaped<'a>, Vec<&'static str>);

impl Shaper {
    pub fn new(
        mapping: BTreeMap<String, String>,
        parse_dialogue: bool,
        train_on: TrainOn,
        template: &str,
    ) -> Self {
        let (template_words, whole_messages) = messages::template_words(template);
        Self { mapping, parse_dialogue, template_words, train_on, whole_messages }
    }

    pub fn shape<'a>(&self, row: &'a Value<'_>) -> Shape<'a> {
        self.read(row).map(|row| row.shaped)
    }

    pub fn read<'a>(&self, row: &'a Value<'_>) -> Result<Row<'a>, Fault> {
        let Value::Object(row) = row else {
            return Err(Fault::new("not_object", format!("the row is {}, not an object", row.kind())));
        };
        let own = row.borrowed();
        let mut unused = Vec::new();
        let mapped;
        let row = if self.mapping.is_empty() {
            &own
        } else {
            mapped = self.mapped(&own)?;
            &mapped
        };
        let (shaped, read) = self.recognise(row, &mut unused)?;
        let is_read = |name: &str| read.contains(&name);
        for (name, value) in &own.0 {
            let known = if self.mapping.is_empty() {
                is_read(name)
            } else {
                self.mapping.iter().any(|(to, path)| is_read(to) && reaches(path, name))
            };
            if known || *value == Value::Null {
                continue;
            }
            if self.mapping.is_empty() && fields::is_media(name, value) {
                return Err(fields::media(row, "the row", name, &read));
            }
            unused.push(short(name).to_owned());
        }
        let parsed = matches!(shaped, Shaped::Turns(_)) && read == ["text"];
        Ok(Row { shaped, parsed, unused })
    }

    /// The row under its canonical names; unmapped fields are left out.
    fn mapped<'a>(&self, row: &Object<'a>) -> Result<Object<'a>, Fault> {
        let mut out = Object::default();
        for (name, path) in &self.mapping {
            match row.path(path) {
                Some(value) => out.0.push((Cow::Owned(name.clone()), value.clone())),
                None if is_optional(name) => {}
                None => return Err(no_field(row, name, path)),
            }
        }
        Ok(out)
    }

    fn recognise<'a>(&self, row: &Object<'a>, unused: &mut Vec<String>) -> Result<Recognised<'a>, Fault> {
        if let Some(name) = first(row, DIALOGUES) {
            if is_judged(row) {
                return Err(fields::judged(&[("messages", name)]));
            }
            let shaped = self.messages(messages_of(name, row)?, row, unused)?;
            return Ok((shaped, vec![name, "system", "system_prompt", "tools"]));
        }
        if row.present("chosen").is_some() && row.present("rejected").is_some() {
            return Err(fields::preference(row));
        }
        if row.present("prompt").is_some() && row.get("completion").is_some() {
            refuse_judged(row, "prompt", first(row, CONTEXTS), "completion")?;
            return self.completion_row(row, unused);
        }
        // Where another field asks, an object is what the question is about.
        let asks = QUESTIONS.iter().any(|(name, _)| *name != "input" && row.present(name).is_some());
        if !asks && matches!(row.get("input"), Some(Value::Object(_))) {
            let answer = answer_of("input", row)?;
            if is_judged(row) && answer != LABEL {
                return Err(fields::judged(&[("input", "input"), ("output", answer)]));
            }
            return Ok((task_row(row, answer)?, vec!["input", answer, "system", "system_prompt"]));
        }
        let text = row.get("text");
        let question = question_of(row)?;
        let has_answer = question.is_some() && first(row, ANSWERS).is_some();
        match (text, question) {
            (Some(text), None) => Ok((self.text_row(text, row)?, vec!["text"])),
            (Some(_), Some(question)) if !has_answer => Err(fields::text_with_question(question)),
            (_, Some(question)) => {
                let answer = answer_of(question, row)?;
                let context = first(row, CONTEXTS.into_iter().filter(|name| *name != question));
                refuse_judged(row, question, context, answer)?;
                let shaped = question_row(row, question, context, answer)?;
                let mut read = vec![question, answer, "system", "system_prompt"];
                read.extend(context);
                read.extend(earlier(row).map(|_| HISTORY));
                Ok((shaped, read))
            }
            (None, None) => Err(fields::unknown(row)),
        }
    }

    fn text_row<'a>(&self, value: &Value<'a>, row: &Object<'a>) -> Shape<'a> {
        let Value::Text(text) = value else {
            return Err(wrong("text", "text", value));
        };
        if text.trim().is_empty() {
            return Err(Fault::new("empty_text", "the field \"text\" is empty"));
        }
        if self.parse_dialogue
            && let Some(turns) = dialogue::parse(text)
        {
            return Ok(Shaped::Turns(turns));
        }
        match fields::text_with_answer(row) {
            Some(fault) => Err(fault),
            None => Ok(Shaped::Text(text.clone())),
        }
    }

    fn completion_row<'a>(
        &self,
        row: &Object<'a>,
        unused: &mut Vec<String>,
    ) -> Result<Recognised<'a>, Fault> {
        let (Some(prompt), Some(completion)) = (row.get("prompt"), row.get("completion")) else {
            return Err(fields::unknown(row));
        };
        let is_dialogue =
            |value: &Value<'_>| matches!(value, Value::List(items) if items.first().is_some_and(is_message));
        let mut read = vec!["prompt", "completion", "system", "system_prompt"];
        if !is_dialogue(prompt) && !is_dialogue(completion) {
            let context = first(row, CONTEXTS);
            read.extend(context);
            if row.present("tools").is_none() {
                read.extend(earlier(row).map(|_| HISTORY));
                return Ok((question_row(row, "prompt", context, "completion")?, read));
            }
            let question = messages::entry("user", asked(row, "prompt", context)?);
            let answer = messages::entry("assistant", answer_text(row, "completion")?);
            read.push("tools");
            return Ok((self.messages(vec![question, answer], row, unused)?, read));
        }
        read.push("tools");
        let mut all = Vec::new();
        match prompt {
            Value::List(prompt) => all.extend(prompt.iter().cloned()),
            _ => all.push(messages::entry("user", question_text(row, "prompt")?)),
        }
        match completion {
            Value::List(completion)
                if completion.is_empty() || completion.first().is_some_and(is_message) =>
            {
                all.extend(completion.iter().cloned());
            }
            _ => all.push(messages::entry("assistant", answer_text(row, "completion")?)),
        }
        Ok((self.messages(all, row, unused)?, read))
    }
}

/// Beside an answer, true or false is what somebody thought of it. As the answer it is a class.
const LABEL: &str = "label";

fn is_judged(row: &Object<'_>) -> bool {
    let is_verdict = |text: &str| ["true", "false"].iter().any(|word| text.trim().eq_ignore_ascii_case(word));
    match row.get(LABEL) {
        Some(Value::Bool(_)) => true,
        // As it stands in CSV.
        Some(Value::Text(text)) => is_verdict(text),
        _ => false,
    }
}

fn refuse_judged(row: &Object<'_>, question: &str, context: Option<&str>, answer: &str) -> Result<(), Fault> {
    if answer == LABEL || !is_judged(row) {
        return Ok(());
    }
    let before = first(row, SYSTEMS).into_iter().chain(earlier(row).map(|_| HISTORY));
    let beside = context.into_iter().chain(before).map(|name| (name, name));
    let fields: Vec<_> = [("prompt", question), ("completion", answer)].into_iter().chain(beside).collect();
    Err(fields::judged(&fields))
}

fn is_message(value: &Value<'_>) -> bool {
    matches!(value, Value::Object(object) if object.get("role").is_some() || object.get("from").is_some())
}

/// Whether a dotted path leads into the field `name`.
fn reaches(path: &str, name: &str) -> bool {
    path == name || path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether rows need not have what the field `name` stands for.
fn is_optional(name: &str) -> bool {
    CONTEXTS.contains(&name) || SYSTEMS.contains(&name) || [HISTORY, "tools"].contains(&name)
}

fn no_field(row: &Object<'_>, name: &str, path: &str) -> Fault {
    let keys: Vec<_> = row.0.iter().take(12).map(|(key, _)| format!("{:?}", short(key))).collect();
    let message = format!("the row has no field {path:?}, to which field_mapping sends {name:?}");
    Fault::new("missing_field", message).hint(match keys.len() {
        0 => "leave the row out, or correct field_mapping".to_owned(),
        _ => format!("its fields are {}: correct field_mapping", keys.join(", ")),
    })
}

/// A list of messages, or the same as JSON in a text, as it stands in CSV.
fn messages_of<'a>(name: &str, row: &Object<'a>) -> Result<Vec<Value<'a>>, Fault> {
    match row.get(name) {
        Some(Value::List(messages)) => Ok(messages.clone()),
        Some(Value::Text(Cow::Borrowed(text))) if text.trim_start().starts_with('[') => {
            match Value::parse(text) {
                Ok(Value::List(messages)) => Ok(messages),
                _ => Err(Fault::new("wrong_type", format!("the field {name:?} is a text that is not JSON"))),
            }
        }
        Some(other) => Err(wrong(name, "a list", other)),
        None => Ok(Vec::new()),
    }
}

/// The one field that asks; none where there is none.
fn question_of(row: &Object<'_>) -> Result<Option<&'static str>, Fault> {
    let found: Vec<_> = QUESTIONS.iter().filter(|(name, _)| row.present(name).is_some()).collect();
    // Of an instruction and of every other question, `input` is the context.
    let asked: Vec<_> = match found.len() {
        0 | 1 => found,
        _ => found.into_iter().filter(|(name, _)| *name != "input").collect(),
    };
    match asked[..] {
        [] => Ok(None),
        [(only, _)] => Ok(Some(only)),
        [(one, _), ..] => {
            let answer = first(row, ANSWERS).unwrap_or(asked[1].0);
            let names: Vec<_> = asked.iter().map(|(name, _)| *name).collect();
            Err(fields::many("question", &names, &[("prompt", one), ("completion", answer)]))
        }
    }
}

/// The field that answers the question: the one that usually does, else the only one.
fn answer_of(question: &str, row: &Object<'_>) -> Result<&'static str, Fault> {
    let usual = QUESTIONS.iter().find(|(name, _)| *name == question).map_or(&[][..], |(_, usual)| usual);
    if let Some(name) = first(row, usual.iter().copied()) {
        return Ok(name);
    }
    let found: Vec<_> = ANSWERS.into_iter().filter(|name| row.present(name).is_some()).collect();
    match found[..] {
        [only] => Ok(only),
        [one, ..] => Err(fields::many("answer", &found, &[("prompt", question), ("completion", one)])),
        // A field that is there without a value says which one is missing.
        [] => {
            ANSWERS.into_iter().find(|name| row.get(name).is_some()).ok_or_else(|| no_answer(question, row))
        }
    }
}

fn no_answer(question: &str, row: &Object<'_>) -> Fault {
    let usual = QUESTIONS.iter().find(|(name, _)| *name == question).and_then(|(_, usual)| usual.first());
    let usual = usual.copied().unwrap_or(ANSWERS[0]);
    let others: Vec<_> =
        ANSWERS.iter().filter(|name| **name != usual).map(|name| format!("{name:?}")).collect();
    let message = format!("the row has {question:?} and no {usual:?} (nor {})", others.join(", "));
    let fault = Fault::new("missing_field", message);
    match fields::unknown(row).hint {
        Some(hint) if row.0.len() > 1 => fault.hint(hint),
        _ => fault,
    }
}

fn question_text<'a>(row: &Object<'a>, field: &str) -> Result<Cow<'a, str>, Fault> {
    Ok(words(row, field)?.unwrap_or_default())
}

/// The learned side of a row: text, a number or boolean as written, or JSON where the row holds a list or an object.
fn answer_text<'a>(row: &Object<'a>, name: &str) -> Result<Cow<'a, str>, Fault> {
    let text = match row.get(name) {
        Some(Value::Text(text)) => text.clone(),
        Some(value @ (Value::Object(_) | Value::List(_))) => {
            Cow::Owned(value.readable()?.as_words().into_owned())
        }
        Some(value) => Cow::Owned(scalar(value).ok_or_else(|| wrong(name, "text", value))?),
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

/// What was asked and answered before, as LLaMA-Factory and ms-swift write it beside an instruction.
const HISTORY: &str = "history";

/// Pairs of a question and its answer; None where a field of this name holds something else.
fn earlier<'r, 'a>(row: &'r Object<'a>) -> Option<Vec<[&'r Cow<'a, str>; 2]>> {
    let Some(Value::List(pairs)) = row.present(HISTORY) else { return None };
    let pair = |pair: &'r Value<'a>| match pair {
        Value::List(pair) => match pair.as_slice() {
            [Value::Text(question), Value::Text(answer)] => Some([question, answer]),
            _ => None,
        },
        _ => None,
    };
    pairs.iter().map(pair).collect::<Option<Vec<_>>>().filter(|pairs| !pairs.is_empty())
}

fn turns<'a>(
    system: Option<Cow<'a, str>>,
    earlier: Vec<[&Cow<'a, str>; 2]>,
    user: Cow<'a, str>,
    answer: Cow<'a, str>,
) -> Shaped<'a> {
    let mut turns = Vec::with_capacity(3 + 2 * earlier.len());
    if let Some(content) = system.filter(|text| !text.is_empty()) {
        turns.push(Turn::new("system", content));
    }
    for [question, answer] in earlier {
        turns.push(Turn::new("user", question.clone()));
        turns.push(Turn::new("assistant", answer.clone()));
    }
    turns.push(Turn::new("user", user));
    turns.push(Turn::new("assistant", answer));
    Shaped::Turns(turns)
}

fn question_row<'a>(row: &Object<'a>, question: &str, context: Option<&str>, answer: &str) -> Shape<'a> {
    let earlier = earlier(row).unwrap_or_default();
    Ok(turns(system_of(row)?, earlier, asked(row, question, context)?, answer_text(row, answer)?))
}

/// A question, and below it what it is about.
fn asked<'a>(row: &Object<'a>, question: &str, context: Option<&str>) -> Result<Cow<'a, str>, Fault> {
    let question = question_text(row, question)?;
    let Some(value) = context.and_then(|name| row.present(name)) else { return Ok(question) };
    let about = match value.readable()? {
        Value::Object(fields) => return Ok(Cow::Owned(joined(Some(&question), fields))),
        other => scalar(other).map_or_else(|| other.as_words(), Cow::Owned),
    };
    Ok(if about.is_empty() { question } else { Cow::Owned(format!("{question}\n\n{about}")) })
}

fn task_row<'a>(row: &Object<'a>, answer: &str) -> Shape<'a> {
    let Some(input @ Value::Object(fields)) = row.get("input") else { return Err(fields::unknown(row)) };
    input.readable()?;
    let instruction = words(fields, "instruction")?;
    let rest = Object(fields.0.iter().filter(|(name, _)| name != "instruction").cloned().collect());
    if rest.0.is_empty() && instruction.is_none() {
        return Err(Fault::new("missing_field", "the field \"input\" is empty"));
    }
    let user = Cow::Owned(joined(instruction.as_deref(), &rest));
    Ok(turns(system_of(row)?, Vec::new(), user, answer_text(row, answer)?))
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
