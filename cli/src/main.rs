//! `expert-cli`: trains a shelf of small LoRA experts from one manifest.json each.

mod args;
mod cli;
mod cluster;
mod commands;
mod doctor;
mod edit;
mod experts;
mod failure;
#[cfg(test)]
mod guide;
mod import;
mod lock;
mod next;
mod package;
mod plan;
mod routing;
mod run;
mod runs;
mod scaffold;
mod schema_rows;
mod search;
mod sys;
mod train;
mod ui;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::keep_on_at_file_limit();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return cli::refuse(&error).into(),
    };
    let console = ui::Console::new(cli.global.json, cli.global.quiet);
    match cli::run(&cli, &console) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console.failure(&failure);
            failure.exit.into()
        }
    }
}
