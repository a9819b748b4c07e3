//! `expert-cli`: trains a shelf of small LoRA experts from one manifest.json each.

mod adapter;
mod changed;
mod commands;
mod compare;
mod doctor;
mod durable;
mod env;
mod experts;
mod failure;
mod git;
#[cfg(test)]
mod guide;
mod launch;
mod lock;
mod next;
mod options;
mod output;
mod prepare;
mod queue;
mod render;
mod runs;
mod scaffold;
mod site;
mod slots;
mod slow_encoder;
mod train;
mod usage;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::keep_on_at_file_limit();
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(error) => return usage::refuse(&error).into(),
    };
    let console = render::Console::new(cli.global.json, cli.global.quiet);
    match commands::run(&cli, &console) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console.failure(&failure);
            failure.exit.into()
        }
    }
}
