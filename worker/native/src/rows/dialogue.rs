//! A text that is itself a rendered dialogue, taken apart again.

use std::borrow::Cow;

use super::row::Turn;

/// How a dialect opens a turn, ends its role's name, and closes the turn.
struct Marks {
    open: &'static str,
    named: &'static str,
    close: &'static str,
}

/// `ChatML`; Llama 3; Zephyr and Phi, where the role itself is the mark.
const CHATML: Marks = Marks { open: "<|im_start|>", named: "\n", close: "<|im_end|>" };
const LLAMA3: Marks = Marks { open: "<|start_header_id|>", named: "<|end_header_id|>", close: "<|eot_id|>" };
const PHI: Marks = Marks { open: "<|", named: "|>", close: "<|end|>" };
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// The dialogue's messages, borrowed from `text` where that is itself borrowed; none where any part does not fit.
pub fn parse<'a>(text: &Cow<'a, str>) -> Option<Vec<Turn<'a>>> {
    let body = text.trim_start();
    let body = body.strip_prefix("<|begin_of_text|>").unwrap_or(body);
    let marks = [CHATML, LLAMA3].into_iter().find(|marks| body.starts_with(marks.open));
    let turns = match marks {
        Some(marks) => marked(body, &marks)?,
        None if ROLES.iter().any(|role| tagged(body, role).is_some()) => marked(body, &PHI)?,
        None if body.starts_with("[INST]") || body.starts_with("<s>[INST]") => instructed(body)?,
        None => headed(body)?,
    };
    let complete = turns.last().is_some_and(|(role, content)| *role == "assistant" && !content.is_empty());
    complete.then(|| turns.into_iter().map(|(role, content)| turn(text, role, content)).collect())
}

fn tagged<'t>(text: &'t str, role: &str) -> Option<&'t str> {
    text.strip_prefix("<|")?.strip_prefix(role)?.strip_prefix("|>")
}

fn marked<'t>(mut rest: &'t str, marks: &Marks) -> Option<Vec<(&'t str, &'t str)>> {
    let mut turns = Vec::new();
    loop {
        rest = rest.trim_start();
        rest = rest.strip_prefix("<|endoftext|>").unwrap_or(rest);
        if rest.is_empty() {
            return Some(turns);
        }
        let (role, after) = rest.strip_prefix(marks.open)?.split_once(marks.named)?;
        let role = ROLES.into_iter().find(|known| *known == role.trim())?;
        let (content, after) = after.split_once(marks.close).unwrap_or((after, ""));
        turns.push((role, content.trim_matches('\n')));
        rest = after;
    }
}

/// How plain texts name who speaks, and the role that each name means; an empty role continues the turn before.
const HEADINGS: [&[(&str, &str)]; 3] = [
    &[("### Instruction:", "user"), ("### Input:", ""), ("### Response:", "assistant")],
    &[("### Human:", "user"), ("### Assistant:", "assistant"), ("### System:", "system")],
    &[("\n\nHuman:", "user"), ("\n\nAssistant:", "assistant")],
];
/// What Alpaca writes before the first heading.
const ALPACA: &str = "Below is an instruction that describes a task";

/// Alpaca's, Guanaco's and Anthropic's headings, each at the beginning of a line.
fn headed(body: &str) -> Option<Vec<(&str, &str)>> {
    let start = if body.starts_with(ALPACA) { body.find("### Instruction:")? } else { 0 };
    let body = &body[start..];
    let headings = HEADINGS.into_iter().find(|headings| {
        headings.iter().any(|(heading, role)| {
            matches!(*role, "user" | "system") && body.starts_with(heading.trim_start())
        })
    })?;
    // Those of Guanaco are in the middle of a line. Where some are at the beginning of one, others are words of an answer.
    let inline =
        !headings.iter().any(|(heading, _)| begins_a_line(&body[1..], heading.trim_start()).is_some());
    let mut turns: Vec<(&str, &str)> = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (heading, role) = headings.iter().find(|(heading, _)| rest.starts_with(heading.trim_start()))?;
        let after = &rest[heading.trim_start().len()..];
        let next = next_heading(after, headings, inline).unwrap_or(after.len());
        let content = without_end(after[..next].trim());
        match (role.is_empty(), turns.last_mut()) {
            (false, _) => turns.push((role, content)),
            // Both are parts of the same text: from where the turn begins to where this part ends.
            (true, Some((_, asked))) if !content.is_empty() => *asked = between(body, asked, content),
            (true, _) => {}
        }
        rest = after[next..].trim_start();
    }
    Some(turns)
}

fn next_heading(text: &str, headings: &[(&str, &str)], inline: bool) -> Option<usize> {
    let at = |heading: &str| if inline { text.find(heading) } else { begins_a_line(text, heading) };
    headings.iter().filter_map(|(heading, _)| at(heading.trim_start())).min()
}

fn begins_a_line(text: &str, heading: &str) -> Option<usize> {
    text.match_indices(heading).map(|(at, _)| at).find(|at| text[..*at].ends_with('\n'))
}

/// Programs that write whole texts put the end of the text behind the last answer.
fn without_end(content: &str) -> &str {
    const ENDS: [&str; 6] = ["</s>", "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<eos>"];
    let end = ENDS.into_iter().find_map(|end| content.strip_suffix(end));
    end.map_or(content, |content| without_end(content.trim_end()))
}

/// The stretch of `text` from the beginning of one of its parts to the end of a later one.
fn between<'t>(text: &'t str, first: &'t str, last: &'t str) -> &'t str {
    let start = first.as_ptr() as usize - text.as_ptr() as usize;
    let end = last.as_ptr() as usize - text.as_ptr() as usize + last.len();
    text.get(start..end).unwrap_or(first)
}

/// Llama 2 and Mistral: `[INST] question [/INST] answer</s>`.
fn instructed(mut rest: &str) -> Option<Vec<(&str, &str)>> {
    let mut turns = Vec::new();
    loop {
        rest = rest.trim_start();
        rest = rest.strip_prefix("<s>").unwrap_or(rest).trim_start();
        if rest.is_empty() {
            return Some(turns);
        }
        let (question, after) = rest.strip_prefix("[INST]")?.split_once("[/INST]")?;
        let question = system_of(question.trim(), &mut turns);
        let (answer, after) = after.split_once("</s>").unwrap_or((after, ""));
        turns.push(("user", question));
        turns.push(("assistant", answer.trim()));
        rest = after;
    }
}

fn system_of<'t>(question: &'t str, turns: &mut Vec<(&'t str, &'t str)>) -> &'t str {
    let Some((system, rest)) = question.strip_prefix("<<SYS>>").and_then(|text| text.split_once("<</SYS>>"))
    else {
        return question;
    };
    turns.push(("system", system.trim()));
    rest.trim()
}

/// `content` is a part of `text`, so that it may borrow what `text` borrows.
fn turn<'a>(text: &Cow<'a, str>, role: &str, content: &str) -> Turn<'a> {
    let role = ROLES.into_iter().find(|known| *known == role).unwrap_or("user");
    let content = match text {
        Cow::Borrowed(whole) => {
            let start = content.as_ptr() as usize - whole.as_ptr() as usize;
            whole.get(start..start + content.len()).map_or_else(|| content.to_owned().into(), Cow::Borrowed)
        }
        Cow::Owned(_) => Cow::Owned(content.to_owned()),
    };
    Turn::new(role, content)
}
