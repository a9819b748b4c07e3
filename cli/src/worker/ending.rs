//! Why a worker ends before it is done: on request, or by force.

use expert_contract::exit::Exit;

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    CtrlC,
    /// TERM
    #[cfg_attr(windows, allow(dead_code))]
    Terminate,
    /// The terminal is gone.
    #[cfg_attr(windows, allow(dead_code))]
    HangUp,
}

impl Interrupt {
    pub fn exit(self) -> Exit {
        match self {
            Self::CtrlC => Exit::Interrupted,
            Self::Terminate | Self::HangUp => Exit::Terminated,
        }
    }
}

/// The message where nothing could be saved.
pub const ON_REQUEST: &str = "ended on request";

/// The cause of a process's abnormal end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Killed by another process: on Linux mostly by the kernel, out of memory.
    #[cfg_attr(windows, allow(dead_code))]
    Killed,
    /// A fault in native code, by the signal's or exception's number.
    Crashed(i32),
}
