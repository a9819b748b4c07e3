//! What makes a run fit where not even one row does.

use std::fmt;

use crate::budget::{self, Load};
use crate::manifest::Set;
use crate::plan::{CheckpointingMode, Distributed, DistributedStrategy, Overlong, Quantization};

use super::fit::{Room, gibibytes};
use super::lengths::{Longer, RowLengths};
use super::outcome::Note;

/// Shorter rows are proposed in multiples of this, which is also the least.
const LENGTH: u64 = 64;

/// The settings of a plan that decide its memory and that a remedy may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub quantization: Quantization,
    pub distributed: Option<Distributed>,
    pub checkpointing: CheckpointingMode,
    pub row_length: u64,
}

impl Layout {
    /// The processes that FSDP2 shards the base over.
    pub fn sharded_over(&self) -> Option<u32> {
        let sharded = self.distributed.filter(|it| it.strategy == DistributedStrategy::Fsdp2);
        sharded.map(|it| it.processes)
    }

    fn is_sharded(&self) -> bool {
        self.sharded_over().is_some()
    }
}

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
                Overlong::Truncate => "cuts longer rows",
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
        let more: Vec<String> = [Some(memory), self.cost(), scores].into_iter().flatten().collect();
        write!(out, "{} ({})", changes.join(" and "), more.join("; "))
    }
}

/// The change of `base_models[entry]` to this format.
pub fn held_in(entry: usize, format: Quantization) -> Set {
    Set::new(format!("base_models.{entry}.quantization"), format.as_str())
}

/// Looks for layouts in which one row fits.
pub(super) struct Search<'a, 'b> {
    pub current: Layout,
    /// FSDP2 over the processes that the run can have; none where it cannot shard this base.
    pub sharded: Option<Distributed>,
    /// The format that holds the base in the least memory; none where it cannot be quantized.
    pub smallest: Option<Quantization>,
    pub overlong: Overlong,
    pub load: &'a dyn Fn(Layout) -> Load<'b>,
    /// What the plan may fill of a device's memory.
    pub usable: &'a dyn Fn(Layout) -> Option<u64>,
}

impl Search<'_, '_> {
    /// Those that keep all rows first: the least change for the processes as they are, then FSDP2. Then shorter rows.
    pub fn remedies(&self) -> Vec<Remedy> {
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
        let formats = std::iter::once(self.current.quantization).chain(self.smallest);
        formats.flat_map(|quantization| self.modes(Layout { quantization, ..self.current })).collect()
    }

    fn sharded(&self) -> Vec<Layout> {
        let Some(distributed) = self.sharded.filter(|_| !self.current.is_sharded()) else {
            return Vec::new();
        };
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
        let of = |multiple: u64| Layout { row_length: multiple * LENGTH, ..*layout };
        let (mut low, mut high) = (0, layout.row_length.saturating_sub(1) / LENGTH);
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
        let load = Load { rows: 1, ..(self.load)(layout) };
        let usable = (self.usable)(layout)?;
        let bytes = budget::estimate(&load).total;
        let current = self.current;
        let whole = || budget::estimate(&Load { spread_over: 1, ..load }).weights;
        (bytes <= usable).then(|| Remedy {
            quantization: (layout.quantization != current.quantization).then_some(layout.quantization),
            checkpointing: (layout.checkpointing != current.checkpointing).then_some(layout.checkpointing),
            sharded_over: layout
                .distributed
                .filter(|_| layout.distributed != current.distributed)
                .map(|it| it.processes),
            max_seq_length: (layout.row_length != current.row_length).then_some(layout.row_length),
            overlong: self.overlong,
            bytes,
            exceeds_a_device: layout.is_sharded() && !current.is_sharded() && whole() > usable,
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

pub(super) fn note(needed: u64, room: Room, remedies: &[Remedy]) -> Note {
    Note::new(
        DOES_NOT_FIT,
        format!("even one row needs about {} of {room}", gibibytes(needed)),
        hint(remedies),
    )
}

pub(super) fn hint(remedies: &[Remedy]) -> String {
    if remedies.is_empty() {
        return "choose a smaller base, or a machine with more memory".to_owned();
    }
    let ways: Vec<String> = remedies.iter().map(Remedy::to_string).collect();
    format!("set {}", ways.join(", or "))
}
