//! The names that fields have in data sets, what they hold as text, and the line of the manifest for fields of other names.

use std::borrow::Cow;

use super::value::{Object, Value};
use crate::problem::Fault;

/// Questions with the answers that usually stand beside them.
pub const QUESTIONS: [(&str, &[&str]); 6] = [
    ("instruction", &["output", "response"]),
    ("prompt", &["completion"]),
    ("question", &["answer"]),
    ("query", &["response"]),
    ("problem", &["solution"]),
    ("input", &["output"]),
];
/// Answers to any question.
pub const ANSWERS: [&str; 7] = ["completion", "output", "response", "answer", "solution", "target", "label"];
/// What a question is about; the first that is there.
pub const CONTEXTS: [&str; 2] = ["input", "context"];
pub const SYSTEMS: [&str; 2] = ["system", "system_prompt"];
pub const DIALOGUES: [&str; 2] = ["messages", "conversations"];

/// Pictures, films and sounds, of which nothing is learned.
const MEDIA: [&str; 6] = ["image", "images", "video", "videos", "audio", "audios"];

/// Beside `text`, these are what is to be learned; words stand before numbers.
const BESIDE_TEXT: [&str; 20] = [
    "completion",
    "output",
    "response",
    "answer",
    "solution",
    "target",
    "label_text",
    "label_name",
    "label",
    "labels",
    "class",
    "category",
    "intent",
    "sentiment",
    "emotion",
    "summary",
    "translation",
    "sql",
    "target_text",
    "highlights",
];

/// Other names of questions and answers in public data sets, to propose a mapping.
const QUESTION_LIKE: [&str; 27] = [
    "text",
    "document",
    "article",
    "dialogue",
    "sentence",
    "source",
    "src",
    "user",
    "human",
    "request",
    "utterance",
    "message",
    "review",
    "title",
    "passage",
    "context",
    "content",
    "body",
    "nl",
    "q",
    "premise",
    "english",
    "en",
    "source_text",
    "input_text",
    "description",
    "task",
];
const ANSWER_LIKE: [&str; 18] = [
    "tgt",
    "gold",
    "reply",
    "assistant",
    "bot",
    "expected",
    "result",
    "code",
    "query",
    "cypher",
    "a",
    "abstract",
    "reference",
    "correct_answer",
    "best_answer",
    "chosen",
    "rationale",
    "ground_truth",
];

pub fn mapping(pairs: &[(&str, &str)]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let pairs: Vec<_> =
        pairs.iter().map(|(name, field)| format!("{}: {}", quoted(name), quoted(field))).collect();
    format!("\"field_mapping\": {{{}}}", pairs.join(", "))
}

fn add(line: &str) -> String {
    format!("add to training.dataset: {line}")
}

/// The first present field of the list.
pub fn first<'n>(row: &Object<'_>, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names.into_iter().find(|name| row.present(name).is_some())
}

/// `text` beside an answer: to learn the text alone would drop the answer.
pub fn text_with_answer(row: &Object<'_>) -> Option<Fault> {
    let answer = first(row, BESIDE_TEXT)?;
    let message =
        format!("the row has \"text\" and {answer:?}: it is not clear whether {answer:?} is to be learned");
    let line = add(&mapping(&[("prompt", "text"), ("completion", answer)]));
    Some(
        Fault::new("text_and_answer", message)
            .hint(format!("{line} (or, to learn the text alone: \"text_field\": \"text\")")),
    )
}

/// A question beside `text`, without an answer.
pub fn text_with_question(question: &str) -> Fault {
    let message =
        format!("the row has {question:?} and \"text\": it is not clear whether \"text\" is the answer");
    let line = add(&mapping(&[("prompt", question), ("completion", "text")]));
    Fault::new("text_and_question", message)
        .hint(format!("{line} (or, to learn the text alone: \"text_field\": \"text\")"))
}

