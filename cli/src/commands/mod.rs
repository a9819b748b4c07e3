//! One command a file. Each has `Args` and `run`.

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
mod report;
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
    /// Check manifests: every problem with its place, before anything is started
    Validate(validate::Args),
    /// Print a document's JSON Schema, or the ledger of the manifest's keys
    Schema(schema::Args),
    /// Build the token cache, without training
    Pretokenize(pretokenize::Args),
    /// Train an expert, or every one of a folder
    Train(Box<train::Args>),
    /// Score base and adapter on the test set
    Evaluate(evaluate::Args),
    /// Let base and adapter answer a prompt
    Generate(generate::Args),
    /// Write the merged model or the plain adapter to a new folder
    Export(export::Args),
    /// See where the time goes, what each optimisation is worth, and which settings are the fastest
    Bench(bench::Args),
