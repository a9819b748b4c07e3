//! A row's text and the parts of it that are learned.

use std::collections::HashMap;
use std::sync::Arc;

use super::answers::{
    Answers, hole, left_out, marked, not_found, prefix_length, with_content_at, with_value_at,
};
use super::calls;
use super::engine::{ENDLESS, Engine, Text};
use super::fast::{Known, Plan};
use crate::encoder::Span;
use crate::problem::{Failure, Fault};
use crate::rows::{Shaped, TrainOn, Turn, Value, content, last_learned, role_of, short, thoughts};

/// A text and its learned parts; reused from row to row.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    pub spans: Vec<Span>,
    /// A bare text, not a dialogue: the tokenizer's own frame goes around it.
    pub bare: bool,
    /// Messages after the last answer, which nothing is learned of, are not in the text.
    pub unanswered: bool,
    /// An answer holds a thought that is not in the text.
    pub thoughts_left_out: bool,
}

/// Every so many rows, the compiled plan's text is compared with the interpreter's.
const CHECK_EVERY: u64 = 97;

/// One thread's way from dialogues to text.
pub struct Renderer<'a> {
    engine: &'a Engine,
    train_on: TrainOn,
    /// Texts that end a turn, longest first.
    stops: &'a [String],
    known: HashMap<String, Known>,
    interpret: bool,
    /// Rows that were given to the interpreter, beside those that only check the plan.
    pub interpreted: u64,
    seen: u64,
    check: Rendered,
}

impl<'a> Renderer<'a> {
    pub fn new(engine: &'a Engine, train_on: TrainOn, stops: &'a [String], interpret: bool) -> Self {
        let check = Rendered::default();
        Self { engine, train_on, stops, known: HashMap::new(), interpret, interpreted: 0, seen: 0, check }
    }

