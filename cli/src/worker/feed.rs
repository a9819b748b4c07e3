//! The worker's standard input: kept open without data, or fed with prompts.

use std::io::{BufRead, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use super::launch::Stdin;

/// Dropping it closes the pipe, which the worker takes as the end of this process: it is kept as long as the worker.
pub struct Feed {
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    kind: Stdin,
}

impl Feed {
    pub fn new(pipe: Option<ChildStdin>, kind: Stdin) -> Self {
        let feed = Self { pipe: Arc::new(Mutex::new(pipe)), kind };
        if kind == Stdin::Prompts {
            let pipe = Arc::clone(&feed.pipe);
            thread::spawn(move || pass_prompts(&pipe));
        }
        feed
    }

    /// Whether the worker waits for a person's input; then there is no stall.
    pub fn is_awaited(&self) -> bool {
        self.kind == Stdin::Prompts
    }

    /// A worker that waits for a prompt notices a stop only at the end of its input.
    pub fn stop(&self) {
        if self.kind == Stdin::Prompts {
            self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

/// A line is a prompt; as a JSON string it stays one line.
fn pass_prompts(pipe: &Mutex<Option<ChildStdin>>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stdin) = pipe.as_mut() else { return };
        if writeln!(stdin, "{}", Value::from(line)).and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
    pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
}
