//! The names in a run's folder. The worker writes most of the files; its modules have the same names.

pub const PLAN: &str = "plan.json";
pub const EVENTS: &str = "events.jsonl";
/// What a finished run is.
pub const RECORD: &str = "run.json";
/// What a checkpoint is.
pub const STATE: &str = "state.json";
/// The folder of the adapter.
pub const FINAL: &str = "final";
pub const SCORES: &str = "evaluation.json";
pub const ANSWERS: &str = "answers.jsonl";
pub const REPORT: &str = "report.html";
pub const LOG: &str = "worker.log";
pub const TENSORBOARD: &str = "tensorboard";
/// Asks the worker to end.
pub const STOP: &str = "stop";
/// The run before, whole, kept until another one takes its place.
pub const PREVIOUS: &str = "previous";
/// The run before, while the next one has not made a step yet.
pub const REPLACED: &str = "replaced";
