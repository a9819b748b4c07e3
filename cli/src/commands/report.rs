//! `report`: rewrites a run's report.html, or those of many runs and their index.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use serde_json::json;

use crate::args::{Global, PlanOptions};
use crate::experts;
use crate::failure::Failure;
use crate::plan::{Reads, resolved};
use crate::runs::report::{Pages, whole_shelf, write};
use crate::runs::{self, Run};
use crate::sys::paths::{absolute, near};
use crate::ui::Console;

#[derive(clap::Args)]
#[command(mut_arg("expert", |arg| arg.value_name("RUN").value_parser(experts::folder_argument()).help("A run's folder, or one that holds experts or runs (default: that of the manifest's run)")))]
pub struct Args {
    /// Every run of a folder (default: experts), and an index, the best run of each expert first
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = experts::usual().as_os_str(), conflicts_with_all = ["expert", "manifest", "output"], value_parser = experts::folder_argument())]
    all: Option<PathBuf>,
    #[command(flatten)]
    options: PlanOptions,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let path = write(&pages(args, console)?, global, console)?;
    if console.json {
        console.document(&json!({"ok": true, "report": path}));
    } else {
        console.data(&path);
    }
    Ok(Exit::Done)
}

fn pages(args: &Args, console: &Console) -> Result<Pages, Failure> {
    Ok(match (&args.all, &args.options.expert) {
        (Some(shelf), _) => whole_shelf(shelf)?,
        (None, Some(folder)) if !runs::is_run(folder) && folder.is_dir() => whole_shelf(folder)?,
        (None, Some(folder)) if !folder.exists() => {
            return Err(Failure::bad_input("no-folder", format!("there is no folder {}", near(folder)))
                .hint("name a run's folder, or one that holds runs; `expert-cli runs` lists them"));
        }
        (None, Some(folder)) => Pages::of_run(absolute(folder)),
        (None, None) => Pages::of_run(own_run(args, console)?),
    })
}

/// The run of the manifest's first base, or of the named one; where there is none, the expert's only run.
fn own_run(args: &Args, console: &Console) -> Result<String, Failure> {
    let paths = resolved(&args.options, Reads::Nothing, console)?.resolved.machine.paths;
    let output = Path::new(&paths.output);
    if runs::is_run(output) {
        return Ok(paths.output);
    }
    let runs = runs::of_expert(Path::new(&paths.expert_dir));
    let named = args.options.model.is_some() || args.options.output.is_some();
    match &runs[..] {
        [run] if !named => Ok(absolute(&run.path)),
        _ => Err(no_run(output, &runs)),
    }
}

fn no_run(output: &Path, runs: &[Run]) -> Failure {
    let mut message = format!("there is no run in {}", near(output));
    if runs.is_empty() {
        return Failure::bad_input("no-runs", message).hint("train first, or name a run's folder");
    }
    let names: Vec<String> = runs.iter().map(|run| near(&run.path)).collect();
    message += &format!("; the expert's other runs: {}", names.join(", "));
    Failure::bad_input("no-runs", message).hint("name one of them, or its base with --model")
}
