//! A template, for one sequence of roles, as literal text with holes: filling holes is a hundred times faster
//! than interpreting Jinja, and gives the same text wherever the template passes contents through untouched.

use std::sync::Arc;

use super::answers::{hole, with_contents};
use super::engine::Engine;
use super::guard::Guard;
use super::render::Rendered;
use crate::encoder::Span;
use crate::problem::Fault;
use crate::rows::Turn;

enum Piece {
    Literal(String),
    Content(usize),
    Open,
    Close,
}

pub struct Plan {
    pieces: Vec<Piece>,
    guard: Guard,
    /// Contents keep the white space at their ends.
    keeps_ends: bool,
}

/// What is known of a sequence of roles.
#[derive(Clone, Default)]
pub struct Known {
    /// None where the template does more with contents than print them.
    pub plan: Option<Arc<Plan>>,
    /// Messages whose content the template does not print.
    pub missing: Vec<usize>,
}

/// White space that templates are known to strip, tried at either end.
const ENDS: [(&str, &str); 5] = [(" ", ""), ("", " "), ("\n", "\n"), ("\t", "\t\n"), ("\r\n", " \r\n")];
/// Contents that a template would give away by changing them: quotes, markup, case, digits, other scripts, length.
const TELLING: [&str; 4] = [
    "It's \"quoted\" \\ <b>&amp;</b> {curly} [square] 100% a|b",
    "x",
    "Line one\n\n  line two\ttabbed\n\u{e9}\u{6f22}\u{1f600} UPPER lower 0123",
    "```json\n{\"a\": [1, 2.5, null]}\n```",
];

impl Known {
    /// Nothing is known where the template refuses even the simplest contents.
    pub fn of(
        engine: &Engine,
        turns: &[Turn<'_>],
        interpret: impl Fn(&[Turn<'_>], &mut Rendered) -> Result<(), Fault>,
    ) -> Self {
        let sample = with_contents(turns, hole);
        let Ok(found) = engine.turns(&sample, false) else { return Self::default() };
        let missing = (0..turns.len()).filter(|at| !found.text.contains(&hole(*at))).collect();
        let mut rendered = Rendered::default();
        let is_whole = interpret(&sample, &mut rendered).is_ok();
        let plan = is_whole.then(|| Plan::probe(engine, turns, &rendered, &interpret)).flatten();
        Self { plan: plan.map(Arc::new), missing }
    }
}

impl Plan {
    fn probe(
        engine: &Engine,
        turns: &[Turn<'_>],
        probed: &Rendered,
        interpret: &impl Fn(&[Turn<'_>], &mut Rendered) -> Result<(), Fault>,
    ) -> Option<Self> {
        let holes: Vec<String> = (0..turns.len()).map(hole).collect();
        let mut plan =
            Self { pieces: cut(probed, &holes), guard: Guard::new(&engine.source), keeps_ends: false };
        let agrees = |contents: &dyn Fn(usize) -> String| {
            let sample = with_contents(turns, contents);
            let (mut ours, mut theirs) = (Rendered::default(), Rendered::default());
            plan.fill(&sample, &mut ours);
            interpret(&sample, &mut theirs).is_ok() && ours == theirs
        };
        let long = "lorem ipsum dolor sit amet ".repeat(400);
        let telling =
            TELLING.iter().all(|text| agrees(&|at| format!("{text}{at}")) && agrees(&|_| (*text).to_owned()));
        if !telling || !agrees(&|_| long.trim().to_owned()) {
            return None;
        }
        plan.keeps_ends = ENDS.iter().all(|(start, end)| agrees(&|at| format!("{start}text {at}{end}")));
        Some(plan)
    }

    /// Whether these contents are ones that the plan is right for.
    pub fn fits(&self, turns: &[Turn<'_>]) -> bool {
        turns.iter().all(|turn| {
            let content = turn.content.as_ref();
            let ends_matter = !self.keeps_ends && content.len() != content.trim().len();
            !content.is_empty() && !ends_matter && self.guard.passes(content)
        })
    }

    pub fn fill(&self, turns: &[Turn<'_>], out: &mut Rendered) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.text.push_str(text),
                Piece::Content(at) => out.text.push_str(&turns[*at].content),
                Piece::Open => out.spans.push(Span { start: out.text.len(), end: usize::MAX }),
                Piece::Close => {
                    if let Some(span) = out.spans.last_mut() {
                        span.end = out.text.len();
                    }
                }
            }
        }
    }
}

/// The probed text as pieces: cut at every hole and at every end of a learned part.
fn cut(probed: &Rendered, holes: &[String]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while at <= probed.text.len() {
        let opens = probed.spans.iter().any(|span| span.start == at);
        let closes = probed.spans.iter().any(|span| span.end == at && span.start != at);
        let hole = holes.iter().position(|hole| probed.text.as_bytes()[at..].starts_with(hole.as_bytes()));
        if opens || closes || hole.is_some() || at == probed.text.len() {
            pieces.push(Piece::Literal(probed.text[literal..at].to_owned()));
            literal = at;
        }
        if closes {
            pieces.push(Piece::Close);
        }
        if opens {
            pieces.push(Piece::Open);
        }
        if probed.spans.iter().any(|span| span.start == at && span.end == at) {
            pieces.push(Piece::Close);
        }
        match hole {
            Some(hole) => {
                pieces.push(Piece::Content(hole));
                at += holes[hole].len();
                literal = at;
            }
            None => at += 1,
        }
    }
    pieces.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
    pieces
}
