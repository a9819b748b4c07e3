//! `doctor --prove`: runs `python -m expert_worker prove`, which compares each kernel of the fast path with its reference.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use super::probe::{PATIENCE, last_words, read_all};
use crate::failure::reason;
use crate::sys::{env, gpus, host};
use crate::ui::style::{GOOD, HINT, WARNING};

/// One kernel in one number format.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Trial {
    pub operation: String,
    pub kernel: String,
    pub format: String,
    pub verdict: Verdict,
    /// Why runs on this device do not use it.
    pub reason: String,
    pub loss_apart: Option<f64>,
    pub gradients_apart: Option<f64>,
    /// The largest distance that is right.
    pub accepted: Option<f64>,
    pub seconds: Option<f64>,
    pub reference_seconds: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Right,
    Differs,
    Fails,
    Slower,
}

#[derive(Debug, Serialize)]
pub struct Proof {
    /// What the findings are about: device, torch, worker.
    pub subject: serde_json::Map<String, serde_json::Value>,
    pub trials: Vec<Trial>,
    /// Where they are kept, for runs and to attach to a report.
    pub file: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Subject(serde_json::Map<String, serde_json::Value>),
    Trial(Trial),
    File(String),
}

/// Calls `each` as soon as a kernel has been tried. The worker's last words where it ends early.
pub fn prove(python: &Path, mut each: impl FnMut(&Trial)) -> Result<Proof, String> {
    let mut command = Command::new(python);
    gpus::for_worker(&mut command);
    let mut child = command
        .args(["-m", "expert_worker", "prove", "--home"])
        .arg(host::home())
        .env(env::PARENT_PID.name, std::process::id().to_string())
        .env(env::SAFE_PATH.name, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| reason(&error))?;
    let (sender, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    let stderr = read_all(child.stderr.take());
    let mut proof = Proof { subject: serde_json::Map::new(), trials: Vec::new(), file: String::new() };
    let silent = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(Line::Subject(subject)) => proof.subject = subject,
                Ok(Line::Trial(trial)) => {
                    each(&trial);
                    proof.trials.push(trial);
                }
                Ok(Line::File(file)) => proof.file = file,
                Err(_) => {}
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break false,
            Err(mpsc::RecvTimeoutError::Timeout) => break true,
        }
    };
    if silent {
        let _ = child.kill();
    }
    let _ = child.wait();
    if silent {
        return Err(format!("it said nothing for {} s", PATIENCE.as_secs()));
    }
    if proof.file.is_empty() {
        return Err(last_words(&stderr.recv_timeout(PATIENCE).unwrap_or_default()));
    }
    Ok(proof)
}

/// One line per kernel.
pub fn line(trial: &Trial) -> String {
    let Trial { operation, kernel, format, verdict, reason, .. } = trial;
    let name = format!("{operation:<14}  {kernel:<16}  {format}");
    if *verdict == Verdict::Right {
        let times = match (trial.seconds, trial.reference_seconds) {
            (Some(own), Some(other)) if other > 0.0 => format!("{:.2} of its step's time", own / other),
            _ => "time unknown".to_owned(),
        };
        let apart = trial.gradients_apart.unwrap_or_default();
        return format!("{GOOD}ok {GOOD:#}  {name}  {times}, gradients {apart:.0e} apart\n");
    }
    format!("{WARNING}off{WARNING:#}  {name}  {reason}\n")
}

/// What follows from them.
pub fn summary(proof: &Proof) -> String {
    let off = proof.trials.iter().filter(|trial| trial.verdict != Verdict::Right).count();
    let file = &proof.file;
    match (proof.trials.len(), off) {
        (all, 0) => format!("{all} kernels compute what their references do. The figures: {file}\n"),
        (all, _) => format!(
            "{off} of {all} kernels will not be used on this device. {HINT}fix{HINT:#}: attach {file} to a report\n"
        ),
    }
}
