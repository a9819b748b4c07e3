//! From a plan to its result: the run's folder is taken, the plan written, the worker run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use expert_contract::plan::{Plan, Request};
use serde_json::Value;

use crate::durable;
use crate::failure::Failure;
use crate::output::Lock;
use crate::render::{Board, Console};
use crate::usage::Global;
use crate::worker::{Launch, Limits, Notice, Search, Stdin, supervise};

/// How a worker is watched; shared by every command that starts one.
#[derive(clap::Args, Debug, Clone)]
pub struct Supervision {
    /// End a worker that has been silent for this long and beyond its stage's own budget
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub stall_timeout: Option<Duration>,
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is not a positive number of seconds"))
}

/// Runs the plan's stage with progress on standard error, and returns the stage's own result.
pub fn carry_out(
    plan: &Plan,
    supervision: &Supervision,
    global: &Global,
    console: &Console,
) -> Result<Value, Failure> {
    let mut board = Board::new(console);
    let result = carry_out_with(plan, supervision, global, &mut |notice| board.notify(notice));
    board.finish();
    result
}

/// The same for callers that draw for themselves.
pub fn carry_out_with(
    plan: &Plan,
    supervision: &Supervision,
    global: &Global,
    notify: &mut dyn FnMut(Notice),
) -> Result<Value, Failure> {
    let expert = Path::new(&plan.machine.paths.expert_dir);
    let python = Search::here(global.python.as_deref(), Some(expert)).find()?;
    let place = Place::take(plan)?;
    let launch = Launch {
        python,
        stage: plan.request.stage(),
        plan: place.plan.clone(),
        log: place.log.clone(),
        stdin: stdin_of(&plan.request),
    };
    let result = supervise(&launch, &Limits::new(supervision.stall_timeout), notify);
    if result.as_ref().is_err_and(|failure| failure.message.contains(&*place.log.to_string_lossy())) {
        place.keep();
    }
    result
}

fn stdin_of(request: &Request) -> Stdin {
    match request {
        Request::Generate { prompt: None, .. } => Stdin::Prompts,
        _ => Stdin::Quiet,
    }
}

/// Where the plan and the log of one invocation stand. Training owns its output folder; the rest work in passing.
struct Place {
    plan: PathBuf,
    log: PathBuf,
    _lock: Option<Lock>,
    passing: Option<tempfile::TempDir>,
}

impl Place {
    fn take(plan: &Plan) -> Result<Self, Failure> {
        let place = if matches!(plan.request, Request::Train { .. }) {
            Self::in_output(plan)
        } else {
            Self::passing()
        }?;
        durable::write_json(&place.plan, plan)?;
        Ok(place)
    }

    fn in_output(plan: &Plan) -> Result<Self, Failure> {
        let folder = Path::new(&plan.machine.paths.output);
        let lock = Lock::take(folder)?;
        Ok(Self {
            plan: folder.join("plan.json"),
            log: folder.join("worker.log"),
            _lock: Some(lock),
            passing: None,
        })
    }

    fn passing() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("expert-cli-")
            .tempdir()
            .map_err(|error| Failure::writing("write to", &std::env::temp_dir(), &error))?;
        Ok(Self {
            plan: folder.path().join("plan.json"),
            log: folder.path().join("worker.log"),
            _lock: None,
            passing: Some(folder),
        })
    }

    /// A log that a failure names must be there to be read.
    fn keep(self) {
        if let Some(folder) = self.passing {
            let _kept: PathBuf = folder.keep();
        }
    }
}
