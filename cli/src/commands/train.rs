//! `train`: one expert, or with `--all` every expert of a shelf.

use std::path::Path;

use expert_contract::exit::Exit;
use expert_contract::plan::{DistributedStrategy, Plan};
use expert_contract::resolve::Resolved;
use expert_contract::results::TrainResult;
use expert_contract::shell;
use serde_json::Value;

use crate::args::{Global, PlanOptions, Price, Supervision, TrainOptions};
use crate::experts::MANIFEST;
use crate::failure::Failure;
use crate::lock;
use crate::next::{self, Again};
use crate::plan::{Here, Reads, prepare_here, show};
use crate::run::speed;
use crate::sys::digests::Digests;
use crate::sys::env;
use crate::sys::host;
use crate::sys::launcher::{self, Launched, Rank};
use crate::sys::paths::{near, portable};
use crate::train::first_use::prove_untried;
use crate::train::fresh::{self, RunBefore};
use crate::train::fuse::{self, Fused};
use crate::train::shelf::{self, Shelf};
use crate::train::{
    RunOptions, Runner, ShelfOptions, Trainer, follow, refuse_unlike_lock, refuse_without_test_set,
};
use crate::ui::Console;
use crate::ui::number::duration;
use crate::ui::summary::{self, Spent};
use crate::worker::Board;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: TrainOptions,
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    price: Price,
    /// Show the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Refused: `plan --for` plans for another machine
    #[arg(long = "for", value_name = "CARD", hide = true)]
    card: Option<String>,
    #[command(flatten)]
    shelf: ShelfOptions,
    /// Train these experts of one base in one pass through it: names in experts/ or paths, separated by commas. Each gets
    /// the run that it would have alone; LoRA and rsLoRA in fp32 or bf16, also on a base in int4, on a CPU or an
    /// NVIDIA GPU
    #[arg(
        long,
        help_heading = "Several experts in one pass",
        value_name = "EXPERTS",
        value_delimiter = ',',
        conflicts_with_all = ["expert", "manifest", "data", "output", "all", "profile", "price_per_hour", "no_evaluate"]
    )]
    fuse: Vec<String>,
    /// Do not compare the fast path's kernels with their references before the first training on a GPU (up to two
    /// minutes; `doctor --prove` does it at any time)
    #[arg(long)]
    no_prove: bool,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    if let Some(card) = &args.card {
        return Err(Failure::bad_input(
            "other-machine",
            "--for plans for another machine, and train runs on this one",
        )
        .hint(format!("write expert-cli plan --for {}, or train without --for", shell::quoted(card))));
    }
    let options = args.options.plan();
    let rank = rank_here(console)?;
    if !args.fuse.is_empty() {
        refuse_many_of_ranks("--fuse", rank)?;
        let asked = Fused {
            experts: &args.fuse,
            options: &options,
            run: &args.run,
            dry_run: args.dry_run,
            proves: !args.no_prove,
            supervision: &args.supervision,
            global,
        };
        return fuse::run(&asked, console);
    }
    if let Some(folder) = &args.shelf.all {
        refuse_many_of_ranks("--all", rank)?;
        return run_shelf(args, folder, &options, global, console);
    }
    if args.shelf.no_evaluate {
        return Err(Failure::bad_input(
            "no-evaluate-of-one",
            "--no-evaluate belongs to --all: one expert is scored only with --evaluate",
        )
        .hint(
            "leave --no-evaluate out; for every expert of a folder write expert-cli train --all --no-evaluate",
        ));
    }
    refuse_expert_as_checkpoint(args.run.resume.as_deref())?;
    let muted = Console { warns: false, ..*console };
    let is_main = rank.is_none_or(Rank::is_main);
    let run_options = args.run.with_checkpoint(if is_main { console } else { &muted })?;
    let here = Here { rank, ..run_options.here() };
    let unscored = "train without scores (leave --evaluate out)";
    let reads = if run_options.evaluate { Reads::TrainingAndTestData(unscored) } else { Reads::TrainingData };
    let mut prepared = prepare_here(&options, reads, here, if is_main { console } else { &muted })?;
    // Ranks of a launcher compare their plans, which the findings of one machine would change.
    let proves = !args.no_prove && !args.dry_run && rank.is_none();
    if proves && prove_untried(std::iter::once(&prepared.resolved), global, console)? {
        prepared = prepare_here(&options, reads, here, &muted)?;
    }
    let resolved = &prepared.resolved;
    if args.dry_run {
        if run_options.evaluate {
            refuse_without_test_set(&resolved.recipe)?;
        }
        if !is_main {
            return Ok(Exit::Done);
        }
        let digests = Digests::open(&host::home());
        let inputs =
            lock::inputs::here(&resolved.recipe, &resolved.machine, global.python.as_deref(), &digests);
        if run_options.locked {
            refuse_unlike_lock(resolved, &inputs)?;
        }
        let plan = resolved.plan(run_options.request(run_options.evaluate));
        let prepare = next::command("pretokenize", &options, "");
        show(&prepared, &Plan { inputs: Some(inputs), ..plan }, false, &args.price, &prepare, console);
        return Ok(Exit::Done);
    }
    let digests = Digests::open(&host::home());
    let runner = Runner { supervision: &args.supervision, global, digests: &digests, warm: None, rank };
    match rank {
        Some(rank) if !is_main => return follow(rank, resolved, &run_options, &runner, console),
        Some(rank) => say_joined(rank, resolved, console)?,
        None => {}
    }
    for note in &prepared.resolved.notes {
        console.warn(&note.message, Some(&note.hint));
    }
    let run_before = RunBefore::of(&resolved.machine);
    let mut board = Board::new(console);
    let outcome = Trainer { options: &run_options, shelf: None, runner }
        .train(resolved, &mut |notice| board.notify(notice));
    board.finish();
    drop(board);
    let trained = outcome.map_err(|failure| resumable(failure, fresh::again(&run_options, &run_before)))?;
    if trained.was_finished_before() {
        let output = &resolved.machine.paths.output;
        let place = near(Path::new(output));
        console.say(&format!("this recipe is finished in {place}; --fresh trains it again"));
    }
    let result = trained.result()?;
    let run = Path::new(&resolved.machine.paths.output);
    if console.json {
        console.document(&priced(trained.document(), &result, args.price.price_per_hour));
    } else {
        let seconds_per_epoch = speed::seconds_per_epoch(&result, &resolved.recipe, run);
        let spent = Spent { seconds_per_epoch, price_per_hour: args.price.price_per_hour };
        show_result(&result, spent, console);
    }
    let next = next::missing(resolved, &options, &next::ask(&options, None));
    next::lead_on(run, &next, console);
    Ok(Exit::Done)
}

