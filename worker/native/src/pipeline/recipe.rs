//! What the stages of the pipeline share: the recipe of a row, the sources, the coder and the counts of rows.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::encoder::Tokenizer;
use crate::problem::{BadRows, Fault};
use crate::rows::Shaper;
use crate::template::Engine;

/// What becomes of a row that is longer than a training row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlong {
    /// Its end is cut.
    Truncate,
    /// Its beginning is cut, so that the answer at its end is learned.
    KeepEnd,
    Split,
    Drop,
    Error,
}

/// Everything that decides a row's ids and labels.
pub struct Recipe {
    pub shaper: Shaper,
    pub engine: Engine,
    /// Ids that may end an answer; the first is appended where none does.
    pub eos: Vec<u32>,
    /// Texts that end a turn.
    pub stops: Vec<String>,
    /// What surrounds a bare text.
    pub frame: (Vec<u32>, Vec<u32>),
    pub max_seq_length: usize,
    pub overlong: Overlong,
    pub deduplicate: bool,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    /// Never use compiled templates.
    pub interpret: bool,
}

/// Ids and, for each, the character of the text at which the token begins.
pub struct OracleIds {
    pub ids: Vec<u32>,
    pub starts: Vec<u32>,
}

/// A text's ids and the character at which each token begins, from `tokenizers` itself.
pub type Oracle<'a> = dyn Fn(Vec<String>) -> Result<Vec<OracleIds>, String> + Sync + 'a;

/// Who turns text into ids.
#[derive(Clone, Copy)]
pub enum Coder<'a> {
    Native(&'a Tokenizer),
    Oracle(&'a Oracle<'a>),
}

pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Where rows come from.
pub enum Source {
    Lines { path: PathBuf, name: String },
    Batches { batches: Batches, name: String },
}

/// What became of the rows of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    pub name: String,
    pub read: u64,
    pub used: u64,
    pub bad: u64,
    pub truncated: u64,
    pub split: u64,
    /// Pieces of split rows from which nothing is learned, and their tokens.
    pub dropped_pieces: u64,
    pub dropped_tokens: u64,
    pub dropped_overlong: u64,
    pub dropped_unsupervised: u64,
    pub dropped_duplicate: u64,
    pub dropped_near: u64,
    pub dropped_short: u64,
    pub dropped_long: u64,
    pub dropped_mixture: u64,
    /// Further times that used rows are there.
    pub repeated: u64,
    /// Used rows whose trailing messages have no answer, and the line of the first one.
    pub unanswered: u64,
    pub first_unanswered: Option<u64>,
    /// Used rows whose answers hold thoughts that the chat template leaves out, and the line of the first one.
    pub thoughts_left_out: u64,
    pub first_thoughts_left_out: Option<u64>,
    pub interpreted: u64,
    pub parsed_dialogues: u64,
    pub eos_added: u64,
    pub tokens: u64,
    pub supervised: u64,
    pub bytes: u64,
    /// Fields that nothing was read from, and in how many rows.
    pub unused: Vec<(String, u64)>,
}

/// Rows that could not be used, and whether that ends the work.
#[derive(Debug, Default)]
pub struct Faults {
    pub rows: BadRows,
}

/// How a row was lost, when it was not a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Short,
    Long,
    Overlong,
    Unsupervised,
}

/// A row that came to nothing.
pub(super) enum Refusal {
    Fault(Fault),
    Loss(Loss),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
