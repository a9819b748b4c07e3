//! `run.json` and `plan.json` of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::FileDigest;
use super::training::{BestChoice, TrainResult};
use crate::plan::{Device, Inputs, Machine, Recipe};

/// `run.json`: what made an adapter, and why this step was chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunRecord {
    pub contract: Option<u32>,
    pub recipe_digest: Option<String>,
    /// As it was when the run ended; compared, never run.
    #[schemars(with = "Option<Recipe>")]
    pub recipe: Option<Value>,
    pub cache_key: Option<String>,
    pub best: Option<BestChoice>,
    /// The result of `train`.
    #[schemars(with = "Option<TrainResult>")]
    pub result: Option<Value>,
    /// Settings as read back.
    pub applied: BTreeMap<String, Value>,
    pub packages: BTreeMap<String, Option<String>>,
    pub machine: Option<RunMachine>,
    pub git_commit: Option<String>,
    pub inputs: Option<Inputs>,
    /// The files of `final/`, by which it is verified.
    #[serde(rename = "final")]
    pub adapter: BTreeMap<String, FileDigest>,
    /// A file that has gone meanwhile is null.
    pub data: BTreeMap<String, Option<FileDigest>>,
    pub base: BTreeMap<String, Option<FileDigest>>,
}

/// The machine that a run was computed on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunMachine {
    #[schemars(with = "Option<Device>")]
    pub device: Option<Value>,
    pub dtype: Option<String>,
    pub cpu_capability: Option<String>,
    pub threads: Option<u32>,
    pub cuda: Option<String>,
    pub os: Option<String>,
    pub architecture: Option<String>,
    pub python: Option<String>,
}

/// `plan.json` of a run, the keys that every version has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanRecord {
    pub contract: Option<u32>,
    pub recipe_digest: Option<String>,
    /// What the expert is for.
    pub description: Option<String>,
    #[schemars(with = "Option<Recipe>")]
    pub recipe: Option<Value>,
    #[schemars(with = "Option<Machine>")]
    pub machine: Option<Value>,
    /// As they were when the run was planned; compared, never run.
    #[schemars(with = "Option<Inputs>")]
    pub inputs: Option<Value>,
    /// Settings of the command line that trained it last.
    #[schemars(with = "Option<Vec<String>>")]
    pub typed: Option<Value>,
}

impl PlanRecord {
    pub fn expert(&self) -> Option<&str> {
        self.recipe.as_ref()?.get("expert")?.as_str()
    }

    /// The base as the manifest names it.
    pub fn base_name(&self) -> Option<&str> {
        base_name(self.recipe.as_ref()?)
    }

    /// The root of the expert's token caches.
    pub fn cache(&self) -> Option<&str> {
        self.path("cache")
    }

    /// The manifest that the run was planned from.
    pub fn manifest(&self) -> Option<&str> {
        self.path("manifest")
    }

    /// The base's folder.
    pub fn base_folder(&self) -> Option<&str> {
        self.path("base")
    }

    /// The run's own folder, as it was when the run was planned.
    pub fn output(&self) -> Option<&str> {
        self.path("output")
    }

    fn path(&self, name: &str) -> Option<&str> {
        self.machine.as_ref()?.get("paths")?.get(name)?.as_str()
    }
}

impl RunRecord {
    /// The base as the manifest names it.
    pub fn base_name(&self) -> Option<&str> {
        base_name(self.recipe.as_ref()?)
    }
}

fn base_name(recipe: &Value) -> Option<&str> {
    recipe.get("base")?.get("name")?.as_str()
}
