//! Tokenizing: rows of one part of a source to flagged ids, on one thread.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use super::recipe::{self, Coder, Loss, OracleIds, Overlong, Recipe, Refusal};
use crate::encoder::{self, Encoder, SUPERVISED, Span};
use crate::problem::{Failure, Fault, Outcome};
use crate::rows::{Row as Understood, Shaped, Value, said};
use crate::spill::{self, SpillWriter};
use crate::template::{Rendered, Renderer};

/// What is known of a row beside its ids.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Within the part, from 0.
    pub number: u64,
    /// Of the row's content, where duplicates are looked for.
    pub fingerprint: u128,
    /// Its trailing messages, which have no answer, are left out.
    pub unanswered: bool,
    /// Its answers hold thoughts that the chat template leaves out.
    pub thoughts_left_out: bool,
}

/// A row's documents, which follow those of the rows before it in [`Part::documents`].
pub struct Row {
    pub origin: Origin,
    pub documents: u32,
    pub supervised: u32,
    pub truncated: bool,
    pub dropped: Dropped,
}

/// Pieces of a row that was split from which nothing is learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    pub pieces: u32,
    pub tokens: u32,
}

/// What became of a part of a source.
#[derive(Default)]
pub struct Part {
    /// Documents as they are spilled, one after the other.
    pub units: Vec<u16>,
    /// Of each document, its ids and its units.
    pub documents: Vec<(u32, u32)>,
    pub rows: Vec<Row>,
    pub faults: Vec<(u64, Fault)>,
    pub lines: u64,
    pub read: u64,
    pub bytes: u64,
    pub short: u64,
    pub long: u64,
    pub overlong: u64,
    pub unsupervised: u64,
    pub parsed: u64,
    /// Rows whose text the template's interpreter has written.
    pub interpreted: u64,
    pub eos_added: u64,
    /// Fields that nothing was read from, and in how many rows.
    pub unused: Vec<(String, u64)>,
    pub failure: Option<Failure>,
}

enum Ids<'a> {
    Native(Box<Encoder<'a>>),
    Oracle(Reference<'a>),
}

/// `tokenizers` itself.
#[derive(Clone, Copy)]
struct Reference<'a> {
    oracle: &'a recipe::Oracle<'a>,
    /// Whether a row's parts are encoded apart, as the native encoder does it.
    apart: bool,
}

pub struct RowTokenizer<'a> {
    recipe: &'a Recipe,
    renderer: Renderer<'a>,
    ids: Ids<'a>,
    rendered: Rendered,
    row: Vec<u32>,
    /// A part's memory for the next one.
    units: Vec<u16>,
    /// Rows that wait for the oracle, which likes many texts at once.
    waiting: Vec<(Origin, Rendered)>,
}

impl<'a> RowTokenizer<'a> {
    pub fn new(recipe: &'a Recipe, coder: Coder<'a>) -> Self {
        let renderer = Renderer::new(&recipe.engine, recipe.shaper.train_on, &recipe.stops, recipe.interpret);
        let ids = match coder {
            Coder::Native(tokenizer) => Ids::Native(Box::new(Encoder::new(tokenizer))),
            Coder::Oracle(oracle) => Ids::Oracle(Reference::new(oracle)),
        };
        Self {
            recipe,
            renderer,
            ids,
            rendered: Rendered::default(),
            row: Vec::new(),
            units: Vec::new(),
            waiting: Vec::new(),
        }
    }

    pub fn begin(&mut self) -> Part {
        Part { units: std::mem::take(&mut self.units), ..Part::default() }
    }

    /// Brings a part's documents to the spill; says where they stand there.
    pub fn spill(&mut self, part: &mut Part, spill: &SpillWriter) -> Outcome<u64> {
        self.flush(part);
        if let Some(failure) = part.failure.take() {
            return Err(failure);
        }
        let offset = spill.append(&part.units)?;
        self.units = std::mem::take(&mut part.units);
        self.units.clear();
        Ok(offset)
    }

    /// Takes one row; only a failure of the whole work is returned.
    pub fn take(&mut self, number: u64, value: Result<Value<'_>, Fault>, part: &mut Part) {
        if part.failure.is_some() {
            return;
        }
        part.read += 1;
        let outcome = value.map_err(Refusal::from).and_then(|value| self.tokenize_row(number, &value, part));
        note(number, outcome, part);
    }

