//! `generate`: base and adapter answer the same prompt, streamed; without a prompt, one per line of standard input.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use expert_contract::event::{Body, StageName};
use expert_contract::exit::Exit;
use expert_contract::plan::Request;

use crate::args::{Global, PlanOptions, Supervision};
use crate::failure::Failure;
use crate::plan::{Reads, prepare};
use crate::run::adapter;
use crate::ui::Console;
use crate::worker::{Board, Home, Notice, carry_out_with};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// The adapter's folder (default: that of the expert's run; the base alone, if there is none)
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// The prompt; without it each line of standard input is one
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    supervision: Supervision,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let resolved = prepare(&args.options, Reads::Nothing, console)?.resolved;
    let paths = &resolved.machine.paths;
    let adapter = match &args.adapter {
        Some(folder) => Some(adapter::named(folder)?),
        None => adapter::of_run(paths),
    };
    if adapter.is_none() {
        console.say(&format!("there is no adapter in {}: only the base answers", paths.output));
    }
    let last = if adapter.is_some() { "adapter" } else { "base" };
    let plan = resolved.plan(Request::Generate { adapter, prompt: args.prompt.clone() });
    let asks = args.prompt.is_none() && std::io::stdin().is_terminal();
    let mut page = Page { console, last, asks, speaker: String::new() };
    let mut board = Board::new(console);
    let result =
        carry_out_with(
            &plan,
            Home::of(&plan)?,
            &args.supervision,
            global,
            None,
            &mut |notice| match notice {
                Notice::Event(event) => match &event.body {
                    Body::Text { source, text, done } => {
                        board.set_aside();
                        page.write(source, text, *done);
                    }
                    Body::Stage { name: StageName::Answering, .. } => {
                        board.set_aside();
                        page.ask();
                    }
                    _ => board.notify(notice),
                },
                other => board.notify(other),
            },
        );
    board.finish();
    let result = result?;
    if console.json {
        console.document(&result);
    }
    Ok(Exit::Done)
}

/// The answers on standard output, each labelled base or adapter.
struct Page<'a> {
    console: &'a Console,
    last: &'static str,
    /// On a terminal a prompt sign is shown.
    asks: bool,
    speaker: String,
}

impl Page<'_> {
    fn ask(&self) {
        if self.asks {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "> ").and_then(|()| out.flush());
        }
    }

    fn write(&mut self, source: &str, text: &str, done: bool) {
        if !self.console.json {
            if self.speaker != source {
                source.clone_into(&mut self.speaker);
                self.console.piece(&format!("[{source}] "));
            }
            self.console.piece(text);
            if done {
                self.console.piece("\n");
            }
        }
        if done {
            self.speaker.clear();
            if source == self.last {
                self.ask();
            }
        }
    }
}
