//! How much faster experts of one shape train fused, as a probe measured it on this machine. Its verdict is kept in the
//! home folder: later shelves of the same shape need no probe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use expert_contract::digest;
use expert_contract::plan::{Plan, Request, Resume};
use expert_contract::resolve::{DataFacts, Resolved};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::run::speed::{base_key, device_key};
use crate::sys::durable;
use crate::sys::files::read_json;
use crate::sys::host;
use crate::worker::{self, Helper, Search};

/// Fusing gives up the bytes that an expert has alone. Less is not worth that.
pub const LEAST: f64 = 1.2;
/// Tokens of a micro-batch from which no base that was measured on a CPU gained enough: 1.15 at 256 tokens, in groups of
/// four (`benches/results`).
pub const MOST_TOKENS: u64 = 192;
/// Groups of eight gain about a tenth more than those of four.
pub const MOST_EXPERTS: usize = 4;
/// The size of groups that a probe tries.
const SIZES: [usize; 2] = [2, MOST_EXPERTS];
/// For the turns that the probe takes; it takes two of each, however long.
const TURNS: f64 = 2.0;
/// A probe that has not ended by then is given up.
const LIMIT: Duration = Duration::from_mins(3);
const ROUND: Duration = Duration::from_millis(50);
const MODULE: &str = "expert_worker.train.fuse_probe";

/// Rows of a micro-batch and the tokens of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rows {
    pub documents: u64,
    /// A power of two, or all that a row may have.
    pub tokens: u64,
}

impl Rows {
    /// None where the size of the data is not known.
    pub fn of(resolved: &Resolved) -> Option<Self> {
        let (batch, machine) = (&resolved.recipe.batch, &resolved.machine);
        let most = u64::from(batch.max_seq_length);
        let documents = machine.micro_batch;
        if batch.packing {
            return Some(Self { documents, tokens: most });
        }
        let tokens: u64 = resolved.facts.iter().map(DataFacts::tokens).sum::<Option<u64>>()?;
        let rows: u64 = resolved.facts.iter().map(|it| it.rows).sum::<Option<u64>>()?;
        let each = tokens.div_ceil(rows.max(1)).max(2);
        Some(Self { documents, tokens: each.next_power_of_two().min(most) })
    }

    pub fn together(self) -> u64 {
        self.documents * self.tokens
    }
}

/// What a probe found, by the number of experts in one pass; "1" is one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    tokens_per_second: BTreeMap<usize, f64>,
}

impl Gain {
    pub fn rate(&self, experts: usize) -> Option<f64> {
        self.tokens_per_second.range(..=experts).next_back().map(|(_, rate)| *rate)
    }

    /// Over one after another, in groups of so many. Between two sizes that were measured, that of the smaller one.
    pub fn of(&self, experts: usize) -> Option<f64> {
        let (_, fused) =
            self.tokens_per_second.range(2..=experts.max(2)).rfind(|(size, _)| **size <= experts)?;
        let found = fused / self.tokens_per_second.get(&1)?;
        found.is_finite().then_some(found)
    }

    /// The largest one and its group.
    pub fn best(&self) -> Option<(usize, f64)> {
        let sizes = self.tokens_per_second.keys().filter(|size| **size > 1);
        sizes.filter_map(|size| Some((*size, self.of(*size)?))).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    #[cfg(test)]
    pub fn measured<const N: usize>(rates: [(usize, f64); N]) -> Self {
        Self { tokens_per_second: BTreeMap::from(rates) }
    }

    pub fn cached(place: &Path) -> Option<Self> {
        read_json::<Self>(place).filter(|it| it.best().is_some())
    }

    /// For later shelves, which measure again where it cannot be written.
    fn keep(&self, place: &Path) {
        let _ = durable::write_json(place, self);
    }
}

/// One file per shape: what decides the time of a pass.
pub fn place(resolved: &Resolved, rows: Rows) -> PathBuf {
    let (recipe, machine) = (&resolved.recipe, &resolved.machine);
    let adapter = &recipe.adapter;
    let shape = digest::of(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "base": base_key(recipe, machine),
        "adapter": [adapter.kind, adapter.rank, adapter.target_modules, adapter.dropout > 0.0],
        "rows": rows,
        "processor": host::processor(),
        "device": device_key(machine),
        "dtype": [machine.dtype, machine.fp32_products],
        "kernels": [machine.flash_attention, machine.sdpa, machine.kernels, machine.piece_tokens],
        "launches": [json!(machine.compile), json!(machine.cuda_graphs)],
        "checkpointing": machine.checkpointing,
        "threads": machine.threads.compute,
    }));
    Path::new(&machine.paths.home).join("fused").join(format!("{}.json", &shape[..32]))
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    TokensPerSecond(BTreeMap<usize, f64>),
    Failed(String),
}

/// Measured now and kept. What keeps it from being measured keeps nothing from being trained.
pub fn measure(resolved: &Resolved, rows: Rows, place: &Path, python: Option<&Path>) -> Result<Gain, String> {
    let home = PathBuf::from(&resolved.machine.paths.expert_dir);
    let found = Search::here(python, Some(&home)).find().and_then(worker::Found::of_this_version);
    let python = found.map_err(|failure| failure.message)?;
    let log = tempfile::tempfile().map_err(|error| error.to_string())?;
    let (heard, answers) = channel();
    let hear = move |line: Option<&[u8]>| {
        let _ = heard.send(line.map(<[u8]>::to_vec));
    };
    let helper = Helper::start(&python, MODULE, &[], log, hear).map_err(|failure| failure.message)?;
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    let plan: Plan = resolved.plan(request);
    let wanted = json!({
        "plan": plan, "documents": rows.documents, "tokens": rows.tokens, "sizes": SIZES, "seconds": TURNS,
    });
    helper.send(&wanted).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if worker::interrupted().is_some() {
            return Err("it was stopped".to_owned());
        }
        match answers.recv_timeout(ROUND) {
            Ok(Some(line)) => match serde_json::from_slice(&line) {
                Ok(Answer::TokensPerSecond(tokens_per_second)) => {
                    let gain = Gain { tokens_per_second };
                    gain.keep(place);
                    return Ok(gain);
                }
                Ok(Answer::Failed(reason)) => return Err(reason),
                Err(_) => {}
            },
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                return Err("the probe ended without a result".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Err(format!("it did not end within {} minutes", LIMIT.as_secs() / 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_between_two_that_were_measured_gains_like_the_smaller_one() {
        let gain = Gain::measured([(1, 100.0), (2, 130.0), (4, 180.0)]);
        assert_eq!([2, 3, 4, 5].map(|size| gain.of(size)), [Some(1.3), Some(1.3), Some(1.8), Some(1.8)]);
        assert_eq!((gain.of(1), gain.best()), (None, Some((4, 1.8))));
        assert_eq!(Gain::measured([(2, 9.0)]).best(), None);
    }
}
