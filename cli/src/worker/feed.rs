//! The worker's standard input: kept open without data, or fed with prompts.

use std::io::Write;
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use expert_contract::event::{Body, StageName};
use serde_json::Value;

use super::interrupt;
use super::launch::Stdin;
use super::typed::{self, Editor, Typed};
use crate::failure::Failure;
use crate::prompts;

/// Dropping it closes the pipe, which the worker takes as the end of this process: it is kept as long as the worker.
pub struct Feed {
    pipe: Pipe,
    kind: Stdin,
    /// One message for each prompt that the worker waits for.
    asked: Sender<()>,
    /// Why the prompts ended before standard input did.
    fault: Arc<OnceLock<Failure>>,
}

#[derive(Clone)]
struct Pipe(Arc<Mutex<Option<ChildStdin>>>);

impl Feed {
    pub fn new(pipe: Option<ChildStdin>, kind: Stdin) -> Self {
        let pipe = Pipe(Arc::new(Mutex::new(pipe)));
        let (asked, asks) = mpsc::channel();
        let to = pipe.clone();
        let fault = Arc::new(OnceLock::new());
        let met = Arc::clone(&fault);
        match kind {
            Stdin::Quiet => {}
            Stdin::Prompts => drop(thread::spawn(move || pass_lines(&to, &met))),
            Stdin::Typed => drop(thread::spawn(move || pass_typed(&to, &asks))),
        }
        Self { pipe, kind, asked, fault }
    }

    /// Whether the worker waits for a person's input; then there is no stall.
    pub fn is_awaited(&self) -> bool {
        self.kind != Stdin::Quiet
    }

    /// Once the worker has ended: why it was given only the prompts before a line that cannot be read.
    pub fn fault(&self) -> Option<Failure> {
        self.fault.get().cloned()
    }

    /// A prompt is typed while the worker waits for one, so that no answer is written over it.
    pub fn hear(&self, body: &Body) {
        if matches!(body, Body::Stage { name: StageName::Answering, .. }) {
            let _ = self.asked.send(());
        }
    }

    /// A worker that waits for a prompt notices a stop only at the end of its input.
    pub fn stop(&self) {
        if self.is_awaited() {
            self.pipe.close();
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.kind == Stdin::Typed {
            typed::restore_terminal();
        }
    }
}

impl Pipe {
    fn held(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a JSON string, so that a prompt with line breaks stays one line. False once the worker takes no more.
    fn pass(&self, prompt: String) -> bool {
        let mut pipe = self.held();
        let Some(stdin) = pipe.as_mut() else { return false };
        writeln!(stdin, "{}", Value::from(prompt)).and_then(|()| stdin.flush()).is_ok()
    }

    fn close(&self) {
        self.held().take();
    }
}

fn pass_lines(pipe: &Pipe, fault: &OnceLock<Failure>) {
    for prompt in prompts::of_lines(std::io::stdin().lock()) {
        // Before the pipe is closed, which ends the worker.
        let taken = prompt.map_or_else(|failure| fault.set(failure).is_err(), |prompt| pipe.pass(prompt));
        if !taken {
            break;
        }
    }
    pipe.close();
}

fn pass_typed(pipe: &Pipe, asks: &Receiver<()>) {
    let mut editor = Editor::new();
    while asks.recv().is_ok() {
        match editor.read() {
            Typed::Prompt(prompt) => {
                if !pipe.pass(prompt) {
                    break;
                }
            }
            Typed::End => break,
            Typed::Interrupt => return interrupt::raise(),
        }
    }
    pipe.close();
}
