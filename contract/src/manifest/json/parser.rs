//! Objects, lists and separators.

use std::collections::HashMap;

use super::node::{Member, Node, Object, Value, is_comment, push_pointer};
use super::{number, text};
use crate::diagnostic::{Code, Problem};
use crate::source::Span;

/// Deeper nesting is refused; no manifest needs it, and it bounds the parser's stack.
pub const MAX_DEPTH: usize = 64;

/// Real manifests hold some hundreds of values.
pub const MAX_VALUES: usize = 100_000;

pub const TOO_LARGE_HINT: &str = "a manifest describes an expert; keep rows in the dataset's files";

/// After this many syntax errors the rest is noise.
pub const MAX_PROBLEMS: usize = 50;

pub struct Parsed {
    /// Null where the text could not be read to its end.
    pub root: Option<Node>,
    /// Mistakes, each with the JSON pointer of the value being read.
    pub problems: Vec<(Problem, String)>,
    /// The first values of keys that appear twice in one object. Which value is meant is not known.
    pub ambiguous: Vec<Span>,
}

/// Reads one JSON document from source `number`.
pub fn parse(source: &str, number: u32) -> Parsed {
    let mut parser = Parser {
        source,
        number,
        at: 0,
        path: Vec::new(),
        values: 0,
        astray: false,
        problems: Vec::new(),
        ambiguous: Vec::new(),
    };
    let root = parser.document();
    Parsed { root, problems: parser.problems, ambiguous: parser.ambiguous }
}

/// Parsing cannot continue; the reason is among the problems.
struct Stop;

type Step<T> = Result<T, Stop>;

struct Parser<'a> {
    source: &'a str,
    number: u32,
    at: usize,
    path: Vec<String>,
    values: usize,
    /// A text was not closed, so what follows it is misplaced too.
    astray: bool,
    problems: Vec<(Problem, String)>,
    ambiguous: Vec<Span>,
}

