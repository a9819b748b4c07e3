//! Diagnostics on standard error; colours are stripped if it is not a terminal.

use std::io::Write;

use expert_contract::diagnostic::{Diagnostic, Severity, Style, render};
use expert_contract::source::Sources;

use super::wrap::columns_of_messages;

/// `quiet` leaves advice out.
pub fn show(diagnostics: &[Diagnostic], sources: &Sources, quiet: bool) {
    let style = Style { colour: true, columns: columns_of_messages(), ..Style::default() };
    let mut out = anstream::stderr().lock();
    for diagnostic in diagnostics.iter().filter(|found| !(quiet && found.severity == Severity::Advice)) {
        let _ = writeln!(out, "{}", render(diagnostic, sources, style));
    }
}
