//! Every environment variable that this program reads or passes to its worker.

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Failure;

pub struct Variable {
    pub name: &'static str,
    pub meaning: &'static str,
    /// Shown by `--help`; the others pass between the CLI and its worker, are set by launchers or serve tests.
    pub public: bool,
}

const fn public(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, public: true }
}

const fn internal(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, public: false }
}

pub const PYTHON: Variable = public("EXPERT_PYTHON", "the Python interpreter that runs the worker");
pub const STOP_GRACE: Variable =
    public("EXPERT_STOP_GRACE", "seconds that a worker has to save after the first Ctrl-C (120)");
pub const RANK_TIMEOUT: Variable =
    public("EXPERT_RANK_TIMEOUT", "seconds that a rank waits for the others at its start (900)");
pub const NODE_TIMEOUT: Variable =
    public("EXPERT_NODE_TIMEOUT", "seconds that a shelf on Ray waits for a new node (600)");
pub const VIRTUAL_ENV: Variable =
    public("VIRTUAL_ENV", "the active virtual environment, searched for the worker");
pub const HOME: Variable =
    public("EXPERT_HOME", "caches of bases, tokenizers and measurements (the user's cache folder)");
pub const HF_HUB_CACHE: Variable = public("HF_HUB_CACHE", "the Hub's cache of models (HF_HOME/hub)");
pub const HUGGINGFACE_HUB_CACHE: Variable =
    public("HUGGINGFACE_HUB_CACHE", "the same by its old name, where HF_HUB_CACHE is unset");
pub const HF_HOME: Variable = public("HF_HOME", "the Hugging Face cache, read by the worker");
pub const XDG_CACHE_HOME: Variable =
    public("XDG_CACHE_HOME", "the folder of caches, where HF_HOME is unset (~/.cache)");
pub const HF_HUB_OFFLINE: Variable =
    public("HF_HUB_OFFLINE", "1, ON, YES or TRUE: the worker downloads nothing");
pub const TRANSFORMERS_OFFLINE: Variable =
    public("TRANSFORMERS_OFFLINE", "the same, where HF_HUB_OFFLINE is unset");
pub const HF_TOKEN: Variable =
    public("HF_TOKEN", "the token for gated bases and for `export --push` (that of `hf auth login`)");
pub const WANDB_PROJECT: Variable =
    public("WANDB_PROJECT", "the project of W&B that runs are tracked in (expert-cli)");
pub const CUDA_VISIBLE_DEVICES: Variable =
    public("CUDA_VISIBLE_DEVICES", "the GPUs that may be used, by number, UUID or MIG id; empty: none");
pub const CUDA_DEVICE_ORDER: Variable =
    public("CUDA_DEVICE_ORDER", "how GPUs are numbered (by PCI bus, as nvidia-smi does)");
pub const OMP_NUM_THREADS: Variable =
    public("OMP_NUM_THREADS", "CPU threads that training may use (one per core)");
pub const SERVE_TOKEN: Variable =
    public("EXPERT_SERVE_TOKEN", "the token that requests to `serve` must send");
pub const STORAGE: Variable =
    public("EXPERT_STORAGE", "URL of what the nodes of a Ray cluster share (the experts' folder)");
pub const NO_COLOR: Variable = public("NO_COLOR", "any value: no colour");
/// What launchers of several processes set.
pub const RANK: Variable =
    internal("RANK", "the number of this process, from 0, among those that train together");
pub const WORLD_SIZE: Variable = internal("WORLD_SIZE", "how many processes train together");
pub const LOCAL_RANK: Variable = internal("LOCAL_RANK", "the number of this process on its machine");
pub const LOCAL_WORLD_SIZE: Variable = internal("LOCAL_WORLD_SIZE", "how many of them are on this machine");
pub const MASTER_ADDR: Variable = internal("MASTER_ADDR", "the machine where they meet");
pub const MASTER_PORT: Variable = internal("MASTER_PORT", "its port");
pub const SLURM_PROCID: Variable = internal("SLURM_PROCID", "RANK, as Slurm calls it");
pub const SLURM_NTASKS: Variable = internal("SLURM_NTASKS", "WORLD_SIZE, as Slurm calls it");
pub const SLURM_LOCALID: Variable = internal("SLURM_LOCALID", "LOCAL_RANK, as Slurm calls it");
/// How a worker that a launcher's process starts knows its number, and where it meets the others.
pub const WORKER_RANK: Variable =
    internal("EXPERT_RANK", "the worker's number among those that train together");
pub const RENDEZVOUS: Variable =
    internal("EXPERT_RENDEZVOUS", "where they meet: a file, or env:// for MASTER_ADDR");
/// The worker dies with the process of this id.
pub const PARENT_PID: Variable = internal("EXPERT_PARENT_PID", "the CLI's process id");
pub const RUN_LOCK: Variable =
    internal("EXPERT_RUN_LOCK", "the descriptor by which the worker holds its run's lock; `held` on Windows");
pub const LEASE: Variable =
    internal("EXPERT_LEASE", "the folder of the lease that a task of a cluster holds on its run");
/// Keeps the working directory, which may be a downloaded expert's, off the worker's import path.
pub const SAFE_PATH: Variable = internal("PYTHONSAFEPATH", "always set for the worker");

pub const ALL: [&Variable; 35] = [
    &PYTHON,
    &STOP_GRACE,
    &RANK_TIMEOUT,
    &NODE_TIMEOUT,
    &VIRTUAL_ENV,
    &HOME,
    &HF_HUB_CACHE,
    &HUGGINGFACE_HUB_CACHE,
    &HF_HOME,
    &XDG_CACHE_HOME,
    &HF_HUB_OFFLINE,
    &TRANSFORMERS_OFFLINE,
    &HF_TOKEN,
    &WANDB_PROJECT,
    &CUDA_VISIBLE_DEVICES,
    &CUDA_DEVICE_ORDER,
    &OMP_NUM_THREADS,
    &SERVE_TOKEN,
    &STORAGE,
    &NO_COLOR,
    &RANK,
    &WORLD_SIZE,
    &LOCAL_RANK,
    &LOCAL_WORLD_SIZE,
    &MASTER_ADDR,
    &MASTER_PORT,
    &SLURM_PROCID,
    &SLURM_NTASKS,
    &SLURM_LOCALID,
    &WORKER_RANK,
    &RENDEZVOUS,
    &PARENT_PID,
    &RUN_LOCK,
    &LEASE,
    &SAFE_PATH,
];

impl Variable {
    /// Empty counts as unset, as people expect of `NAME= command`.
    pub fn get(&self) -> Option<std::ffi::OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }

    /// A path with `~`, `$NAME` and `${NAME}` replaced, as huggingface_hub reads its variables: in a file of
    /// variables no shell does it.
    pub fn folder(&self) -> Option<PathBuf> {
        let named = self.get()?;
        let Some(text) = named.to_str() else { return Some(PathBuf::from(named)) };
        let home = || dirs::home_dir()?.into_os_string().into_string().ok();
        let variable = |name: &str| std::env::var(name).ok();
        let found = shellexpand::full_with_context_no_errors(text, home, variable);
        Some(PathBuf::from(found.into_owned()))
    }

    pub fn seconds(&self, usual: Duration) -> Result<Duration, Failure> {
        let Some(text) = self.get() else { return Ok(usual) };
        let text = text.to_string_lossy();
        let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
            let message = format!("{} is {text}, and must be a number of seconds above 0", self.name);
            Failure::bad_input("bad-timeout", message).hint(format!("unset it for {}", usual.as_secs()))
        })
    }
}
