//! What the operating system offers: files, locks, the environment, git and the machine's devices.

pub mod cards;
pub mod cgroup;
pub mod digests;
pub mod durable;
pub mod env;
pub mod files;
pub mod git;
pub mod gpus;
pub mod host;
pub mod launcher;
pub mod lease;
pub mod paths;
pub mod run_lock;
pub mod temporary;
