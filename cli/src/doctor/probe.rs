//! Runs `python -m expert_worker doctor`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::failure::reason;
use crate::sys::{env, gpus};

/// Importing torch from a cold network disk is slow; a broken driver may hang.
pub const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Debug, Deserialize)]
pub struct Report {
    pub contract: u32,
    pub worker: String,
    pub python: String,
    /// The interpreter's path.
    #[serde(default)]
    pub executable: String,
    pub packages: BTreeMap<String, Option<String>>,
    /// Of packages that are newer.
    #[serde(default)]
    pub newest_tested: BTreeMap<String, String>,
    pub native: Native,
    /// None where Python keeps the packages compiled.
    #[serde(default)]
    pub uncompiled: Option<Uncompiled>,
    pub bitsandbytes_error: Option<String>,
    pub torch: Torch,
    /// What holds the process that scores answers; none where it did not start.
    #[serde(default)]
    pub confinement: Option<Confinement>,
}

impl Report {
    /// None where the package is not installed.
    pub fn version(&self, package: &str) -> Option<&str> {
        self.packages.get(package)?.as_deref()
    }
}

#[derive(Debug, Deserialize)]
pub struct Confinement {
    pub files: Option<String>,
    pub network: Option<String>,
    #[serde(default)]
    pub missing: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Uncompiled {
    pub reason: String,
    /// The folder of the packages.
    pub packages: String,
}

#[derive(Debug, Deserialize)]
pub struct Native {
    pub version: Option<String>,
    pub error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Torch {
    pub error: Option<String>,
    pub cuda_build: Option<String>,
    #[serde(default)]
    pub cuda_available: bool,
    #[serde(default)]
    pub mps_available: bool,
    #[serde(default)]
    pub devices: Vec<Gpu>,
}

#[derive(Debug, Deserialize)]
pub struct Gpu {
    pub name: String,
    pub capability: String,
    pub memory_bytes: u64,
    /// Whether torch's build has code for it.
    #[serde(default = "yes")]
    pub has_code: bool,
}

fn yes() -> bool {
    true
}

/// The worker's report, or its last output as the reason why there is none.
pub fn ask(python: &Path) -> Result<Report, String> {
    let mut command = Command::new(python);
    gpus::for_worker(&mut command);
    let mut child = command
        .args(["-m", "expert_worker", "doctor"])
        .env(env::PARENT_PID.name, std::process::id().to_string())
        .env(env::SAFE_PATH.name, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| reason(&error))?;
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let answer = stdout.recv_timeout(PATIENCE);
    if answer.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    let Ok(answer) = answer else { return Err(format!("it did not answer within {} s", PATIENCE.as_secs())) };
    serde_json::from_str(answer.trim())
        .map_err(|_| last_words(&stderr.recv_timeout(PATIENCE).unwrap_or_default()))
}

pub fn read_all(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

pub fn last_words(stderr: &str) -> String {
    let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.unwrap_or("it ended without output").to_owned()
}
