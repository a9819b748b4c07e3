//! Sources to one spill: every row's ids, and the ledger of what became of the rows.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::compare;
use super::read::{self, Extent, Job, Opened};
use super::recipe::{Coder, Ledger, Recipe, Source};
use super::tokenize::{self, Dropped, Part, Row, RowTokenizer};
use crate::ordered;
use crate::problem::{BadRows, Failure, Fault, Outcome};
use crate::spill::{Document, Spill, SpillWriter};

/// All that is known once every row has been read.
pub struct Ingested {
    pub spill: Spill,
    pub documents: Vec<Document>,
    /// Supervised tokens by document would be too much to keep; by row it is not needed either.
    pub rows: u32,
    /// First row of each source, and one past the last of all.
    pub source_rows: Vec<u32>,
    /// Rows that were cut, in order.
    pub truncated: Vec<u32>,
    /// Rows whose trailing messages have no answer, in order.
    pub unanswered: Vec<u32>,
    /// Rows whose answers hold thoughts that the chat template leaves out, in order.
    pub thoughts_left_out: Vec<u32>,
    /// Rows that were split and of which pieces were dropped, in order.
    pub dropped: Vec<(u32, Dropped)>,
    pub ledgers: Vec<Ledger>,
    pub bad: BadRows,
}

struct Done {
    source: usize,
    part: Part,
    /// Where the part's documents begin in the spill.
    offset: u64,
}

/// Reads every source. `near_copies` has rows with what they copy: they are left out where that is kept. `progress` hears
/// of bytes and rows read and may stop the work.
pub fn ingest(
    recipe: &Recipe,
    coder: Coder<'_>,
    sources: Vec<Source>,
    near_copies: Option<&BTreeMap<compare::Row, compare::Row>>,
    spill: &Path,
    threads: usize,
    progress: impl FnMut(u64, u64, u64) -> bool,
) -> Outcome<Ingested> {
    let mut bad = BadRows::default();
    let opened = read::open(sources, &mut bad)?;
    let total = opened.bytes();
    let Opened { files, streams, names } = opened;
    let spill = SpillWriter::create(spill)?;
    let mut collector = Collector::new(&names, total, near_copies, bad, progress);
    let threads = if matches!(coder, Coder::Oracle(_)) { 1 } else { threads };
    ordered::run(
        threads,
        read::jobs(&files, streams),
        || RowTokenizer::new(recipe, coder),
        |tokenizer, job| work(tokenizer, job, &spill),
        |done| collector.take(done?),
    )?;
    Ok(collector.finish(spill.finish()?))
}

fn work(tokenizer: &mut RowTokenizer<'_>, job: Job<'_>, spill: &SpillWriter) -> Outcome<Done> {
    let mut part = tokenizer.begin();
    let Extent { source, lines, bytes } = job.read(|number, row| tokenizer.take(number, row, &mut part))?;
    (part.lines, part.bytes) = (lines, bytes);
    let offset = tokenizer.spill(&mut part, spill)?;
    Ok(Done { source, part, offset })
}

/// Puts the parts, in order, into the ledgers and the list of documents.
struct Collector<'a, P> {
    documents: Vec<Document>,
    rows: u32,
    source_rows: Vec<u32>,
    truncated: Vec<u32>,
    unanswered: Vec<u32>,
    thoughts_left_out: Vec<u32>,
    dropped: Vec<(u32, Dropped)>,
    ledgers: Vec<Ledger>,
    bad: BadRows,
    seen: HashSet<u128>,
    near_copies: Option<&'a BTreeMap<compare::Row, compare::Row>>,
    /// Rows that are kept, and those of which a copy is: the comparison knows only rows as they are read, and an
    /// original may be too long or have nothing to learn. Empty without `near_copies`.
    represented: HashSet<compare::Row>,
    /// The source being read, and how many of its lines are behind.
    source: usize,
    lines: u64,
    bytes: u64,
    total: u64,
    progress: P,
}

impl<'a, P: FnMut(u64, u64, u64) -> bool> Collector<'a, P> {
    fn new(
        names: &[String],
        total: u64,
        near_copies: Option<&'a BTreeMap<compare::Row, compare::Row>>,
        bad: BadRows,
        progress: P,
    ) -> Self {
        let ledgers = names.iter().map(|name| Ledger { name: name.clone(), ..Ledger::default() }).collect();
        Self {
            documents: Vec::new(),
            rows: 0,
            source_rows: vec![0; names.len() + 1],
            truncated: Vec::new(),
            unanswered: Vec::new(),
            thoughts_left_out: Vec::new(),
            dropped: Vec::new(),
            ledgers,
            bad,
            seen: HashSet::new(),
            near_copies,
            represented: HashSet::new(),
            source: 0,
            lines: 0,
            bytes: 0,
            total,
            progress,
        }
    }

