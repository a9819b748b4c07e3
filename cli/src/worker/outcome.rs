//! Explains a worker's end from its last event, its exit status and its request.

use std::process::ExitStatus;
use std::time::Duration;

use expert_contract::event::Body;
use expert_contract::exit::Exit;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ending::{Death, Interrupt, ON_REQUEST};
use super::launch::Launch;
use super::process::cause_of_death;
use super::silence::Quiet;
use crate::failure::Failure;

const CRASHED: &str = "worker-crashed";
const ENDED: &str = "worker-ended";

/// The facts when the worker has ended.
#[derive(Clone, Default)]
pub struct Facts {
    /// The `finished` or `failed` event, if one came.
    pub last: Option<Body>,
    pub started: bool,
    pub asked: Option<Interrupt>,
    pub killed_after_grace: Option<Duration>,
    pub stalled: Option<Quiet>,
    pub contract: Option<u32>,
    /// Why it was given only a part of its prompts.
    pub input: Option<Failure>,
}

/// A stage's result, typed.
pub fn result<T: DeserializeOwned>(document: &Value) -> Result<T, Failure> {
    T::deserialize(document).map_err(|error| {
        let message = format!("the worker reported a result that this expert-cli cannot read: {error}");
        Failure::new(Exit::Failed, "bad-result", message)
            .hint("install expert-cli and the expert-worker package of the same version")
    })
}

pub fn judge(facts: Facts, status: ExitStatus, launch: &Launch) -> Result<Value, Failure> {
    if let Some(theirs) = facts.contract {
        return Err(other_contract(theirs, launch));
    }
    if let Some(ended) = facts.last.as_ref().and_then(end) {
        // It has finished as after the last prompt: the answers so far are its result.
        return ended.and_then(|result| match facts.input {
            Some(failure) => Err(failure.with_result(result)),
            None => Ok(result),
        });
    }
    if let Some(quiet) = facts.stalled {
        return Err(stalled(&quiet, launch));
    }
    if let Some(asked) = facts.asked {
        return Err(interrupted(asked, facts.killed_after_grace, launch));
    }
    Err(if facts.started { died(status, launch) } else { never_started(status, launch) })
}

/// What a run's last event says; None for any other event.
pub fn end(body: &Body) -> Option<Result<Value, Failure>> {
    match body {
        Body::Finished { result } => Some(Ok(result.clone())),
        Body::Failed { exit, code, message, hint } => {
            let failure = Failure::new(Exit::from_code((*exit).into()), code.clone(), message.clone());
            Some(Err(Failure { hint: hint.clone(), ..failure }))
        }
        _ => None,
    }
}

fn other_contract(theirs: u32, launch: &Launch) -> Failure {
    let ours = expert_contract::plan::CONTRACT_VERSION;
    Failure::missing(
        "contract-mismatch",
        format!("the worker has version {theirs} of the contract, this expert-cli has {ours}"),
    )
    .hint(launch.python.same_version())
}

/// What to do where a worker ended by itself or by force.
fn again(launch: &Launch) -> &'static str {
    if launch.has_saved() { "--resume continues from the last checkpoint" } else { "repeat the command" }
}

fn stalled(quiet: &Quiet, launch: &Launch) -> Failure {
    let seconds = quiet.lasted.as_secs();
    Failure::new(
        Exit::Failed,
        "stalled",
        format!(
            "the worker made no progress in stage {} for {seconds} s and was ended because of --stall-timeout",
            quiet.stage
        ),
    )
    .hint(again(launch))
}

fn interrupted(asked: Interrupt, grace: Option<Duration>, launch: &Launch) -> Failure {
    let message = match grace {
        _ if !launch.saves() => ON_REQUEST.to_owned(),
        Some(grace) => {
            format!(
                "the worker did not stop within {} s and was ended; progress since its last checkpoint is lost",
                grace.as_secs()
            )
        }
        None => "stopped on request before anything was saved".to_owned(),
    };
    Failure::new(asked.exit(), "interrupted", message)
}

fn died(status: ExitStatus, launch: &Launch) -> Failure {
    let log = launch.log.display();
    match cause_of_death(status) {
        Some(Death::Killed) => {
            // Where steps are saved, only what leaves the recipe as it is: with another one none of them counts.
            let (smaller, resumed) = match (launch.saves(), launch.has_saved()) {
                (false, _) => ("", ""),
                (true, false) => ("lower batch_size or max_seq_length, ", ""),
                (true, true) => (
                    "",
                    ", and needs less memory with --max-memory SIZE, or with a smaller batch_size and as many more \
                     gradient_accumulation_steps",
                ),
            };
            Failure::new(Exit::Failed, "worker-killed", "the worker was killed (signal 9)").hint(format!(
                "usually the system ran out of memory: {smaller}close other programs, and see `dmesg` for the kernel's \
                 messages; {}{resumed}",
                again(launch)
            ))
        }
        Some(Death::Crashed(_))
            if ["bad_alloc", "annot allocate memory"].iter().any(|it| launch.log_mentions(it)) =>
        {
            Failure::new(Exit::Failed, "out-of-memory", "the worker ran out of memory").hint(format!(
                "close other programs, or raise the limit of memory (`ulimit -v` shows it); {}",
                again(launch)
            ))
        }
        Some(Death::Crashed(number)) => Failure::new(
            Exit::Failed,
            CRASHED,
            format!("the worker crashed in native code ({}); its log is {log}", crash_name(number)),
        )
        .hint(format!("{}; `expert-cli doctor` checks the installation", again(launch))),
        None => Failure::new(
            Exit::Failed,
            ENDED,
            format!(
                "the worker ended ({status}) without an error message{}; its log is {log}",
                last_words(launch)
            ),
        ),
    }
}

/// Whether the message names the worker's log.
pub fn names_log(failure: &Failure) -> bool {
    [CRASHED, ENDED].contains(&failure.code.as_str())
}

fn never_started(status: ExitStatus, launch: &Launch) -> Failure {
    let python = launch.python.python.display();
    if launch.log_mentions("No module named expert_worker") {
        return Failure::missing(
            "worker-missing",
            format!("{python} does not have the expert-worker package"),
        )
        .hint(format!("{} (this one was chosen by {})", launch.python.remedy, launch.python.rule));
    }
    let mut failure = died(status, launch);
    if cause_of_death(status).is_none() {
        failure = Failure { exit: Exit::Missing, code: "worker-not-started".to_owned(), ..failure };
        failure.message = format!("{python} cannot run the worker{}", last_words(launch));
        failure.hint =
            Some("the worker needs Python 3.11 or newer; `expert-cli doctor` shows the problem".to_owned());
    }
    failure
}

fn last_words(launch: &Launch) -> String {
    launch.last_words().map_or(String::new(), |line| format!(": {line}"))
}

fn crash_name(number: i32) -> String {
    match number {
        4 => "illegal instruction".to_owned(),
        6 => "abort".to_owned(),
        7 | 10 => "bus error".to_owned(),
        8 => "arithmetic fault".to_owned(),
        11 => "segmentation fault".to_owned(),
        other => format!("{other:#x}"),
    }
}
