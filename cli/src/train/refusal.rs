//! Rank 0 of a launcher refuses to start: the ranks that wait for it learn why, before the launcher ends them.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::sys::launcher::Rank;
use crate::worker::{self, Helper, Search};

const MODULE: &str = "expert_worker.train.refusal";
/// The helper imports torch, and waits a minute for ranks that are still on their way.
const LIMIT: Duration = Duration::from_mins(2);
const ROUND: Duration = Duration::from_millis(100);

/// Until all have heard it. Whatever goes wrong here must not hide the refusal itself.
pub fn report_to_ranks(rank: Rank, failure: &Failure, global: &Global) {
    let _ = publish(rank, failure, global);
}

fn publish(rank: Rank, failure: &Failure, global: &Global) -> Result<(), Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    let log = tempfile::tempfile().map_err(|error| Failure::supervising("start", &error))?;
    let (ended, end) = channel::<()>();
    let hear = move |line: Option<&[u8]>| {
        if line.is_none() {
            let _ = ended.send(());
        }
    };
    let arguments = ["--of".to_owned(), rank.of.to_string()];
    let helper = Helper::start(&python, MODULE, &arguments, log, hear)?;
    let refusal = json!({
        "exit": failure.exit.code(),
        "code": failure.cause(),
        "message": failure.message,
        "hint": failure.hint,
    });
    helper.send(&refusal).map_err(|error| Failure::supervising("talk to", &error))?;
    let deadline = Instant::now() + LIMIT;
    while worker::interrupted().is_none() && Instant::now() < deadline {
        if end.recv_timeout(ROUND) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    Ok(())
}
