//! What a run says about itself: `run.json` when it is finished, `state.json` in each of its checkpoints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::plan::{DeviceKind, Inputs, Machine, Recipe};
use expert_contract::results::{CheckpointRecord, EvaluationResult, FileDigest, PlanRecord, RunRecord};
use serde::Deserialize;
use serde_json::Value;

use super::names::{FINAL, PLAN, RECORD, SCORES, STATE};
use crate::sys::digests::read_digest;
use crate::sys::files::{children, read_json};
use crate::sys::paths::absolute;

pub use expert_contract::adapters::{CONFIG, WEIGHTS};

/// What training writes beside an adapter's weights: what the adapter is.
pub const EXPERT: &str = "expert.json";

/// A finished run by its `run.json`, which names its recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished(RunRecord);

/// What of a machine's settings affects rounding: a resumed run keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arithmetic {
    pub threads: Option<u32>,
    pub fp32_products: Option<bool>,
    pub piece_tokens: Option<u64>,
    /// None where no step is saved.
    pub fused: Option<bool>,
}

impl Arithmetic {
    /// The machine with the settings that the run started with.
    pub fn restored(self, mut machine: Machine) -> Machine {
        machine.threads.compute = self.threads.or(machine.threads.compute);
        machine.fp32_products = self.fp32_products.unwrap_or(machine.fp32_products);
        // A GPU has no chunks, wherever the run began.
        machine.piece_tokens = machine.piece_tokens.map(|planned| self.piece_tokens.unwrap_or(planned));
        machine
    }
}

/// The inputs and settings that a run in a folder started with.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    pub recipe_digest: String,
    pub recipe: Value,
    /// None where it is not on record.
    pub inputs: Option<Inputs>,
    pub arithmetic: Arithmetic,
}

impl Finished {
    /// None where no record names the recipe.
    pub fn of(run: &Path) -> Option<Self> {
        let mut record: RunRecord = read_json(&run.join(RECORD))?;
        let recipe = record.recipe.as_ref().unwrap_or(&Value::Null);
        record.inputs = record.inputs.map(|inputs| without_test_data(inputs, recipe));
        record.recipe_digest.is_some().then_some(Self(record))
    }

    pub fn is_of(&self, recipe: &Recipe) -> bool {
        names(self.0.recipe_digest.as_deref().unwrap_or_default(), self.0.recipe.as_ref(), recipe)
    }

    /// The validation loss of `final/`, where the checkpoint with the lowest one was chosen.
    pub fn best_loss(&self) -> Option<f64> {
        let best = self.0.best.as_ref()?;
        best.value.filter(|_| matches!(best.metric.as_deref(), Some("loss" | "eval_loss")))
    }

    pub fn inputs(&self) -> Option<&Inputs> {
        self.0.inputs.as_ref()
    }

    /// What the run was trained with; the settings of answers are those of the newest scores in `final/`.
    pub fn recipe(&self) -> Option<&Value> {
        self.0.recipe.as_ref()
    }

    /// The base as the manifest names it.
    pub fn base(&self) -> Option<&str> {
        self.0.base_name()
    }

    /// The result of `train`, as the worker reported it. Its paths are those of `run`, which may have been moved or copied
    /// since.
    pub fn result(&self, run: &Path) -> Option<Value> {
        let mut result = self.0.result.clone()?;
        for key in ["adapter", "best_checkpoint"] {
            if let Some(place) = result.get_mut(key)
                && let Some(name) = place.as_str().and_then(|path| path.rsplit(['/', '\\']).next())
            {
                *place = Value::String(absolute(&run.join(name)));
            }
        }
        Some(result)
    }

    /// SHA-256 of the weights, as they were when the run ended.
    pub fn adapter(&self) -> Option<&str> {
        self.0.adapter.get(WEIGHTS)?.sha256.as_deref()
    }

