//! What makes a run fit where not even one row does.

use std::fmt;

use crate::budget::{self, Load};
use crate::manifest::Set;
use crate::plan::{CheckpointingMode, DistributedStrategy, Overlong, Quantization};

use super::fit::{MicroBatch, gibibytes};
use super::lengths::{Longer, RowLengths};
use super::note::Note;
use super::sizing::{Layout, Sizing, room};

/// Shorter rows are proposed in multiples of this, which is also the least.
const LENGTH: u64 = 64;

/// Settings with which one row fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// None keeps what is set.
    quantization: Option<Quantization>,
    checkpointing: Option<CheckpointingMode>,
    /// The processes that FSDP2 shards the base over.
    sharded_over: Option<u32>,
    max_seq_length: Option<u64>,
    overlong: Overlong,
    /// What one row needs then.
    bytes: u64,
    /// Whether one device cannot hold the base.
    exceeds_a_device: bool,
    /// Rows longer than `max_seq_length`; none where they are not counted.
    longer: Option<Longer>,
}

impl Remedy {
    /// The changes, for `base_models[entry]`.
    pub fn sets(&self, entry: usize) -> Vec<Set> {
        let quantization = self.quantization.map(|to| held_in(entry, to));
        let config = |key: &str, value: String| Set::new(format!("training.config.{key}"), value);
        let strategy = DistributedStrategy::Fsdp2.as_str().to_owned();
        let sharded = self.sharded_over.map(|_| config("distributed.strategy", strategy));
        let mode = self.checkpointing.map(|to| config("gradient_checkpointing", to.as_str().to_owned()));
        let length = self.max_seq_length.map(|to| config("max_seq_length", to.to_string()));
        [quantization, sharded, mode, length].into_iter().flatten().collect()
    }

    /// None where training would refuse the longer rows.
    fn with_lengths(mut self, lengths: &RowLengths) -> Option<Self> {
        let Some(length) = self.max_seq_length else { return Some(self) };
        self.longer = lengths.longer_than(length);
        let refused = self.overlong == Overlong::Error && self.longer.is_some_and(|it| it.least > 0);
        (!refused).then_some(self)
    }

    fn cost(&self) -> Option<String> {
        self.max_seq_length?;
        let Some(longer) = self.longer else {
            let what = match self.overlong {
                Overlong::Truncate | Overlong::KeepEnd => "cuts longer rows",
                Overlong::Split => "splits longer rows",
                Overlong::Drop => "drops longer rows",
                Overlong::Error => "training refuses longer rows",
            };
            return Some(format!("{what}; how many there are is not known until they are tokenized"));
        };
        if longer.most == 0 {
            return Some("no row is longer".to_owned());
        }
        Some(match self.overlong {
            Overlong::Truncate => format!("cuts the ends of {longer}"),
            Overlong::KeepEnd => format!("cuts the beginnings of {longer}"),
            Overlong::Split => format!("splits {longer}"),
            Overlong::Drop => format!("drops {longer}"),
            Overlong::Error => format!("training refuses {longer}"),
        })
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.quantization.map(|it| format!("`quantization` to {it}"));
        let strategy = self.sharded_over.map(|_| "`distributed` to fsdp2".to_owned());
        let mode = self.checkpointing.map(|it| format!("`gradient_checkpointing` to {it}"));
        let length = self.max_seq_length.map(|it| format!("`max_seq_length` to {it}"));
        let changes: Vec<String> = [base, strategy, mode, length].into_iter().flatten().collect();
        let memory = gibibytes(self.bytes);
        let memory = match self.sharded_over {
            Some(processes) => format!("{memory} in each of {processes} processes"),
            None => memory,
        };
        let scores = self
            .exceeds_a_device
            .then(|| "`--evaluate` would still need a device that holds the whole base".to_owned());
        let notes: Vec<String> = [Some(memory), self.cost(), scores].into_iter().flatten().collect();
        write!(out, "{} ({})", changes.join(" and "), notes.join("; "))
    }
}

/// The change of `base_models[entry]` to this format.
pub fn held_in(entry: usize, format: Quantization) -> Set {
    Set::new(format!("base_models.{entry}.quantization"), format.as_str())
}

/// Where not even one row fits: what makes it fit, and a note of it.
pub(super) fn remedies(
    sizing: &Sizing<'_>,
    current: Layout,
    found: &MicroBatch,
    notes: &mut Vec<Note>,
) -> Vec<Remedy> {
    let Some(room) = room(current.distributed, sizing.site).filter(|_| found.largest == Some(0)) else {
        return Vec::new();
    };
    let remedies = Search { sizing, current }.remedies();
    let needed = gibibytes(found.estimate.total);
    let message = format!("even one row needs about {needed} of {room}");
    notes.push(Note::new(DOES_NOT_FIT, message, hint(&remedies)));
    remedies
}

