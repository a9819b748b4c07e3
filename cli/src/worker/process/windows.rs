//! Windows: a job object that ends its processes when this program's handle to it closes, and `CTRL_BREAK`.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use win32job::{ExtendedLimitInfo, Job};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};

use crate::sys::env;
use crate::sys::run_lock::RunLock;
use crate::worker::ending::{Death, Interrupt};
use crate::worker::interrupt;

const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;

/// A separate group does not get the console's Ctrl-C, and can be sent `CTRL_BREAK`.
pub fn prepare(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// The worker ends with this program, by its job object: it needs no lock, and only learns that its run has one.
pub fn share(command: &mut Command, locks: &[&RunLock]) {
    if !locks.is_empty() {
        command.env(env::RUN_LOCK.name, "held");
    }
}

/// A process that this one has started.
pub struct Worker {
    child: Child,
}

impl Worker {
    pub fn started(child: Child) -> io::Result<Self> {
        Ok(Self { child })
    }

    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

pub struct Group {
    leader: u32,
    /// Dropping the job's last handle kills what is in it.
    job: Mutex<Option<Job>>,
}

impl Group {
    pub fn adopt(worker: &Worker) -> io::Result<Self> {
        let child = &worker.child;
        let job = Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close())
            .map_err(io::Error::other)?;
        job.assign_process(child.as_raw_handle() as isize).map_err(io::Error::other)?;
        Ok(Self { leader: child.id(), job: Mutex::new(Some(job)) })
    }

    pub fn ask(&self, _interrupt: Interrupt) {
        // SAFETY: the call takes two numbers and touches no memory of ours.
        unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, self.leader) };
    }

    pub fn kill(&self) {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Windows keeps nothing of a process without open handles.
    pub fn collect(&self, _patience: Duration) {}

    /// The child's handle stays valid until it is dropped, so its status can be collected at once.
    pub fn leader_ended(&self, worker: &mut Worker) -> bool {
        !matches!(worker.child.try_wait(), Ok(None))
    }
}

/// The console does not distinguish TERM from Ctrl-C.
pub fn on_interrupt(receive: impl Fn(Interrupt) + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(move || receive(Interrupt::CtrlC)).map_err(io::Error::other)
}

/// Windows has no such limit.
pub fn keep_on_at_file_limit() {}

/// Windows has no such limit either.
pub fn allow_open_files() {}

/// Windows cannot replace a process: this one waits, and leaves Ctrl-C to the command.
pub fn replace(command: &mut Command) -> io::Result<ExitStatus> {
    interrupt::leave_to_command()?;
    command.status()
}

/// The request to stop that ended a process without a handler for it.
pub fn ended_by(status: ExitStatus) -> Option<Interrupt> {
    const CONTROL_C_EXIT: u32 = 0xC000_013A;
    status.code().filter(|code| *code as u32 == CONTROL_C_EXIT).map(|_| Interrupt::CtrlC)
}

/// Faults of native code end a process with an NTSTATUS of the error class.
pub fn cause_of_death(status: ExitStatus) -> Option<Death> {
    status.code().filter(|code| (*code as u32) >= 0xC000_0000).map(Death::Crashed)
}
