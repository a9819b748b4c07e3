//! `route`: which expert of a shelf a prompt is for.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::routing::{ChosenExpert, RouteRequest, RouteResult, RoutedShare};

use crate::args::Global;
use crate::experts;
use crate::failure::Failure;
use crate::prompts;
use crate::routing;
use crate::ui::{Console, one_line};
use crate::worker::{Search, run_module};
use serde_json::json;

const MODULE: &str = "expert_worker.routing";
const NONE: &str = "none";
/// Bytes of standard input that are read.
const MOST_INPUT: u64 = 64 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// The prompt; `-` or nothing reads standard input, where each line is one
    prompt: Option<String>,
    /// The folder that holds the experts (default: experts/, else here)
    #[arg(value_name = "DIR", default_value_os_t = experts::usual().to_owned(), hide_default_value = true, value_parser = experts::folder_argument())]
    folder: PathBuf,
    /// Another folder that may hold the experts' datasets
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let found = routing::find(&args.folder, &args.allow_path)?;
    for it in &found.left_out {
        console.warn(&it.message, Some(it.hint));
    }
    if let Some(same_name) = found.same_name {
        return Err(same_name);
    }
    let shelf = routing::shelf(found.experts).ok_or_else(|| {
        let message = format!("{} has no expert to choose from", args.folder.display());
        Failure::bad_input("no-experts", message).hint(
            "name the folder that holds the experts; each needs its manifest.json and its training data",
        )
    })?;
    let prompts = match args.prompt.as_deref() {
        None | Some("-") => from_standard_input(console)?,
        Some(prompt) => vec![prompt.to_owned()],
    };
    if !Path::new(&shelf.file).is_file() {
        let count = shelf.experts.len();
        let experts = if count == 1 { "one expert".to_owned() } else { format!("{count} experts") };
        console
            .say(&format!("learning the router from the training rows of {experts}; later calls reuse it"));
    }
    let asked = prompts.clone();
    let result = ask(&RouteRequest { shelf, prompts }, global)?;
    for warning in &result.warnings {
        console.warn(warning, None);
    }
    if result.learnt {
        console.say(&accuracy(&result));
    }
    if console.json {
        let mut document = json!(result);
        let routes = document["routes"].as_array_mut().into_iter().flatten();
        for (route, prompt) in routes.zip(&asked) {
            route["prompt"] = json!(prompt);
        }
        console.document(&document);
    } else {
        let lines: Vec<_> = result.routes.iter().map(line).collect();
        console.data(&lines.join("\n"));
    }
    Ok(Exit::Done)
}

fn from_standard_input(console: &Console) -> Result<Vec<String>, Failure> {
    if std::io::stdin().is_terminal() {
        console.say("each line is one prompt; Ctrl-D ends them");
    }
    let mut text = Vec::new();
    let input = std::io::stdin().lock();
    input.take(MOST_INPUT + 1).read_to_end(&mut text).map_err(|error| prompts::unreadable(&error))?;
    if text.len() as u64 > MOST_INPUT {
        let message = format!("standard input has more than {} MiB", MOST_INPUT >> 20);
        return Err(Failure::bad_input("too-long", message).hint("route the prompts in several parts"));
    }
    let prompts: Vec<_> = prompts::of_lines(text.as_slice()).collect::<Result<_, _>>()?;
    if prompts.is_empty() {
        return Err(Failure::bad_input("no-prompt", "there is no prompt")
            .hint("write it in quotes after `route`, or one per line of standard input"));
    }
    Ok(prompts)
}

/// Prompts may be longer than a command line.
fn ask(request: &RouteRequest, global: &Global) -> Result<RouteResult, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    let unwritten = |error| Failure::temporary(&error);
    let mut file = tempfile::NamedTempFile::new().map_err(unwritten)?;
    let text = serde_json::to_vec(request).unwrap_or_default();
    file.write_all(&text).map_err(unwritten)?;
    run_module(&python, MODULE, &[file.path()])?.document()
}

fn line(chosen: &ChosenExpert) -> String {
    let name = chosen.expert.as_deref().map_or_else(|| NONE.to_owned(), one_line);
    format!("{name} {:.2}", chosen.confidence)
}

fn accuracy(result: &RouteResult) -> String {
    let share = |it: &RoutedShare| format!("{} {}", one_line(&it.name), percent_of(it));
    let own: Vec<_> = result.router.experts.iter().filter(|it| it.rows > 0).map(share).collect();
    let own = if own.is_empty() { "no test rows".to_owned() } else { own.join(", ") };
    let none = percent_of(&result.router.none);
    format!("test rows sent to their own expert: {own}; everyday prompts sent to none: {none}")
}

fn percent_of(share: &RoutedShare) -> String {
    format!("{:.1}%", 100.0 * share.right as f64 / share.rows.max(1) as f64)
}
