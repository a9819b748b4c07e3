//! Exit codes. `--help` and the user guide print this table; nothing else decides a code.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Done = 0,
    /// The work itself failed.
    Failed = 1,
    /// Bad manifest, data or usage: fix the input.
    BadInput = 2,
    /// Something is missing on this machine: worker, device or base model.
    Missing = 3,
    /// Disk full, or a folder that cannot be written.
    Storage = 4,
    /// Another run holds the lock.
    Locked = 5,
    /// SIGINT, after a committed save.
    Interrupted = 130,
    /// SIGTERM, after a committed save.
    Terminated = 143,
}

impl Exit {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Done, "done"),
        (Self::Failed, "the work failed"),
        (Self::BadInput, "bad manifest, data or usage"),
        (Self::Missing, "something is missing on this machine (worker, device, base model)"),
        (Self::Storage, "disk full or not writable"),
        (Self::Locked, "another run holds the lock"),
        (Self::Interrupted, "interrupted (Ctrl-C) after a committed save"),
        (Self::Terminated, "terminated after a committed save"),
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// A requested stop, which is not an error.
    pub fn is_stop(self) -> bool {
        matches!(self, Self::Interrupted | Self::Terminated)
    }

    /// The worker's exit status as one of these; any other status counts as a failure of the work.
    pub fn from_code(code: i32) -> Self {
        Self::ALL
            .into_iter()
            .map(|(exit, _)| exit)
            .find(|exit| i32::from(exit.code()) == code)
            .unwrap_or(Self::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
