//! Ctrl-C and TERM. The first asks the workers to save and exit; the second kills them and this process at once.
//!
//! The second is handled on the signal thread, so it works while the rest of the program waits.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::ending::Interrupt;
use super::process::{self, Group};
use super::typed;

/// Time limits for the kill and for the last message: a stopped terminal (Ctrl-S) must not block.
const PARTING: Duration = Duration::from_millis(200);

#[derive(Default)]
struct State {
    first: Option<Interrupt>,
    groups: Vec<Arc<Group>>,
    /// Whether a kill loses progress.
    saves: bool,
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();

/// A worker's process group that a second signal kills; forgotten when dropped.
pub struct Watched {
    pub group: Arc<Group>,
}

impl Watched {
    /// From the first call on, signals are handled here and no longer end this process directly.
    pub fn new(group: Group, saves: bool) -> io::Result<Self> {
        let group = Arc::new(group);
        if STATE.get().is_none() && STATE.set(Mutex::default()).is_ok() {
            process::on_interrupt(receive)?;
        }
        if let Some(mut state) = state() {
            state.groups.push(Arc::clone(&group));
            state.saves |= saves;
        }
        Ok(Self { group })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(mut state) = state() {
            state.groups.retain(|group| !Arc::ptr_eq(group, &self.group));
        }
    }
}

/// The first signal that came, if any.
pub fn requested() -> Option<Interrupt> {
    state().and_then(|state| state.first)
}

/// What Ctrl-C does, where a terminal's line editor takes it as a key.
pub fn raise() {
    receive(Interrupt::Interrupt);
}

fn state() -> Option<MutexGuard<'static, State>> {
    STATE.get().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
}

fn receive(signal: Interrupt) {
    let Some(mut state) = state() else { return };
    match state.first {
        None if !state.groups.is_empty() => state.first = Some(signal),
        first => {
            for group in &state.groups {
                group.kill();
            }
            for group in &state.groups {
                group.collect(PARTING);
            }
            typed::restore_terminal();
            if state.saves {
                say_goodbye();
            }
            std::process::exit(first.unwrap_or(signal).exit().code().into());
        }
    }
}

fn say_goodbye() {
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        let _ = writeln!(io::stderr(), "\nstopped at once: progress since the last checkpoint is lost");
        let _ = said.send(());
    });
    let _ = heard.recv_timeout(PARTING);
}