impl Parser<'_> {
    fn document(&mut self) -> Option<Node> {
        let root = self.value().ok()?;
        self.blank().ok()?;
        if self.at < self.source.len() {
            let start = self.at;
            let end =
                self.source[start..].find(['\n', '\r']).map_or(self.source.len(), |length| start + length);
            let message = "something follows the end of the manifest";
            let problem = Problem::new(Code::TrailingContent, self.span(start, end), message);
            self.push(
                problem.hint(
                    "a manifest is one object; remove the rest, or look for a bracket too many before it",
                ),
            )
            .ok()?;
        }
        Some(root)
    }

    fn value(&mut self) -> Step<Node> {
        self.blank()?;
        self.count()?;
        let start = self.at;
        let value = match self.peek() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::list)?,
            Some('"' | '\'') => self.text_value()?,
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number()?,
            Some(c) if is_word(c) => self.word()?,
            Some(c) if is_curly(c) => Value::Text(self.curly_text()?),
            _ => {
                return self.fail(
                    "a value",
                    "write a text in double quotes, a number, true, false, null, a list or an object",
                );
            }
        };
        Ok(Node { span: self.span(start, self.at), value })
    }

    fn count(&mut self) -> Step<()> {
        self.values += 1;
        if self.values <= MAX_VALUES {
            return Ok(());
        }
        let span = self.span(self.at, self.at);
        let message = format!("this file holds more than {MAX_VALUES} values");
        self.push(Problem::new(Code::FileTooLarge, span, message).hint(TOO_LARGE_HINT))?;
        Err(Stop)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Step<Value>) -> Step<Value> {
        if self.path.len() >= MAX_DEPTH {
            let span = self.span(self.at, self.at + 1);
            let message = format!("objects and lists are nested deeper than {MAX_DEPTH} levels here");
            self.push(
                Problem::new(Code::TooDeep, span, message).hint("no key of a manifest needs this depth"),
            )?;
            return Err(Stop);
        }
        read(self)
    }

    fn object(&mut self) -> Step<Value> {
        let open = self.at;
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        while self.more(open, '}', members.is_empty())? {
            if let Some(before) = members.last_mut()
                && self.decimal_comma(before)?
            {
                continue;
            }
            let start = self.at;
            let key = self.key()?;
            let key_span = self.span(start, self.at);
            self.path.push(key.clone());
            self.colon()?;
            let node = self.value()?;
            if let Some(first) = seen.get(&key) {
                self.duplicate(&key, key_span, *first)?;
            } else {
                seen.insert(key.clone(), node.span);
                members.push(Member { key, key_span, node });
            }
            self.path.pop();
        }
        Ok(Value::Object(Object { members }))
    }

    fn list(&mut self) -> Step<Value> {
        let open = self.at;
        self.at += 1;
        let mut items = Vec::new();
        while self.more(open, ']', items.is_empty())? {
            self.path.push(items.len().to_string());
            items.push(self.value()?);
            self.path.pop();
        }
        Ok(Value::List(items))
    }

    /// Whether another member follows; steps over commas and the closing bracket.
    fn more(&mut self, open: usize, close: char, first: bool) -> Step<bool> {
        self.blank()?;
        let comma = self.at;
        let mut commas = 0;
        while self.peek() == Some(',') {
            self.at += 1;
            commas += 1;
            self.blank()?;
        }
        match self.peek() {
            None => return self.unclosed(open),
            Some(c) if c == close => {
                self.at += 1;
                if commas > 0 {
                    self.comma_problem(
                        comma,
                        Code::TrailingComma,
                        "there is a comma before the closing bracket",
                    )?;
                }
                return Ok(false);
            }
            Some(c @ ('}' | ']')) => return self.mismatched(c, close),
            Some(_) => {}
        }
        if first && commas > 0 || commas > 1 {
            self.comma_problem(comma, Code::Syntax, "there is a comma here without a value before it")?;
        }
        let astray = std::mem::take(&mut self.astray);
        if !first && commas == 0 && !astray && self.peek().is_some_and(is_start) {
            let span = self.span(self.at, self.at + self.peek().map_or(0, char::len_utf8));
            let what = if close == '}' { "entry" } else { "value" };
            let problem =
                Problem::new(Code::MissingComma, span, format!("a comma is missing before this {what}"));
            self.push(problem.hint("put a comma after the previous one"))?;
        }
        Ok(true)
    }

    fn comma_problem(&mut self, comma: usize, code: Code, message: &str) -> Step<()> {
        let span = self.span(comma, comma + 1);
        self.push(Problem::new(code, span, message).hint("remove the comma"))
    }

    fn unclosed<T>(&mut self, open: usize) -> Step<T> {
        let bracket = &self.source[open..=open];
        let close = if bracket == "{" { "}" } else { "]" };
        let span = self.span(open, open + 1);
        let problem = Problem::new(Code::UnclosedBracket, span, format!("this `{bracket}` is never closed"));
        self.push(problem.hint(format!("add the missing `{close}`; the file ends without it")))?;
        Err(Stop)
    }

    fn mismatched<T>(&mut self, found: char, wanted: char) -> Step<T> {
        let span = self.span(self.at, self.at + 1);
        let message = format!("expected `{wanted}`, found `{found}`");
        self.push(
            Problem::new(Code::Syntax, span, message)
                .hint("brackets close in the order in which they were opened"),
        )?;
        Err(Stop)
    }

    fn duplicate(&mut self, key: &str, span: Span, first: Span) -> Step<()> {
        let problem = if is_comment(key) {
            Problem::new(
                Code::DuplicateComment,
                span,
                format!("the comment `{key}` appears twice in one object"),
            )
            .hint("give each comment its own key, such as `_comment_2`")
        } else {
            self.ambiguous.push(first);
            Problem::new(Code::DuplicateKey, span, format!("`{key}` appears twice in one object"))
                .hint("remove one of the two")
        };
        self.push(problem)
    }

    fn key(&mut self) -> Step<String> {
        match self.peek() {
            Some('"' | '\'') => self.text(),
            Some(c) if is_word(c) || c.is_ascii_digit() => {
                let start = self.at;
                let word = self.take_word().to_owned();
                self.unquoted(start, &format!("the key `{}` lacks its quotes", shorten(&word)), &word)?;
                Ok(word)
            }
            Some(c) if is_curly(c) => self.curly_text(),
            _ => self.fail("a key in double quotes", "write \"key\": value, or close the object with `}`"),
        }
    }

    /// Whether what follows the comma belongs to the number before it, as in `0,001`.
    fn decimal_comma(&mut self, before: &mut Member) -> Step<bool> {
        let number = before.node.span;
        let is_next = self.peek().is_some_and(|c| c.is_ascii_digit()) && self.at == number.end as usize + 1;
        if !is_next || !matches!(before.node.value, Value::Number(_)) {
            return Ok(false);
        }
        self.at += number::length(&self.source[self.at..]);
        let start = number.start as usize;
        let span = self.span(start, self.at);
        before.node = Node { span, value: Value::Unreadable };
        self.push(number::with_comma(&self.source[start..self.at], span))?;
        Ok(true)
    }

    fn colon(&mut self) -> Step<()> {
        self.blank()?;
        match self.peek() {
            Some(':') => {
                self.at += 1;
                Ok(())
            }
            Some('=') => {
                let span = self.span(self.at, self.at + 1);
                self.at += 1;
                self.push(Problem::new(Code::Syntax, span, "expected `:`, found `=`").hint("write `:`"))
            }
            _ => self.fail("`:` and a value", "write \"key\": value"),
        }
    }

    fn text_value(&mut self) -> Step<Value> {
        let text = self.text()?;
        Ok(if self.astray { Value::Unreadable } else { Value::Text(text) })
    }

    fn text(&mut self) -> Step<String> {
        let start = self.at;
        let mut problems = Vec::new();
        let text = text::read(self.source, self.number, start, &mut problems);
        self.at = text.end;
        if self.source[start..].starts_with('\'') {
            self.unquoted(start, "JSON strings use double quotes", &text.value)?;
        }
        for problem in problems {
            self.astray |= problem.code == Code::UnterminatedText;
            self.push(problem)?;
        }
        Ok(text.value)
    }

    /// Between quotes as a text processor sets them, at most to the end of the line.
    fn curly_text(&mut self) -> Step<String> {
        let start = self.at;
        let is_end = |c| is_curly(c) || c == '"';
        let rest = self.source[start..].lines().next().unwrap_or_default();
        let mut inner = rest.chars();
        inner.next();
        let Some(length) = inner.as_str().find(is_end) else {
            return self.fail("straight double quotes", "write \"text\"");
        };
        let text = inner.as_str()[..length].to_owned();
        self.at = start + rest.len() - inner.as_str().len() + length;
        self.at += self.peek().map_or(0, char::len_utf8);
        self.unquoted(start, "JSON strings use straight double quotes", &text)?;
        Ok(text)
    }

    fn number(&mut self) -> Step<Value> {
        let start = self.at;
        let rest = &self.source[start..];
        let length = number::length(rest);
        self.at += length;
        let word = &rest[..length];
        let span = self.span(start, self.at);
        if is_not_finite(word.trim_start_matches(['-', '+'])) {
            return self.not_finite(word, span);
        }
        match number::read(word, span) {
            Ok(number) => Ok(Value::Number(number)),
            Err(problem) => self.push(problem).map(|()| Value::Unreadable),
        }
    }

    fn not_finite(&mut self, word: &str, span: Span) -> Step<Value> {
        let problem = Problem::new(Code::NotFinite, span, format!("`{word}` is not a number in JSON"));
        self.push(problem.hint("leave the key out, or write a finite number"))?;
        Ok(Value::Unreadable)
    }

    fn word(&mut self) -> Step<Value> {
        let start = self.at;
        let word = self.take_word().to_owned();
        let span = self.span(start, self.at);
        let (value, json) = match word.as_str() {
            "null" => return Ok(Value::Null),
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "None" | "NULL" | "Null" | "undefined" | "nil" => (Value::Null, "null"),
            "True" | "TRUE" => (Value::Bool(true), "true"),
            "False" | "FALSE" => (Value::Bool(false), "false"),
            word if is_not_finite(word) => return self.not_finite(word, span),
            _ => {
                self.unquoted(start, &format!("the text `{}` lacks its quotes", shorten(&word)), &word)?;
                return Ok(Value::Text(word));
            }
        };
        let problem = Problem::new(Code::Syntax, span, format!("`{word}` is not JSON"));
        self.push(problem.hint(format!("write `{json}`")))?;
        Ok(value)
    }

    fn take_word(&mut self) -> &str {
        let start = self.at;
        let rest = &self.source[start..];
        let end = rest.find(|c| !(is_word(c) || c.is_ascii_digit() || c == '-')).unwrap_or(rest.len());
        self.at += end;
        &self.source[start..self.at]
    }

    fn unquoted(&mut self, start: usize, message: &str, text: &str) -> Step<()> {
        let span = self.span(start, self.at);
        self.push(
            Problem::new(Code::UnquotedText, span, message).hint(format!("write \"{}\"", shorten(text))),
        )
    }

    /// Steps over white space, and over comments after saying that they are not allowed.
    fn blank(&mut self) -> Step<()> {
        loop {
            let rest = &self.source[self.at..];
            self.at += rest.bytes().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
            let start = self.at;
            let rest = &self.source[start..];
            let length = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find(['\n', '\r']).unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                return Ok(());
            };
            self.at += length;
            let problem = Problem::new(Code::Comment, self.span(start, self.at), "JSON has no comments");
            self.push(problem.hint("write it as a value: \"_comment\": \"...\""))?;
        }
    }

    fn fail<T>(&mut self, wanted: &str, hint: &str) -> Step<T> {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some('\0') => "a NUL byte".to_owned(),
            Some(c) if c.is_control() || !c.is_ascii() => format!("the character U+{:04X}", u32::from(c)),
            Some(c) => format!("`{c}`"),
        };
        let code =
            if self.peek().is_some_and(char::is_control) { Code::ControlCharacter } else { Code::Syntax };
        let span = self.span(self.at, self.at + self.peek().map_or(0, char::len_utf8));
        self.push(Problem::new(code, span, format!("expected {wanted}, found {found}")).hint(hint))?;
        Err(Stop)
    }

    fn push(&mut self, problem: Problem) -> Step<()> {
        let mut pointer = String::new();
        for token in &self.path {
            push_pointer(&mut pointer, token);
        }
        self.problems.push((problem, pointer));
        if self.problems.len() >= MAX_PROBLEMS { Err(Stop) } else { Ok(()) }
    }

    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.number, start, end)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn is_curly(c: char) -> bool {
    "“”„‟‘’«»".contains(c)
}

/// Whether a key or a value can begin so.
fn is_start(c: char) -> bool {
    is_word(c) || c.is_ascii_digit() || is_curly(c) || "\"'{[-+.".contains(c)
}

fn is_not_finite(word: &str) -> bool {
    ["nan", "inf", "infinity"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(39).collect::<String>())
    }
}