pub fn many(what: &str, found: &[&str], line: &[(&str, &str)]) -> Fault {
    let names: Vec<_> = found.iter().map(|name| format!("{name:?}")).collect();
    let message = format!("the row has more than one {what}: {}", names.join(", "));
    Fault::new("ambiguous_fields", message).hint(format!("{} (or another of them)", add(&mapping(line))))
}

/// Rows for preference training: they learn from a comparison, which supervised training does not.
pub fn preference(row: &Object<'_>) -> Fault {
    let message = "the row compares \"chosen\" with \"rejected\", which preference training needs; here answers are learned";
    let question = first(row, QUESTIONS.map(|(name, _)| name));
    let line = match (row.get("chosen"), question) {
        (Some(Value::List(turns)), Some(question)) if turns.len() == 1 => {
            mapping(&[("prompt", question), ("completion", "chosen")])
        }
        (Some(Value::List(_)), _) => mapping(&[("messages", "chosen")]),
        (_, Some(question)) => mapping(&[("prompt", question), ("completion", "chosen")]),
        _ => "\"text_field\": \"chosen\"".to_owned(),
    };
    Fault::new("preference_rows", message).hint(format!("{}, which learns the chosen answers", add(&line)))
}

/// Whether a field that is not read holds what the question is about.
pub fn is_media(name: &str, value: &Value<'_>) -> bool {
    MEDIA.contains(&name) && !value.is_blank()
}

/// A row that is, or has a message, about a picture, a film or a sound; `read` are the fields of its text.
pub fn media(row: &Object<'_>, what: &str, name: &str, read: &[&str]) -> Fault {
    let message = format!(
        "{what} has {name:?}, and only text is learned: its answer may need what the text does not say"
    );
    let texts: Vec<_> =
        read.iter().filter(|name| row.get(name).is_some()).map(|name| (*name, *name)).collect();
    Fault::new("not_text", message).hint(format!("{}, which learns the text alone", add(&mapping(&texts))))
}

/// A completion with a judgement of it.
pub fn judged(fields: &[(&str, &str)]) -> Fault {
    let message = "the row judges its answer by a true or false \"label\": learning every answer would learn the bad ones too";
    let line = add(&mapping(fields));
    Fault::new("judged_rows", message).hint(format!("leave out the rows with false, then {line}"))
}

/// No known shape fits: proposes which fields are meant.
pub fn unknown(row: &Object<'_>) -> Fault {
    if let Some(name) = null_question(row) {
        // Another field in its place would be wrong for every other row.
        return Fault::new("missing_field", format!("the field {name:?} is null")).hint(format!(
            "skip such rows: {} (or, if another field holds the question, map it to prompt in field_mapping)",
            add("\"on_bad_row\": \"skip\"")
        ));
    }
    let keys: Vec<_> = row.0.iter().take(12).map(|(key, _)| format!("{:?}", short(key))).collect();
    let message = match keys.len() {
        0 => "the row has no fields".to_owned(),
        _ => format!("no known shape fits the fields {}", keys.join(", ")),
    };
    let values = row.0.iter().filter(|(key, _)| is_sentence(key)).count();
    if values * 2 > row.0.len() && asking().chain(ANSWERS).all(|name| row.get(name).is_none()) {
        return Fault::new("unknown_shape", message).hint(
            "the first line of a table is read as its header: if it is a row, write a header above it, such as prompt,completion",
        );
    }
    let hint = match guess(row) {
        (Some(question), Some(answer)) => add(&mapping(&[("prompt", &question), ("completion", &answer)])),
        (Some(only), None) | (None, Some(only)) if !asking().any(|name| row.get(name).is_some()) => {
            add(&format!("\"text_field\": {}", serde_json::to_string(&only).unwrap_or_default()))
        }
        _ => "the shapes are: prompt + completion; instruction + input + output; messages; text".to_owned(),
    };
    Fault::new("unknown_shape", message).hint(hint)
}

/// Whether this is a value rather than a column's name.
fn is_sentence(key: &str) -> bool {
    key.contains(['{', '"', '?', '!', '\n']) || key.split_whitespace().count() > 5
}

