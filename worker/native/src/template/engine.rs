//! A Jinja chat template, interpreted as transformers interprets it.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};

use super::{bounds, json};
use crate::encoder::Span;
use crate::problem::Fault;
use crate::rows::{self, Turn};

/// Written around what `{% generation %}` encloses, and taken out of the text again; no row may hold them.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// Templates that print today's date print this one, so that the same row gives the same tokens on any day.
const DATE: (u32, u32, u32) = (2024, 7, 26);
const NAME: &str = "chat template";
/// The code of a row whose rendering did not come to an end: that of the next row would not either.
pub const ENDLESS: &str = "template_endless";
/// The code of a row that the template refuses.
pub const FAILED: &str = "template_failed";

/// The texts of bos, eos and the like, as the template sees them: `bos_token` -> `<s>`.
pub type SpecialTexts = BTreeMap<String, String>;

pub struct Engine {
    environment: Environment<'static>,
    specials: SpecialTexts,
    pub source: String,
    /// Whether the template itself says what the assistant writes.
    pub marks_generation: bool,
}

/// What a rendering is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    pub add_generation_prompt: bool,
    pub enable_thinking: Option<bool>,
}

impl From<bool> for How {
    fn from(add_generation_prompt: bool) -> Self {
        Self { add_generation_prompt, enable_thinking: None }
    }
}

impl Engine {
    pub fn new(source: &str, specials: &SpecialTexts) -> Result<Self, String> {
        // As Jinja2 reads a file from Windows.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let (text, marks_generation) = generation_blocks(&source);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| error.to_string())?;
        environment.set_syntax(syntax);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        bounds::apply(&mut environment);
        environment.set_formatter(python_text);
        environment.add_filter("tojson", tojson);
        environment.add_filter("__generation", |body: String| format!("{OPEN}{body}{CLOSE}"));
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| strftime(&format));
        environment.add_template_owned(NAME, text).map_err(|error| describe(&error))?;
        Ok(Self { environment, specials: specials.clone(), source, marks_generation })
    }

    pub fn turns(&self, turns: &[Turn<'_>], prompt: bool) -> Result<Text, Fault> {
        let messages: Value = turns
            .iter()
            .map(|turn| Value::from_pairs([("role", turn.role.as_ref()), ("content", turn.content.as_ref())]))
            .collect();
        self.render(messages, None, prompt.into())
    }

    pub fn values(
        &self,
        messages: &[rows::Value<'_>],
        tools: Option<&rows::Value<'_>>,
        how: impl Into<How>,
    ) -> Result<Text, Fault> {
        self.render(messages.iter().map(json::to_jinja).collect(), tools.map(json::to_jinja), how.into())
    }

    fn render(&self, messages: Value, tools: Option<Value>, how: How) -> Result<Text, Fault> {
        let specials =
            Value::from_pairs(self.specials.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        let fault = |error: &Error| {
            let code = if error.kind() == ErrorKind::OutOfFuel { ENDLESS } else { FAILED };
            Fault::new(code, format!("the chat template refuses the row: {}", describe(error)))
        };
        let template = self.environment.get_template(NAME).map_err(|error| fault(&error))?;
        bounds::begin();
        let prompt = how.add_generation_prompt;
        let row = context! { messages, tools, add_generation_prompt => prompt, documents => Value::from(()) };
        let set = Value::from_pairs(how.enable_thinking.map(|on| ("enable_thinking", on)));
        let text = template.render(context! { ..row, ..specials, ..set }).map_err(|error| fault(&error))?;
        Ok(if self.marks_generation { Text::unmarked(&text) } else { Text { text, generated: Vec::new() } })
    }
}

/// What a template printed.
#[derive(Debug, Default)]
pub struct Text {
    pub text: String,
    /// What stood between `{% generation %}` and `{% endgeneration %}`.
    pub generated: Vec<Span>,
}

impl Text {
    fn unmarked(marked: &str) -> Self {
        let mut out = Self { text: String::with_capacity(marked.len()), generated: Vec::new() };
        for character in marked.chars() {
            match character {
                OPEN => out.generated.push(Span { start: out.text.len(), end: usize::MAX }),
                CLOSE => {
                    let end = out.text.len();
                    if let Some(span) = out.generated.iter_mut().rev().find(|span| span.end == usize::MAX) {
                        span.end = end;
                    }
                }
                _ => out.text.push(character),
            }
        }
        out
    }
}

/// `{% generation %}` as a filter block around a scope: white space is trimmed as around the tag, and what is set inside
/// stays inside.
fn generation_blocks(source: &str) -> (String, bool) {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut found = false;
    while let Some(start) = rest.find("{%") {
        // From past the opening: `{%}` opens a tag and closes none.
        let Some(length) = rest[start + 2..].find("%}").map(|length| length + 2) else { break };
        let tag = &rest[start + 2..start + length];
        let word = tag.trim_matches(['-', '+']).trim();
        let replaced = match word {
            "generation" => Some("filter __generation %}{% with"),
            "endgeneration" => Some("endwith %}{% endfilter"),
            _ => None,
        };
        out.push_str(&rest[..start + 2]);
        out.push_str(&replaced.map_or_else(|| tag.to_owned(), |to| tag.replace(word, &format!(" {to} "))));
        found |= replaced.is_some();
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    (out, found)
}

fn describe(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "it takes more than 10 million steps for one row".into();
    }
    let text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{text} (template line {line})"),
        None => text,
    }
}

/// Python's words for what Jinja prints.
fn python_text(
    out: &mut minijinja::Output,
    state: &mut minijinja::State,
    value: &Value,
) -> Result<(), Error> {
    bounds::print(value.as_str().map_or(0, str::len))?;
    let written = match value.kind() {
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::None => out.write_str("None"),
        ValueKind::Seq | ValueKind::Map => out.write_str(&json::python_repr(value)),
        ValueKind::Number => out.write_str(&json::number(value)),
        _ => return minijinja::escape_formatter(out, state, value),
    };
    written.map_err(Error::from)
}

#[allow(clippy::needless_pass_by_value)] // How minijinja hands a filter its options.
fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = bounds::columns(options.get("indent")?)?;
    let sort: Option<bool> = options.get("sort_keys")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    let style =
        json::Style::new(indent, separators.as_deref(), sort.unwrap_or(false), ascii.unwrap_or(false));
    Ok(Value::from(json::dumps(value, &style)))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn strftime(format: &str) -> String {
    let (year, month, day) = DATE;
    let name = MONTHS[month as usize - 1];
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => out.push_str(&year.to_string()),
            Some('y') => out.push_str(&format!("{:02}", year % 100)),
            Some('m') => out.push_str(&format!("{month:02}")),
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('B') => out.push_str(name),
            Some('b') => out.push_str(&name[..3]),
            Some('A') => out.push_str("Friday"),
            Some('a') => out.push_str("Fri"),
            Some('H' | 'M' | 'S') => out.push_str("00"),
            Some('%') | None => out.push('%'),
            Some(other) => out.extend(['%', other]),
        }
    }
    out
}
