//! One command a file. Each has `Args` and `run`.

mod completions;

use clap::Subcommand;
use expert_contract::exit::Exit;

use crate::failure::Failure;
use crate::render::Console;
use crate::usage::Cli;

#[derive(Subcommand)]
pub enum Command {
    /// Print the shell's completion script
    Completions(completions::Args),
}

pub fn run(cli: &Cli, console: &Console) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Completions(args) => completions::run(args, console),
    }
}
