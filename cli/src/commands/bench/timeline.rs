//! `bench timeline`: draws where the time of a run went.

use std::path::PathBuf;

use expert_contract::exit::Exit;

use crate::args::Global;
use crate::failure::Failure;
use crate::ui::Console;
use crate::worker::{Search, hand_over};

/// Draw where the time of one or two runs went: tokenizing, waiting for data, computing, saving
#[derive(clap::Args)]
pub struct Args {
    /// The folder of a run
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
    /// An earlier run, drawn above it on the same scale
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let mut words = vec!["timeline".into(), "--run".into(), args.run.clone().into_os_string()];
    for (option, path) in [("--against", &args.against), ("--output", &args.output)] {
        if let Some(path) = path {
            words.extend([option.into(), path.clone().into_os_string()]);
        }
    }
    if console.json {
        words.push("--json".into());
    }
    hand_over(
        &Search::here(global.python.as_deref(), None).find()?.of_this_version()?,
        "expert_worker.bench",
        &words,
    )
}
