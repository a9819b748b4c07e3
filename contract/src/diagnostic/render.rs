//! A diagnostic as text: what, where, the line with the position marked, what to do.

use std::ops::RangeInclusive;

use super::code::{Code, Severity};
use super::problem::Diagnostic;
use crate::source::{Place, Source, Sources};
use crate::wrap::with_commands;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub colour: bool,
    /// Columns of the source line that are shown at most.
    pub width: usize,
    /// Of the terminal: message and hint are broken between words, and the source line fits. None: lines keep their length.
    pub columns: Option<usize>,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100, columns: None }
    }
}

pub fn render(diagnostic: &Diagnostic, sources: &Sources, style: Style) -> String {
    let paint = Paint(style.colour);
    let tone = tone(diagnostic.severity);
    let Place { line, column } = diagnostic.place;
    let head = format!("{}[{}]", diagnostic.severity.as_str(), diagnostic.code.as_str());
    let gutter = " ".repeat(line.to_string().len());
    let bar = paint.with(BLUE, "|");
    let fold = |text: &str, first, indent| {
        with_commands(&printable(text), first, indent, style.columns, |word| {
            columns(&word.chars().collect::<Vec<_>>())
        })
    };
    let message = fold(&diagnostic.message, head.len() + 2, 2);
    let mut lines = vec![format!("{}: {}", paint.with(tone, &head), paint.with(BOLD, &message))];
    if let Some(source) = sources.get(diagnostic.span) {
        let arrow = paint.with(BLUE, "-->");
        let within = match diagnostic.code {
            Code::FileUnreadable => String::new(),
            _ => format!(":{line}:{column}"),
        };
        lines.push(format!("{gutter}{arrow} {}{within}", printable(&source.name)));
        // Beside the gutter, the bar and the marks of a cut on both sides.
        let room =
            style.columns.map_or(style.width, |columns| columns.saturating_sub(gutter.len() + 5).max(20));
        let window = Window::around(source, diagnostic, room);
        // The line would put the secret into logs.
        if diagnostic.code != Code::Credentials && !window.text.trim().is_empty() {
            lines.push(format!("{gutter} {bar}"));
            lines.push(format!("{} {bar} {}", paint.with(BLUE, &line.to_string()), window.text));
            let marks = paint.with(tone, &window.marks);
            lines.push(format!("{gutter} {bar} {}{marks}", " ".repeat(window.indent)));
        }
    }
    if let Some(hint) = &diagnostic.hint {
        lines.push(format!(
            "{gutter} {} {}: {}",
            paint.with(BLUE, "="),
            paint.with(CYAN, "hint"),
            fold(hint, gutter.len() + 9, gutter.len() + 9)
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The part of the source line that holds the place, and the marks below it.
struct Window {
    text: String,
    indent: usize,
    marks: String,
}

impl Window {
    fn around(source: &Source, diagnostic: &Diagnostic, width: usize) -> Self {
        let line = source.line(diagnostic.place.line);
        let begin = source.line_start(diagnostic.place.line);
        let inside = |offset: u32| line.floor_char_boundary((offset as usize).saturating_sub(begin));
        let (start, end) = (inside(diagnostic.span.start), inside(diagnostic.span.end));
        // A line may be megabytes long; only what could be shown is looked at.
        let from = line[..start].char_indices().rev().nth(width).map_or(0, |(at, _)| at);
        let to = line[start..].char_indices().nth(2 * width).map_or(line.len(), |(at, _)| start + at);
        let shown: Vec<char> = line[from..to].chars().map(visible).collect();
        let first_mark = line[from..start].chars().count();
        let last_mark = first_mark + line[start..end.clamp(start, to)].chars().count();
        let (first, last) = crop(shown.len(), first_mark, last_mark, width);
        let mut text: String = shown[first..last].iter().collect();
        let mut indent = columns(&shown[first..first_mark]);
        if from + first > 0 {
            text.insert(0, '…');
            indent += 1;
        }
        if last < shown.len() || to < line.len() {
            text.push('…');
        }
        let marks = "^".repeat(columns(&shown[first_mark..last_mark.min(last)]).max(1));
        Self { text: text.trim_end().to_owned(), indent, marks }
    }
}

/// The shown part of a long line: the position and the text before it, up to the width.
fn crop(length: usize, start: usize, end: usize, width: usize) -> (usize, usize) {
    if length <= width {
        return (0, length);
    }
    let span = (end - start).min(width);
    let first = start.saturating_sub((width - span) / 2).min(length.saturating_sub(width));
    (first, (first + width).min(length))
}

/// Text from a file must not contain terminal control codes.
fn printable(text: &str) -> String {
    text.chars().map(visible).collect()
}

fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_visible(c) => c,
        _ => '\u{fffd}',
    }
}

/// Whether a terminal shows the character for what it is: no control character, and none that turns or hides the text
/// around it.
pub fn is_visible(c: char) -> bool {
    !(c.is_control() || HIDDEN.iter().any(|range| range.contains(&c)))
}

/// Characters that turn, join or hide the text around them. The worker's `hidden_characters.py` is generated from it.
pub const HIDDEN: &[RangeInclusive<char>] = &[
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
];

/// Of `HIDDEN`, those that shape emoji and the letters of several scripts. Output of text by others keeps them.
pub const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

fn columns(text: &[char]) -> usize {
    text.iter().map(|c| columns_of(*c)).sum()
}

/// Columns on a terminal; close enough for marks below East Asian text and emoji.
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

const BOLD: &str = "1";
const BLUE: &str = "1;34";
const CYAN: &str = "36";

fn tone(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
        Severity::Advice => "1;36",
    }
}

struct Paint(bool);

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;
    use crate::source::Span;

    fn shown(text: &str, start: usize, end: usize, style: Style) -> String {
        let sources = Sources::of(Source::new("dir/manifest.json", text));
        let span = Span::new(0, start, end);
        let diagnostic = Diagnostic {
            code: Code::UnknownKey,
            severity: Severity::Error,
            pointer: String::new(),
            span,
            place: sources.place(span),
            message: "a \x1b[31mmessage".to_owned(),
            hint: Some("a hint".to_owned()),
        };
        render(&diagnostic, &sources, style)
    }

    #[test]
    fn the_marks_stand_below_the_place() {
        let text = "{\n\t\"日本\": \"rank\"\n}";
        let start = text.find("\"rank\"").unwrap();
        assert_eq!(
            shown(text, start, start + 6, Style::default()),
            "error[unknown-key]: a \u{fffd}[31mmessage\n --> dir/manifest.json:2:8\n  |\n2 |  \"日本\": \"rank\"\n  |          ^^^^^^\n  = hint: a hint\n"
        );
    }

    #[test]
    fn a_long_line_is_windowed_around_the_place() {
        let text = format!("{}HERE{}", "a".repeat(5000), "b".repeat(5000));
        let text = shown(&text, 5000, 5004, Style { width: 20, ..Style::default() });
        assert!(text.contains("1 | …aaaaaaaaHEREbbbbbbbb…\n"), "{text}");
        assert!(text.contains("  |          ^^^^\n"), "{text}");
    }

    #[test]
    fn on_a_narrow_terminal_nothing_is_wider_than_it() {
        let text = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        for width in [30, 60, 80] {
            let rendered = shown(&text, 500, 504, Style { columns: Some(width), ..Style::default() });
            let longest = rendered.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width) && rendered.contains("aHEREb"), "{width}: {rendered}");
        }
        let narrow = shown("{}", 0, 1, Style { columns: Some(24), ..Style::default() });
        assert!(narrow.starts_with("error[unknown-key]: a\n  \u{fffd}[31mmessage\n"), "{narrow}");
    }

    #[test]
    fn colour_only_on_request() {
        assert!(!shown("{}", 0, 1, Style::default()).contains('\x1b'));
        assert!(
            shown("{}", 0, 1, Style { colour: true, width: 80, columns: None })
                .contains("\x1b[1;31merror[unknown-key]\x1b[0m")
        );
    }

    #[test]
    fn every_place_in_a_text_can_be_shown() {
        let text = "\n\"a\u{301}\"\r\n\u{1f600}x\n";
        for start in 0..=text.len() {
            for end in start..=text.len() {
                shown(text, start, end, Style { width: 3, ..Style::default() });
            }
        }
    }
}
