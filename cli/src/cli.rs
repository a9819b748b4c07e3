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
    /// Other runs of the same worker or shelf continue; Ctrl-C would stop them too. The run checks for the request between steps, at most once per second.
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
    use clap::error::ErrorKind::{InvalidValue, ValueValidation};

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

    /// Clap does not miss a required option that conflicts with one that is given: `--only` with `--data` would be
    /// taken without `--all`, and have no effect.
    #[test]
    fn an_option_that_needs_another_is_refused_without_it_whatever_else_is_given() {
        fn check(command: &clap::Command, path: &[&str], ignored: &mut Vec<String>) {
            let options: Vec<_> = command.get_arguments().filter(|it| it.get_id() != "help").collect();
            let required = options.iter().filter(|it| it.is_positional() && it.is_required_set());
            let own = [path, &vec!["x"; required.count()]].concat();
            for option in options.iter().filter(|it| it.get_long().is_some()) {
                let needed = needed_by(option, &own, &options);
                let others = options
                    .iter()
                    .filter(|it| it.get_id() != option.get_id() && !needed.contains(&it.get_id().as_str()));
                for other in others.filter(|it| !needed.is_empty() && parsed(&own, &[option, it]).is_ok()) {
                    ignored.push(format!("{} {option} {other}", path.join(" ")));
                }
            }
            for inner in command.get_subcommands() {
                check(inner, &[path, &[inner.get_name()]].concat(), ignored);
            }
        }
        let (mut ignored, mut command) = (Vec::new(), super::command());
        command.build();
        check(&command, &["expert-cli"], &mut ignored);
        assert!(ignored.is_empty(), "{ignored:#?}");
    }

    /// Of options one of which is always needed, such as the kinds of `export`, each is tried beside it.
    fn needed_by<'a>(option: &clap::Arg, path: &[&str], all: &[&'a clap::Arg]) -> Vec<&'a str> {
        let alone = parsed(path, &[]).is_ok();
        let choices = all.iter().filter(|it| !alone && parsed(path, &[it]).is_ok());
        let mut found = missing(path, &[option], all);
        found.extend(choices.flat_map(|choice| missing(path, &[option, choice], all)));
        let always = missing(path, &[], all);
        found.retain(|it| !always.contains(it));
        found
    }

    /// Options that these ones need and that are not there.
    fn missing<'a>(path: &[&str], given: &[&clap::Arg], all: &[&'a clap::Arg]) -> Vec<&'a str> {
        let Err(error) = parsed(path, given) else { return Vec::new() };
        if error.kind() != clap::error::ErrorKind::MissingRequiredArgument {
            return Vec::new();
        }
        let said = error.to_string();
        let said = said.split("Usage:").next().unwrap_or_default();
        let is_named = |it: &&&clap::Arg| {
            it.get_long().is_some_and(|long| {
                said.contains(&format!("--{long} ")) || said.contains(&format!("--{long}\n"))
            })
        };
        all.iter().filter(is_named).map(|it| it.get_id().as_str()).collect()
    }

    /// With a value that each option takes.
    fn parsed(path: &[&str], given: &[&clap::Arg]) -> Result<clap::ArgMatches, clap::Error> {
        let commit = format!("a/b@{}", "0".repeat(40));
        let values = ["x", "1", "a=b", "0.5", "8GB", "32", "rtx4090", "q8_0", "ray", "run", commit.as_str()];
        let with = |values: &[&str]| {
            let words = given.iter().zip(values).flat_map(|(option, value)| {
                let long = option.get_long().map(|long| format!("--{long}"));
                let takes = option.get_num_args().is_none_or(|range| range.takes_values());
                long.into_iter().chain(takes.then(|| (*value).to_owned()))
            });
            super::command().try_get_matches_from(path.iter().map(|it| (*it).to_owned()).chain(words))
        };
        let valid = given.iter().map(|option| {
            let fits = |value: &&&str| {
                let words = option.get_long().map(|long| format!("--{long}={value}"));
                let words = words.unwrap_or_else(|| (**value).to_owned());
                let words = path.iter().map(|it| (*it).to_owned()).chain([words]);
                let outcome = super::command().try_get_matches_from(words);
                !outcome.is_err_and(|error| matches!(error.kind(), InvalidValue | ValueValidation))
            };
            values.iter().find(fits).copied().unwrap_or("x")
        });
        with(&valid.collect::<Vec<_>>())
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
