//! Linux and macOS: process groups and signals. (That a worker dies with this process is the worker's own doing.)

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;

use super::Death;
use crate::worker::Interrupt;

/// In a group of its own, a worker does not get the terminal's Ctrl-C: this program decides what it hears.
pub fn prepare(command: &mut Command) {
    command.process_group(0);
}

pub struct Group {
    leader: Pid,
}

impl Group {
    pub fn adopt(child: &Child) -> io::Result<Self> {
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        id.map(|leader| Self { leader }).ok_or_else(|| io::Error::other("the worker has no process id"))
    }

    /// Only the leader: its data-loading children must not die before it has saved.
    pub fn ask(&self, interrupt: Interrupt) {
        let signal = match interrupt {
            Interrupt::Interrupt => Signal::INT,
            Interrupt::Terminate => Signal::TERM,
        };
        let _ = kill_process(self.leader, signal);
    }

    pub fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// After a kill, so that no zombie is left where nobody adopts orphans.
    pub fn collect(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while matches!(waitid(WaitId::Pid(self.leader), options), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Without collecting its status: until that is done, its number belongs to no other group.
    pub fn leader_ended(&self, _child: &mut Child) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }
}

pub fn on_interrupt(receive: impl Fn(Interrupt) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            receive(if signal == SIGINT { Interrupt::Interrupt } else { Interrupt::Terminate });
        }
    });
    Ok(())
}

/// The command takes this process's place; only a failure to start it returns.
pub fn replace(command: &mut Command) -> io::Result<ExitStatus> {
    Err(command.exec())
}

pub fn cause_of_death(status: ExitStatus) -> Option<Death> {
    match status.signal()? {
        SIGKILL => Some(Death::Killed),
        signal => Some(Death::Crashed(signal)),
    }
}
