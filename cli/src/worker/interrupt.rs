//! Ctrl-C, TERM and HUP. The first asks the workers to save and exit; a second Ctrl-C or TERM kills them and this process
//! at once. After HUP the next Ctrl-C or TERM counts as the first: a closed terminal asks for nothing by itself.
//!
//! The second is handled on the signal thread, so it works while the rest of the program waits.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::ending::{Interrupt, ON_REQUEST};
use super::process::{self, Group};
use super::typed;
use crate::failure::Failure;
use crate::ui;

/// Time limits for the kill and for each last message: a stopped terminal (Ctrl-S) must not block.
const PARTING: Duration = Duration::from_millis(200);
/// What comes sooner after the first signal is part of it: systemd ends a session by TERM and HUP, and a wrapper such as
/// `timeout` passes on what this process has got already.
const SECOND: Duration = Duration::from_millis(500);

const AT_ONCE: &str = "stopped at once: progress since the last checkpoint is lost";

struct State {
    /// Whether signals are handled here and no longer end this process directly.
    handles: bool,
    first: Option<(Interrupt, Instant)>,
    groups: Vec<Arc<Group>>,
    /// Whether a kill loses progress.
    loses: bool,
    /// Whether a command that ends at once still prints a document.
    json: bool,
    /// Whether another program on this console handles the signals.
    left: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    handles: false,
    first: None,
    groups: Vec::new(),
    loses: false,
    json: false,
    left: false,
});

/// A worker's process group that a second signal kills; forgotten when dropped.
pub struct Watched {
    pub group: Arc<Group>,
}

impl Watched {
    pub fn new(group: Group, loses: bool) -> io::Result<Self> {
        Self::start(loses, || Ok(((), group))).map(|((), watched)| watched)
    }

    /// Starts what is to be watched. A signal that comes meanwhile waits until it is: it would end this process alone.
    pub fn start<T>(loses: bool, start: impl FnOnce() -> io::Result<(T, Group)>) -> io::Result<(T, Self)> {
        let mut state = handling()?;
        let (started, group) = start()?;
        let group = Arc::new(group);
        state.groups.push(Arc::clone(&group));
        state.loses |= loses;
        Ok((started, Self { group }))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        state().groups.retain(|group| !Arc::ptr_eq(group, &self.group));
    }
}

/// From now on a command that a signal ends at once prints the document that `--json` promises.
pub fn end_with_document() -> io::Result<()> {
    handling()?.json = true;
    Ok(())
}

/// From now on a program that this one has started handles the signals.
#[cfg(windows)]
pub fn leave_to_command() -> io::Result<()> {
    handling()?.left = true;
    Ok(())
}

/// The first signal that came, if any.
pub fn requested() -> Option<Interrupt> {
    state().first.map(|(signal, _)| signal)
}

/// What Ctrl-C does, where a terminal's line editor takes it as a key.
pub fn raise() {
    receive(Interrupt::CtrlC);
}

/// The first Ctrl-C, from another source than a signal. False where no worker runs that could be asked to save.
pub fn request() -> bool {
    let mut state = state();
    if state.first.is_none() && !state.groups.is_empty() {
        state.first = Some((Interrupt::CtrlC, Instant::now()));
    }
    state.first.is_some()
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the first call on, signals are handled here.
fn handling() -> io::Result<MutexGuard<'static, State>> {
    let mut state = state();
    if !state.handles {
        process::on_interrupt(receive)?;
        state.handles = true;
    }
    Ok(state)
}

fn receive(signal: Interrupt) {
    let mut state = state();
    let now = Instant::now();
    match state.first {
        _ if state.left => {}
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
            let exit = first.map_or(signal, |(first, _)| first).exit();
            if state.loses {
                briefly(|| drop(writeln!(io::stderr(), "\n{AT_ONCE}")));
            }
            if state.json {
                let message = if state.loses { AT_ONCE } else { ON_REQUEST };
                briefly(move || ui::last_document(&Failure::new(exit, "interrupted", message)));
            }
            std::process::exit(exit.code().into());
        }
    }
}

/// A closing terminal hangs up several times, and nobody sits there who could want an end without a save.
fn is_second(first: Interrupt, signal: Interrupt, after: Duration) -> bool {
    ![first, signal].contains(&Interrupt::HangUp) && after >= SECOND
}

fn briefly(say: impl FnOnce() + Send + 'static) {
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        say();
        let _ = said.send(());
    });
    let _ = heard.recv_timeout(PARTING);
}
