//! `stop`: asks runs to save a checkpoint and end, also one of several that train in one worker, or on another machine.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use serde_json::json;

use crate::failure::Failure;
use crate::run::ask_to_stop;
use crate::runs::{self, State};
use crate::sys::paths::portable;
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {
    /// An expert, a run's folder, or a folder that holds experts
    #[arg(required = true, value_name = "EXPERT")]
    folders: Vec<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let mut asked = Vec::new();
    for folder in &args.folders {
        let found = runs::below(folder)?;
        let running: Vec<_> = found.into_iter().filter(|run| run.state == State::Running).collect();
        if running.is_empty() {
            console.say(&format!("nothing trains in {}", portable(folder)));
        }
        asked.extend(running);
    }
    for run in &asked {
        ask_to_stop(&run.path)?;
        console.say(&format!("{}: asked to save and end; train --resume or --all continues it", run.expert));
    }
    if console.json {
        let paths: Vec<String> = asked.iter().map(|run| portable(&run.path)).collect();
        console.document(&json!({"ok": true, "asked": paths}));
    }
    Ok(Exit::Done)
}
