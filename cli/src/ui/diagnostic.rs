//! Diagnostics on standard error; colours are stripped if it is not a terminal.

use std::io::Write;

use expert_contract::diagnostic::{Diagnostic, Style, render};
use expert_contract::source::Sources;

use super::wrap::columns_of_messages;

pub fn show<'a>(diagnostics: impl Iterator<Item = &'a Diagnostic>, sources: &Sources) {
    let style = Style { colour: true, columns: columns_of_messages(), ..Style::default() };
    let mut out = anstream::stderr().lock();
    for diagnostic in diagnostics {
        let _ = writeln!(out, "{}", render(diagnostic, sources, style));
    }
}
