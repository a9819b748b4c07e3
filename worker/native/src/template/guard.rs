//! What a template may look at inside a message: read from the template's own text.
//!
//! A plan is only right for contents that the template passes through untouched. Templates test contents against
//! literals (`'</think>' in content`, `content.split(...)`), so a content that holds such a literal is interpreted.

use aho_corasick::AhoCorasick;

/// The literals that a template compares with, by how it does.
pub struct Guard {
    inside: Option<AhoCorasick>,
    edges: Vec<char>,
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Literal(String),
    Word(&'a str),
    Mark(char),
}

impl Guard {
    pub fn new(template: &str) -> Self {
        let mut inside = Vec::new();
        let mut edges = Vec::new();
        for code in code_parts(template) {
            let tokens = tokens(code);
            for at in 0..tokens.len() {
                let Token::Literal(text) = &tokens[at] else { continue };
                match use_of(&tokens, at) {
                    Use::Edges => edges.extend(text.chars()),
                    Use::Inside if !text.is_empty() => inside.push(text.clone()),
                    _ => {}
                }
            }
        }
        inside.sort();
        inside.dedup();
        Self { inside: if inside.is_empty() { None } else { AhoCorasick::new(inside).ok() }, edges }
    }

    /// Whether the template treats this content like any other.
    pub fn passes(&self, content: &str) -> bool {
        let edge =
            |character: Option<char>| character.is_some_and(|character| self.edges.contains(&character));
        !edge(content.chars().next())
            && !edge(content.chars().next_back())
            && !self.inside.as_ref().is_some_and(|inside| inside.is_match(content))
    }
}

enum Use {
    /// Looked for anywhere in a text.
    Inside,
    /// A set of characters stripped from the ends.
    Edges,
    /// Printed, a key, or compared as a whole with a role.
    Elsewhere,
}

fn use_of(tokens: &[Token<'_>], at: usize) -> Use {
    let word = |at: usize| match tokens.get(at) {
        Some(Token::Word(word)) => *word,
        _ => "",
    };
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    if matches!(word(at + 1), "in" | "not") {
        return Use::Inside;
    }
    if !matches!(before, Some(Token::Mark('(' | ','))) {
        return Use::Elsewhere;
    }
    let Some(open) = tokens[..at].iter().rposition(|token| *token == Token::Mark('(')) else {
        return Use::Elsewhere;
    };
    match open.checked_sub(1).map_or("", word) {
        "strip" | "lstrip" | "rstrip" => Use::Edges,
        "split" | "rsplit" | "startswith" | "endswith" | "replace" | "find" | "rfind" | "count" | "index"
        | "partition" | "removeprefix" | "removesuffix" => Use::Inside,
        _ => Use::Elsewhere,
    }
}

/// Whether the template's code has a variable of this name: a word in a comment, a text or behind a dot is none.
pub fn reads(template: &str, name: &str) -> bool {
    code_parts(template).into_iter().any(|code| {
        let tokens = tokens(code);
        (0..tokens.len())
            .any(|at| tokens[at] == Token::Word(name) && !(at > 0 && tokens[at - 1] == Token::Mark('.')))
    })
}

/// Whether the template's own text gives the variable a value before anything reads it, so that no other value counts.
pub fn decides(template: &str, name: &str) -> bool {
    let mut depth = 0_usize;
    let parts: Vec<Vec<Token>> = code_parts(template).into_iter().map(tokens).collect();
    let is_block = |word: &str| parts.iter().flatten().any(|it| *it == Token::Word(&format!("end{word}")));
    for part in &parts {
        // Past the mark that trims white space.
        let part = part.strip_prefix(&[Token::Mark('-')]).unwrap_or(part);
        let is_name = |token: &Token| *token == Token::Word(name);
        if part.iter().any(is_name) {
            return depth == 0
                && matches!(part, [Token::Word("set"), target, Token::Mark('='), value @ ..]
                    if is_name(target) && !value.iter().any(is_name));
        }
        let Some(Token::Word(first)) = part.first() else { continue };
        let is_assignment = *first == "set" && part.get(2) == Some(&Token::Mark('='));
        if first.starts_with("end") {
            depth = depth.saturating_sub(1);
        } else if !is_assignment && is_block(first) {
            depth += 1;
        }
    }
    false
}

/// What stands between `{{ }}` and `{% %}`, comments left out.
fn code_parts(template: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        rest = &rest[start + 1..];
        let close = match rest.as_bytes().first() {
            Some(b'{') => "}}",
            Some(b'%') => "%}",
            Some(b'#') => {
                let Some(end) = rest.find("#}") else { break };
                rest = &rest[end + 2..];
                continue;
            }
            _ => continue,
        };
        // From past the opening: `{%}` opens a tag and closes none.
        let Some(end) = rest[1..].find(close).map(|end| end + 1) else { break };
        parts.push(&rest[1..end]);
        rest = &rest[end + 2..];
    }
    parts
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\'' | '"' => {
                let (text, length) = literal(rest, first);
                out.push(Token::Literal(text));
                length
            }
            _ if first.is_alphanumeric() || first == '_' => {
                let length = rest.find(|character: char| !(character.is_alphanumeric() || character == '_'));
                let length = length.unwrap_or(rest.len());
                out.push(Token::Word(&rest[..length]));
                length
            }
            _ => {
                if !first.is_whitespace() {
                    out.push(Token::Mark(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// A string literal's text, and how many bytes it takes with its quotes.
fn literal(code: &str, quote: char) -> (String, usize) {
    let mut text = String::new();
    let mut characters = code.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, other)) => text.push(other),
                None => break,
            },
            _ if character == quote => return (text, at + 1),
            _ => text.push(character),
        }
    }
    (text, code.len())
}