    fn tokenize_row(&mut self, number: u64, value: &Value<'_>, part: &mut Part) -> Result<(), Refusal> {
        let Understood { shaped, parsed, unused } = self.recipe.shaper.read(value)?;
        part.parsed += u64::from(parsed);
        for field in unused {
            count(&mut part.unused, field, 1);
        }
        check_size(self.recipe, &shaped)?;
        let fingerprint = if self.recipe.deduplicate { fingerprint(&shaped) } else { 0 };
        let before = self.renderer.interpreted;
        let outcome = self.renderer.render(&shaped, &mut self.rendered);
        part.interpreted += self.renderer.interpreted - before;
        match outcome {
            Ok(outcome) => outcome?,
            Err(failure) => {
                part.failure.get_or_insert(failure);
                return Ok(());
            }
        }
        let Rendered { unanswered, thoughts_left_out, .. } = self.rendered;
        let origin = Origin { number, fingerprint, unanswered, thoughts_left_out };
        match &mut self.ids {
            Ids::Native(encoder) => {
                self.row.clear();
                encoder.encode(&self.rendered.text, &self.rendered.spans, &mut self.row);
                if self.rendered.bare {
                    add_frame(self.recipe, &mut self.row);
                }
                finish(self.recipe, origin, &mut self.row, part)
            }
            Ids::Oracle(_) => {
                self.waiting.push((origin, std::mem::take(&mut self.rendered)));
                Ok(())
            }
        }
    }

    /// Encodes what waits for the oracle.
    fn flush(&mut self, part: &mut Part) {
        let Ids::Oracle(reference) = self.ids else { return };
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        let encoded = match reference.encode(waiting.iter().map(|(_, rendered)| rendered)) {
            Ok(encoded) => encoded,
            Err(message) => {
                part.failure.get_or_insert(Failure::Unsupported(message));
                return;
            }
        };
        for ((origin, rendered), mut row) in waiting.into_iter().zip(encoded) {
            if rendered.bare {
                add_frame(self.recipe, &mut row);
            }
            let outcome = finish(self.recipe, origin, &mut row, part);
            note(origin.number, outcome, part);
        }
    }
}

/// Refuses rows with too few or too many characters.
pub(super) fn check_size(recipe: &Recipe, shaped: &Shaped<'_>) -> Result<(), Refusal> {
    if recipe.min_length.is_none() && recipe.max_length.is_none() {
        return Ok(());
    }
    let count = |text: &str| text.chars().count() as u64;
    let size = match shaped {
        Shaped::Text(text) => count(text),
        Shaped::Turns(turns) => turns.iter().map(|turn| count(&turn.content)).sum(),
        Shaped::Rich { messages, .. } => {
            messages.iter().flat_map(said).map(|value| count(&value.as_words())).sum()
        }
    };
    if recipe.min_length.is_some_and(|least| size < least) {
        return Err(Refusal::Loss(Loss::Short));
    }
    if recipe.max_length.is_some_and(|most| size > most) {
        return Err(Refusal::Loss(Loss::Long));
    }
    Ok(())
}

impl<'a> Reference<'a> {
    /// Some tokenizers encode the beginning of a text in their own way, with a space before it for instance: what they
    /// make of an answer alone is not what follows a prompt.
    fn new(oracle: &'a recipe::Oracle<'a>) -> Self {
        let texts = ["\nx", "\n", "x", "x  y", "x", "  y"].map(str::to_owned).to_vec();
        let is_sum = |texts: &[OracleIds]| match texts {
            [whole, head, tail] => whole.ids == [head.ids.as_slice(), &tail.ids].concat(),
            _ => false,
        };
        // Where it fails, it fails for the rows too, and says why.
        let apart = oracle(texts).is_ok_and(|encoded| encoded.chunks(3).all(is_sum));
        Self { oracle, apart }
    }

    /// The flagged ids of each text.
    fn encode<'r>(
        self,
        rendered: impl Iterator<Item = &'r Rendered> + Clone,
    ) -> Result<Vec<Vec<u32>>, String> {
        let whole = |text: &str| vec![encoder::Part { start: 0, end: text.len(), learned_end: 0 }];
        let cut = |one: &Rendered| {
            if self.apart { encoder::parts(&one.text, &one.spans) } else { whole(&one.text) }
        };
        let cuts: Vec<_> = rendered.clone().map(cut).collect();
        let texts = rendered
            .clone()
            .zip(&cuts)
            .flat_map(|(one, parts)| parts.iter().map(|part| one.text[part.start..part.end].to_owned()));
        let mut encoded = (self.oracle)(texts.collect())?.into_iter();
        let row = |(one, parts): (&Rendered, &Vec<encoder::Part>)| {
            let ids = parts.iter().zip(&mut encoded).flat_map(|(part, ids)| flagged(&ids, part.start, one));
            ids.collect()
        };
        Ok(rendered.zip(&cuts).map(row).collect())
    }
}