    /// The kind of device that computed the run, and the threads of a CPU.
    pub fn computed_on(&self) -> Option<(String, Option<u32>)> {
        let machine = self.0.machine.as_ref()?;
        let kind = machine.device.as_ref()?.get("kind")?.as_str()?;
        Some((kind.to_owned(), machine.threads.filter(|_| kind == DeviceKind::Cpu.as_str())))
    }

    /// Which files of `final/` are not as the run left them, in a few words each.
    pub fn damages(&self, run: &Path) -> Vec<String> {
        if self.adapter().is_none() {
            return vec![format!("{RECORD} does not say what {FINAL}/ must be")];
        }
        damages(&run.join(FINAL), &self.0.adapter)
            .into_iter()
            .map(|(name, how)| format!("{FINAL}/{name} is {how}"))
            .collect()
    }
}

impl Begun {
    pub fn is_of(&self, recipe: &Recipe) -> bool {
        names(&self.recipe_digest, Some(&self.recipe), recipe)
    }

    /// From the newest checkpoint that can be read, or else from the finished run's record.
    pub fn of_run(run: &Path) -> Option<Self> {
        let mut folders = checkpoints(run);
        folders.reverse();
        folders.iter().find_map(|folder| Self::of_checkpoint(folder)).or_else(|| {
            let Finished(record) = Finished::of(run)?;
            Some(Self {
                recipe_digest: record.recipe_digest?,
                recipe: record.recipe.unwrap_or_default(),
                inputs: record.inputs,
                arithmetic: Arithmetic::default(),
            })
        })
    }

    pub fn of_checkpoint(folder: &Path) -> Option<Self> {
        let CheckpointRecord { facts, .. } = read_json(&folder.join(STATE))?;
        let recipe = facts.recipe.unwrap_or_default();
        Some(Self {
            recipe_digest: facts.recipe_digest?,
            inputs: facts.inputs.map(|inputs| without_test_data(inputs, &recipe)),
            recipe,
            arithmetic: Arithmetic {
                threads: facts.threads,
                fp32_products: facts.fp32_products,
                piece_tokens: facts.layers.and_then(|layers| layers.piece_tokens),
                fused: Some(facts.fused == Some(true)),
            },
        })
    }
}

/// Whether a record names this recipe. A version that made its digest of other parts of the recipe recorded the recipe too.
fn names(digest: &str, recorded: Option<&Value>, recipe: &Recipe) -> bool {
    let now = recipe.digest();
    digest == now
        || recorded
            .and_then(|it| Recipe::deserialize(it).ok())
            .is_some_and(|recorded| recorded.digest() == now)
}

/// Older versions recorded the test data of a run, too.
fn without_test_data(mut inputs: Inputs, recipe: &Value) -> Inputs {
    let names = |part: &str| -> Vec<&Value> {
        recipe["data"][part].as_array().into_iter().flatten().map(|source| &source["name"]).collect()
    };
    let (test, trained) = (names("test"), [names("train"), names("validation")].concat());
    let is_of_test = |name: &str| test.iter().any(|it| *it == name) && !trained.iter().any(|it| *it == name);
    inputs.data.retain(|name, _| !is_of_test(name));
    inputs
}

/// `plan.json` of a run; empty where there is none that can be read.
pub fn read_plan(run: &Path) -> PlanRecord {
    read_json(&run.join(PLAN)).unwrap_or_default()
}

/// `evaluation.json` of a run.
pub fn read_evaluation(run: &Path) -> Option<EvaluationResult> {
    read_json(&run.join(SCORES))
}

/// `checkpoint-120` -> 120
pub fn checkpoint_step(path: &Path) -> Option<u64> {
    let digits = path.file_name()?.to_str()?.strip_prefix("checkpoint-")?;
    // A copy named `checkpoint-007` is not one that the worker saved.
    digits.parse().ok().filter(|step: &u64| step.to_string() == digits)
}

