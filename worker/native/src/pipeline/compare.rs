//! Copies among the rows of a data set's parts, as a build reads them.

use std::collections::BTreeMap;

use super::read::{self, Extent, Job};
use super::recipe::{Recipe, Source};
use super::tokenize::{check_size, fingerprint};
use crate::duplicates::{Sketcher, Sketches, find};
use crate::ordered;
use crate::problem::{BadRows, Failure, Fault, Outcome};

/// A source's name and a line of it, from 1.
pub type Place = (String, u64);

/// Rows of a part that copy rows of a part before it, or earlier ones of the same part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copies {
    pub part: usize,
    pub of: usize,
    pub exact: u64,
    pub near: u64,
    /// Of some: the copy, and what it copies.
    pub examples: Vec<(Place, Place)>,
}

#[derive(Debug, Default)]
pub struct Compared {
    /// Rows that were compared, of each part.
    pub rows: Vec<u64>,
    pub copies: Vec<Copies>,
    /// Of the first part: rows that copy an earlier one, with that one, by source and line.
    pub repeats: BTreeMap<Row, Row>,
    /// Rows that copy one of an earlier part, with that one.
    pub across: Vec<(Row, Row)>,
    /// Rows that could not be compared, of each part.
    pub bad: Vec<BadRows>,
}

struct Done {
    sketches: Sketches,
    numbers: Vec<u64>,
    faults: Vec<(u64, Fault)>,
    extent: Extent,
}

/// A row's source, counted over all parts, and its line.
pub type Row = (u32, u64);

#[derive(Default)]
struct Gathered {
    sketches: Sketches,
    rows: Vec<Row>,
    names: Vec<String>,
    ends: Vec<u32>,
    bad: Vec<BadRows>,
}

/// Reads every part; rows that cannot be read are noted, and the others compared. `progress` hears of bytes and rows read and may
/// stop the work.
pub fn compare(
    recipe: &Recipe,
    parts: Vec<Vec<Source>>,
    threads: usize,
    mut progress: impl FnMut(u64, u64, u64) -> bool,
) -> Outcome<Compared> {
    let mut bad = BadRows::default();
    let parts = parts.into_iter().map(|part| read::open(part, &mut bad)).collect::<Outcome<Vec<_>>>()?;
    let total = parts.iter().map(read::Opened::bytes).sum();
    let mut gathered = Gathered::default();
    let mut bytes = 0;
    for read::Opened { files, streams, names } in parts {
        let first = gathered.names.len() as u32;
        let (mut source, mut lines) = (usize::MAX, 0);
        let mut bad = BadRows::default();
        ordered::run(
            threads,
            read::jobs(&files, streams),
            || Sketcher::new(recipe.shaper.train_on),
            |sketcher, job| work(recipe, sketcher, job),
            |done| {
                let Done { sketches, numbers, faults, extent } = done?;
                if extent.source != source {
                    (source, lines) = (extent.source, 0);
                }
                let row = |number: &u64| (first + extent.source as u32, lines + number + 1);
                gathered.rows.extend(numbers.iter().map(row));
                gathered.sketches.append(sketches);
                for (number, fault) in &faults {
                    bad.push(fault, &names[extent.source], lines + number + 1);
                }
                lines += extent.lines;
                bytes += extent.bytes;
                if progress(bytes, total, gathered.rows.len() as u64) {
                    Ok(())
                } else {
                    Err(Failure::Interrupted)
                }
            },
        )?;
        gathered.names.extend(names);
        gathered.bad.push(bad);
        gathered.ends.push(gathered.rows.len() as u32);
    }
    Ok(gathered.compared())
}

fn work(recipe: &Recipe, sketcher: &mut Sketcher, job: Job<'_>) -> Outcome<Done> {
    let (mut numbers, mut faults) = (Vec::new(), Vec::new());
    let extent = job.read(|number, row| {
        let outcome = row.and_then(|value| {
            let shaped = recipe.shaper.shape(&value)?;
            let is_wanted = check_size(recipe, &shaped).is_ok();
            if is_wanted {
                sketcher.add(&shaped, fingerprint(&shaped));
            }
            Ok(is_wanted)
        });
        match outcome {
            Ok(true) => numbers.push(number),
            Ok(false) => {}
            Err(fault) => faults.push((number, fault)),
        }
    })?;
    Ok(Done { sketches: std::mem::take(&mut sketcher.sketches), numbers, faults, extent })
}

impl Gathered {
    fn compared(self) -> Compared {
        let found = find(&self.sketches, &self.ends);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let rows = self.ends.iter().zip(starts).map(|(end, start)| u64::from(end - start)).collect();
        let place = |row: u32| {
            let (source, line) = self.rows[row as usize];
            (self.names[source as usize].clone(), line)
        };
        let rows_of = |(row, of): &(u32, u32)| (self.rows[*row as usize], self.rows[*of as usize]);
        let repeats = found.repeats.iter().map(rows_of).collect();
        let across = found.across.iter().map(rows_of).collect();
        let copies = found.overlaps.into_iter().map(|overlap| Copies {
            part: overlap.part,
            of: overlap.of,
            exact: overlap.exact,
            near: overlap.near,
            examples: overlap.examples.iter().map(|(row, of)| (place(*row), place(*of))).collect(),
        });
        Compared { rows, copies: copies.collect(), repeats, across, bad: self.bad }
    }
}
