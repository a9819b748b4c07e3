//! What differs by operating system in starting, asking and killing a worker. Each file offers the same:
//! `prepare`, `Worker` (`started`, `wait`), `Group` (`adopt`, `ask`, `kill`, `collect`, `leader_ended`), `on_interrupt`,
//! `cause_of_death`, `keep_on_at_file_limit` and `replace`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{Group, Worker, cause_of_death, keep_on_at_file_limit, on_interrupt, prepare, replace};
#[cfg(windows)]
pub use windows::{Group, Worker, cause_of_death, keep_on_at_file_limit, on_interrupt, prepare, replace};

/// Why a process ended that did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Killed from outside: on Linux mostly by the kernel, for want of memory.
    Killed,
    /// A fault in native code, by the signal's or exception's number.
    Crashed(i32),
}