/// Flags the oracle's ids of a text from byte `offset` on, by where their first characters stand.
fn flagged(ids: &OracleIds, offset: usize, rendered: &Rendered) -> Vec<u32> {
    let character = |at: usize| rendered.text[offset..at.max(offset)].chars().count() as u32;
    let spans: Vec<_> =
        rendered.spans.iter().map(|span| character(span.start)..character(span.end)).collect();
    let is_learned = |start: &u32| spans.iter().any(|span| span.contains(start));
    ids.ids.iter().zip(&ids.starts).map(|(id, start)| id | encoder::flag(is_learned(start))).collect()
}

fn note(number: u64, outcome: Result<(), Refusal>, part: &mut Part) {
    match outcome {
        Ok(()) => {}
        Err(Refusal::Fault(fault)) => part.faults.push((number, fault)),
        Err(Refusal::Loss(Loss::Short)) => part.short += 1,
        Err(Refusal::Loss(Loss::Long)) => part.long += 1,
        Err(Refusal::Loss(Loss::Overlong)) => part.overlong += 1,
        Err(Refusal::Loss(Loss::Unsupervised)) => part.unsupervised += 1,
    }
}

/// Puts the tokenizer's own ids around those of a bare text, except where the text has them already.
fn add_frame(recipe: &Recipe, row: &mut Vec<u32>) {
    let (prefix, suffix) = &recipe.frame;
    let is_there = |ids: &[u32], part: &[u32]| ids.iter().map(|id| id & !SUPERVISED).eq(part.iter().copied());
    if !row.get(..prefix.len()).is_some_and(|ids| is_there(ids, prefix)) {
        row.splice(0..0, prefix.iter().map(|id| id | SUPERVISED));
    }
    let end = row.len().checked_sub(suffix.len());
    if !end.is_some_and(|end| is_there(&row[end..], suffix)) {
        row.extend(suffix.iter().map(|id| id | SUPERVISED));
    }
}

/// Ends a row with EOS, fits it to the training length and adds it to the part.
fn finish(recipe: &Recipe, origin: Origin, row: &mut Vec<u32>, part: &mut Part) -> Result<(), Refusal> {
    part.eos_added += u64::from(end_answer(recipe, row));
    let truncated = fit(recipe, row)?;
    let (mut documents, mut supervised, mut dropped) = (0, 0, Dropped::default());
    for piece in pieces(recipe, row.len()) {
        let own = own(&piece);
        let to_learn = learned(&row[own.clone()]);
        if to_learn == 0 {
            dropped.pieces += 1;
            dropped.tokens += own.len() as u32;
            continue;
        }
        if piece.start < own.start {
            row[piece.start] &= !SUPERVISED;
        }
        let start = part.units.len();
        spill::pack(&row[piece.clone()], &mut part.units);
        part.documents.push((piece.len() as u32, (part.units.len() - start) as u32));
        documents += 1;
        supervised += to_learn;
    }
    if documents == 0 {
        return Err(Refusal::Loss(Loss::Unsupervised));
    }
    part.rows.push(Row { origin, documents, supervised, truncated, dropped });
    Ok(())
}

/// Applies the policy for rows that are too long; says whether the row was cut.
fn fit(recipe: &Recipe, row: &mut Vec<u32>) -> Result<bool, Refusal> {
    let most = recipe.max_seq_length;
    if row.len() <= most {
        return Ok(false);
    }
    match recipe.overlong {
        Overlong::Truncate => row.truncate(most),
        Overlong::KeepEnd => drop(row.drain(..row.len() - most)),
        Overlong::Split => {}
        Overlong::Drop => return Err(Refusal::Loss(Loss::Overlong)),
        Overlong::Error => {
            let message = format!("the row is {} tokens long, more than max_seq_length {most}", row.len());
            let hint = "raise max_seq_length, or set in training.dataset \"overlong\": \"truncate\", \"keep_end\", \"split\" or \"drop\"";
            return Err(Fault::new("overlong", message).hint(hint).into());
        }
    }
    Ok(recipe.overlong != Overlong::Split)
}

/// The row in pieces that fit. Those from which something is learned become its documents. Each begins with the
/// last id of the one before it: a document's first id is never predicted, so it would not be learned.
fn pieces(recipe: &Recipe, length: usize) -> impl Iterator<Item = Range<usize>> {
    let most = recipe.max_seq_length.max(2);
    let starts = (0..length.saturating_sub(1).max(1)).step_by(most - 1);
    starts.map(move |start| start..length.min(start + most))
}

