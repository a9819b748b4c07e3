//! `generate`: base and adapter answer the same prompt, streamed; without a prompt, one per line of standard input.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use expert_contract::event::{Body, StageName};
use expert_contract::exit::Exit;
use expert_contract::plan::Request;
use expert_contract::resolve::Resolved;
use expert_contract::shell;

use crate::args::{Global, PlanOptions, Supervision, whole};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, prepare};
use crate::run::adapter;
use crate::runs::answers;
use crate::sys::paths::{near, portable};
use crate::ui::Console;
use crate::worker::{Board, Home, Notice, Start, carry_out_with};

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
    /// A system message before each prompt (default: the one that all training rows begin with; '' for none)
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Maximum tokens per answer (default: the manifest's max_new_tokens)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1_048_576))]
    max_new_tokens: Option<u32>,
    /// 0 takes the likeliest token each time; higher values vary more (default: the manifest's temperature)
    #[arg(long, value_name = "T", value_parser = temperature)]
    temperature: Option<f64>,
    #[command(flatten)]
    supervision: Supervision,
}

const ABOUT_PROMPTS: &str = "Ctrl-D or Ctrl-C leaves; each line is one prompt, without those before it";

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    number.ok_or_else(|| format!("`{text}` is not 0 or a number above it"))
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let mut resolved = prepare(&args.options, Reads::Nothing, console)?.resolved;
    // Before options of this command change the recipe.
    let next = following(args, &resolved);
    let decoding = &mut resolved.recipe.decoding;
    decoding.max_new_tokens = args.max_new_tokens.unwrap_or(decoding.max_new_tokens);
    decoding.temperature = args.temperature.unwrap_or(decoding.temperature);
    let paths = &resolved.machine.paths;
    let adapter = match &args.adapter {
        Some(folder) => Some(adapter::named(folder)?),
        None => adapter::of_run(paths),
    };
    if adapter.is_none() {
        let why = next::untrained(Path::new(&paths.output));
        console.say(&format!("{why}: only the base answers"));
    }
    if let Some((run, record)) = adapter.as_deref().map(Path::new).and_then(answers::run_of)
        && answers::has_other_template(&record, &resolved.recipe.template)
    {
        console.say(&format!(
            "prompts have another chat template than the run in {} was trained with",
            near(run)
        ));
    }
    let plan = resolved.plan(Request::Generate {
        adapter,
        prompt: args.prompt.clone(),
        system: args.system.clone(),
    });
    let asks = args.prompt.is_none() && std::io::stdin().is_terminal();
    if asks {
        console.say(ABOUT_PROMPTS);
    }
    let most = plan.recipe.decoding.max_new_tokens;
    let mut page = Page { console, most, speaker: String::new() };
    let mut board = Board::new(console);
    let result =
        carry_out_with(&plan, Home::of(&plan)?, &args.supervision, global, Start::default(), &mut |notice| {
            match notice {
                Notice::Event(event) => match &event.body {
                    Body::Text { source, text, done, cut } => {
                        board.set_aside();
                        page.write(source, text, *done, *cut);
                    }
                    Body::Stage { name: StageName::Answering, .. } => board.set_aside(),
                    _ => board.notify(notice),
                },
                other => board.notify(other),
            }
        });
    board.finish();
    let result = result?;
    if console.json {
        console.document(&result);
    }
    next::lead_on(Path::new(&plan.machine.paths.output), &next, console);
    Ok(Exit::Done)
}

/// What the run still lacks, and then an export. A soft prompt cannot be merged.
fn following(args: &Args, resolved: &Resolved) -> String {
    let form = if resolved.recipe.adapter.kind.is_soft_prompt() { "--adapter" } else { "--merge" };
    let Some(folder) = &args.adapter else {
        let export = next::command("export", &args.options, form);
        return next::missing(resolved, &args.options, &export);
    };
    next::command("export", &args.options, &format!("{form} --from {}", shell::quoted(&portable(folder))))
}

/// The answers on standard output, each labelled base or adapter.
struct Page<'a> {
    console: &'a Console,
    /// Tokens of an answer.
    most: u32,
    speaker: String,
}

impl Page<'_> {
    fn write(&mut self, source: &str, text: &str, done: bool, cut: bool) {
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
        if cut {
            let most = self.most;
            self.console.say(&format!("(cut after {most} tokens; --max-new-tokens allows more)"));
        }
        if done {
            self.speaker.clear();
        }
    }
}
