//! Linux: this process is a subreaper, so a worker that the server double-forks becomes its child: it can wait for it,
//! signal it, and end it when it dies.

use std::io::{self, BufRead, BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{getpid, set_child_subreaper};
use serde::Deserialize;
use serde_json::json;

use super::super::interrupt::{self, Watched};
use super::super::launch::{Launch, Started};
use super::super::locate::Found;
use super::super::process::{self, Group, Worker};
use crate::sys::{env, gpus};

/// Importing torch and reading a base's weights from a cold disk.
const PATIENCE: Duration = Duration::from_mins(5);
const ROUND: Duration = Duration::from_millis(100);

pub struct Warm {
    found: Found,
    /// None once it has failed: from then on every worker is started separately.
    server: Mutex<Option<Server>>,
}

struct Server {
    child: Child,
    control: BufReader<UnixStream>,
    watched: Watched,
}

impl Warm {
    /// The server ends with the thread that calls this.
    pub fn start(python: &Found) -> Option<Self> {
        let server = Server::start(python).ok()?;
        Some(Self { found: python.clone(), server: Mutex::new(Some(server)) })
    }

    /// A worker for this launch, or None if it has to be started separately.
    pub fn hand_over(&self, launch: &Launch) -> Option<Started> {
        if launch.python != self.found {
            return None;
        }
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let handed = server.as_mut()?.hand_over(launch);
        if handed.is_err() {
            *server = None;
        }
        handed.ok().flatten()
    }
}

/// The server's answer to a request; without a process it must not fork.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    pid: Option<i32>,
}

impl Server {
    fn start(python: &Found) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ROUND))?;
        let mut command = Command::new(&python.python);
        command.args(["-m", "expert_worker", "warm"]);
        command.env(env::PARENT_PID.name, std::process::id().to_string());
        command.env(env::SAFE_PATH.name, "1");
        gpus::for_worker(&mut command);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        process::prepare(&mut command);
        let child = command.spawn()?;
        let watched = Watched::new(Group::of(&child)?, false)?;
        Ok(Self { child, control: BufReader::new(ours), watched })
    }

    /// None if the server works but must not fork.
    fn hand_over(&mut self, launch: &Launch) -> io::Result<Option<Started>> {
        let log = launch.open_log().map_err(|failure| io::Error::other(failure.message))?;
        let (their_input, input) = io::pipe()?;
        let (output, their_output) = io::pipe()?;
        let request = json!({"stage": launch.task, "plan": launch.plans.first()}).to_string();
        let streams: [OwnedFd; 3] = [their_input.into(), their_output.into(), log.into()];
        let lock = launch.run_locks.first().map(|lock| lock.shared());
        let handles: Vec<BorrowedFd> = streams.iter().map(AsFd::as_fd).chain(lock).collect();
        self.send(&request, &handles)?;
        let Some(pid) = self.await_answer()?.pid else {
            return Ok(None);
        };
        let worker = Worker::handed_over(pid).ok_or_else(|| io::Error::other("no process"))?;
        let stdin = Some(ChildStdin::from(OwnedFd::from(input)));
        Ok(Some(Started { worker, stdin, stdout: Some(ChildStdout::from(OwnedFd::from(output))) }))
    }

    fn send(&self, request: &str, handles: &[BorrowedFd]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(handles));
        let text = [IoSlice::new(request.as_bytes())];
        let sent = sendmsg(self.control.get_ref(), &text, &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == request.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// The first answer takes as long as the imports do; a stop ends the waiting.
    fn await_answer(&mut self) -> io::Result<Answer> {
        let deadline = Instant::now() + PATIENCE;
        let mut line = Vec::new();
        loop {
            match self.control.by_ref().take(4096).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    return serde_json::from_slice(&line).map_err(io::Error::from);
                }
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
            if interrupt::requested().is_some() || Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Drop for Server {
    /// It has nothing to save, and the workers that it forked are not its children: they continue.
    fn drop(&mut self) {
        self.watched.group.kill();
        let _ = self.child.wait();
    }
}
