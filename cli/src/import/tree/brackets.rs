//! Lists and maps in brackets whose lines are no deeper than their key, which most readers of YAML take.

/// Enough for what a person writes; more would let a hostile file grow.
const DEEPEST: usize = 80;

/// Where a text is, character by character.
#[derive(Default)]
struct Place {
    /// How many brackets are open, and the column behind the first one.
    open: usize,
    column: usize,
    quote: Option<char>,
    /// The column of the key whose block of text this is.
    block: Option<usize>,
}

/// The text with lines inside of brackets indented deeper than the first of them.
pub(super) fn indented(text: &str) -> String {
    let mut place = Place::default();
    let mut found = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let depth = line.len() - line.trim_start_matches(' ').len();
        let is_empty = line.trim().is_empty();
        if place.block.is_some_and(|key| is_empty || depth > key) {
            found += line;
            continue;
        }
        place.block = None;
        if place.open > 0 && !is_empty {
            found.extend(std::iter::repeat_n(' ', place.column));
        }
        found += line;
        place.line(line, depth);
    }
    found
}

impl Place {
    fn line(&mut self, line: &str, depth: usize) {
        // Where the key begins, and whether a value may begin at the next character.
        let (mut key, mut begins, mut before) = (depth, true, ' ');
        let mut rest = line.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let next = rest.peek().map_or(' ', |(_, c)| *c);
            match (self.quote, c) {
                (Some('"'), '\\') => _ = rest.next(),
                (Some('\''), '\'') if next == '\'' => _ = rest.next(),
                (Some(quote), c) if c == quote => self.quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => return,
                (None, '"' | '\'') if begins => (self.quote, begins) = (Some(c), false),
                (None, '[' | '{') if begins || self.open > 0 => {
                    if self.open == 0 {
                        self.column = (at + 1).min(DEEPEST);
                    }
                    (self.open, begins) = (self.open + 1, true);
                }
                (None, ']' | '}') if self.open > 0 => (self.open, begins) = (self.open - 1, false),
                (None, ',') if self.open > 0 => begins = true,
                (None, ':') => begins = next.is_whitespace() || self.open > 0,
                (None, '-' | '?') if begins && next.is_whitespace() => key = at + 2,
                // A name or a type of the value behind it.
                (None, '&' | '!') if begins => while rest.next_if(|(_, c)| !c.is_whitespace()).is_some() {},
                (None, '|' | '>') if begins && self.open == 0 => {
                    self.block = Some(key);
                    return;
                }
                (None, c) if c.is_whitespace() => {}
                (None, _) => begins = false,
            }
            before = c;
        }
    }
}
