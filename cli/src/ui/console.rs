//! Results go to standard output, messages to standard error. A closed pipe is not an error.
//!
//! Whatever passes through here is made safe for a terminal first; no caller has to remember it.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use expert_contract::diagnostic::{Diagnostic, Severity, is_visible};
use expert_contract::source::Sources;
use serde::Serialize;
use serde_json::{Value, json};

use super::diagnostic;
use super::style::{self, ERROR, HINT, WARNING};
use super::wrap;
use crate::failure::Failure;

pub struct Console {
    pub json: bool,
    pub quiet: bool,
    /// False in one of several processes that say the same: it reports errors only.
    pub warns: bool,
    /// False for a trial whose errors the command shows in its own way.
    pub reports: bool,
}

impl Console {
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, warns: true, reports: true }
    }

    /// The command's result, as text. Styles are stripped if the stream is not a terminal.
    pub fn data(&self, text: &str) {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        to_stdout(&format!("{}{end}", style::shown(text)));
    }

    /// The command's result, as one line of JSON.
    pub fn document(&self, value: &impl Serialize) {
        let text = serde_json::to_string(value)
            .unwrap_or_else(|error| json!({"error": error.to_string()}).to_string());
        to_stdout(&format!("{}\n", style::json(&text)));
    }

    pub fn say(&self, text: &str) {
        if !self.quiet {
            to_stderr(&wrap::with_command(text, 2));
        }
    }

    /// Heads of a table's columns that the terminal has no room for.
    pub fn left_out(&self, heads: &[String]) {
        if !heads.is_empty() {
            let text = format!("not shown for lack of width: {} (--json has all)", heads.join(", "));
            self.say(&text);
        }
    }

    /// The diagnostics of a manifest, with the positions underlined. Styles are stripped if the stream is not a terminal.
    pub fn report(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        let is_shown = |found: &Diagnostic| match found.severity {
            Severity::Error => self.reports,
            Severity::Advice => !self.quiet && self.warns,
            Severity::Warning => self.warns,
        };
        diagnostic::show(diagnostics.iter().filter(|found| is_shown(found)), sources);
    }

    /// A part of a result that is written as it arrives.
    pub fn piece(&self, text: &str) {
        to_stdout(&style::shown(text));
    }

    pub fn warn(&self, message: &str, hint: Option<&str>) {
        if !self.warns {
            return;
        }
        let text = wrap::message(&format!("{WARNING}warning{WARNING:#}: {message}"), 2);
        to_stderr(&format!("{text}{}", hint_line(hint)));
    }

    /// One failure of several, with its subject, without a separate document.
    pub fn trouble(&self, name: &str, failure: &Failure) {
        let hint = hint_line(failure.hint.as_deref());
        let text = wrap::message(&format!("{ERROR}error{ERROR:#}: {name}: {}", failure.message), 2);
        to_stderr(&format!("{text}{hint}"));
    }

    /// On standard error for the user, and with `--json` as the one document.
    pub fn failure(&self, failure: &Failure) {
        let hint = hint_line(failure.hint.as_deref());
        let text = wrap::message(&format!("{}: {}", label(failure), failure.message), 2);
        to_stderr(&format!("{text}{hint}"));
        self.failure_document(failure);
    }

    /// A command line that is not understood: the parser's own words, and under `--json` the document.
    pub fn usage(&self, error: &clap::Error) {
        let words = error.to_string();
        let safe = std::env::args_os().all(|word| word.to_string_lossy().chars().all(is_visible));
        // The parser's styles cannot be distinguished from escape sequences in the arguments that it repeats.
        if safe {
            drop(error.print());
        } else {
            to_stderr(words.trim_end());
        }
        // The first paragraph: each missing argument has its own line.
        let first: Vec<&str> = words.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let first = first.join(" ");
        let first = first.trim_start_matches("error: ");
        let tip = words.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
        let failure = Failure::bad_input("bad-usage", first);
        self.failure_document(&failure.hint(tip.unwrap_or("--help lists what this command takes")));
    }

    fn failure_document(&self, failure: &Failure) {
        if self.json {
            self.document(&document_of(failure));
        }
    }
}

fn document_of(failure: &Failure) -> Value {
    let mut document = failure.result.as_deref().cloned().unwrap_or_else(|| json!({}));
    document["ok"] = json!(false);
    failure.added_to(document)
}

/// The document of a command that is about to end at once, unless its own has begun. Standard output stays locked: a
/// thread that still works cannot add a second document.
pub fn last_document(failure: &Failure) {
    let mut out = anstream::stdout().lock();
    if !BEGUN.load(Ordering::Relaxed) {
        let text = document_of(failure).to_string();
        let _ = writeln!(out, "{}", style::json(&text)).and_then(|()| out.flush());
    }
    std::mem::forget(out);
}

fn label(failure: &Failure) -> String {
    if failure.exit.is_stop() {
        format!("{WARNING}stopped{WARNING:#}")
    } else {
        format!("{ERROR}error{ERROR:#}")
    }
}

fn hint_line(hint: Option<&str>) -> String {
    let Some(hint) = hint else { return String::new() };
    wrap::with_command(&format!("\n  {HINT}hint{HINT:#}: {hint}"), 8)
}

/// Why standard output lacks a part of the result. A process has one standard output, and several consoles.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// The first error of standard output, unless its reader has gone.
pub fn unwritten() -> Option<&'static io::Error> {
    UNWRITTEN.get()
}

/// Whether standard output has a part of the result.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Styles are stripped where nobody can see them.
fn to_stdout(text: &str) {
    let mut out = anstream::stdout().lock();
    BEGUN.store(true, Ordering::Relaxed);
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = UNWRITTEN.set(error);
    }
}

fn to_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", style::shown(text));
}
