//! `bench`: one measurement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `bench`: one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchResult {
    pub ok: bool,
    /// Whether the longest batch fitted without being split.
    pub fits: Option<bool>,
    pub micro_batch: Option<u64>,
    pub ready_seconds: Option<f64>,
    pub loaded_bytes: Option<u64>,
    pub peak_bytes_of_longest: Option<u64>,
    pub peak_bytes: Option<u64>,
    pub gpu_utilization: Option<f64>,
    /// Null where a loss was not finite.
    pub losses: Option<Vec<Option<f64>>>,
    pub tokens: Option<u64>,
    pub seconds: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub first_step_seconds: Option<f64>,
    pub steps: Vec<BenchStep>,
    /// Settings as read back.
    pub applied: BTreeMap<String, Value>,
    /// By operation of the fast path; empty on the plain path.
    pub kernels: BTreeMap<String, KernelChoice>,
}

/// The kernel that computes an operation, and the others that run on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelChoice {
    pub chosen: String,
    pub others: Vec<String>,
}

/// Seconds of a measured step by what it spent them on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BenchStep {
    pub seconds: f64,
    pub tokens: u64,
    pub data_wait: f64,
    pub transfer: f64,
    pub host_launch: f64,
    pub device_compute: f64,
    pub update: f64,
}
