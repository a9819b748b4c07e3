//! Sources to jobs: the parts of files and streams that threads read.

use super::recipe::{Batches, Source};
use crate::problem::{BadRows, Failure, Fault, Outcome};
use crate::rows::{Columns, Lines, Value};

/// Opened sources in their order; each of them is a file or a stream.
#[derive(Default)]
pub(super) struct Opened {
    pub files: Vec<Option<Lines>>,
    pub streams: Vec<Option<Batches>>,
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
    for source in sources {
        match source {
            Source::Lines { path, name } => {
                let lines = Lines::open(&path, &name)?;
                if let Some(fault) = lines.lfs_pointer() {
                    bad.push(&fault, &name, 0);
                } else if let Some((row, fault)) = lines.cut_off() {
                    bad.push(&fault, &name, row);
                } else {
                    opened.push(Some(lines), None, name);
                    continue;
                }
                return Err(Failure::BadRows(std::mem::take(bad)));
            }
            Source::Batches { batches, name } => {
                opened.push(None, Some(batches), name);
            }
        }
    }
    Ok(opened)
}

impl Opened {
    fn push(&mut self, file: Option<Lines>, stream: Option<Batches>, name: String) {
        self.files.push(file);
        self.streams.push(stream);
        self.names.push(name);
    }

    /// Of the files; the size of a stream is not known.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flatten().map(|lines| lines.len() as u64).sum()
    }
}

/// In the order of the sources: rows are numbered as they are read, and a task's rows follow one another.
pub(super) fn jobs(
    files: &[Option<Lines>],
    streams: Vec<Option<Batches>>,
) -> impl Iterator<Item = Job<'_>> + Send {
    files.iter().zip(streams).enumerate().flat_map(|(source, (file, stream))| {
        let lines = file
            .iter()
            .flat_map(move |file| (0..file.parts()).map(move |part| Job::Lines { source, file, part }));
        let batches = stream.into_iter().flatten().map(move |batch| match batch {
            Ok(batch) => Job::Batch { source, batch: Columns(batch) },
            Err(error) => Job::Broken(error.into()),
        });
        lines.chain(batches)
    })
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
