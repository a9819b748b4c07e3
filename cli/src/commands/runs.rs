//! `runs`: lists runs with their state, and shows how two runs differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use expert_contract::exit::Exit;
use serde_json::json;

use crate::experts;
use crate::failure::Failure;
use crate::runs::compare::Comparison;
use crate::runs::{Run, State, below, comparison};
use crate::sys::paths::portable;
use crate::ui::number::{grouped, minute, percent, short};
use crate::ui::style::DIM;
use crate::ui::wrap::message;
use crate::ui::{Align, Console, Table};

#[derive(clap::Args)]
pub struct Args {
    /// An expert, or a folder of experts or runs (default: this expert, else experts/, else here)
    #[arg(default_value_os_t = experts::usual(), hide_default_value = true)]
    folder: PathBuf,
    /// Runs to compare: the settings that differ, and the results
    #[arg(long, value_name = "RUN", num_args = 2.., conflicts_with = "folder")]
    compare: Vec<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    if !args.compare.is_empty() {
        let compared = Comparison::of(&args.compare)?;
        if console.json {
            console.document(&compared.document());
        } else {
            console.data(&comparison::text(&compared));
        }
        return Ok(Exit::Done);
    }
    let runs = below(&args.folder)?;
    if console.json {
        console.document(&json!({"ok": true, "runs": runs}));
    } else if runs.is_empty() {
        console.say("nothing has been trained here");
    } else {
        show(&runs, console);
        for expert in scored_differently(&runs) {
            let message =
                format!("runs of {expert} were scored by different scorers: do not compare their scores");
            console
                .warn(&message, Some("score them again with `evaluate`; `runs --compare` names each scorer"));
        }
    }
    Ok(Exit::Done)
}

/// Experts whose runs have scores of several scorers.
fn scored_differently(runs: &[Run]) -> Vec<&str> {
    let mut scorers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in runs {
        scorers.entry(&run.expert).or_default().extend(run.scored_by.as_deref());
    }
    scorers.into_iter().filter(|(_, scorers)| scorers.len() > 1).map(|(expert, _)| expert).collect()
}

/// In a narrow terminal each path has a separate line, and the columns that are asked for least are left out.
fn show(runs: &[Run], console: &Console) {
    let mut table = table(runs);
    if table.fits() {
        return console.data(&table.render());
    }
    table.leave_out(RUN);
    let left_out = table.fit(&["tokens/s", "train loss", "eval loss", "steps", "when (UTC)"]);
    let text = table.render();
    let paths = runs.iter().map(|run| format!("  {DIM}{}{DIM:#}\n", portable(&run.path)));
    let below = std::iter::once(String::new()).chain(paths);
    let lines = text.lines().zip(below).map(|(line, below)| format!("{line}\n{below}"));
    console.data(&lines.collect::<String>());
    if !left_out.is_empty() {
        let text = format!("not shown for lack of width: {} (--json has all)", left_out.join(", "));
        console.say(&message(&text, 2));
    }
}

const RUN: &str = "run";

fn table(runs: &[Run]) -> Table {
    let columns = [
        ("expert", Align::Left),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("train loss", Align::Right),
        ("eval loss", Align::Right),
        ("base", Align::Right),
        ("adapter", Align::Right),
        ("tokens/s", Align::Right),
        ("when (UTC)", Align::Left),
        (RUN, Align::Left),
    ];
    let mut table = Table::new(&columns);
    let told = |value: Option<f64>, show: fn(f64) -> String| value.map_or(String::new(), show);
    for run in runs {
        table.row([
            run.expert.clone(),
            state(run).to_owned(),
            run.steps.map_or(String::new(), grouped),
            told(run.train_loss, |loss| format!("{loss:.4}")),
            told(run.eval_loss, |loss| format!("{loss:.4}")),
            told(run.base_accuracy, percent),
            told(run.accuracy, percent),
            told(run.tokens_per_second, short),
            told(run.told_at, minute),
            portable(&run.path),
        ]);
    }
    table
}

/// A run that made no step has nothing to compare or resume.
fn state(run: &Run) -> &'static str {
    if run.state == State::Ended && run.steps.is_none() { "not started" } else { run.state.as_str() }
}
