//! `doctor --prove`: runs `python -m expert_worker prove`, which compares each kernel of the fast path with its reference.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use expert_contract::plan::{Device, Dtype};
use expert_contract::resolve::Found;
use serde::{Deserialize, Serialize};

use super::probe::{PATIENCE, last_words, read_all};
use crate::failure::reason;
use crate::sys::files::read_json;
use crate::sys::{env, gpus, host};
use crate::ui::style::{GOOD, HINT, WARNING};
use crate::ui::wrap::{columns, wrapped};
use crate::worker::torch_of;

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

/// What is compared: everything on the first GPU or on the CPU, where nothing is named.
#[derive(Debug, Default, Clone)]
pub struct Asked {
    pub card: Option<Device>,
    pub format: Option<Dtype>,
}

impl Asked {
    fn arguments(&self) -> Vec<String> {
        let card = self.card.as_ref().map(|card| {
            ["--card".to_owned(), card.index.to_string(), "--named".to_owned(), card.name.clone()]
        });
        let format = self.format.map(|format| ["--format".to_owned(), format.to_string()]);
        card.into_iter().flatten().chain(format.into_iter().flatten()).collect()
    }
}

/// Calls `each` as soon as a kernel has been tried. The worker's last words where it ends early.
pub fn prove(python: &Path, asked: &Asked, mut each: impl FnMut(&Trial)) -> Result<Proof, String> {
    let mut command = Command::new(python);
    gpus::for_worker(&mut command);
    let mut child = command
        .args(["-m", "expert_worker", "prove", "--home"])
        .arg(host::home())
        .args(asked.arguments())
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

/// The findings of an earlier proof that plans read.
#[derive(Deserialize)]
struct Kept {
    device: String,
    /// What the driver calls the device; torch may call a part of a card by another name.
    #[serde(default)]
    named: Option<String>,
    torch: String,
    worker: String,
    date: String,
    trials: Vec<Trial>,
}

impl Kept {
    fn all(home: &Path) -> impl Iterator<Item = Self> + use<> {
        let files = std::fs::read_dir(home.join(FOLDER)).into_iter().flatten().flatten();
        files.filter_map(|file| read_json::<Self>(&file.path()))
    }

    fn is_of(&self, device: &str) -> bool {
        // The worker names its compute capability too.
        self.named.as_deref() == Some(device) || self.device.split(", compute").next() == Some(device)
    }
}

/// Where the worker keeps what it found, below EXPERT_HOME.
const FOLDER: &str = "kernels";
/// The operation whose kernel torch's compiler makes.
pub const COMPILED: &str = "torch_compile";
/// The operation that replays a step.
pub const CAPTURED: &str = "cuda_graph";

/// What the newest proof on the device found of an operation. A run asks again for the torch that it has.
pub fn found(home: &Path, device: &str, operation: &str) -> Vec<Found> {
    let own = Kept::all(home).filter(|kept| kept.is_of(device));
    let newest = own.max_by(|one, other| one.date.cmp(&other.date));
    let trials = newest.map(|kept| kept.trials).unwrap_or_default();
    trials.into_iter().filter(|trial| trial.operation == operation).filter_map(Trial::found).collect()
}

/// Whether the kernels were compared in this format on the device, with the torch that Python has and this version.
pub fn is_tried(home: &Path, device: &str, format: Dtype, python: &Path) -> bool {
    let torch = torch_of(python);
    Kept::all(home).any(|kept| {
        kept.is_of(device)
            && kept.worker == env!("CARGO_PKG_VERSION")
            && torch.as_ref().is_none_or(|torch| *torch == kept.torch)
            && kept.trials.iter().any(|trial| Dtype::parse(&trial.format) == Some(format))
    })
}

impl Trial {
    fn found(self) -> Option<Found> {
        let format = Dtype::parse(&self.format)?;
        Some(Found { format, refused: (self.verdict != Verdict::Right).then_some(self.reason) })
    }
}

/// Columns before the name of an operation.
const MARK: usize = 5;

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
        let text = wrapped(&format!("{name}  {times}, gradients {apart:.0e} apart"), MARK, columns());
        return format!("{GOOD}ok {GOOD:#}  {text}\n");
    }
    let text = wrapped(&format!("{name}  {reason}"), MARK, columns());
    format!("{WARNING}off{WARNING:#}  {text}\n")
}

