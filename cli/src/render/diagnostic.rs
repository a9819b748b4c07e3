//! Diagnostics on standard error; colours are stripped where nobody can see them.

use std::io::Write;

use expert_contract::diagnostic::{Diagnostic, Severity, Style, render};
use expert_contract::source::Sources;

/// `quiet` leaves advice out.
pub fn show(diagnostics: &[Diagnostic], sources: &Sources, quiet: bool) {
    let style = Style { colour: true, ..Style::default() };
    let mut out = anstream::stderr().lock();
    for diagnostic in diagnostics.iter().filter(|found| !(quiet && found.severity == Severity::Advice)) {
        let _ = writeln!(out, "{}", render(diagnostic, sources, style));
    }
}
