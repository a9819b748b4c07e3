//! `stop`: asks runs and searches to save a checkpoint and end, also one run of several that train in one worker, or on
//! another machine.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use serde_json::json;

use crate::experts;
use crate::failure::Failure;
use crate::run::{self, ask_to_stop};
use crate::runs::{self, Run, State};
use crate::search;
use crate::sys::paths::{near, portable};
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {
    /// An expert, a run's folder, or a folder that holds experts
    #[arg(required = true, value_name = "EXPERT", value_parser = experts::folder_argument())]
    folders: Vec<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let mut asked = Vec::new();
    for folder in &args.folders {
        let found = named(folder)?;
        let running: Vec<_> = found.into_iter().filter(|it| it.run.state == State::Running).collect();
        if running.is_empty() {
            console.say(&format!("no training is running in {}", portable(folder)));
        }
        asked.extend(running);
    }
    for Stoppable { run, is_search } in &asked {
        ask_to_stop(&run.path)?;
        let (what, how) = if *is_search {
            (format!("the search in {}", near(&run.path)), "the same `search` command continues it")
        } else {
            (run.expert.clone(), "train --resume or --all continues it")
        };
        console.say(&format!("{what}: asked to save and end; {how}"));
    }
    if console.json {
        let paths: Vec<String> = asked.iter().map(|it| portable(&it.run.path)).collect();
        console.document(&json!({"ok": true, "asked": paths}));
    }
    Ok(Exit::Done)
}

/// A run, or the folder of a search.
struct Stoppable {
    run: Run,
    is_search: bool,
}

/// A trial stands for its search, which ends with it.
fn named(folder: &Path) -> Result<Vec<Stoppable>, Failure> {
    let search = |folder: PathBuf| Stoppable { run: runs::look(&folder), is_search: true };
    let one = if run::is_search(folder) { Some(folder.to_owned()) } else { search::of_trial(folder) };
    if let Some(one) = one {
        return Ok(vec![search(one)]);
    }
    let runs = runs::below(folder)?.into_iter().map(|run| Stoppable { run, is_search: false });
    let experts = if runs::is_run(folder) { Vec::new() } else { experts::below(folder)? };
    let of_experts = experts.iter().filter_map(|manifest| manifest.parent()).flat_map(search::of_expert);
    Ok(runs.chain(of_experts.chain(search::directly_in(folder)).map(search)).collect())
}
