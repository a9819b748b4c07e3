//! Runs side by side: the settings, data, base and code that differ, what the machine decided differently, and the
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expert_contract::plan::by_key;
use expert_contract::results::{PlanRecord, RunRecord};
use serde_json::{Number, Value, json};

use super::list::{Run, is_run, look, of_expert};
use crate::failure::Failure;
use crate::run::{names, read_plan};
use crate::sys::files::read_json;
use crate::sys::paths::portable;

/// A value for each run; None if the run does not have the key.
pub type Sides = Vec<Option<Value>>;

pub struct Comparison {
    pub runs: Vec<Run>,
    /// By dotted path, only what differs.
    pub settings: BTreeMap<String, Sides>,
    /// Digests of data, base, tokenizer, template and code.
    pub inputs: BTreeMap<String, Sides>,
    pub machine: BTreeMap<String, Sides>,
    /// Whether a run's recipe is on record, and whether its inputs are.
    pub recorded: Vec<[bool; 2]>,
}

/// The path itself, or the only run of the expert that it leads to.
fn run_of(path: &Path) -> Result<PathBuf, Failure> {
    if is_run(path) {
        return Ok(path.to_owned());
    }
    let (message, hint) = match &of_expert(path)[..] {
        [only] => return Ok(only.path.clone()),
        [] => (
            format!("{} holds no run", path.display()),
            "name the folders of runs; `expert-cli runs` lists them".to_owned(),
        ),
        several => {
            let names: Vec<_> = several.iter().map(|run| portable(&run.path)).collect();
            (
                format!("{} holds {} runs", path.display(), several.len()),
                format!("name one: {}", names.join(", ")),
            )
        }
    };
    Err(Failure::bad_input("no-run", message).hint(hint))
}

/// Paths and estimates are not compared.
const OF_THE_PLACE: [&str; 2] = ["paths.", "estimate."];

impl Comparison {
    pub fn of(paths: &[PathBuf]) -> Result<Self, Failure> {
        let paths = &paths.iter().map(|path| run_of(path)).collect::<Result<Vec<_>, _>>()?;
        let plans: Vec<PlanRecord> = paths.iter().map(|path| read_plan(path)).collect();
        // A finished run has a record; one in progress has only its plan.
        let made_of = |(path, plan): (&PathBuf, &PlanRecord)| {
            let record: RunRecord = read_json(&path.join(names::RECORD)).unwrap_or_default();
            let recipe = record.recipe.filter(Value::is_object).or_else(|| plan.recipe.clone());
            let recorded = record.inputs.and_then(|inputs| serde_json::to_value(inputs).ok());
            let mut inputs = recorded.or_else(|| plan.inputs.clone()).unwrap_or_default();
            // It is the recipe's digest, whose settings are compared.
            inputs.as_object_mut().and_then(|inputs| inputs.remove("recipe"));
            (by_key(recipe.unwrap_or_default()), inputs)
        };
        let (recipes, inputs): (Vec<Value>, Vec<Value>) = paths.iter().zip(&plans).map(made_of).unzip();
        let machines: Vec<Value> = plans.into_iter().map(|plan| plan.machine.unwrap_or_default()).collect();
        let mut machine = differences(&machines);
        machine.retain(|key, _| !OF_THE_PLACE.iter().any(|place| key.starts_with(place)));
        Ok(Self {
            runs: paths.iter().map(|path| look(path)).collect(),
            settings: differences(&recipes),
            inputs: differences(&inputs),
            machine,
            recorded: recipes
                .iter()
                .zip(&inputs)
                .map(|(one, two)| [one, two].map(Value::is_object))
                .collect(),
        })
    }

    pub fn document(&self) -> Value {
        json!({
            "ok": true,
            "runs": self.runs,
            "same_recipe": self.same_recipe(),
            "settings": self.settings,
            "inputs": self.inputs,
            "machine": self.machine,
        })
    }

    /// None where a run's recipe is not on record.
    pub fn same_recipe(&self) -> Option<bool> {
        self.recorded.iter().all(|[recipe, _]| *recipe).then_some(self.settings.is_empty())
    }

    /// The shortest names that distinguish the runs.
    pub fn names(&self) -> Vec<String> {
        let folder = |run: &Run| run.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let candidates: [Vec<String>; 2] = [
            self.runs.iter().map(|run| run.expert.clone()).collect(),
            self.runs.iter().map(|run| folder(run).unwrap_or_default()).collect(),
        ];
        let told_apart = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        let paths = || self.runs.iter().map(|run| portable(&run.path)).collect();
        candidates.into_iter().find(told_apart).unwrap_or_else(paths)
    }
}

/// What is null is absent, and numbers are compared as numbers. A document that is null never counts as a difference.
pub fn differences(documents: &[Value]) -> BTreeMap<String, Sides> {
    let flat: Vec<BTreeMap<String, Value>> = documents
        .iter()
        .map(|document| {
            let mut leaves = BTreeMap::new();
            flatten(document, "", &mut leaves);
            leaves
        })
        .collect();
    let keys: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    let sides = |key: &String| flat.iter().map(|leaves| leaves.get(key).cloned()).collect::<Sides>();
    keys.into_iter()
        .map(|key| (key.clone(), sides(key)))
        .filter(|(_, sides)| {
            let known = sides.iter().zip(documents).filter(|(_, document)| !document.is_null());
            let known: Vec<_> = known.map(|(side, _)| side).collect();
            known.windows(2).any(|pair| pair[0] != pair[1])
        })
        .collect()
}

/// Lists are compared as a whole, not element by element.
fn flatten(value: &Value, path: &str, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(inner, &path, leaves);
            }
        }
        Value::Null => {}
        Value::Number(number) => {
            leaves.insert(path.to_owned(), plain(number));
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

/// 8.0 is 8, whichever language wrote it.
fn plain(number: &Number) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            Value::from(float as i64)
        }
        _ => Value::from(number.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differing_values_are_listed_by_path() {
        let one = json!({"adapter": {"rank": 8, "kind": "lora"}, "seed": 1, "a": [1, 2], "gone": true, "null": null});
        let two = json!({"adapter": {"rank": 16, "kind": "lora"}, "seed": 1, "a": [1, 3]});
        let found = differences(&[one.clone(), two]);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "adapter.rank", "gone"]);
        assert_eq!(found["adapter.rank"], [Some(json!(8)), Some(json!(16))]);
        assert_eq!(found["gone"], [Some(json!(true)), None]);
        assert!(differences(&[one.clone(), one]).is_empty());
        assert!(differences(&[json!({"a": 8, "b": 0}), json!({"a": 8.0, "b": -0.0})]).is_empty());
        assert!(differences(&[json!({"a": 8}), Value::Null]).is_empty());
        assert_eq!(differences(&[json!({"a": 8}), Value::Null, json!({"a": 9})]).len(), 1);
    }
}
