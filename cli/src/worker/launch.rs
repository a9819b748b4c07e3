//! One start of the worker, and the log that it leaves.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};

use expert_contract::exit::Exit;
use expert_contract::plan::Task;
use fs_err as fs;

use super::locate::Found;
use super::process::Worker;
use crate::failure::{Failure, reason};
use crate::run::checkpoints;
use crate::sys::files::without_following;
use crate::sys::launcher::Rank;
use crate::sys::run_lock::RunLock;

/// The worker's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Kept open without data; the worker takes its end as the end of this process.
    Quiet,
    /// Prompts, read from ours line by line and passed on as JSON strings.
    Prompts,
    /// The same, typed by a person at a terminal.
    Typed,
}

/// One start of the worker.
pub struct Launch<'a> {
    pub python: Found,
    pub task: Task,
    /// Several where their experts train fused.
    pub plans: Vec<PathBuf>,
    /// Receives output of the worker and its libraries that is not an event.
    pub log: PathBuf,
    pub stdin: Stdin,
    /// Whether a stop gives it time to save or to clean up; otherwise it is ended at once.
    pub may_finish: bool,
    /// Held by the worker too, so that no other writer enters a run's folder before it has ended.
    pub run_locks: Vec<&'a RunLock>,
    /// Which of a launcher's processes it trains as.
    pub rank: Option<Rank>,
}

impl Launch<'_> {
    /// Whether it writes checkpoints, from which `--resume` continues.
    pub fn saves(&self) -> bool {
        self.task == Task::Train
    }

    /// Whether it, or an attempt before it, may have written one. The log is in the run's folder, except for a launcher's
    /// processes.
    pub fn has_saved(&self) -> bool {
        let is_there = || self.log.parent().is_some_and(|run| !checkpoints(run).is_empty());
        self.saves() && (self.rank.is_some() || is_there())
    }
}

pub struct Started {
    pub worker: Worker,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
}

impl Launch<'_> {
    pub fn open_log(&self) -> Result<std::fs::File, Failure> {
        let open = || -> std::io::Result<fs::File> {
            if let Some(folder) = self.log.parent() {
                fs::create_dir_all(folder)?;
            }
            without_following().write(true).create(true).truncate(true).open(&self.log)
        };
        open().map(fs::File::into_file).map_err(|error| Failure::writing("write the log", &self.log, &error))
    }

    /// The last non-empty line of the log, for ends without an event.
    pub fn last_words(&self) -> Option<String> {
        tail(&self.log).lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    pub fn log_mentions(&self, text: &str) -> bool {
        tail(&self.log).contains(text)
    }
}

fn tail(log: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    const TAIL: u64 = 16 << 10;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut text = Vec::new();
        file.take(TAIL).read_to_end(&mut text)?;
        Ok(text)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

impl Failure {
    /// A step of supervision that the operating system refused.
    pub fn supervising(doing: &str, error: &std::io::Error) -> Self {
        Self::new(Exit::Failed, "worker-lost", format!("cannot {doing} the worker: {}", reason(error)))
    }
}