/// Folders with a checkpoint's name, oldest first.
pub fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = children(run)
        .into_iter()
        .filter_map(|path| checkpoint_step(&path).map(|step| (step, path)))
        .filter(|(_, path)| path.is_dir())
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Whether this folder is a checkpoint that was copied or saved to its end.
pub fn is_checkpoint(folder: &Path) -> bool {
    folder.join(STATE).is_file()
}

/// The newest checkpoint that was copied or saved to its end.
pub fn newest_checkpoint(run: &Path) -> Option<PathBuf> {
    checkpoints(run).into_iter().rev().find(|folder| is_checkpoint(folder))
}

/// Whether a run can be resumed from any of its checkpoints.
pub fn has_whole_checkpoint(run: &Path) -> bool {
    checkpoints(run).iter().rev().any(|folder| checkpoint_damage(folder).is_none())
}

/// Why a checkpoint cannot be resumed. Of one that a mirror compressed only missing files show here: the worker compares
/// the rest when it unpacks them.
pub fn checkpoint_damage(folder: &Path) -> Option<String> {
    if !is_checkpoint(folder) {
        return Some(format!("{STATE} is missing"));
    }
    let Some(CheckpointRecord { files, .. }) = read_json(&folder.join(STATE)) else {
        return Some(format!("{STATE} cannot be read"));
    };
    if files.is_empty() {
        return Some(format!("{STATE} names no file"));
    }
    let packed = |name: &String| folder.join(format!("{name}.zst"));
    let found = if files.keys().any(|name| packed(name).is_file()) {
        files
            .keys()
            .filter(|name| !packed(name).is_file())
            .map(|name| (format!("{name}.zst"), "missing"))
            .collect()
    } else {
        damages(folder, &files)
    };
    let found: Vec<String> = found.into_iter().map(|(name, how)| format!("{name} is {how}")).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// Which of the files are not as their digests say, and how.
pub fn damages(folder: &Path, files: &BTreeMap<String, FileDigest>) -> Vec<(String, &'static str)> {
    let look = |(name, file): (&String, &FileDigest)| match read_digest(&folder.join(name)) {
        None => Some((name.clone(), "missing")),
        Some(found) if Some(&found) != file.sha256.as_ref() => Some((name.clone(), "damaged")),
        Some(_) => None,
    };
    files.iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sys::files::write_text;
    use expert_contract::digest::hex;
    use sha2::{Digest, Sha256};

    #[test]
    fn a_final_folder_is_held_against_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let entry = |text: &str| json!({"sha256": hex(&Sha256::digest(text)), "bytes": text.len()});
        let record = |files: Value| {
            write_text(
                run,
                RECORD,
                &json!({"recipe_digest": "d", "inputs": null, "final": files}).to_string(),
            );
            Finished::of(run).unwrap().damages(run)
        };
        write_text(run, "final/adapter_model.safetensors", "weights");
        write_text(run, "final/README.md", "mine");
        assert!(record(json!({WEIGHTS: entry("weights")})).is_empty());
        assert_eq!(record(json!({WEIGHTS: entry("others")})), ["final/adapter_model.safetensors is damaged"]);
        assert_eq!(record(json!({WEIGHTS: entry("weights"), "a": entry("")})), ["final/a is missing"]);
        assert_eq!(record(json!({})).len(), 1, "without digests nothing is verified");
    }

    #[test]
    fn paths_of_a_result_are_those_of_the_folder_that_holds_the_run_now() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let result = |result: Value| {
            write_text(run, RECORD, &json!({"recipe_digest": "d", "result": result}).to_string());
            Finished::of(run).unwrap().result(run)
        };
        let here = |name: &str| absolute(&run.join(name));
        assert_eq!(
            result(json!({"steps": 6, "adapter": "/gone/final", "best_checkpoint": "/gone/checkpoint-3"})),
            Some(json!({"steps": 6, "adapter": here("final"), "best_checkpoint": here("checkpoint-3")}))
        );
        assert_eq!(
            result(json!({"adapter": "C:\\gone\\final", "best_checkpoint": null})),
            Some(json!({"adapter": here("final"), "best_checkpoint": null}))
        );
    }
}
