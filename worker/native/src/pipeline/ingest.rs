//! Sources to one spill: every row's ids, and the ledger of what became of the rows.

use std::collections::HashSet;
use std::path::Path;

use super::recipe::{self, Coder, Ledger, Recipe, Source};
use super::tokenize::{self, Part, Row, RowTokenizer};
use crate::ordered;
use crate::problem::{BadRows, Failure, Fault, Outcome};
use crate::rows::{Columns, Lines};
use crate::spill::{Document, Spill, SpillWriter};

/// All that is known once every row has been read.
pub struct Ingested {
    pub spill: Spill,
    pub documents: Vec<Document>,
    /// Supervised tokens by document would be too much to keep; by row it is not needed either.
    pub rows: u32,
    /// First row of each source, and one past the last of all.
    pub source_rows: Vec<u32>,
    pub ledgers: Vec<Ledger>,
    pub bad: BadRows,
}

enum Job<'a> {
    Lines { source: usize, file: &'a Lines, part: usize },
    Batch { source: usize, batch: Columns },
    Broken(Failure),
}

struct Done {
    source: usize,
    part: Part,
    /// Where the part's documents begin in the spill.
    offset: u64,
}

/// An opened source.
enum Opened {
    Lines(Lines),
    Batches(recipe::Batches),
}

/// Reads every source; `progress` hears of bytes and rows read and may stop the work.
pub fn ingest(
    recipe: &Recipe,
    coder: Coder<'_>,
    sources: Vec<Source>,
    spill: &Path,
    threads: usize,
    progress: impl FnMut(u64, u64, u64) -> bool,
) -> Outcome<Ingested> {
    let mut bad = BadRows::default();
    let (opened, names) = open(sources, &mut bad)?;
    let mut files = Vec::new();
    let mut streams = Vec::new();
    for (source, opened) in opened.into_iter().enumerate() {
        match opened {
            Opened::Lines(lines) => files.push((source, lines)),
            Opened::Batches(batches) => streams.push((source, batches)),
        }
    }
    let total = files.iter().map(|(_, lines)| lines.len() as u64).sum();
    let spill = SpillWriter::create(spill)?;
    let mut collector = Collector::new(&names, total, bad, progress);
    let lines = files.iter().flat_map(|(source, file)| {
        (0..file.parts()).map(move |part| Job::Lines { source: *source, file, part })
    });
    let batches = streams.into_iter().flat_map(|(source, batches)| {
        batches.map(move |batch| match batch {
            Ok(batch) => Job::Batch { source, batch: Columns(batch) },
            Err(error) => Job::Broken(error.into()),
        })
    });
    let threads = if matches!(coder, Coder::Oracle(_)) { 1 } else { threads };
    ordered::run(
        threads,
        lines.chain(batches),
        || RowTokenizer::new(recipe, coder),
        |tokenizer, job| work(tokenizer, job, &spill),
        |done| collector.take(done?),
    )?;
    Ok(collector.finish(spill.finish()?))
}

fn open(sources: Vec<Source>, bad: &mut BadRows) -> Outcome<(Vec<Opened>, Vec<String>)> {
    let mut opened = Vec::new();
    let mut names = Vec::new();
    for source in sources {
        match source {
            Source::Lines { path, name } => {
                let lines = Lines::open(&path, &name)?;
                if let Some(fault) = lines.lfs_pointer() {
                    bad.push(&fault, &name, 0);
                } else if let Some((row, fault)) = lines.cut_off() {
                    bad.push(&fault, &name, row);
                } else {
                    opened.push(Opened::Lines(lines));
                    names.push(name);
                    continue;
                }
                return Err(Failure::BadRows(std::mem::take(bad)));
            }
            Source::Batches { batches, name } => {
                opened.push(Opened::Batches(batches));
                names.push(name);
            }
        }
    }
    Ok((opened, names))
}

fn work(tokenizer: &mut RowTokenizer<'_>, job: Job<'_>, spill: &SpillWriter) -> Outcome<Done> {
    let mut part = tokenizer.begin();
    let source = match job {
        Job::Broken(failure) => return Err(failure),
        Job::Lines { source, file, part: at } => {
            part.lines = file.each(at, |line| tokenizer.take(line.number, line.parse(), &mut part));
            part.bytes = file.extent(at).len() as u64;
            source
        }
        Job::Batch { source, batch } => {
            for row in 0..batch.len() {
                tokenizer.take(row as u64, batch.row(row), &mut part);
            }
            part.lines = batch.len() as u64;
            source
        }
    };
    let offset = tokenizer.spill(&mut part, spill)?;
    Ok(Done { source, part, offset })
}

/// Puts the parts, in order, into the ledgers and the list of documents.
struct Collector<P> {
    documents: Vec<Document>,
    rows: u32,
    source_rows: Vec<u32>,
    ledgers: Vec<Ledger>,
    bad: BadRows,
    seen: HashSet<u128>,
    /// The source being read, and how many of its lines are behind.
    source: usize,
    lines: u64,
    bytes: u64,
    total: u64,
    progress: P,
}

impl<P: FnMut(u64, u64, u64) -> bool> Collector<P> {
    fn new(names: &[String], total: u64, bad: BadRows, progress: P) -> Self {
        let ledgers = names.iter().map(|name| Ledger { name: name.clone(), ..Ledger::default() }).collect();
        Self {
            documents: Vec::new(),
            rows: 0,
            source_rows: vec![0; names.len() + 1],
            ledgers,
            bad,
            seen: HashSet::new(),
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

    /// Notes the documents of every row; of equal rows, where that is asked, of the first alone.
    fn keep(&mut self, part: &Part, mut offset: u64) {
        let mut next = 0;
        for row in &part.rows {
            let documents = &part.documents[next..next + row.documents as usize];
            next += documents.len();
            if row.fingerprint == 0 || self.seen.insert(row.fingerprint) {
                self.add(row, documents, offset);
            } else {
                self.ledgers[self.source].dropped_duplicate += 1;
            }
            offset += documents.iter().map(|(_, units)| u64::from(*units)).sum::<u64>();
        }
        for end in &mut self.source_rows[self.source + 1..] {
            *end = self.rows;
        }
    }

    fn add(&mut self, row: &Row, documents: &[(u32, u32)], mut offset: u64) {
        let ledger = &mut self.ledgers[self.source];
        ledger.used += 1;
        ledger.truncated += u64::from(row.truncated);
        ledger.split += u64::from(documents.len() > 1);
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
            ledgers: self.ledgers,
            bad: self.bad,
        }
    }
}
