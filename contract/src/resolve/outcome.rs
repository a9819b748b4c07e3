//! The decisions with the facts and notes that a person wants to see beside it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::base::FoundBase;
use super::data::DataFacts;
use super::lengths::RowLengths;
use super::note::Note;
use super::remedy::{self, DOES_NOT_FIT, Remedy};
use super::steps::{CachedRows, OF_STEPS, of_steps};
use crate::manifest::Shown;
use crate::plan::{Device, Dtype, Machine, Plan, Recipe, Request, TestSet, Threads};
use crate::routing::Keywords;
use crate::speed::Work;

/// A run's part of the machine, where several runs divide its devices and threads.
#[derive(Debug, Clone)]
pub struct Share {
    /// None keeps the device: there is one.
    pub device: Option<Device>,
    /// None leaves the number to torch, and all cores to tokenization.
    pub threads: Option<u32>,
}

/// Every decision about a run, and what a person wants to know about how it came to be.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// What the expert is for, as the manifest says it.
    pub description: Option<String>,
    pub recipe: Recipe,
    pub machine: Machine,
    pub base: FoundBase,
    pub facts: Vec<DataFacts>,
    pub notes: Vec<Note>,
    /// The most rows that fit at once, where the device's memory and the base's shape are known.
    pub largest_micro_batch: Option<u64>,
    /// What makes one row fit, where none does: what keeps all rows first.
    pub remedies: Vec<Remedy>,
    /// What the plan may fill of the device's memory, where it is known: for one process, of a CPU.
    pub usable_memory: Option<u64>,
    /// What a token costs, where the fast path computes it on a GPU and the base's shape is known.
    pub work: Option<Work>,
    /// The number format in which the fast path computes; none where the run does not take it, or the base's shape is not known.
    pub fast_format: Option<Dtype>,
    /// Every setting of `training.config`, with its value and who decided it.
    pub settings: Vec<Shown>,
    /// The expert's licence.
    pub license: Option<String>,
    pub routing: Keywords,
    /// Further test sets by name.
    pub test_sets: BTreeMap<String, TestSet>,
    /// Settings of the command line, for the plan to keep.
    pub typed: Vec<String>,
}

impl Resolved {
    /// The plan of one task.
    pub fn plan(&self, request: Request) -> Plan {
        let plan = Plan::new(self.recipe.clone(), self.machine.clone(), request);
        Plan {
            license: self.license.clone(),
            description: self.description.clone(),
            test_sets: self.test_sets.clone(),
            typed: self.typed.clone(),
            ..plan
        }
    }

    /// Whether a row fits the device; true where its memory or the base's shape is not known.
    pub fn fits(&self) -> bool {
        self.largest_micro_batch.is_none_or(|rows| rows > 0)
    }

    /// With what these lengths say of shorter rows.
    #[must_use]
    pub fn with_row_lengths(mut self, lengths: &RowLengths) -> Self {
        self.remedies = remedy::with_lengths(self.remedies, lengths);
        for note in self.notes.iter_mut().filter(|it| it.code == DOES_NOT_FIT) {
            note.hint = remedy::hint(&self.remedies);
        }
        self
    }

    /// With the rows that a token cache counted in place of estimated ones.
    #[must_use]
    pub fn with_counted_rows(mut self, counted: CachedRows) -> Self {
        self.notes.retain(|it| !OF_STEPS.contains(&it.code));
        self.notes.extend(of_steps(&self.recipe, &self.machine, &self.facts, Some(counted)));
        self
    }

    /// Whether the manifest leaves open how several processes train together.
    pub fn names_no_strategy(&self) -> bool {
        self.settings.iter().any(|it| it.key == "distributed" && it.value == Some(Value::Null))
    }

    /// The same on a part of the machine: another device of the kind, and as large, changes no other decision.
    #[must_use]
    pub fn on(mut self, share: &Share) -> Self {
        if let Some(device) = &share.device {
            self.machine.device = device.clone();
        }
        self.machine.threads = Threads { compute: share.threads, pretokenize: share.threads };
        self
    }
}
