//! Where answers stand in a rendered dialogue.
//!
//! Most templates print a dialogue so that each answer follows the text that generation would be asked for. Some do not:
//! templates of thinking models print an answer otherwise when it is not the last turn.

use super::engine::Engine;
use crate::encoder::Span;
use crate::problem::Fault;
use crate::rows::{Object, Turn, Value, content};

/// Finds answers by rendering parts of their dialogue.
pub(super) struct Answers<'a> {
    pub engine: &'a Engine,
    /// Texts that end a turn, longest first.
    pub stops: &'a [String],
}

impl Answers<'_> {
    /// From where the prompt ends, as generation would be asked for it, to the end of the text.
    pub fn last(&self, turns: &[Turn<'_>], text: &str) -> Result<Span, Fault> {
        let (last, before) = turns.split_last().ok_or_else(left_out)?;
        let prompt = self.engine.turns(before, true).unwrap_or_default().text;
        let start = if !prompt.is_empty() && text.starts_with(&prompt) {
            prompt.len()
        } else {
            self.place_of(turns, before.len(), text)
                .or_else(|| text.rfind(last.content.trim()))
                .or_else(|| text.rfind(behind_thoughts(&last.content)?))
                .ok_or_else(left_out)?
        };
        if start == text.len() {
            return Err(left_out());
        }
        Ok(Span { start, end: text.len() })
    }

    pub fn each(&self, turns: &[Turn<'_>], text: &str) -> Result<Vec<Span>, Fault> {
        let (mut spans, mut cursor) = (Vec::new(), 0);
        for at in (0..turns.len().saturating_sub(1)).filter(|at| turns[*at].role == "assistant") {
            let span = match self.at(turns, at, text, cursor) {
                Err(_) if turns[at].unlearned => continue,
                found => found?,
            };
            cursor = span.end;
            if !turns[at].unlearned {
                spans.push(span);
            }
        }
        spans.push(self.last(turns, text)?);
        Ok(spans)
    }

    /// The answer at this place of a dialogue that continues after it; `cursor` is where the answer before it ends.
    fn at(&self, turns: &[Turn<'_>], at: usize, text: &str, cursor: usize) -> Result<Span, Fault> {
        let before = &turns[..at];
        let prompt = self.engine.turns(before, true).unwrap_or_default().text;
        let prompt_end = prefix_length(&prompt, text).filter(|end| *end >= cursor);
        let through = self.engine.turns(&turns[..=at], false).unwrap_or_default().text;
        if let Some(start) = prompt_end
            && through.len() > start
            && text.starts_with(&through)
        {
            return Ok(Span { start, end: through.len() });
        }
        // Rendered otherwise when it is not the last turn, as thinking models' templates do.
        let content = turns[at].content.trim();
        let after_question = || {
            let since = before.iter().rposition(|turn| turn.role == "assistant").map_or(0, |last| last + 1);
            before[since..].iter().fold(cursor, |cursor, turn| {
                find_from(text, cursor, turn.content.trim())
                    .map_or(cursor, |at| at + turn.content.trim().len())
            })
        };
        let found = self
            .place_of(turns, at, text)
            .filter(|start| *start >= prompt_end.unwrap_or(cursor))
            .or_else(|| find_from(text, prompt_end.unwrap_or_else(after_question), content));
        match (found, prompt_end) {
            (Some(content_start), _) => Ok(Span {
                start: prompt_end.unwrap_or(content_start),
                end: self.turn_end(text, content_start + content.len()),
            }),
            // The template has changed the content, as where it leaves a thought out.
            (None, Some(start)) => {
                Ok(Span { start, end: self.next_stop(text, start).ok_or_else(|| not_found(at))? })
            }
            (None, None) => Err(not_found(at)),
        }
    }

    /// Past the first text from here on that ends a turn.
    fn next_stop(&self, text: &str, from: usize) -> Option<usize> {
        let ends = self.stops.iter().filter_map(|stop| Some((find_from(text, from, stop)?, stop.len())));
        ends.min().map(|(at, length)| at + length)
    }

    /// Where this message's content stands in the text, which may have the same words elsewhere: another content is
    /// rendered in its place.
    fn place_of(&self, turns: &[Turn<'_>], at: usize, text: &str) -> Option<usize> {
        let mark = hole(at);
        let marked = self.engine.turns(&with_content_at(turns, at, &mark), false).ok()?.text;
        content_place(&marked, &mark, turns[at].content.trim(), text)
    }

    /// Past the text that ends the turn, where one follows at once.
    pub fn turn_end(&self, text: &str, at: usize) -> usize {
        let rest = text[at..].trim_start();
        let start = text.len() - rest.len();
        self.stops.iter().find(|stop| rest.starts_with(stop.as_str())).map_or(at, |stop| start + stop.len())
    }

    /// From where the prompt ends, or else from where the content begins, to the end of the turn.
    pub fn rich(
        &self,
        messages: &[Value<'_>],
        tools: Option<&Value<'_>>,
        at: usize,
        text: &str,
    ) -> Result<Span, Fault> {
        let prompt = self.engine.values(&messages[..at], tools, true)?.text;
        let prompt_end = prefix_length(&prompt, text);
        let is_last = at + 1 == messages.len();
        if let Some(start) = prompt_end {
            if is_last {
                return Ok(Span { start, end: text.len() });
            }
            let through = self.engine.values(&messages[..=at], tools, false)?.text;
            if through.len() > start && text.starts_with(&through) {
                return Ok(Span { start, end: through.len() });
            }
        }
        // Rendered otherwise when it is not the last turn.
        let content = content(&messages[at]).trim();
        let content_start = self.rich_place_of(messages, tools, at, text);
        let start = prompt_end
            .or(content_start)
            .or_else(|| before_thought(&prompt, text))
            .ok_or_else(|| if is_last { last_not_found(at) } else { not_found(at) })?;
        if is_last {
            return Ok(Span { start, end: text.len() });
        }
        // Calls of tools may follow the content.
        let from = content_start.map_or(start, |place| place + content.len());
        Ok(Span { start, end: self.next_stop(text, from).ok_or_else(|| not_found(at))? })
    }

    fn rich_place_of(
        &self,
        messages: &[Value<'_>],
        tools: Option<&Value<'_>>,
        at: usize,
        text: &str,
    ) -> Option<usize> {
        let content = content(&messages[at]).trim();
        if content.is_empty() {
            return None;
        }
        let mark = hole(at);
        let found = self.engine.values(&with_value_at(messages, at, &mark), tools, false).ok()?.text;
        content_place(&found, &mark, content, text)
    }
}

/// Stands for a message's content: letters and digits, which a template has no reason to change.
pub fn hole(at: usize) -> String {
    format!("qzHole{at}Kwzq")
}

/// The turns with another content at one place.
pub fn with_content_at<'t>(turns: &'t [Turn<'t>], place: usize, content: &str) -> Vec<Turn<'t>> {
    with_contents(turns, |at| if at == place { content.to_owned() } else { turns[at].content.to_string() })
}

pub fn with_contents<'t>(turns: &[Turn<'t>], contents: impl Fn(usize) -> String) -> Vec<Turn<'t>> {
    turns.iter().enumerate().map(|(at, turn)| Turn { content: contents(at).into(), ..turn.clone() }).collect()
}

/// The messages with another content at one place.
pub(super) fn with_value_at<'m>(messages: &'m [Value<'_>], place: usize, mark: &str) -> Vec<Value<'m>> {
    let at = |(at, message): (usize, &'m Value<'_>)| {
        if at == place { marked(message, mark) } else { message.borrowed() }
    };
    messages.iter().enumerate().map(at).collect()
}

/// The message with another content.
pub(super) fn marked<'m>(message: &'m Value<'_>, mark: &str) -> Value<'m> {
    let Value::Object(mut object) = message.borrowed() else { return message.borrowed() };
    for (key, value) in &mut object.0 {
        if key == "content" {
            *value = Value::Text(mark.to_owned().into());
        }
    }
    Value::Object(Object(object.0))
}

/// The answer alone, where a template leaves its thoughts out.
fn behind_thoughts(content: &str) -> Option<&str> {
    let (_, answer) = content.rsplit_once("</think>")?;
    Some(answer.trim()).filter(|answer| !answer.is_empty())
}

/// Where a content begins in `text`, given the text with `mark` in its place.
fn content_place(marked: &str, mark: &str, content: &str, text: &str) -> Option<usize> {
    let before = &marked[..marked.find(mark)?];
    let rest = text.strip_prefix(before)?.trim_start();
    rest.starts_with(content).then_some(text.len() - rest.len())
}

fn find_from(text: &str, start: usize, part: &str) -> Option<usize> {
    text[start..].find(part).map(|step| start + step)
}

/// The length of `prefix`, where the text begins with it.
pub(super) fn prefix_length(prefix: &str, text: &str) -> Option<usize> {
    text.starts_with(prefix).then_some(prefix.len())
}

/// The length of a prompt without the thought that it opens, as some templates open one for each answer: a call of tools may
/// have none.
fn before_thought(prompt: &str, text: &str) -> Option<usize> {
    prefix_length(prompt.trim_end().strip_suffix("<think>")?, text)
}

pub(super) fn not_found(at: usize) -> Fault {
    let message = format!(
        "the chat template changes message {}, an answer before the last one, so that it cannot be found in the text",
        at + 1
    );
    Fault::new("answer_not_found", message)
        .hint("learn the last answer alone; set in training.dataset: \"train_on\": \"completions\"")
}

fn last_not_found(at: usize) -> Fault {
    let message = format!(
        "the chat template prints message {}, the last answer, so that it does not follow the prompt: it cannot be found in the text",
        at + 1
    );
    Fault::new("answer_not_found", message).hint(
        "choose another base or prompt_template, or leave such rows out; add to training.dataset: \"on_bad_row\": \"skip\"",
    )
}

pub(super) fn left_out() -> Fault {
    Fault::new(
        "no_assistant_part",
        "the chat template leaves the assistant's message out: there is nothing to learn from the row",
    )
}
