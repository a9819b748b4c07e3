//! Added tokens are cut out of a text before anything else looks at it.

use aho_corasick::{AhoCorasick, MatchKind};

/// An added token as tokenizer.json describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedToken {
    pub id: u32,
    pub text: String,
    pub lstrip: bool,
    pub rstrip: bool,
    /// Matched after normalisation rather than before.
    pub normalized: bool,
}

pub struct Hit {
    pub id: u32,
    pub start: usize,
    pub end: usize,
}

pub struct Added {
    tokens: Vec<AddedToken>,
    raw: Option<Finder>,
    normalized: Option<Finder>,
}

struct Finder {
    automaton: AhoCorasick,
    /// Place in `Added::tokens` of each pattern.
    members: Vec<usize>,
}

impl Added {
    pub fn new(tokens: &[AddedToken]) -> Self {
        let finder = |normalized: bool| {
            let members: Vec<usize> =
                (0..tokens.len()).filter(|at| tokens[*at].normalized == normalized).collect();
            let patterns = members.iter().map(|at| tokens[*at].text.as_bytes());
            let automaton =
                AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).ok()?;
            (!members.is_empty()).then_some(Finder { automaton, members })
        };
        Self { tokens: tokens.to_vec(), raw: finder(false), normalized: finder(true) }
    }

    pub fn find(&self, text: &str, from: usize) -> Option<Hit> {
        self.search(self.raw.as_ref()?, text, from)
    }

    pub fn find_normalized(&self, text: &str, from: usize) -> Option<Hit> {
        self.search(self.normalized.as_ref()?, text, from)
    }

    pub fn text_of(&self, id: u32) -> Option<&str> {
        self.tokens.iter().find(|token| token.id == id).map(|token| token.text.as_str())
    }

    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.tokens.iter().find(|token| token.text == text).map(|token| token.id)
    }

    fn search(&self, finder: &Finder, text: &str, from: usize) -> Option<Hit> {
        let found = finder.automaton.find(aho_corasick::Input::new(text).range(from..))?;
        let token = &self.tokens[finder.members[found.pattern().as_usize()]];
        let (mut start, mut end) = (found.start(), found.end());
        if token.lstrip {
            start = from + text[from..start].trim_end().len();
        }
        if token.rstrip {
            end += text[end..].len() - text[end..].trim_start().len();
        }
        Some(Hit { id: token.id, start, end })
    }
}