/// What no earlier piece has.
fn own(piece: &Range<usize>) -> Range<usize> {
    piece.start + usize::from(piece.start > 0)..piece.end
}

fn learned(ids: &[u32]) -> u32 {
    ids.iter().map(|id| id >> 31).sum()
}

/// Appends EOS where nothing near the end of a learned text ends it; says whether it did.
fn end_answer(recipe: &Recipe, row: &mut Vec<u32>) -> bool {
    let Some(eos) = recipe.eos.first() else { return false };
    let Some(last) = row.last() else { return false };
    if last & SUPERVISED == 0 {
        return false;
    }
    let tail = &row[row.len().saturating_sub(3)..];
    if tail.iter().any(|id| id & SUPERVISED != 0 && recipe.eos.contains(&(id & !SUPERVISED))) {
        return false;
    }
    row.push(eos | SUPERVISED);
    true
}

/// Names are kept up to a bound: rows may each name other fields.
const MOST_UNUSED: usize = 64;

pub(super) fn count(fields: &mut Vec<(String, u64)>, field: String, rows: u64) {
    if let Some((_, known)) = fields.iter_mut().find(|(name, _)| *name == field) {
        *known += rows;
    } else if fields.len() < MOST_UNUSED {
        fields.push((field, rows));
    }
}

pub(super) fn fingerprint(shaped: &Shaped<'_>) -> u128 {
    let mut hashers = (DefaultHasher::new(), DefaultHasher::new());
    hashers.1.write_u8(1);
    let mut write = |text: &str| {
        for hasher in [&mut hashers.0, &mut hashers.1] {
            hasher.write_usize(text.len());
            hasher.write(text.as_bytes());
        }
    };
    match shaped {
        Shaped::Text(text) => write(text),
        Shaped::Turns(turns) => turns.iter().for_each(|turn| {
            write(&turn.role);
            write(&turn.content);
            if turn.unlearned {
                write("unlearned");
            }
        }),
        Shaped::Rich { messages, tools, unlearned } => {
            for at in unlearned {
                write(&at.to_string());
            }
            messages
                .iter()
                .chain(tools)
                .for_each(|value| write(&serde_json::to_string(value).unwrap_or_default()));
        }
    }
    u128::from(hashers.0.finish()) << 64 | u128::from(hashers.1.finish())
}

/// A row as it will be learned, for people to look at.
pub struct Preview {
    pub text: String,
    pub spans: Vec<Span>,
    pub ids: Vec<u32>,
}

fn in_full(fault: Fault) -> String {
    fault.hint.map_or(fault.message.clone(), |hint| format!("{} ({hint})", fault.message))
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::Fault(fault) => in_full(fault),
        Refusal::Loss(loss) => format!("the row is left out: {loss:?}").to_lowercase(),
    }
}

/// Renders and encodes one row by the same steps as a build.
pub fn preview(recipe: &Recipe, coder: Coder<'_>, value: &Value<'_>) -> Result<Preview, String> {
    let mut tokenizer = RowTokenizer::new(recipe, coder);
    let shaped = recipe.shaper.shape(value).map_err(in_full)?;
    check_size(recipe, &shaped).map_err(refused)?;
    let mut rendered = Rendered::default();
    let outcome = tokenizer.renderer.render(&shaped, &mut rendered).map_err(|failure| failure.to_string())?;
    outcome.map_err(in_full)?;
    let (text, spans) = (rendered.text.clone(), rendered.spans.clone());
    tokenizer.rendered = rendered;
    let ids = match &mut tokenizer.ids {
        Ids::Native(encoder) => {
            let mut ids = Vec::new();
            encoder.encode(&text, &spans, &mut ids);
            ids
        }
        Ids::Oracle(reference) => {
            let encoded = reference.encode(std::iter::once(&tokenizer.rendered))?;
            encoded.into_iter().next().unwrap_or_default()
        }
    };
    let mut row = ids;
    if tokenizer.rendered.bare {
        add_frame(recipe, &mut row);
    }
    end_answer(recipe, &mut row);
    fit(recipe, &mut row).map_err(refused)?;
    let parts = pieces(recipe, row.len()).map(|piece| &row[own(&piece)]);
    let ids: Vec<u32> = parts.filter(|ids| learned(ids) > 0).flatten().copied().collect();
    if ids.is_empty() {
        return Err(refused(Refusal::Loss(Loss::Unsupervised)));
    }
    Ok(Preview { text, spans, ids })
}