    fn answers(&self) -> Answers<'a> {
        Answers { engine: self.engine, stops: self.stops }
    }

    /// Fills `out`; the outer error ends the whole work, the inner one is the row's own.
    pub fn render(&mut self, row: &Shaped<'_>, out: &mut Rendered) -> Result<Result<(), Fault>, Failure> {
        out.text.clear();
        out.spans.clear();
        out.bare = false;
        out.unanswered = false;
        out.thoughts_left_out = false;
        match row {
            Shaped::Text(text) => {
                out.text.push_str(text);
                out.spans.push(Span { start: 0, end: text.len() });
                out.bare = true;
                Ok(Ok(()))
            }
            Shaped::Turns(turns) => {
                let learned = self.learned_part(turns);
                let outcome = self.turns(learned, out)?;
                // An answer at the end that is not to be learned is left out as its row asks.
                out.unanswered =
                    learned.len() < turns.len() && turns.last().is_some_and(|turn| turn.role != "assistant");
                let answers = learned.iter().filter(|turn| turn.role == "assistant");
                out.thoughts_left_out = lacks_a_thought(&out.text, answers.map(|turn| turn.content.as_ref()));
                ended(outcome)
            }
            Shaped::Rich { messages, tools, unlearned } => {
                self.interpreted += 1;
                ended(self.rich_in_any_form(messages, tools.as_ref(), unlearned, out))
            }
        }
    }

    fn turns(&mut self, turns: &[Turn<'_>], out: &mut Rendered) -> Result<Result<(), Fault>, Failure> {
        if let Some(fault) = reserved(turns) {
            return Ok(Err(fault));
        }
        let plan = match self.plan(turns) {
            Ok(plan) => plan,
            Err(fault) => return Ok(Err(fault)),
        };
        let Some(plan) = plan.filter(|plan| plan.fits(turns)) else {
            self.interpreted += 1;
            return Ok(self.interpret(turns, out));
        };
        plan.fill(turns, out);
        self.seen += 1;
        if self.seen % CHECK_EVERY == 1 {
            let mut check = std::mem::take(&mut self.check);
            let same = self.interpret(turns, &mut check).is_ok() && check == *out;
            self.check = check;
            if !same {
                return Err(Failure::TemplateDrift);
            }
        }
        Ok(Ok(()))
    }

    /// Nothing after the last answer is rendered, unless everything is learned.
    fn learned_part<'t, 'b>(&self, turns: &'t [Turn<'b>]) -> &'t [Turn<'b>] {
        let last = turns.iter().rposition(Turn::is_answer);
        match last {
            Some(last) if self.train_on != TrainOn::All => &turns[..=last],
            _ => turns,
        }
    }

    fn plan(&mut self, turns: &[Turn<'_>]) -> Result<Option<Arc<Plan>>, Fault> {
        let mut signature = String::with_capacity(64);
        for turn in turns {
            signature.push_str(&turn.role);
            signature.push(if turn.unlearned { '\u{1}' } else { '\0' });
        }
        let known = self.known.get(&signature).cloned();
        let Known { plan, missing } = known.unwrap_or_else(|| {
            let known = Known::of(self.engine, turns, |turns, out| self.interpret(turns, out));
            self.known.insert(signature, known.clone());
            known
        });
        // Whether a message is left out is asked before the interpreter is chosen: both refuse the same rows.
        if let Some(at) = missing.into_iter().rfind(|at| !turns[*at].content.trim().is_empty()) {
            return Err(not_shown(at, &turns[at].role));
        }
        Ok(plan.filter(|_| !self.interpret))
    }

    /// The text and its parts by the interpreter alone.
    fn interpret(&self, turns: &[Turn<'_>], out: &mut Rendered) -> Result<(), Fault> {
        out.spans.clear();
        out.bare = false;
        let Text { text, generated } = self.engine.turns(turns, false)?;
        out.text = text;
        if self.engine.marks_generation {
            let dialogue = Dialogue {
                messages: turns.len(),
                answers: &places(turns, |turn| turn.role == "assistant"),
                unlearned: &places(turns, |turn| turn.unlearned),
                before: &|at| self.engine.turns(&turns[..at], false).ok(),
                with_hole: &|at| self.engine.turns(&with_content_at(turns, at, &hole(at)), false).ok(),
            };
            out.spans = self.generated(&dialogue, &generated, &out.text)?;
            return Ok(());
        }
        match self.train_on {
            TrainOn::All => out.spans.push(Span { start: 0, end: out.text.len() }),
            TrainOn::Completions => out.spans.push(self.answers().last(turns, &out.text)?),
            TrainOn::Assistant => out.spans = self.answers().each(turns, &out.text)?,
        }
        Ok(())
    }

    /// The parts that the template itself marks: all of them, or those of the last turn alone.
    fn generated(&self, of: &Dialogue<'_>, generated: &[Span], text: &str) -> Result<Vec<Span>, Fault> {
        let mut learned = generated.to_vec();
        match self.train_on {
            TrainOn::All => return Ok(vec![Span { start: 0, end: text.len() }]),
            TrainOn::Assistant => {
                for at in of.unlearned {
                    let parts = of.parts(*at, generated, text).ok_or_else(|| not_found(*at))?;
                    learned.retain(|span| !parts.contains(span));
                }
            }
            TrainOn::Completions => {
                // A turn may hold several parts, a thought and an answer for instance.
                if let [_, .., last] = generated {
                    let start = of.start(of.messages.saturating_sub(1), text).unwrap_or(last.start);
                    learned.retain(|span| span.end > start);
                }
            }
        }
        Ok(learned.iter().map(|span| self.whole(span, text)).collect())
    }

    /// With the text that ends the turn, where a template closes the part before it: an expert that did not learn it would
    /// not stop.
    fn whole(&self, span: &Span, text: &str) -> Span {
        Span { start: span.start, end: self.answers().turn_end(text, span.end) }
    }

    fn rich_in_any_form(
        &self,
        messages: &[Value<'_>],
        tools: Option<&Value<'_>>,
        unlearned: &[usize],
        out: &mut Rendered,
    ) -> Result<(), Fault> {
        calls::in_any_form(messages, |messages| {
            out.text.clear();
            out.spans.clear();
            self.rich(messages, tools, unlearned, out)
        })
    }

    fn rich(
        &self,
        messages: &[Value<'_>],
        tools: Option<&Value<'_>>,
        unlearned: &[usize],
        out: &mut Rendered,
    ) -> Result<(), Fault> {
        let answers = places(messages, |message| role_of(message) == Some("assistant"));
        let is_learned = |at: &&usize| !unlearned.contains(at);
        let last = last_learned(messages, unlearned).unwrap_or_default();
        let end = if self.train_on == TrainOn::All { messages.len() } else { last + 1 };
        out.unanswered = end < messages.len() && answers.last() != Some(&(messages.len() - 1));
        if self.engine.marks_generation
            && messages.iter().chain(tools).any(|value| value.any_text(&is_reserved))
        {
            return Err(reserved_fault());
        }
        let Text { text, generated } = self.engine.values(&messages[..end], tools, false)?;
        out.text = text;
        let said = || answers.iter().filter(|at| **at < end).map(|at| &messages[*at]);
        out.thoughts_left_out = lacks_a_thought(&out.text, said().map(content))
            || said().flat_map(thoughts).any(|thought| !out.text.contains(thought));
        if let Some(at) = self.not_shown(&messages[..end], tools, &out.text) {
            return Err(not_shown(at, role_of(&messages[at]).unwrap_or_default()));
        }
        if self.engine.marks_generation {
            let messages = &messages[..end];
            let unlearned: Vec<_> = unlearned.iter().copied().filter(|at| *at < end).collect();
            let dialogue = Dialogue {
                messages: end,
                answers: &answers,
                unlearned: &unlearned,
                before: &|at| self.engine.values(&messages[..at], tools, false).ok(),
                with_hole: &|at| {
                    let whole = with_value_at(messages, at, &hole(at));
                    self.engine.values(&whole, tools, false).ok()
                },
            };
            out.spans = self.generated(&dialogue, &generated, &out.text)?;
            return Ok(());
        }
        if self.train_on == TrainOn::All {
            out.spans.push(Span { start: 0, end: out.text.len() });
            return Ok(());
        }
        let learned = answers.iter().filter(is_learned);
        for at in learned.filter(|at| self.train_on == TrainOn::Assistant || **at == last) {
            let span = self.answers().rich(&messages[..end], tools, *at, &out.text)?;
            out.spans.push(span);
        }
        if out.spans.is_empty() { Err(left_out()) } else { Ok(()) }
    }

    /// A message whose content the template does not print. Contents that are there in other words, as JSON for instance,
    /// are looked for by rendering others in their place.
    fn not_shown(&self, messages: &[Value<'_>], tools: Option<&Value<'_>>, text: &str) -> Option<usize> {
        let is_absent = |at: &usize| {
            let content = content(&messages[*at]).trim();
            !content.is_empty() && !text.contains(content)
        };
        let absent: Vec<usize> = (0..messages.len()).filter(is_absent).collect();
        if absent.is_empty() {
            return None;
        }
        let all: Vec<Value<'_>> = messages
            .iter()
            .enumerate()
            .map(
                |(at, message)| {
                    if absent.contains(&at) { marked(message, &hole(at)) } else { message.borrowed() }
                },
            )
            .collect();
        let found = self.engine.values(&all, tools, false).ok()?.text;
        absent.into_iter().rfind(|at| !found.contains(&hole(*at)))
    }
}

/// What finds the parts of an answer in a rendered dialogue: the dialogue up to a message, and with another content in it.
struct Dialogue<'d> {
    messages: usize,
    answers: &'d [usize],
    unlearned: &'d [usize],
    before: &'d dyn Fn(usize) -> Option<Text>,
    with_hole: &'d dyn Fn(usize) -> Option<Text>,
}

impl Dialogue<'_> {
    /// Where the message begins.
    fn start(&self, at: usize, text: &str) -> Option<usize> {
        // Many templates do not render an empty dialogue.
        if at == 0 { Some(0) } else { prefix_length(&(self.before)(at)?.text, text) }
    }

    /// The generated parts of an answer.
    fn parts(&self, at: usize, generated: &[Span], text: &str) -> Option<Vec<Span>> {
        // Up to the next answer: a template of a thinking model may print the end of this one otherwise where nothing follows.
        let next = self.answers.iter().find(|answer| **answer > at);
        let end = || next.map_or(Some(text.len()), |next| self.start(*next, text));
        if let Some((start, end)) = self.start(at, text).zip(end()) {
            return Some(
                generated.iter().filter(|span| (start..end).contains(&span.start)).copied().collect(),
            );
        }
        // Earlier messages are rendered otherwise where this one does not follow.
        let found = (self.with_hole)(at).filter(|it| it.generated.len() == generated.len())?;
        let holds = |span: &Span| found.text[span.start..span.end].contains(&hole(at));
        let place = found.generated.iter().position(holds)?;
        Some(vec![generated[place]])
    }
}

/// Templates of thinking models print the thoughts of the last answer alone.
fn lacks_a_thought<'a>(text: &str, mut answers: impl Iterator<Item = &'a str>) -> bool {
    answers.any(|answer| {
        let thought = answer
            .split_once("</think>")
            .map(|(before, _)| before.rsplit_once("<think>").map_or(before, |(_, thought)| thought).trim());
        thought.is_some_and(|thought| !thought.is_empty() && !text.contains(thought))
    })
}

fn places<M>(messages: &[M], wanted: impl Fn(&M) -> bool) -> Vec<usize> {
    (0..messages.len()).filter(|at| wanted(&messages[*at])).collect()
}

/// The last one of those that are not shown, so that a missing answer is named first.
fn not_shown(at: usize, role: &str) -> Fault {
    if role == "assistant" {
        return left_out();
    }
    let message = format!(
        "the chat template of this base does not print message {}, whose role is {:?}",
        at + 1,
        short(role)
    );
    Fault::new("message_not_shown", message).hint(
        "choose a base or prompt_template that prints such messages, or leave such rows out; add to training.dataset: \"on_bad_row\": \"skip\"",
    )
}

/// A template that does not come to an end fails the work, not the row: every row would cost as much.
fn ended(outcome: Result<(), Fault>) -> Result<Result<(), Fault>, Failure> {
    match outcome {
        Err(fault) if fault.code == ENDLESS => Err(Failure::TemplateEndless(fault.message)),
        other => Ok(other),
    }
}

/// Whether a text holds U+FDD0 or U+FDD1, which mark what a template generates.
fn is_reserved(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Few texts hold the first byte of these characters at all.
    memchr::memchr(0xef, bytes).is_some_and(|at| {
        bytes[at..].windows(3).any(|three| three == b"\xef\xb7\x90" || three == b"\xef\xb7\x91")
    })
}

fn reserved(turns: &[Turn<'_>]) -> Option<Fault> {
    turns.iter().any(|turn| is_reserved(&turn.content) || is_reserved(&turn.role)).then(reserved_fault)
}

fn reserved_fault() -> Fault {
    Fault::new("reserved_character", "the row holds U+FDD0 or U+FDD1, which are noncharacters")
}
