//! A module of the worker that runs beside this program for as long as a command does. Both sides write lines of JSON.

use std::io::{self, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::interrupt::Watched;
use super::lines::{LONGEST, Line, next_line};
use super::locate::Found;
use super::process::{self, Group, Worker};
use crate::failure::{Failure, reason};
use crate::sys::{env, gpus};

const FAREWELL: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(20);

pub struct Helper {
    stdin: Mutex<Option<ChildStdin>>,
    watched: Watched,
    worker: Worker,
}

impl Helper {
    /// `hear` gets every line that the helper writes, and None at the end, on another thread. The helper ends with the thread
    /// that calls this. A second Ctrl-C kills it.
    pub fn start(
        python: &Found,
        module: &str,
        arguments: &[String],
        log: std::fs::File,
        mut hear: impl FnMut(Option<&[u8]>) + Send + 'static,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(&python.python);
        command.args(["-m", module]).args(arguments);
        command.env(env::PARENT_PID.name, std::process::id().to_string()).env(env::SAFE_PATH.name, "1");
        gpus::for_worker(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        process::prepare(&mut command);
        let mut child = command.spawn().map_err(|error| {
            let message = format!("cannot start {}: {}", python.python.display(), reason(&error));
            Failure::missing("worker-not-started", message)
        })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let supervising = |error: io::Error| Failure::supervising("take charge of", &error);
        let worker = Worker::started(child).map_err(supervising)?;
        let watched = Watched::new(Group::adopt(&worker).map_err(supervising)?, true).map_err(supervising)?;
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                let mut reader = BufReader::with_capacity(64 << 10, stdout);
                while let Ok(Line::Whole(line)) = next_line(&mut reader, LONGEST) {
                    hear(Some(&line));
                }
                hear(None);
            });
        }
        Ok(Self { stdin: Mutex::new(stdin), watched, worker })
    }

    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(&line).and_then(|()| stdin.flush())
    }
}

/// The end of its input asks the helper to end.
impl Drop for Helper {
    fn drop(&mut self) {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let deadline = Instant::now() + FAREWELL;
        while !self.watched.group.leader_ended(&mut self.worker) && Instant::now() < deadline {
            thread::sleep(ROUND);
        }
        self.watched.group.kill();
        let _ = self.worker.wait();
    }
}
