//! The program's own styles, and text that cannot steer a terminal.
//!
//! Names, paths, a worker's words and a model's answers are mixed with the program's own text wherever something is
//! shown. A style is therefore not written as an escape sequence but between marks that no other text can hold: they
//! have a random number, one per process. [`shown`] turns what stands between marks into escape sequences
//! and replaces control characters everywhere else.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use expert_contract::diagnostic::{JOINERS, is_visible};

pub const ERROR: Paint = Paint(AnsiColor::Red.on_default().bold());
pub const GOOD: Paint = Paint(AnsiColor::Green.on_default());
pub const WARNING: Paint = Paint(AnsiColor::Yellow.on_default().bold());
pub const HINT: Paint = Paint(AnsiColor::Cyan.on_default());
pub const STRONG: Paint = Paint(Style::new().bold());
pub const DIM: Paint = Paint(Style::new().dimmed());

/// `{paint}` begins the style and `{paint:#}` ends it.
#[derive(Debug, Clone, Copy)]
pub struct Paint(Style);

impl fmt::Display for Paint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = mark();
        formatter.write_str(mark)?;
        if formatter.alternate() {
            write!(formatter, "{:#}", self.0)
        } else {
            write!(formatter, "{}", self.0)
        }?;
        formatter.write_str(mark)
    }
}

fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    // U+FDD0 is a noncharacter: texts do not contain it.
    MARK.get_or_init(|| format!("\u{fdd0}{:016x}\u{fdd0}", RandomState::new().build_hasher().finish()))
}

/// Whether standard output shows styles: it is a terminal, and nothing such as NO_COLOR says otherwise.
pub fn coloured() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// As a terminal gets it: styles as escape sequences, and no other control character except line feeds and tabs.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, piece) in text.split(mark()).enumerate() {
        if index % 2 == 1 {
            out.push_str(piece);
        } else {
            out.extend(
                piece
                    .replace("\r\n", "\n")
                    .chars()
                    .map(|c| if c == '\n' || c == '\t' { c } else { visible(c) }),
            );
        }
    }
    out
}

/// The same on one line and without styles, for a cell or a line that is drawn in place.
pub fn one_line(text: &str) -> String {
    text.split(mark()).step_by(2).flat_map(str::chars).map(visible).collect()
}

/// JSON in which characters that could steer a terminal are escaped, so that the data is the same.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_visible(c) {
            out.push(c);
        } else {
            // Outside of ASCII's printable characters, JSON has only text.
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        c if is_visible(c) || JOINERS.contains(&c) => c,
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_styles_are_escape_sequences() {
        let text = format!("{ERROR}error{ERROR:#}: \u{1b}[31mred\u{1b}[0m \u{9b}2J\u{7} a\rb\r\nc\td");
        assert_eq!(
            shown(&text),
            "\u{1b}[1m\u{1b}[31merror\u{1b}[0m: \u{fffd}[31mred\u{fffd}[0m \u{fffd}2J\u{fffd} a\u{fffd}b\nc\td"
        );
        assert_eq!(one_line(&format!("{DIM}a\nb{DIM:#}\u{202e}c")), "a b\u{fffd}c");
    }

    #[test]
    fn a_guessed_style_mark_has_no_effect() {
        let text = format!("\u{fdd0}0000000000000000\u{fdd0}\u{1b}[2J{STRONG}x{STRONG:#}\u{1b}[2J");
        assert_eq!(shown(&text).matches('\u{1b}').count(), 2, "the two of STRONG");
    }

    #[test]
    fn json_holds_the_same_data() {
        let value = serde_json::json!({"a\u{9b}2J": "\u{7f}\u{202e}\u{1b}]0;x\u{7}é\u{e0041}\u{1f600}"});
        let text = json(&value.to_string());
        assert!(text.chars().all(is_visible), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json(&pretty)).unwrap(), value);
    }
}