/// Looks for layouts in which one row fits.
struct Search<'a> {
    sizing: &'a Sizing<'a>,
    current: Layout,
}

impl Search<'_> {
    /// Those that keep all rows first: the least change for the processes as they are, then FSDP2. Then shorter rows.
    fn remedies(&self) -> Vec<Remedy> {
        let (alone, sharded) = (self.alone(), self.sharded());
        let whole = [&alone, &sharded].into_iter().filter_map(|layouts| self.first_that_fits(layouts));
        let mut found: Vec<Remedy> = whole.collect();
        if found.is_empty() {
            // Full checkpointing leaves more of a row.
            let full = Layout { checkpointing: CheckpointingMode::Full, ..self.current };
            found.extend(self.shortened(&full).filter(|_| full != self.current));
        }
        found.extend(self.shortened(&self.current));
        if found.is_empty() {
            let both = alone.iter().chain(&sharded).rev().filter_map(|layout| self.shortened(layout));
            found.extend(both.max_by_key(|it| it.max_seq_length));
        }
        found
    }

    /// From the current one to the one with the least memory.
    fn alone(&self) -> Vec<Layout> {
        let formats = std::iter::once(self.current.quantization).chain(self.sizing.smallest_format());
        formats.flat_map(|quantization| self.modes(Layout { quantization, ..self.current })).collect()
    }

    fn sharded(&self) -> Vec<Layout> {
        let is_sharded = self.current.sharded_over().is_some();
        let Some(distributed) = self.sizing.sharded().filter(|_| !is_sharded) else { return Vec::new() };
        let held = self.current.quantization;
        let quantization = if held.can_be_sharded() { held } else { Quantization::None };
        self.modes(Layout { quantization, distributed: Some(distributed), ..self.current })
    }

    /// The checkpointing that is set, and what needs less memory.
    fn modes(&self, layout: Layout) -> Vec<Layout> {
        [CheckpointingMode::None, CheckpointingMode::Selective, CheckpointingMode::Full]
            .into_iter()
            .skip_while(|mode| *mode != layout.checkpointing)
            .map(|checkpointing| Layout { checkpointing, ..layout })
            .collect()
    }

    fn first_that_fits(&self, layouts: &[Layout]) -> Option<Remedy> {
        layouts.iter().find_map(|layout| self.fitting(*layout))
    }

    /// The longest rows that fit.
    fn shortened(&self, layout: &Layout) -> Option<Remedy> {
        let of = |multiple: u64| Layout { max_seq_length: multiple * LENGTH, ..*layout };
        let (mut low, mut high) = (0, layout.max_seq_length.saturating_sub(1) / LENGTH);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.fitting(of(middle)).is_some() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        (low > 0).then(|| self.fitting(of(low))).flatten()
    }

    fn fitting(&self, layout: Layout) -> Option<Remedy> {
        let load = self.sizing.load(layout);
        let usable = self.sizing.usable(layout)?;
        let bytes = budget::estimate(&load).total;
        let current = self.current;
        let sharded_over = layout.sharded_over().filter(|_| layout.distributed != current.distributed);
        let whole = || budget::estimate(&Load { sharded_over: 1, ..load }).weights;
        (bytes <= usable).then(|| Remedy {
            quantization: (layout.quantization != current.quantization).then_some(layout.quantization),
            checkpointing: (layout.checkpointing != current.checkpointing).then_some(layout.checkpointing),
            sharded_over,
            max_seq_length: (layout.max_seq_length != current.max_seq_length)
                .then_some(layout.max_seq_length),
            overlong: self.sizing.recipe.data.overlong,
            bytes,
            exceeds_a_device: sharded_over.is_some() && whole() > usable,
            longer: None,
        })
    }
}

/// Known lengths say what shorter rows cost.
pub(super) fn with_lengths(remedies: Vec<Remedy>, lengths: &RowLengths) -> Vec<Remedy> {
    let mut known: Vec<Remedy> = remedies.into_iter().filter_map(|it| it.with_lengths(lengths)).collect();
    // Where no row is longer, a shorter limit costs nothing.
    known.sort_by_key(|it| it.longer.is_none_or(|longer| longer.most > 0));
    known
}

pub(super) const DOES_NOT_FIT: &str = "does-not-fit";

pub(super) fn hint(remedies: &[Remedy]) -> String {
    if remedies.is_empty() {
        return "choose a smaller base, or a machine with more memory".to_owned();
    }
    let ways: Vec<String> = remedies.iter().map(Remedy::to_string).collect();
    format!("set {}", ways.join(", or "))
}
