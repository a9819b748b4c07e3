//! Sources to jobs: the parts of files and streams that threads read.

use super::recipe::{Batches, Source};
use crate::problem::{BadRows, Failure, Fault, Outcome};
use crate::rows::{Columns, Lines, Value};

/// Opened sources, by their place in the list of sources.
#[derive(Default)]
pub(super) struct Opened {
    pub files: Vec<(usize, Lines)>,
    pub streams: Vec<(usize, Batches)>,
    pub names: Vec<String>,
}

pub(super) enum Job<'a> {
    Lines { source: usize, file: &'a Lines, part: usize },
    Batch { source: usize, batch: Columns },
    Broken(Failure),
}

/// What a job has read.
pub(super) struct Extent {
    pub source: usize,
    pub lines: u64,
    pub bytes: u64,
}

pub(super) fn open(sources: Vec<Source>, bad: &mut BadRows) -> Outcome<Opened> {
    let mut opened = Opened::default();
    for (place, source) in sources.into_iter().enumerate() {
        match source {
            Source::Lines { path, name } => {
                let lines = Lines::open(&path, &name)?;
                if let Some(fault) = lines.lfs_pointer() {
                    bad.push(&fault, &name, 0);
                } else if let Some((row, fault)) = lines.cut_off() {
                    bad.push(&fault, &name, row);
                } else {
                    opened.files.push((place, lines));
                    opened.names.push(name);
                    continue;
                }
                return Err(Failure::BadRows(std::mem::take(bad)));
            }
            Source::Batches { batches, name } => {
                opened.streams.push((place, batches));
                opened.names.push(name);
            }
        }
    }
    Ok(opened)
}

/// Bytes of the files; the size of a stream is not known.
pub(super) fn bytes(files: &[(usize, Lines)]) -> u64 {
    files.iter().map(|(_, lines)| lines.len() as u64).sum()
}

/// Files first, then streams.
pub(super) fn jobs(
    files: &[(usize, Lines)],
    streams: Vec<(usize, Batches)>,
) -> impl Iterator<Item = Job<'_>> + Send {
    let lines = files.iter().flat_map(|(source, file)| {
        (0..file.parts()).map(move |part| Job::Lines { source: *source, file, part })
    });
    let batches = streams.into_iter().flat_map(|(source, batches)| {
        batches.map(move |batch| match batch {
            Ok(batch) => Job::Batch { source, batch: Columns(batch) },
            Err(error) => Job::Broken(error.into()),
        })
    });
    lines.chain(batches)
}

impl Job<'_> {
    /// Calls `take` with every row and its number in the job, from 0.
    pub fn read(self, mut take: impl FnMut(u64, Result<Value<'_>, Fault>)) -> Outcome<Extent> {
        match self {
            Job::Broken(failure) => Err(failure),
            Job::Lines { source, file, part } => {
                let lines = file.each(part, |line| take(line.number, line.parse()));
                Ok(Extent { source, lines, bytes: file.extent(part).len() as u64 })
            }
            Job::Batch { source, batch } => {
                (0..batch.len()).for_each(|row| take(row as u64, batch.row(row)));
                Ok(Extent { source, lines: batch.len() as u64, bytes: 0 })
            }
        }
    }
}
