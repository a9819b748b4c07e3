//! Displays a running worker: one live line on a terminal, otherwise a plain line now and then.

use std::io::Write;
use std::time::{Duration, Instant};

use expert_contract::event::{Body, Event};

use super::ending::Interrupt;
use super::supervise::{Notice, Stopping};
use crate::ui::number::{bytes, duration, grouped, seconds};
use crate::ui::style::{DIM, STRONG, one_line};
use crate::ui::{Console, Live, line, redraws};

const PLAIN_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Live,
    Plain,
    /// One row of a table that is drawn elsewhere.
    Row,
    /// Warnings only.
    Quiet,
}

pub struct Board<'a> {
    console: &'a Console,
    mode: Mode,
    /// The content of the live line, and whether it is on the screen.
    line: String,
    drawn: bool,
    last_plain: Option<Instant>,
    unparsed_lines: u64,
    /// The detail of the stage that is shown, which a note may repeat.
    detail: String,
    /// The prefix of every line when several workers run at once.
    name: Option<String>,
    row: Option<(&'a Live, usize)>,
}

impl<'a> Board<'a> {
    pub fn new(console: &'a Console) -> Self {
        let mode = match (console.quiet, redraws()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Plain,
        };
        Self {
            console,
            mode,
            line: String::new(),
            drawn: false,
            last_plain: None,
            unparsed_lines: 0,
            detail: String::new(),
            name: None,
            row: None,
        }
    }

    /// For one of several workers: a row of the table, or lines with its name.
    pub fn of_several(console: &'a Console, live: Option<&'a Live>, row: usize, name: &str) -> Self {
        let mut board = Self::new(console);
        board.mode = match (console.quiet, live) {
            (true, _) => Mode::Quiet,
            (false, Some(_)) => Mode::Row,
            (false, None) => Mode::Plain,
        };
        board.row = live.map(|live| (live, row));
        board.name = Some(name.to_owned());
        board
    }

    pub fn notify(&mut self, notice: Notice) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::UnparsedLine(text) => self.stray(text),
            Notice::Remark(text) => self.say(text),
            Notice::Quiet(quiet) => {
                let state = if quiet.beating {
                    "the worker is alive but makes no progress"
                } else {
                    "no heartbeat from the worker"
                };
                self.warn(
                    &format!("no progress in stage {} for {}: {state}", quiet.stage, duration(quiet.lasted)),
                    Some("the run keeps waiting; Ctrl-C stops it, --stall-timeout SECONDS ends it automatically"),
                );
            }
            Notice::Stopping(Stopping { signal, grace, saves }) => {
                let again = if signal == Interrupt::CtrlC { "; Ctrl-C again quits at once" } else { "" };
                let does = if saves { "saves and exits" } else { "exits" };
                self.say(&format!("stopping: the worker {does}, within {}{again}", duration(grace)));
            }
        }
    }

    /// Clears the live line for other text.
    pub fn set_aside(&mut self) {
        self.clear();
        self.line.clear();
    }

    pub fn finish(&mut self) {
        self.clear();
        if self.unparsed_lines > 1 {
            let count = self.unparsed_lines;
            self.warn(
                &format!("{count} lines of the worker's output were not events and were skipped"),
                None,
            );
        }
    }

    fn event(&mut self, event: &Event) {
        match &event.body {
            Body::Stage { name, detail, .. } => {
                self.line = name.to_string();
                self.detail = detail.clone().unwrap_or_default();
                let detail = detail.as_ref().map_or(String::new(), |detail| format!(" {DIM}{detail}{DIM:#}"));
                self.say(&format!("{STRONG}{name}{STRONG:#}{detail}"));
            }
            Body::Advance { stage, done, total, unit, rate } => {
                let line = line::advance(*stage, *done, *total, unit, *rate);
                self.moving(line, total.is_some_and(|total| total == *done));
            }
            Body::Progress(progress) => {
                self.moving(line::step(progress), progress.step == progress.total_steps);
            }
            Body::Accumulating { step, micro, of } => {
                self.draw(&format!("{}  [step {} {micro}/{of}]", self.line, step + 1));
            }
            Body::Applied { note: Some(note), .. } if *note == self.detail => {}
            Body::Applied { note: Some(note), .. } => self.say(&format!("{DIM}{note}{DIM:#}")),
            Body::Evaluated { step, metrics, seconds: spent } => {
                self.say(&format!("{} ({})", line::evaluated(*step, metrics), seconds(*spent)));
            }
            Body::Checkpoint { path, bytes: size, seconds: spent, .. } => {
                self.say(&format!("saved {path} ({} in {})", bytes(*size), seconds(*spent)));
            }
            Body::Best { step, metric, value } => {
                self.say(&format!("best so far: {metric} {value:.4} at step {}", grouped(*step)));
            }
            Body::Recovered { kind, step, detail } => {
                // What is tried before the first step, and answers that are scored outside of training, have no step.
                let what = match *step {
                    0 => String::new(),
                    step => format!("{} at step {}: ", line::recovery(*kind), grouped(step)),
                };
                self.warn(&format!("{what}{detail}"), None);
            }
            Body::Warning { message, hint, .. } => self.warn(message, hint.as_deref()),
            Body::Heartbeat { .. } => self.redraw(),
            Body::Applied { note: None, .. }
            | Body::Started { .. }
            | Body::Text { .. }
            | Body::Finished { .. }
            | Body::Failed { .. } => {}
        }
    }

    /// The first line that is not an event is shown, the rest are counted, to keep the terminal readable.
    fn stray(&mut self, text: &str) {
        self.unparsed_lines += 1;
        if self.unparsed_lines == 1 {
            self.warn(&format!("a line of the worker's output is not an event: {text}"), None);
        }
    }

    fn moving(&mut self, line: String, last: bool) {
        self.line = line;
        match self.mode {
            Mode::Live | Mode::Row => self.redraw(),
            Mode::Plain if last || self.last_plain.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) => {
                self.last_plain = Some(Instant::now());
                let line = self.line.clone();
                self.say(&line);
            }
            Mode::Plain | Mode::Quiet => {}
        }
    }

    fn say(&mut self, text: &str) {
        if self.mode == Mode::Row {
            return self.draw(text);
        }
        self.clear();
        self.console.say(&self.signed(text));
        self.redraw();
    }

    fn warn(&mut self, message: &str, hint: Option<&str>) {
        let message = self.signed(message);
        if let (Mode::Row, Some((live, _))) = (self.mode, self.row) {
            return live.above(|| self.console.warn(&message, hint));
        }
        self.clear();
        self.console.warn(&message, hint);
        self.redraw();
    }

    fn signed(&self, text: &str) -> String {
        self.name.as_ref().map_or_else(|| text.to_owned(), |name| format!("{name}: {text}"))
    }

    fn redraw(&mut self) {
        let line = self.line.clone();
        self.draw(&line);
    }

    fn draw(&mut self, line: &str) {
        if let (Mode::Row, Some((live, row)), false) = (self.mode, self.row, line.is_empty()) {
            return live.set(row, line);
        }
        if self.mode == Mode::Live && !line.is_empty() {
            let shown = line::fit(&one_line(line), width().saturating_sub(1));
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r{shown}\x1b[K").and_then(|()| out.flush());
            self.drawn = true;
        }
    }

    fn clear(&mut self) {
        if self.drawn {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
            self.drawn = false;
        }
    }
}

impl Drop for Board<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0.into())
}
