//! From a plan to its result: locks the run's folder, writes the plan, runs the worker.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use expert_contract::plan::{Plan, Request};
use serde_json::Value;

use super::board::Board;
use super::fused::FusedGroup;
use super::launch::{Launch, Stdin};
use super::locate::Search;
use super::outcome::names_log;
use super::supervise::{Limits, Notice, supervise};
use super::warm::Warm;
use crate::args::{Global, Supervision};
use crate::failure::Failure;
use crate::run::{RunFolder, names};
use crate::sys::durable;
use crate::sys::launcher::Rank;
use crate::sys::run_lock::RunLock;
use crate::sys::temporary::TemporaryFolder;
use crate::ui::Console;

/// The paths of one invocation's plan and log.
pub enum Home {
    /// Training owns its output folder.
    Run(RunFolder),
    /// Scoring uses a temporary folder, and its worker holds the run that it scores.
    Scored(TemporaryFolder, RunFolder),
    /// The others use a temporary folder.
    Passing(TemporaryFolder),
}

impl Home {
    pub fn of(plan: &Plan) -> Result<Self, Failure> {
        if matches!(plan.request, Request::Train { .. }) {
            return RunFolder::claim(Path::new(&plan.machine.paths.output)).map(Self::Run);
        }
        Self::passing()
    }

    /// For the scores of a run that stays locked until they are there: `stop` ends this worker, too.
    pub fn scored(run: &RunFolder) -> Result<Self, Failure> {
        Ok(Self::Scored(TemporaryFolder::new()?, run.clone()))
    }

    /// A temporary folder, also for a training that another process records.
    pub fn passing() -> Result<Self, Failure> {
        TemporaryFolder::new().map(Self::Passing)
    }

    fn file(&self, name: &str) -> PathBuf {
        match self {
            Self::Run(folder) => folder.path().join(name),
            Self::Passing(folder) | Self::Scored(folder, _) => folder.path().join(name),
        }
    }

    fn lock(&self) -> Option<&RunLock> {
        match self {
            Self::Run(folder) | Self::Scored(_, folder) => Some(folder.lock()),
            Self::Passing(_) => None,
        }
    }

    /// A log that a failure names must exist.
    fn keep(self) {
        if let Self::Passing(folder) | Self::Scored(folder, _) = self {
            folder.keep();
        }
    }
}

/// Runs the plan's stage with progress on standard error, and returns the stage's own result.
pub fn carry_out(
    plan: &Plan,
    home: Home,
    supervision: &Supervision,
    global: &Global,
    console: &Console,
) -> Result<Value, Failure> {
    let mut board = Board::new(console);
    let result =
        carry_out_with(plan, home, supervision, global, Start::default(), &mut |notice| board.notify(notice));
    board.finish();
    result
}

/// How a worker is started, where it is not simply by itself.
#[derive(Clone, Copy, Default)]
pub struct Start<'a> {
    /// The parent that it is forked from.
    pub warm: Option<&'a Warm>,
    /// Which of a launcher's processes it trains as.
    pub rank: Option<Rank>,
    /// The experts that it trains with, in one worker.
    pub group: Option<&'a FusedGroup>,
}

/// The same for callers with their own display, or that start the worker in another way.
pub fn carry_out_with(
    plan: &Plan,
    home: Home,
    supervision: &Supervision,
    global: &Global,
    start: Start,
    notify: &mut dyn FnMut(Notice),
) -> Result<Value, Failure> {
    if let (Some(group), Home::Run(folder)) = (start.group, &home) {
        return group.carry_out(plan, folder, notify);
    }
    let limits = Limits::new(supervision.stall_timeout)?;
    let expert = Path::new(&plan.machine.paths.expert_dir);
    let launch = Launch {
        python: Search::here(global.python.as_deref(), Some(expert)).find()?.of_this_version()?,
        task: plan.request.task(),
        plans: vec![home.file(names::PLAN)],
        log: home.file(names::LOG),
        stdin: stdin_of(&plan.request),
        may_finish: !matches!(plan.request, Request::Generate { .. }),
        run_locks: home.lock().into_iter().collect(),
        rank: start.rank,
    };
    durable::write_json(&launch.plans[0], plan)?;
    let result = supervise(&launch, start.warm, &limits, notify);
    if result.as_ref().is_err_and(names_log) {
        home.keep();
    }
    result
}

fn stdin_of(request: &Request) -> Stdin {
    match request {
        Request::Generate { prompt: None, .. } if std::io::stdin().is_terminal() => Stdin::Typed,
        Request::Generate { prompt: None, .. } => Stdin::Prompts,
        _ => Stdin::Quiet,
    }
}
