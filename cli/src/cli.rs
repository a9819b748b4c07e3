//! The command line: the root parser, its help, and which command runs.

use std::any::TypeId;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use expert_contract::exit::Exit;

use crate::args::Global;
use crate::commands::{
    bench, clean, completions, datasets, doctor, evaluate, export, generate, import, init, install, keygen,
    matrix, package, plan, pretokenize, recommend, report, route, runs, schema, search, serve, stop, train,
    validate, verify, work,
};
use crate::failure::Failure;
use crate::sys::env;
use crate::train::run_task;
use crate::ui::Console;

/// Trains a shelf of small LoRA experts from one manifest.json each.
#[derive(Parser)]
#[command(name = "expert-cli", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// In the order in which a newcomer needs them.
#[derive(Subcommand)]
pub enum Command {
    /// Show what this machine has for training, and how to fix what is missing
    Doctor(doctor::Args),
    Recommend(recommend::Args),
    /// Make a new expert that trains as it is, or a CI workflow for experts
    Init(init::Args),
    /// Make an expert from a configuration of Axolotl, LLaMA-Factory or TRL, and list what cannot be carried over
    Import(import::Args),
    /// Check manifests: every problem with its location, before anything starts
    Validate(validate::Args),
    Plan(plan::Args),
    /// Build the token cache, without training
    Pretokenize(pretokenize::Args),
    /// Train an expert, or every expert of a folder
    ///
    /// Where torchrun, Slurm or Kubernetes has started several processes, they train one expert together (docs/several-processes.md).
    Train(Box<train::Args>),
    /// Score base and adapter on the test set
    Evaluate(evaluate::Args),
    /// Let base and adapter answer a prompt
    Generate(generate::Args),
    /// Choose the expert of a folder that a prompt is for, or none
    Route(route::Args),
    /// Rewrite a run's report.html, or an index of all runs
    Report(Box<report::Args>),
    /// List runs, or compare them
    Runs(runs::Args),
    /// Ask a run or a search to save a checkpoint and end
    ///
    /// The others of its worker or its shelf continue, which Ctrl-C stops as well. It looks for the request between steps, at most once per second.
    Stop(stop::Args),
    /// Write the merged model or the plain adapter to a new folder
    Export(export::Args),
    /// Make one .expert file of a finished run, signed or not; two packages of one run are the same bytes
    Package(package::Args),
    /// Make the pair of keys that signs packages
    Keygen(keygen::Args),
    /// Check every file of a package and its signature
    Verify(verify::Args),
    /// Install a package, or list what is installed
    Install(install::Args),
    /// Answer OpenAI's HTTP calls with every expert of a folder and their base
    Serve(serve::Args),
    /// Show where time goes, what each optimisation gains, and which settings are fastest
    Bench(bench::Args),
    /// Find better training settings by successive halving, judged by answers to validation rows
    Search(Box<search::Args>),
    /// List the data that experts name, make rows from a schema, or divide your own
    Datasets(datasets::Args),
    /// Remove token caches that no run refers to, and GGUF files of `serve` that no expert needs
    Clean(clean::Args),
    /// List experts for a CI matrix, all or those that changed
    Matrix(matrix::Args),
    /// Print a document's JSON Schema, or the ledger of the manifest's keys
    Schema(schema::Args),
    /// Print the shell's completion script
    Completions(completions::Args),
    /// Run a plan that was written before (train --dry-run --json prints one)
    Work(work::Args),
    /// What `train --all --engine ray` runs on a node
    #[command(hide = true)]
    RayTask,
}

pub fn command() -> clap::Command {
    with_negative_numbers(Cli::command()).after_help(after_help())
}

/// `-1` behind a numeric option is its value, so that the refusal says which numbers are allowed. Clap takes it for an
/// option otherwise.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(
            |argument| if is_number(&argument) { argument.allow_negative_numbers(true) } else { argument },
        )
        .mut_subcommands(with_negative_numbers)
}

fn is_number(argument: &clap::Arg) -> bool {
    let kind = argument.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<i64>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ];
    numbers.iter().any(|number| kind == *number)
}

pub fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

