//! Data goes to standard output, talk to standard error. A reader that went away is nobody's error.

use std::io::Write;

use anstyle::{AnsiColor, Style as Paint};
use expert_contract::diagnostic::Diagnostic;
use expert_contract::exit::Exit;
use expert_contract::source::Sources;
use serde::Serialize;
use serde_json::json;

use super::diagnostic;
use crate::failure::Failure;

pub const ERROR: Paint = AnsiColor::Red.on_default().bold();
pub const GOOD: Paint = AnsiColor::Green.on_default();
pub const WARNING: Paint = AnsiColor::Yellow.on_default().bold();
pub const HINT: Paint = AnsiColor::Cyan.on_default();
pub const STRONG: Paint = Paint::new().bold();
pub const DIM: Paint = Paint::new().dimmed();

pub struct Console {
    pub json: bool,
    pub quiet: bool,
}

impl Console {
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// The command's result, as text. Styles are stripped where nobody can see them.
    pub fn data(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let _ = write!(out, "{text}{end}").and_then(|()| out.flush());
    }

    /// The command's result, as one line of JSON.
    pub fn document(&self, value: &impl Serialize) {
        let text = serde_json::to_string(value)
            .unwrap_or_else(|error| json!({"error": error.to_string()}).to_string());
        self.data(&text);
    }

    pub fn say(&self, text: &str) {
        if !self.quiet {
            to_stderr(text);
        }
    }

    /// What a manifest's check found, with the places underlined. Styles are stripped where nobody can see them.
    pub fn report(&self, diagnostics: &[Diagnostic], sources: &Sources) {
        diagnostic::show(diagnostics, sources, self.quiet);
    }

    /// A piece of a result that is written while it comes.
    pub fn piece(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let _ = write!(out, "{text}").and_then(|()| out.flush());
    }

    pub fn warn(&self, message: &str, hint: Option<&str>) {
        to_stderr(&format!("{WARNING}warning{WARNING:#}: {message}{}", hint_line(hint)));
    }

    /// One failure of several: what it belongs to, and no document of its own.
    pub fn trouble(&self, name: &str, failure: &Failure) {
        let hint = hint_line(failure.hint.as_deref());
        to_stderr(&format!("{ERROR}error{ERROR:#}: {name}: {}{hint}", failure.message));
    }

    /// On standard error for the person, and under `--json` as the one document that was promised.
    pub fn failure(&self, failure: &Failure) {
        let hint = hint_line(failure.hint.as_deref());
        to_stderr(&format!("{}: {}{hint}", label(failure), failure.message));
        if self.json {
            self.document(&json!({
                "ok": false,
                "exit": failure.exit.code(),
                "error": {"code": failure.code, "message": failure.message, "hint": failure.hint},
                "diagnostics": failure.diagnostics,
            }));
        }
    }
}

/// Who asked for a stop and got it is not told of an error.
fn label(failure: &Failure) -> String {
    match failure.exit {
        Exit::Interrupted | Exit::Terminated => format!("{WARNING}stopped{WARNING:#}"),
        _ => format!("{ERROR}error{ERROR:#}"),
    }
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map_or(String::new(), |hint| format!("\n  {HINT}hint{HINT:#}: {hint}"))
}

fn to_stderr(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}
