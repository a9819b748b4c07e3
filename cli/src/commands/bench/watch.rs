//! `bench watch`: samples a running train. A module of the worker does it, on this terminal.

use std::path::PathBuf;

use expert_contract::exit::Exit;

use crate::args::{Global, seconds};
use crate::failure::Failure;
use crate::ui::Console;
use crate::worker::{Search, hand_over};

/// Sample GPU, CPU and memory during a running train, and name its bottleneck
#[derive(clap::Args)]
pub struct Args {
    /// The run to watch (default: the newest that trains)
    #[arg(long, value_name = "DIR", conflicts_with = "alone")]
    run: Option<PathBuf>,
    /// Watch the machine, without a run
    #[arg(long)]
    alone: bool,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Seconds in total; Ctrl-C ends it earlier, with the samples so far
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    duration: f64,
    /// Write everything as JSON, raw samples too
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the curves as an HTML page
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let mut words = vec!["watch".into()];
    words.extend([format!("--interval={}", args.interval).into()]);
    words.extend([format!("--duration={}", args.duration).into()]);
    for (option, path) in [("--run", &args.run), ("--output", &args.output), ("--plot", &args.plot)] {
        if let Some(path) = path {
            words.extend([option.into(), path.clone().into_os_string()]);
        }
    }
    for (option, given) in [("--alone", args.alone), ("--json", console.json), ("--quiet", console.quiet)] {
        if given {
            words.push(option.into());
        }
    }
    hand_over(
        &Search::here(global.python.as_deref(), None).find()?.of_this_version()?,
        "expert_worker.bench",
        &words,
    )
}
