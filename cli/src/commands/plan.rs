//! `plan`: shows what a run would do, without doing it.

use clap::Args as ClapArgs;
use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};

use crate::args::{PlanOptions, Price, TrainOptions};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Here, Reads, prepare_here, show};
use crate::sys::cards::Card;
use crate::sys::launcher::{self, Launched};
use crate::ui::Console;

/// Show every resolved setting and its source, steps, tokens, batch, and memory compared with the device
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub options: TrainOptions,
    /// Plan for another machine: a card (rtx4090, h100, a100-80gb), any card of a size (24GB), or several (2xh100)
    #[arg(long = "for", value_name = "CARD", value_parser = Card::parse, conflicts_with = "device")]
    pub card: Option<Card>,
    #[command(flatten)]
    pub price: Price,
    /// List every setting, including defaults
    #[arg(long)]
    pub all: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let request = Request::Train { resume: Resume::Nothing, extend: false, evaluate: false, profile: false };
    let options = PlanOptions { card: args.card.clone(), ..args.options.plan() };
    // A plan for another machine is the same for each of a launcher's processes.
    let rank = match launcher::here()? {
        Launched::As(rank) => Some(rank),
        Launched::Alone | Launched::Ignored(_) => None,
    };
    if rank.is_some_and(|rank| !rank.is_main()) {
        return Ok(Exit::Done);
    }
    let here = Here { rank: rank.filter(|_| args.card.is_none()), ..Here::default() };
    let prepared = prepare_here(&options, Reads::TrainingData, here, console)?;
    show(&prepared, &prepared.resolved.plan(request), args.all, &args.price, console);
    let place = if args.card.is_some() { "next, on that machine" } else { "next" };
    console.say(&format!("{place}: {}", next::command("train", &options, "")));
    Ok(Exit::Done)
}