pub fn run(cli: &Cli, console: &Console) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Plan(args) => plan::run(args, console),
        Command::Validate(args) => validate::run(args, console),
        Command::Schema(args) => schema::run(args, console),
        Command::Completions(args) => completions::run(args, command(), console),
        Command::Pretokenize(args) => pretokenize::run(args, &cli.global, console),
        Command::Train(args) => train::run(args, &cli.global, console),
        Command::Evaluate(args) => evaluate::run(args, &cli.global, console),
        Command::Generate(args) => generate::run(args, &cli.global, console),
        Command::Export(args) => export::run(args, &cli.global, console),
        Command::Package(args) => package::run(args, console),
        Command::Keygen(args) => keygen::run(args, console),
        Command::Verify(args) => verify::run(args, console),
        Command::Install(args) => install::run(args, console),
        Command::Search(args) => search::run(args, &cli.global, console),
        Command::Serve(args) => serve::run(args, &cli.global, console),
        Command::Bench(args) => bench::run(args, &cli.global, console),
        Command::Recommend(args) => recommend::run(args, console),
        Command::Report(args) => report::run(args, &cli.global, console),
        Command::Route(args) => route::run(args, &cli.global, console),
        Command::Runs(args) => runs::run(args, console),
        Command::Stop(args) => stop::run(args, console),
        Command::Datasets(args) => datasets::run(args, &cli.global, console),
        Command::Clean(args) => clean::run(args, console),
        Command::Doctor(args) => doctor::run(args, &cli.global, console),
        Command::Init(args) => init::run(args, &cli.global, console),
        Command::Import(args) => import::run(args, console),
        Command::Matrix(args) => matrix::run(args, &cli.global, console),
        Command::Work(args) => work::run(args, &cli.global, console),
        Command::RayTask => run_task(&cli.global),
    }
}

/// Help and the version are answers; everything else that the parser says is a refusal.
pub fn refuse(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        error.exit();
    }
    // What was asked for before the mistake was met.
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    Console::new(json, false).usage(error);
    Exit::BadInput
}

fn after_help() -> String {
    let codes = Exit::ALL.iter().map(|(exit, meaning)| format!("  {:<4} {meaning}\n", exit.code()));
    let variables = env::ALL
        .iter()
        .filter(|variable| variable.public)
        .map(|variable| format!("  {:<20} {}\n", variable.name, variable.meaning));
    format!("Exit codes:\n{}\nEnvironment:\n{}", codes.collect::<String>(), variables.collect::<String>())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        super::command().debug_assert();
    }

    #[test]
    fn a_negative_number_is_refused_with_what_is_allowed() {
        for (words, allowed) in [
            ("search a --jobs -1", "from 1 to 64"),
            ("search a --rows -1", "of at least 1"),
            ("evaluate a --rows -1", "of at least 1"),
            ("datasets split a --test -1", "a share below 1"),
            ("search a --search-seed -1", "of at least 0"),
            ("init a --ddl a.sql --rows -1", "from 20 to 50000"),
            ("init a --ddl a.sql --seed -1", "from 0 to 4294967295"),
            ("pretokenize a --preview -1", "from 0 to 4294967295"),
            ("serve --port -1", "from 0 to 65535"),
            ("serve --grace -1", "not a positive number of seconds"),
            ("bench watch --interval -1", "not a positive number of seconds"),
            ("generate a --temperature -1", "not 0 or a number above it"),
            ("train a --stall-timeout -1", "not a positive number of seconds"),
            ("train a --max-memory -1", "such as 8GB"),
        ] {
            let words = ["expert-cli"].into_iter().chain(words.split(' '));
            let error = super::command().try_get_matches_from(words).unwrap_err().to_string();
            assert!(error.contains("invalid value '-1'") && error.contains(allowed), "{error}");
        }
        // The check of the manifest refuses these.
        let in_manifest =
            ["seed", "epochs", "max-steps", "batch-size", "lora-rank", "learning-rate", "max-seq-length"]
                .map(|option| format!("train a --{option} -1"));
        for words in &in_manifest {
            let words = ["expert-cli"].into_iter().chain(words.split(' '));
            super::command().try_get_matches_from(words).unwrap();
        }
    }

    #[test]
    fn every_option_says_what_it_is_for() {
        fn check(command: &clap::Command, path: &str) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
            }
            for inner in command.get_subcommands() {
                check(inner, &format!("{path} {}", inner.get_name()));
            }
        }
        check(&super::command(), "expert-cli");
    }

    #[test]
    fn what_does_not_train_takes_no_shorthands_for_training() {
        let command = super::command();
        let taking =
            command.get_subcommands().filter(|it| it.get_arguments().any(|it| it.get_id() == "epochs"));
        assert_eq!(taking.map(clap::Command::get_name).collect::<Vec<_>>(), ["plan", "train"]);
    }

    #[test]
    fn help_names_every_exit_code_and_public_variable() {
        let help = super::after_help();
        for (exit, meaning) in expert_contract::exit::Exit::ALL {
            assert!(help.contains(&format!("  {:<4} {meaning}\n", exit.code())), "{meaning}");
        }
        let named: Vec<&str> = help.split_whitespace().collect();
        for variable in crate::sys::env::ALL {
            assert_eq!(named.contains(&variable.name), variable.public, "{}", variable.name);
        }
    }
}
