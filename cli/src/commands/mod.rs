//! One file per command. Each has `Args` and `run`.

mod bench;
mod clean;
mod completions;
mod datasets;
mod doctor;
mod evaluate;
mod export;
mod generate;
mod init;
mod matrix;
mod plan;
mod pretokenize;
pub mod report;
mod runs;
mod schema;
pub mod train;
mod validate;
mod work;

use clap::Subcommand;
use expert_contract::exit::Exit;

use crate::failure::Failure;
use crate::render::Console;
use crate::usage::Cli;

#[derive(Subcommand)]
pub enum Command {
    Plan(plan::Args),
    /// Check manifests: every problem with its location, before anything starts
    Validate(validate::Args),
    /// Print a document's JSON Schema, or the ledger of the manifest's keys
    Schema(schema::Args),
    /// Build the token cache, without training
    Pretokenize(pretokenize::Args),
    /// Train an expert, or every expert of a folder
    Train(Box<train::Args>),
    /// Score base and adapter on the test set
    Evaluate(evaluate::Args),
    /// Let base and adapter answer a prompt
    Generate(generate::Args),
    /// Write the merged model or the plain adapter to a new folder
    Export(export::Args),
    /// Show where time goes, what each optimisation gains, and which settings are fastest
    Bench(bench::Args),
    /// Rewrite a run's report.html, or an index of all runs
    Report(Box<report::Args>),
    /// List runs, or compare them
    Runs(runs::Args),
    /// List the data that experts name
    Datasets(datasets::Args),
    /// Remove token caches that no run refers to
    Clean(clean::Args),
    /// Show what this machine has for training, and how to fix what is missing
    Doctor(doctor::Args),
    /// Make a new expert that trains as it is, or a CI workflow for experts
    Init(init::Args),
    /// List experts for a CI matrix, all or those that changed
    Matrix(matrix::Args),
    /// Print the shell's completion script
    Completions(completions::Args),
    /// Run a plan that was written before (train --dry-run --json prints one)
    Work(work::Args),
}

pub fn run(cli: &Cli, console: &Console) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Plan(args) => plan::run(args, console),
        Command::Validate(args) => validate::run(args, console),
        Command::Schema(args) => schema::run(args, console),
        Command::Completions(args) => completions::run(args, console),
        Command::Pretokenize(args) => pretokenize::run(args, &cli.global, console),
        Command::Train(args) => train::run(args, &cli.global, console),
        Command::Evaluate(args) => evaluate::run(args, &cli.global, console),
        Command::Generate(args) => generate::run(args, &cli.global, console),
        Command::Export(args) => export::run(args, &cli.global, console),
        Command::Bench(args) => bench::run(args, &cli.global, console),
        Command::Report(args) => report::run(args, &cli.global, console),
        Command::Runs(args) => runs::run(args, console),
        Command::Datasets(args) => datasets::run(args, console),
        Command::Clean(args) => clean::run(args, console),
        Command::Doctor(args) => doctor::run(args, &cli.global, console),
        Command::Init(args) => init::run(args, console),
        Command::Matrix(args) => matrix::run(args, &cli.global, console),
        Command::Work(args) => work::run(args, &cli.global, console),
    }
}
