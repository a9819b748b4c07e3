//! Ctrl-C, TERM and HUP. The first asks the workers to save and exit; a second Ctrl-C or TERM kills them and this process
//! at once. After HUP the next Ctrl-C or TERM counts as the first: a closed terminal asks for nothing by itself.
//!
//! The second is handled on the signal thread, so it works while the rest of the program waits.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::ending::Interrupt;
use super::process::{self, Group};
use super::typed;

/// Time limits for the kill and for the last message: a stopped terminal (Ctrl-S) must not block.
const PARTING: Duration = Duration::from_millis(200);
/// What comes sooner after the first signal is part of it: systemd ends a session by TERM and HUP, and a wrapper such as
/// `timeout` passes on what this process has got already.
const SECOND: Duration = Duration::from_millis(500);

#[derive(Default)]
struct State {
    first: Option<(Interrupt, Instant)>,
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
    state().and_then(|state| state.first).map(|(signal, _)| signal)
}

/// What Ctrl-C does, where a terminal's line editor takes it as a key.
pub fn raise() {
    receive(Interrupt::CtrlC);
}

/// The first Ctrl-C, from another source than a signal. False where no worker runs that could be asked to save.
pub fn request() -> bool {
    let Some(mut state) = state() else { return false };
    if state.first.is_none() && !state.groups.is_empty() {
        state.first = Some((Interrupt::CtrlC, Instant::now()));
    }
    state.first.is_some()
}

fn state() -> Option<MutexGuard<'static, State>> {
    STATE.get().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
}

fn receive(signal: Interrupt) {
    let Some(mut state) = state() else { return };
    let now = Instant::now();
    match state.first {
        None if !state.groups.is_empty() => state.first = Some((signal, now)),
        Some((first, at)) if !is_second(first, signal, now - at) => {
            // The machine shuts down while the run of a closed terminal is saved.
            if first == Interrupt::HangUp && signal != first {
                state.first = Some((signal, now));
            }
        }
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
            let signal = first.map_or(signal, |(first, _)| first);
            std::process::exit(signal.exit().code().into());
        }
    }
}

/// A closing terminal hangs up several times, and nobody sits there who could want an end without a save.
fn is_second(first: Interrupt, signal: Interrupt, after: Duration) -> bool {
    ![first, signal].contains(&Interrupt::HangUp) && after >= SECOND
}

fn say_goodbye() {
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        let _ = writeln!(io::stderr(), "\nstopped at once: progress since the last checkpoint is lost");
        let _ = said.send(());
    });
    let _ = heard.recv_timeout(PARTING);
}