/// What follows from them.
pub fn summary(proof: &Proof) -> String {
    let off = proof.trials.iter().filter(|trial| trial.verdict != Verdict::Right).count();
    let file = &proof.file;
    let text = match (proof.trials.len(), off) {
        (0, _) => "No kernel was compared: this device has none in this format.".to_owned(),
        (all, 0) => format!("{all} kernels compute what their references do. The figures: {file}"),
        (all, _) => format!(
            "{off} of {all} kernels will not be used on this device. {HINT}fix{HINT:#}: attach {file} to a report"
        ),
    };
    wrapped(&text, 0, columns()) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_proof_of_a_device_says_whether_layers_are_compiled() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let keep = |name: &str, device: &str, date: &str, verdict: &str, reason: &str| {
            let trial = |operation: &str, verdict: &str, reason: &str| {
                json!({"operation": operation, "kernel": "inductor", "format": "bf16", "verdict": verdict,
                    "reason": reason})
            };
            let trials = [
                trial("swiglu", "fails", "another kernel"),
                trial(COMPILED, verdict, reason),
                trial(CAPTURED, "differs", "another part"),
            ];
            let worker = env!("CARGO_PKG_VERSION");
            let kept =
                json!({"device": device, "torch": "2", "worker": worker, "date": date, "trials": trials});
            std::fs::write(folder.join(name), kept.to_string()).unwrap();
        };
        let (card, other) = ("A card, compute capability 8.9", "A card Ti, compute capability 8.9");
        keep("a.json", card, "2026-01-02", "right", "");
        keep("b.json", card, "2026-01-01", "fails", "older");
        keep("c.json", other, "2026-01-03", "slower", "a step takes 1.50 times as long");
        std::fs::write(folder.join("d.json"), "{").unwrap();
        let of = |device| found(home.path(), device, COMPILED);
        assert_eq!(of("A card"), [Found { format: Dtype::Bf16, refused: None }]);
        let refused = Some("a step takes 1.50 times as long".to_owned());
        assert_eq!(of("A card Ti"), [Found { format: Dtype::Bf16, refused }]);
        assert!(of("A third").is_empty());
        assert!(found(&home.path().join("absent"), "A card", COMPILED).is_empty());
        let refused = Some("another part".to_owned());
        assert_eq!(found(home.path(), "A card", CAPTURED), [Found { format: Dtype::Bf16, refused }]);
    }

    #[test]
    fn a_proof_without_a_kernel_says_so() {
        let proof = Proof { subject: serde_json::Map::new(), trials: Vec::new(), file: "a.json".to_owned() };
        assert!(summary(&proof).starts_with("No kernel was compared"));
    }

    #[test]
    fn a_proof_counts_for_its_card_torch_version_and_format() {
        let home = tempfile::tempdir().unwrap();
        let python = home.path().join("bin/python");
        crate::sys::files::write_text(
            home.path(),
            "lib/python3.11/site-packages/torch/version.py",
            "__version__ = '2.15.0+cu132'\n",
        );
        let tried = |device| is_tried(home.path(), device, Dtype::Bf16, &python);
        let keep = |change: fn(&mut serde_json::Value)| {
            let trial = json!({"operation": "swiglu", "kernel": "native", "format": "bf16", "verdict": "right", "reason": ""});
            let worker = env!("CARGO_PKG_VERSION");
            let mut kept = json!({"device": "A part, compute capability 9.0", "named": "A card MIG 1g", "torch": "2.15.0+cu132",
                "worker": worker, "date": "2026-01-02", "trials": [trial]});
            change(&mut kept);
            crate::sys::files::write_text(home.path(), "kernels/a.json", &kept.to_string());
        };
        assert!(!tried("A card MIG 1g"), "no file");
        keep(|_| {});
        assert!(tried("A card MIG 1g") && tried("A part") && !tried("A card"));
        keep(|kept| kept["torch"] = json!("2.14.0+cu132"));
        assert!(!tried("A part"), "another torch");
        keep(|kept| kept["worker"] = json!("0.0.1"));
        assert!(!tried("A part"), "another version");
        keep(|kept| kept["trials"][0]["format"] = json!("fp16"));
        assert!(!tried("A part"), "another format");
    }
}