fn run_shelf(
    args: &Args,
    folder: &Path,
    options: &PlanOptions,
    global: &Global,
    console: &Console,
) -> Result<Exit, Failure> {
    let (run, supervision) = (args.run.clone(), &args.supervision);
    let shelf = Shelf {
        folder,
        options,
        run,
        selection: &args.shelf,
        dry_run: args.dry_run,
        proves: !args.no_prove,
        supervision,
        global,
    };
    if args.price.price_per_hour.is_some() {
        return Err(Failure::bad_input("price-of-many", "--price-per-hour is for one expert, not for --all")
            .hint("use it with plan for each expert"));
    }
    shelf::run(&shelf, console)
}

/// Which of a launcher's processes this is; None where it trains alone.
fn rank_here(console: &Console) -> Result<Option<Rank>, Failure> {
    match launcher::here()? {
        Launched::As(rank) => Ok(Some(rank)),
        Launched::Alone => Ok(None),
        Launched::Ignored(reason) => {
            console.say(&reason);
            Ok(None)
        }
    }
}

fn refuse_many_of_ranks(option: &str, rank: Option<Rank>) -> Result<(), Failure> {
    let Some(rank) = rank else { return Ok(()) };
    let message =
        format!("{option} trains many experts, and this is {rank} of a launcher, which trains one together");
    Err(Failure::bad_input("shelf-of-ranks", message)
        .hint(format!("name one expert, or run train {option} in one process without the launcher")))
}

fn say_joined(rank: Rank, resolved: &Resolved, console: &Console) -> Result<(), Failure> {
    let strategy = resolved.machine.distributed.map_or(DistributedStrategy::Ddp, |it| it.strategy);
    let origin = if resolved.names_no_strategy() { "; the manifest names no strategy" } else { "" };
    let count = rank.of;
    console.say(&format!(
        "training in the {count} processes of the launcher ({strategy}{origin}); this is rank 0, which waits {} at most for \
         the others ({})",
        duration(launcher::patience()?),
        env::RANK_TIMEOUT.name
    ));
    Ok(())
}

/// The result, with what it cost where a price is given.
fn priced(document: &Value, result: &TrainResult, price: Option<f64>) -> Value {
    let mut document = document.clone();
    let cost = price.zip(result.seconds).map(|(price, seconds)| {
        let scoring = result.evaluation.as_ref().and_then(|it| it.seconds).unwrap_or_default();
        speed::cost(seconds + scoring, price)
    });
    if let (Some(cost), Some(object)) = (cost, document.as_object_mut()) {
        object.insert("cost".to_owned(), cost.into());
    }
    document
}

/// An interrupted training says how to resume it.
fn resumable(failure: Failure, how: Again) -> Failure {
    if failure.hint.is_some() || !failure.exit.is_stop() {
        return failure;
    }
    failure.hint(format!("to continue: {}", next::again(how)))
}

/// `--resume EXPERT` reads as if the expert were the checkpoint.
fn refuse_expert_as_checkpoint(resume: Option<&Path>) -> Result<(), Failure> {
    match resume {
        Some(path) if path.join(MANIFEST).is_file() || path.ends_with(MANIFEST) => {
            let path = shell::quoted(&portable(path));
            Err(Failure::bad_input(
                "no-checkpoint",
                format!("--resume names {path}, which is an expert and not a checkpoint"),
            )
            .hint(format!("expert-cli train {path} --resume")))
        }
        _ => Ok(()),
    }
}

fn show_result(result: &TrainResult, spent: Spent, console: &Console) {
    console.data(&summary::trained(result, spent));
    if let Some(evaluation) = &result.evaluation {
        console.data(&summary::evaluated(evaluation));
    }
}
