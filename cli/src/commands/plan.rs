//! `plan`: shows what a run would do, without doing it.

use clap::Args as ClapArgs;
use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};

use crate::args::TrainOptions;
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, prepare, show};
use crate::ui::Console;

/// Show every resolved setting and its source, steps, tokens, batch, and memory compared with the device
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub options: TrainOptions,
    /// List every setting, including defaults
    #[arg(long)]
    pub all: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    let options = args.options.plan();
    let prepared = prepare(&options, Reads::TrainingData, console)?;
    show(&prepared, &prepared.resolved.plan(request), args.all, console);
    console.say(&format!("next: {}", next::command("train", &options, "")));
    Ok(Exit::Done)
}
