//! Runs a module of the worker that does one task and exits, such as writing a report.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use expert_contract::exit::Exit;
use serde::de::DeserializeOwned;

use super::ending::ON_REQUEST;
use super::interrupt::{self, Watched};
use super::locate::Found;
use super::process::{self, Group, Worker};
use crate::failure::{Failure, reason};
use crate::sys::{env, gpus};

const ROUND: Duration = Duration::from_millis(20);

/// What a module that succeeded printed.
pub struct Ran {
    pub stdout: String,
    pub warnings: Vec<String>,
}

impl Ran {
    /// Standard output as the JSON document that the module prints.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.stdout).map_err(|error| {
            Failure::new(
                Exit::Failed,
                "worker-failed",
                format!("the worker's answer cannot be read: {error}"),
            )
        })
    }
}

/// Standard output of `python -m MODULE ARGUMENTS`, or its error message.
pub fn run_module(python: &Found, module: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Ran, Failure> {
    let output = output_of(start(python, module, arguments)).map_err(|error| not_started(python, &error))?;
    if output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let warnings = stderr.lines().filter_map(|line| line.strip_prefix("warning: "));
        return Ok(Ran {
            stdout: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            warnings: warnings.map(str::to_owned).collect(),
        });
    }
    if let Some(asked) = process::ended_by(output.status) {
        return Err(Failure::new(asked.exit(), "interrupted", ON_REQUEST));
    }
    Err(in_its_words(&String::from_utf8_lossy(&output.stderr), output.status.code()))
}

/// The first request to stop ends the module; it has nothing to save.
fn output_of(mut command: Command) -> io::Result<Output> {
    process::prepare(&mut command);
    let before = interrupt::requested();
    let ((mut worker, out, err), watched) = Watched::start(false, || {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let worker = Worker::started(child)?;
        let group = Group::adopt(&worker)?;
        Ok(((worker, out, err), group))
    })?;
    thread::scope(|scope| {
        let out = scope.spawn(|| read(out));
        let err = scope.spawn(|| read(err));
        let mut asked = before.is_some();
        while !watched.group.leader_ended(&mut worker) {
            if let Some(signal) = interrupt::requested().filter(|_| !asked) {
                watched.group.ask(signal);
                asked = true;
            }
            thread::sleep(ROUND);
        }
        let status = worker.wait()?;
        Ok(Output { status, stdout: out.join().unwrap_or_default(), stderr: err.join().unwrap_or_default() })
    })
}

fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    // What was read before an error is shown.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
    all
}

/// The module replaces this program on the terminal: it prints, handles Ctrl-C and exits.
pub fn hand_over(python: &Found, module: &str, arguments: &[impl AsRef<OsStr>]) -> Result<Exit, Failure> {
    let status = process::replace(&mut start(python, module, arguments))
        .map_err(|error| not_started(python, &error))?;
    Ok(status.code().map_or(Exit::Failed, Exit::from_code))
}

fn start(python: &Found, module: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(&python.python);
    command.args(["-m", module]).args(arguments).env(env::SAFE_PATH.name, "1").stdin(Stdio::null());
    gpus::for_worker(&mut command);
    command
}

fn not_started(python: &Found, error: &std::io::Error) -> Failure {
    let message = format!("cannot start {}: {}", python.python.display(), reason(error));
    Failure::missing("worker-not-started", message)
}

const ERROR: &str = "error: ";
const HINT: &str = "hint: ";
const CODE: &str = "code: ";
const IMPORT: &str = "ImportError";
const MODULE: &str = "ModuleNotFoundError";
const WORDS: [&str; 3] = [ERROR, HINT, CODE];

fn in_its_words(stderr: &str, code: Option<i32>) -> Failure {
    // As `report_failure` of the worker writes them; message and hint may have several lines.
    let word = |name: &str| {
        let mut lines = stderr.lines().skip_while(|line| !line.starts_with(name));
        let first = lines.next()?.strip_prefix(name)?;
        let further = lines.take_while(|line| !WORDS.iter().any(|name| line.starts_with(name)));
        let further = if name == CODE { Vec::new() } else { further.collect() };
        Some([vec![first], further].concat().join("\n").trim_end().to_owned())
    };
    let last =
        || stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it ended without output");
    // Of a package that does not import, no line of the worker's own was reached.
    if word(ERROR).is_none() && [IMPORT, MODULE].iter().any(|kind| last().starts_with(kind)) {
        let message = format!("the worker's installation is incomplete: {}", last());
        return Failure::new(Exit::Missing, "worker-incomplete", message)
            .hint("run `make setup` or install expert-worker again; see `expert-cli doctor`");
    }
    let message = word(ERROR).unwrap_or_else(|| format!("the worker failed: {}", last()));
    let exit = code.map_or(Exit::Failed, Exit::from_code);
    let code = word(CODE).unwrap_or_else(|| "worker-failed".to_owned());
    Failure { hint: word(HINT), ..Failure::new(exit, code, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_message_hint_and_code() {
        let failure = in_its_words("noise\nerror: no run there\nhint: train first\ncode: no-run\n", Some(2));
        assert_eq!(
            (failure.exit, failure.message.as_str(), failure.hint.as_deref(), failure.code.as_str()),
            (Exit::BadInput, "no run there", Some("train first"), "no-run")
        );
        let rows = in_its_words(
            "error: 2 rows are broken:\na:1: no\na:2: no\nhint: fix\nthem\ncode: bad-rows\n",
            Some(2),
        );
        assert_eq!(rows.message, "2 rows are broken:\na:1: no\na:2: no");
        assert_eq!((rows.hint.as_deref(), rows.code.as_str()), (Some("fix\nthem"), "bad-rows"));
        let broken = in_its_words("Traceback\nImportError: cannot import name 'x'\n", Some(1));
        assert_eq!((broken.exit, broken.code.as_str()), (Exit::Missing, "worker-incomplete"));
        let crash = in_its_words("Traceback\nValueError: x\n", None);
        assert!(crash.message.ends_with("ValueError: x") && crash.code == "worker-failed");
    }
}