/// The names of fields that ask.
fn asking() -> impl Iterator<Item = &'static str> {
    QUESTIONS.into_iter().map(|(name, _)| name).chain(DIALOGUES)
}

/// The first field that would ask if it were not null; none where another one asks.
fn null_question(row: &Object<'_>) -> Option<&'static str> {
    first(row, asking()).is_none().then(|| asking().find(|name| row.get(name).is_some())).flatten()
}

/// A key as a message can show it.
pub fn short(key: &str) -> &str {
    key.char_indices().nth(60).map_or(key, |(end, _)| &key[..end])
}

/// Dotted paths of a question and an answer: by name, else the first fields that hold text.
fn guess(row: &Object<'_>) -> (Option<String>, Option<String>) {
    let mut paths = Vec::new();
    collect(row, "", &mut paths);
    let lower = |path: &String| path.rsplit('.').next().unwrap_or(path).to_lowercase();
    let find = |names: &[&str], but: Option<&String>| {
        names
            .iter()
            .find_map(|name| paths.iter().find(|path| lower(path) == *name && Some(*path) != but).cloned())
    };
    let known = QUESTIONS.map(|(name, _)| name);
    let answer = find(&BESIDE_TEXT, None).or_else(|| find(&ANSWER_LIKE, None));
    let question = find(&known, answer.as_ref()).or_else(|| find(&QUESTION_LIKE, answer.as_ref()));
    let other = |but: &Option<String>| {
        paths.iter().find(|path| Some(*path) != but.as_ref() && !is_id(&lower(path))).cloned()
    };
    let question = question.or_else(|| other(&answer));
    // What names or explains a question does not answer it.
    let answer = answer.or_else(|| {
        let is_answer = |path: &&String| Some(*path) != question.as_ref() && !explains(&lower(path));
        paths.iter().find(is_answer).cloned()
    });
    (question, answer)
}

fn is_id(name: &str) -> bool {
    matches!(name, "id" | "idx" | "index" | "uuid" | "url" | "split" | "source") || name.ends_with("_id")
}

fn explains(name: &str) -> bool {
    is_id(name) || name.is_empty() || matches!(name, "title" | "context" | "passage")
}

/// The paths of texts, numbers and booleans, one level deep; of numbers and booleans only those with an answer's name.
fn collect(row: &Object<'_>, before: &str, paths: &mut Vec<String>) {
    for (key, value) in row.0.iter().take(64).filter(|(key, _)| key.len() <= 100) {
        let path = format!("{before}{key}");
        match value {
            Value::Text(_) => paths.push(path),
            Value::Bool(_) | Value::Integer(_) | Value::Unsigned(_) | Value::Digits(_) | Value::Float(_)
                if BESIDE_TEXT.contains(&key.as_ref()) =>
            {
                paths.push(path);
            }
            Value::Object(inner) if before.is_empty() => collect(inner, &format!("{key}."), paths),
            _ => {}
        }
    }
}

pub fn wrong(field: &str, wanted: &str, value: &Value<'_>) -> Fault {
    if let Some(fault) = value.unreadable() {
        return fault.clone();
    }
    Fault::new("wrong_type", format!("the field {field:?} is {}, not {wanted}", value.kind()))
}

/// Text, or a number or boolean written out; none of an absent value.
pub fn words<'a>(row: &Object<'a>, field: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    match row.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(value) => match scalar(value) {
            Some(text) => Ok(Some(Cow::Owned(text))),
            None => Err(wrong(field, "text", value)),
        },
    }
}

pub fn scalar(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bool(_) | Value::Integer(_) | Value::Unsigned(_) | Value::Digits(_) | Value::Float(_) => {
            Some(value.as_words().into_owned())
        }
        _ => None,
    }
}

pub fn system_of<'a>(row: &Object<'a>) -> Result<Option<Cow<'a, str>>, Fault> {
    first(row, SYSTEMS).map_or(Ok(None), |name| words(row, name))
}
