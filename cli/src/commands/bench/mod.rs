//! `bench`: where time goes, what each optimisation gains on this machine, and which settings are fastest.

mod ablate;
mod compare;
mod measure;
mod outcome;
mod timeline;
mod tune;
mod variants;
mod watch;

use clap::Subcommand;
use expert_contract::exit::Exit;

use crate::args::Global;
use crate::failure::Failure;
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Watch(watch::Args),
    Timeline(timeline::Args),
    Ablate(Box<ablate::Args>),
    Tune(Box<tune::Args>),
    Compare(compare::Args),
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    match &args.what {
        What::Watch(args) => watch::run(args, global, console),
        What::Timeline(args) => timeline::run(args, global, console),
        What::Ablate(args) => ablate::run(args, global, console),
        What::Tune(args) => tune::run(args, global, console),
        What::Compare(args) => compare::run(args, console),
    }
}