    fn take(&mut self, done: Done) -> Outcome<()> {
        let Done { source, part, offset } = done;
        if source != self.source {
            self.source = source;
            self.lines = 0;
        }
        self.count(&part);
        for (number, fault) in &part.faults {
            self.report(*number, fault);
        }
        self.keep(&part, offset);
        self.lines += part.lines;
        self.bytes += part.bytes;
        if (self.progress)(self.bytes, self.total, u64::from(self.rows)) {
            Ok(())
        } else {
            Err(Failure::Interrupted)
        }
    }

    fn count(&mut self, part: &Part) {
        let ledger = &mut self.ledgers[self.source];
        ledger.read += part.read;
        ledger.bad += part.faults.len() as u64;
        ledger.dropped_short += part.short;
        ledger.dropped_long += part.long;
        ledger.dropped_overlong += part.overlong;
        ledger.dropped_unsupervised += part.unsupervised;
        ledger.parsed_dialogues += part.parsed;
        ledger.interpreted += part.interpreted;
        ledger.eos_added += part.eos_added;
        ledger.bytes += part.bytes;
        for (field, rows) in &part.unused {
            tokenize::count(&mut ledger.unused, field.clone(), *rows);
        }
    }

    fn report(&mut self, number: u64, fault: &Fault) {
        self.bad.push(fault, &self.ledgers[self.source].name, self.lines + number + 1);
    }

    /// Notes the documents of every row; of equal and of similar rows, where that is asked, of the first alone.
    fn keep(&mut self, part: &Part, mut offset: u64) {
        let mut next = 0;
        for row in &part.rows {
            let documents = &part.documents[next..next + row.documents as usize];
            next += documents.len();
            if row.origin.fingerprint != 0 && !self.seen.insert(row.origin.fingerprint) {
                self.ledgers[self.source].dropped_duplicate += 1;
            } else if self.repeats_a_kept_row(row) {
                self.ledgers[self.source].dropped_near += 1;
            } else {
                self.add(row, documents, offset);
            }
            offset += documents.iter().map(|(_, units)| u64::from(*units)).sum::<u64>();
        }
        for end in &mut self.source_rows[self.source + 1..] {
            *end = self.rows;
        }
    }

    /// Notes a row that is to be kept, too.
    fn repeats_a_kept_row(&mut self, row: &Row) -> bool {
        let Some(copies) = self.near_copies else { return false };
        let place = (self.source as u32, self.lines + row.origin.number + 1);
        let original = copies.get(&place);
        let is_repeat = original.is_some_and(|original| self.represented.contains(original));
        // Later copies may name this row or its original.
        self.represented.insert(place);
        self.represented.extend(original);
        is_repeat
    }

    fn add(&mut self, row: &Row, documents: &[(u32, u32)], mut offset: u64) {
        let ledger = &mut self.ledgers[self.source];
        ledger.used += 1;
        if row.truncated {
            ledger.truncated += 1;
            self.truncated.push(self.rows);
        }
        if row.origin.unanswered {
            ledger.unanswered += 1;
            ledger.first_unanswered.get_or_insert(self.lines + row.origin.number + 1);
            self.unanswered.push(self.rows);
        }
        if row.origin.thoughts_left_out {
            ledger.thoughts_left_out += 1;
            ledger.first_thoughts_left_out.get_or_insert(self.lines + row.origin.number + 1);
            self.thoughts_left_out.push(self.rows);
        }
        if row.dropped.pieces > 0 {
            ledger.dropped_pieces += u64::from(row.dropped.pieces);
            ledger.dropped_tokens += u64::from(row.dropped.tokens);
            self.dropped.push((self.rows, row.dropped));
        }
        ledger.split += u64::from(documents.len() > 1 || row.dropped.pieces > 0);
        ledger.supervised += u64::from(row.supervised);
        for (length, units) in documents {
            self.documents.push(Document { offset, length: *length, row: self.rows });
            ledger.tokens += u64::from(*length);
            offset += u64::from(*units);
        }
        self.rows += 1;
    }

    fn finish(self, spill: Spill) -> Ingested {
        Ingested {
            spill,
            documents: self.documents,
            rows: self.rows,
            source_rows: self.source_rows,
            truncated: self.truncated,
            unanswered: self.unanswered,
            thoughts_left_out: self.thoughts_left_out,
            dropped: self.dropped,
            ledgers: self.ledgers,
            bad: self.bad,
        }
    }
}
