//! Linux and macOS: process groups and signals. (The worker ends itself when this process dies.)

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getrlimit, kill_process,
    kill_process_group, setrlimit, waitid, waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::sys::env;
use crate::sys::run_lock::RunLock;
use crate::worker::ending::{Death, Interrupt};

/// In a separate group a worker does not get the terminal's Ctrl-C: this program forwards it.
pub fn prepare(command: &mut Command) {
    command.process_group(0);
}

/// The command has the locks' descriptors, and finds their numbers in the environment.
pub fn share(command: &mut Command, locks: &[&RunLock]) {
    if locks.is_empty() {
        return;
    }
    let descriptors: Vec<RawFd> = locks.iter().map(|lock| lock.shared().as_raw_fd()).collect();
    let numbers: Vec<String> = descriptors.iter().map(ToString::to_string).collect();
    command.env(env::RUN_LOCK.name, numbers.join(","));
    let keep = move || {
        for descriptor in &descriptors {
            // SAFETY: the caller holds the locks until the command has been started.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*descriptor) };
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec this makes one system call per lock. In this process the descriptors stay closed to
    // every other program that is started.
    unsafe { command.pre_exec(keep) };
}

/// A process that this one waits for: started by it, or forked for it by a warm parent.
pub struct Worker {
    pid: Pid,
    started: Option<Child>,
}

impl Worker {
    pub fn started(child: Child) -> io::Result<Self> {
        Ok(Self { pid: pid_of(&child)?, started: Some(child) })
    }

    #[cfg(target_os = "linux")]
    pub fn handed_over(pid: i32) -> Option<Self> {
        Pid::from_raw(pid).map(|pid| Self { pid, started: None })
    }

    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(child) = &mut self.started {
            return child.wait();
        }
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("the worker has no process id"))
}

pub struct Group {
    leader: Pid,
}

impl Group {
    pub fn adopt(worker: &Worker) -> io::Result<Self> {
        Ok(Self { leader: worker.pid })
    }

    #[cfg(target_os = "linux")]
    pub fn of(child: &Child) -> io::Result<Self> {
        pid_of(child).map(|leader| Self { leader })
    }

    /// Only the leader: its data-loading children must not end before it has saved.
    pub fn ask(&self, interrupt: Interrupt) {
        let signal = match interrupt {
            Interrupt::CtrlC => Signal::INT,
            Interrupt::Terminate | Interrupt::HangUp => Signal::TERM,
        };
        let _ = kill_process(self.leader, signal);
    }

    pub fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// After a kill, so that no zombie is left if no process adopts orphans.
    pub fn collect(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while matches!(waitid(WaitId::Pid(self.leader), options), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Without collecting its status: until then its id is not reused for another group.
    pub fn leader_ended(&self, _worker: &mut Worker) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }
}

pub fn on_interrupt(receive: impl Fn(Interrupt) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // nohup has this process ignore the end of its terminal.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    thread::spawn(move || {
        for signal in signals.forever() {
            receive(match signal {
                SIGINT => Interrupt::CtrlC,
                SIGHUP => Interrupt::HangUp,
                _ => Interrupt::Terminate,
            });
        }
    });
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing, and it fills in the present one where it succeeds.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// A write beyond the limit of file sizes is then an error of that write, not the end of this process.
/// Programs that this one starts have the signal as usual; Python ignores it by itself.
pub fn keep_on_at_file_limit() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// A shelf holds the folder of every expert that waits to be scored, with two files each; macOS allows 256 unless asked.
/// Programs that this one starts have the same limit.
pub fn allow_open_files() {
    // What macOS allows at most.
    const ENOUGH: u64 = 10_240;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if limit.current.is_some_and(|now| now < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// The command replaces this process; returns only if it cannot be started.
pub fn replace(command: &mut Command) -> io::Result<ExitStatus> {
    Err(command.exec())
}

/// The request to stop that ended a process without a handler for it.
pub fn ended_by(status: ExitStatus) -> Option<Interrupt> {
    match status.signal()? {
        SIGINT => Some(Interrupt::CtrlC),
        SIGTERM => Some(Interrupt::Terminate),
        SIGHUP => Some(Interrupt::HangUp),
        _ => None,
    }
}

pub fn cause_of_death(status: ExitStatus) -> Option<Death> {
    match status.signal()? {
        SIGKILL => Some(Death::Killed),
        signal => Some(Death::Crashed(signal)),
    }
}
