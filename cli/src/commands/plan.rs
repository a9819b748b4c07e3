//! `plan`: shows what a run would do, without doing it.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use expert_contract::exit::Exit;
use expert_contract::plan::{Request, Resume};
use expert_contract::resolve::Resolved;

use crate::args::{PlanOptions, Price, TrainOptions};
use crate::cluster;
use crate::edit;
use crate::experts;
use crate::failure::Failure;
use crate::next;
use crate::plan::{Here, Reads, download_forbidden_by, prepare_here, show};
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
    /// List every setting, including defaults; with --cluster, plan every expert of a folder (default: experts)
    #[arg(long)]
    pub all: bool,
    /// With --all: simulate the whole folder on the machines that this file lists (docs/cluster.md)
    #[arg(long, value_name = "FILE", requires = "all", conflicts_with_all = ["card", "price_per_hour", "data", "output", "max_memory"])]
    pub cluster: Option<PathBuf>,
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
    if let Some(file) = &args.cluster {
        let folder = options.expert.clone().or_else(|| options.manifest.clone());
        let folder = folder.unwrap_or_else(|| experts::usual().to_owned());
        return cluster::run(&experts::folder_of(folder), file, &options, console);
    }
    let here = Here { rank: rank.filter(|_| args.card.is_none()), ..Here::default() };
    let prepared = prepare_here(&options, Reads::TrainingData, here, console)?;
    let prepare = next::command("pretokenize", &options, "");
    show(&prepared, &prepared.resolved.plan(request), args.all, &args.price, &prepare, console);
    for line in next(&prepared.resolved, &options)? {
        console.say(&line);
    }
    Ok(Exit::Done)
}

/// A plan that does not fit leads to those that do.
fn next(resolved: &Resolved, options: &PlanOptions) -> Result<Vec<String>, Failure> {
    if resolved.fits() {
        let place = match download_forbidden_by(resolved) {
            Some(variable) => format!("next, without {variable}"),
            None if options.card.is_some() => "next, on that machine".to_owned(),
            None => "next".to_owned(),
        };
        let train = match options.card {
            Some(_) => next::command("train", options, ""),
            None => next::train(Path::new(&resolved.machine.paths.output), options),
        };
        return Ok(vec![format!("{place}: {train}")]);
    }
    if resolved.remedies.is_empty() {
        return Ok(vec![format!("next: {}", next::command("recommend", options, ""))]);
    }
    let entry = edit::entry(options)?;
    let words = std::iter::once("next").chain(std::iter::repeat("or"));
    let plans = resolved.remedies.iter().map(|it| next::command("plan", &options.with(&it.sets(entry)), ""));
    Ok(words.zip(plans).map(|(word, plan)| format!("{word}: {plan}")).collect())
}
