//! Runs on disk: the folders of trainings, in an expert's `weights/` or given with `-o`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::experts;
use crate::failure::Failure;
use crate::output::{checkpoint_step, children, holder, open_file, read_json, read_record};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Running,
    Finished,
    /// Interrupted or failed, with checkpoints to resume from.
    Resumable,
    /// Ended before its first checkpoint.
    Ended,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Resumable => "resumable",
            Self::Ended => "ended early",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Run {
    pub expert: String,
    pub path: PathBuf,
    pub state: State,
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub train_loss: Option<f64>,
    pub eval_loss: Option<f64>,
    /// Accuracy of base and adapter on the test set.
    pub base_accuracy: Option<f64>,
    pub accuracy: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub seconds: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    /// Seconds since the epoch of the last event.
    pub told_at: Option<f64>,
    pub recipe_digest: Option<String>,
}

/// The runs of `folder`: itself, those directly in it, and those of the experts in it; by path.
pub fn below(folder: &Path) -> Result<Vec<Run>, Failure> {
    if is_run(folder) {
        return Ok(vec![look(folder)]);
    }
    let experts = experts::below(folder)?;
    let of_experts = experts.iter().filter_map(|manifest| manifest.parent()).flat_map(of_expert);
    let mut runs: Vec<Run> = of_experts.chain(directly_in(folder)).collect();
    runs.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(runs)
}

/// The runs of the expert in this folder, by path.
pub fn of_expert(folder: &Path) -> Vec<Run> {
    directly_in(&folder.join("weights"))
}

fn directly_in(folder: &Path) -> Vec<Run> {
    let mut paths: Vec<PathBuf> = children(folder).into_iter().filter(|path| is_run(path)).collect();
    paths.sort();
    paths.iter().map(|path| look(path)).collect()
}

pub fn is_run(path: &Path) -> bool {
    ["plan.json", "events.jsonl", "run.json"].iter().any(|name| path.join(name).is_file())
}

pub fn look(path: &Path) -> Run {
    let record = read_record(path);
    let plan = read_json(&path.join("plan.json")).unwrap_or_default();
    let last = last_words(path);
    let result = record.as_ref().map_or(&Value::Null, |record| &record["result"]);
    let scores = read_json(&path.join("evaluation.json")).unwrap_or_default();
    let digest = record.as_ref().unwrap_or(&plan)["recipe_digest"].as_str().map(str::to_owned);
    Run {
        expert: plan["recipe"]["expert"].as_str().map_or_else(|| owner(path), str::to_owned),
        path: path.to_owned(),
        state: state(path, record.is_some()),
        steps: result["steps"].as_u64().or(last.step),
        tokens: result["tokens"].as_u64(),
        train_loss: result["train_loss"].as_f64().or(last.loss),
        eval_loss: result["eval_loss"].as_f64(),
        base_accuracy: scores["base"]["accuracy"].as_f64(),
        accuracy: scores["adapter"]["accuracy"].as_f64(),
        tokens_per_second: result["tokens_per_second"].as_f64(),
        seconds: result["seconds"].as_f64(),
        peak_memory_bytes: result["peak_memory_bytes"].as_u64(),
        told_at: last.time,
        recipe_digest: digest,
    }
}

/// The expert whose `weights/` has the run.
fn owner(path: &Path) -> String {
    let home = path.parent().filter(|it| it.ends_with("weights")).and_then(Path::parent).unwrap_or(path);
    home.file_name().unwrap_or(home.as_os_str()).to_string_lossy().into_owned()
}

fn state(path: &Path, recorded: bool) -> State {
    if holder(path).is_some() {
        State::Running
    } else if recorded {
        State::Finished
    } else if children(path).iter().any(|child| checkpoint_step(child).is_some()) {
        State::Resumable
    } else {
        State::Ended
    }
}

#[derive(Default)]
struct LastWords {
    step: Option<u64>,
    loss: Option<f64>,
    time: Option<f64>,
}

/// The newest recorded step with its loss, and the time of the last event.
fn last_words(path: &Path) -> LastWords {
    let mut last = LastWords::default();
    let Some(file) = open_file(&path.join("events.jsonl")) else { return last };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    for event in lines.filter_map(|line| serde_json::from_slice::<Value>(&line).ok()) {
        last.time = event["time"].as_f64().or(last.time);
        if event["body"]["type"] == "progress" {
            last.step = event["body"]["step"].as_u64();
            last.loss = event["body"]["loss"].as_f64();
        }
    }
    last
}
