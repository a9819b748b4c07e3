//! Texts and their escapes.

use crate::diagnostic::{Code, Problem};
use crate::source::Span;

/// The decoded text between two quotes; mistakes are reported and replaced, so that parsing continues.
pub struct Text {
    pub value: String,
    /// The offset behind the closing quote.
    pub end: usize,
}

/// Reads the string whose opening quote is at `start`.
pub fn read(source: &str, number: u32, start: usize, problems: &mut Vec<Problem>) -> Text {
    let quote = source.as_bytes()[start];
    let mut reader = Reader { source, number, at: start + 1, value: String::new(), problems };
    loop {
        let plain = reader.plain(quote);
        reader.value.push_str(plain);
        match reader.source[reader.at..].chars().next() {
            Some(c) if u32::from(c) == u32::from(quote) => {
                return Text { end: reader.at + 1, value: reader.value };
            }
            Some('\\') => reader.escape(),
            None | Some('\n' | '\r') => return reader.unterminated(start),
            Some(control) => reader.control(control),
        }
    }
}

struct Reader<'a, 'b> {
    source: &'a str,
    number: u32,
    at: usize,
    value: String,
    problems: &'b mut Vec<Problem>,
}

impl<'a> Reader<'a, '_> {
    fn plain(&mut self, quote: u8) -> &'a str {
        let rest = &self.source[self.at..];
        let length = rest.bytes().take_while(|b| *b != quote && *b != b'\\' && *b >= 0x20).count();
        self.at += length;
        &rest[..length]
    }

    fn problem(&mut self, code: Code, start: usize, message: String, hint: &str) {
        let span = Span::new(self.number, start, self.at);
        self.problems.push(Problem::new(code, span, message).hint(hint));
    }

    /// A text ends with its line at the latest, so that one missing quote does not swallow the file.
    fn unterminated(mut self, start: usize) -> Text {
        self.problem(
            Code::UnterminatedText,
            start,
            "this text is not closed before the end of its line".to_owned(),
            "add a `\"`; a line break inside a text is written \\n",
        );
        Text { value: self.value, end: self.at }
    }

    fn control(&mut self, control: char) {
        let start = self.at;
        self.at += control.len_utf8();
        let code = u32::from(control);
        let (name, escape) = match control {
            '\t' => ("tab".to_owned(), "\\t".to_owned()),
            '\0' => ("NUL byte".to_owned(), "\\u0000, or remove it".to_owned()),
            _ => (format!("control character U+{code:04X}"), format!("\\u{code:04x}, or remove it")),
        };
        self.problem(
            Code::ControlCharacter,
            start,
            format!("a raw {name} is in a string"),
            &format!("write {escape}"),
        );
        self.value.push(control);
    }

    fn escape(&mut self) {
        let start = self.at;
        let Some(kind) = self.source[start + 1..].chars().next() else {
            self.at += 1;
            return;
        };
        if kind == '\n' || kind == '\r' {
            self.at += 1;
            return;
        }
        self.at += 1 + kind.len_utf8();
        let plain = match kind {
            '"' | '\\' | '/' => kind,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode(start),
            _ => {
                let hint = "a backslash itself is written \\\\; in paths / works on every system";
                self.problem(
                    Code::InvalidEscape,
                    start,
                    format!("`\\{kind}` is not an escape in JSON"),
                    hint,
                );
                self.value.push('\\');
                kind
            }
        };
        self.value.push(plain);
    }

    fn unicode(&mut self, start: usize) -> char {
        let Some(high) = self.hex(start) else { return char::REPLACEMENT_CHARACTER };
        if let Some(c) = char::from_u32(high) {
            return c;
        }
        let before_low = self.at;
        if high < 0xdc00 && self.source[self.at..].starts_with("\\u") {
            self.at += 2;
            if let Some(low) = self.hex_digits().filter(|low| (0xdc00..0xe000).contains(low)) {
                let joined = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            self.at = before_low;
        }
        let message = format!("`\\u{high:04x}` is half of a UTF-16 pair and no character by itself");
        self.problem(Code::LoneSurrogate, start, message, "write the character itself, or both halves");
        char::REPLACEMENT_CHARACTER
    }

    fn hex(&mut self, start: usize) -> Option<u32> {
        let value = self.hex_digits();
        if value.is_none() {
            let message = "`\\u` must be followed by four hexadecimal digits".to_owned();
            let hint = "in paths / works on every system; a backslash itself is written \\\\";
            self.problem(Code::InvalidEscape, start, message, hint);
        }
        value
    }

    fn hex_digits(&mut self) -> Option<u32> {
        let digits = self.source.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}
