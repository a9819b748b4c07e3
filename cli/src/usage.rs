//! The command line: what every command shares, and the help of the root.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use expert_contract::exit::Exit;

use crate::commands::Command;
use crate::env;
use crate::render::Console;

/// Trains a shelf of small LoRA experts from one manifest.json each.
#[derive(Parser)]
#[command(name = "expert-cli", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Every command")]
pub struct Global {
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only the result, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// The Python interpreter that runs the worker
    #[arg(long, global = true, value_name = "PATH")]
    pub python: Option<PathBuf>,
}

pub fn command() -> clap::Command {
    Cli::command().after_help(after_help())
}

pub fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches)
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
        for variable in crate::env::ALL {
            assert_eq!(help.contains(variable.name), variable.public, "{}", variable.name);
        }
    }
}
