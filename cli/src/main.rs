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
mod own_rows;
mod package;
mod plan;
mod prompts;
mod routing;
mod run;
mod runs;
mod scaffold;
mod schema_rows;
mod search;
mod split_rows;
mod sys;
mod train;
mod ui;
mod worker;

use std::process::ExitCode;

use expert_contract::exit::Exit;

fn main() -> ExitCode {
    worker::keep_on_at_file_limit();
    worker::allow_open_files();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return cli::refuse(&error).into(),
    };
    if cli.global.json {
        // Where this fails, a signal ends the command without a document.
        let _ = worker::end_with_document();
    }
    let console = ui::Console::new(cli.global.json, cli.global.quiet);
    let exit = cli::run(&cli, &console).unwrap_or_else(|failure| {
        console.failure(&failure);
        failure.exit
    });
    let Some(error) = ui::unwritten() else { return exit.into() };
    let failure = failure::Failure::unwritten(error);
    console.trouble("standard output", &failure);
    ExitCode::from(if exit == Exit::Done { failure.exit } else { exit })
}
