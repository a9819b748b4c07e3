//! Diagnostics on standard error; colours are stripped if it is not a terminal.

use std::io::Write;

use expert_contract::diagnostic::{Diagnostic, Severity, Style, render};
use expert_contract::source::Sources;

/// `quiet` leaves advice out.
pub fn show(diagnostics: &[Diagnostic], sources: &Sources, quiet: bool) {
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(100, |(width, _)| width.0.into());
    let style = Style { colour: true, width };
    let mut out = anstream::stderr().lock();
    for diagnostic in diagnostics.iter().filter(|found| !(quiet && found.severity == Severity::Advice)) {
        let _ = writeln!(out, "{}", render(diagnostic, sources, style));
    }
}
