//! Runs on disk: folders that training left below an expert's `weights/`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;
use serde_json::Value;

use crate::output::{checkpoint_step, children, holder, read_record};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Running,
    Finished,
    /// Interrupted or failed, with checkpoints to go on from.
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
    pub train_loss: Option<f64>,
    pub eval_loss: Option<f64>,
    pub recipe_digest: Option<String>,
}

/// The runs of the expert in this folder, by name.
pub fn of_expert(folder: &Path) -> Vec<Run> {
    let mut paths: Vec<PathBuf> =
        children(&folder.join("weights")).into_iter().filter(|path| is_run(path)).collect();
    paths.sort();
    let expert = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    paths.into_iter().map(|path| look(path, &expert)).collect()
}

fn is_run(path: &Path) -> bool {
    ["plan.json", "events.jsonl", "run.json"].iter().any(|name| path.join(name).is_file())
}

fn look(path: PathBuf, expert: &str) -> Run {
    let record = read_record(&path);
    let (step, loss) = last_step(&path);
    let result = record.as_ref().map_or(&Value::Null, |record| &record["result"]);
    let state = if holder(&path).is_some() {
        State::Running
    } else if record.is_some() {
        State::Finished
    } else if children(&path).iter().any(|child| checkpoint_step(child).is_some()) {
        State::Resumable
    } else {
        State::Ended
    };
    Run {
        expert: expert.to_owned(),
        state,
        steps: result["steps"].as_u64().or(step),
        train_loss: result["train_loss"].as_f64().or(loss),
        eval_loss: result["eval_loss"].as_f64(),
        recipe_digest: record.as_ref().and_then(|record| record["recipe_digest"].as_str().map(str::to_owned)),
        path,
    }
}

/// The newest step on record and its loss.
fn last_step(path: &Path) -> (Option<u64>, Option<f64>) {
    let Ok(file) = fs::File::open(path.join("events.jsonl")) else { return (None, None) };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let bodies = lines.filter_map(|line| serde_json::from_slice::<Value>(&line).ok());
    bodies
        .filter(|event| event["body"]["type"] == "progress")
        .last()
        .map_or((None, None), |event| (event["body"]["step"].as_u64(), event["body"]["loss"].as_f64()))
}
