//! `doctor`: what this machine has, and how to fix what is missing.

use expert_contract::exit::Exit;
use serde_json::json;

use crate::args::Global;
use crate::doctor::{Status, checks, text};
use crate::failure::Failure;
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let checks = checks(global);
    let ok = checks.iter().all(|check| check.status != Status::Missing);
    if console.json {
        console.document(&json!({"ok": ok, "checks": checks}));
    } else {
        console.data(&text::text(&checks));
    }
    Ok(if ok { Exit::Done } else { Exit::Missing })
}
