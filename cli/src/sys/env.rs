//! Every environment variable that this program reads or passes to its worker.

pub struct Variable {
    pub name: &'static str,
    pub meaning: &'static str,
    /// Shown by `--help`; the others pass between the CLI and its worker or serve tests.
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
pub const VIRTUAL_ENV: Variable =
    public("VIRTUAL_ENV", "the active virtual environment, searched for the worker");
pub const HOME: Variable =
    public("EXPERT_HOME", "folder of converted bases and tokenizers (the user's cache folder)");
pub const HF_HUB_CACHE: Variable = public("HF_HUB_CACHE", "the Hub's cache of models (HF_HOME/hub)");
pub const HF_HOME: Variable = public("HF_HOME", "the Hugging Face cache, read by the worker");
pub const HF_HUB_OFFLINE: Variable = public("HF_HUB_OFFLINE", "any value: the worker downloads nothing");
pub const CUDA_VISIBLE_DEVICES: Variable =
    public("CUDA_VISIBLE_DEVICES", "the GPUs that may be used, by number");
pub const OMP_NUM_THREADS: Variable =
    public("OMP_NUM_THREADS", "CPU threads that training may use (one per core)");
pub const SERVE_TOKEN: Variable =
    public("EXPERT_SERVE_TOKEN", "the token that requests to `serve` must send");
pub const NO_COLOR: Variable = public("NO_COLOR", "any value: no colour");
/// The worker dies with the process of this id.
pub const PARENT_PID: Variable = internal("EXPERT_PARENT_PID", "the CLI's process id");
pub const RUN_LOCK: Variable =
    internal("EXPERT_RUN_LOCK", "the number of the descriptor by which the worker holds its run's lock");
/// Keeps the working directory, which may be a downloaded expert's, off the worker's import path.
pub const SAFE_PATH: Variable = internal("PYTHONSAFEPATH", "always set for the worker");

pub const ALL: [&Variable; 14] = [
    &PYTHON,
    &STOP_GRACE,
    &VIRTUAL_ENV,
    &HOME,
    &HF_HUB_CACHE,
    &HF_HOME,
    &HF_HUB_OFFLINE,
    &CUDA_VISIBLE_DEVICES,
    &OMP_NUM_THREADS,
    &SERVE_TOKEN,
    &NO_COLOR,
    &PARENT_PID,
    &RUN_LOCK,
    &SAFE_PATH,
];

impl Variable {
    /// Empty counts as unset, as people expect of `NAME= command`.
    pub fn get(&self) -> Option<std::ffi::OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }
}
