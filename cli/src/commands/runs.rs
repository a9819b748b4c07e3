//! `runs`: what training left, and in what state it is.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use serde_json::json;

use crate::experts::{self, portable};
use crate::failure::Failure;
use crate::render::number::grouped;
use crate::render::{Align, Console, Table};
use crate::runs::{Run, of_expert};

#[derive(clap::Args)]
pub struct Args {
    /// An expert, or the folder that holds the experts
    #[arg(default_value = "experts")]
    folder: PathBuf,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let manifests = experts::below(&args.folder)?;
    let runs: Vec<Run> =
        manifests.iter().filter_map(|manifest| manifest.parent()).flat_map(of_expert).collect();
    if console.json {
        console.document(&json!({"ok": true, "runs": runs}));
    } else if runs.is_empty() {
        console.say("nothing has been trained here");
    } else {
        console.data(&table(&runs));
    }
    Ok(Exit::Done)
}

fn table(runs: &[Run]) -> String {
    let columns = [
        ("expert", Align::Left),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("train loss", Align::Right),
        ("eval loss", Align::Right),
        ("run", Align::Left),
    ];
    let mut table = Table::new(&columns);
    let loss = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for run in runs {
        table.row([
            run.expert.clone(),
            run.state.as_str().to_owned(),
            run.steps.map_or(String::new(), grouped),
            loss(run.train_loss),
            loss(run.eval_loss),
            portable(&run.path),
        ]);
    }
    table.render()
}
