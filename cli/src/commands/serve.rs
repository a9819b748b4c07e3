//! `serve`: the experts of a shelf behind one HTTP server. A module of the worker does it, on this terminal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use expert_contract::exit::Exit;
use expert_contract::plan::GgufQuantization;
use expert_contract::routing::RoutedExpert;

use crate::args::{Global, quantization, seconds, whole};
use crate::experts;
use crate::failure::Failure;
use crate::routing::{self, LeftOut};
use crate::runs::answers::changed_since;
use crate::runs::{Adapter, Served, served};
use crate::sys::host::home;
use crate::sys::paths::{absolute, near};
use crate::ui::Console;
use crate::worker::{Search, hand_over};

const EXAMPLES: &str = "\
Examples:
  expert-cli serve                               # every trained expert of ./experts, else of this folder
  expert-cli serve experts/expert-sql my-adapter # these two
  expert-cli serve --port 9000 --parallel 8
  expert-cli serve --host 0.0.0.0 --token-file token.txt

The model of a request is an expert's name, `base`, or `auto`: a router chooses among the experts and the base. --json prints one document once the server listens.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A folder with experts, an expert, a run, or a folder with an adapter (default: experts/, else here)
    #[arg(value_name = "DIR|EXPERT", value_parser = experts::folder_argument())]
    experts: Vec<PathBuf>,
    /// The base whose runs are served, where experts have several
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The base's folder, where it is not the one of the training or in the Hub's cache
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Another folder that may hold the training rows that the router of `auto` learns from, and the page's test questions
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
    /// The address to listen on; any but this machine's own demands a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,
    /// The port; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = whole::<u16>(0..=u16::MAX.into()))]
    port: u16,
    /// A file with the token that requests must send (or in `EXPERT_SERVE_TOKEN`)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// What writes the answers: llama.cpp, or transformers for what llama.cpp does not load
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// How llama.cpp holds the base: in blocks of 8 or 4 bits instead of f16, which is half or a third of the memory; answers differ a little
    #[arg(long, value_name = "TYPE", value_parser = quantization())]
    quantize: Option<GgufQuantization>,
    /// Requests that llama.cpp answers at a time; transformers answers one
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<u32>(1..=64))]
    parallel: u32,
    /// Tokens of prompt and answer together, at most what the base was made for
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = whole::<u32>(16..=1_048_576))]
    context: u32,
    /// Maximum tokens per answer
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = whole::<u32>(1..=1_048_576))]
    max_tokens: u32,
    /// Requests that may wait; more are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<u32>(0..=65_536))]
    queue: u32,
    /// Seconds for a request, waiting included
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, value_parser = seconds)]
    timeout: f64,
    /// Seconds that running requests have to finish after Ctrl-C or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    grace: f64,
    /// CPU threads of the engine (default: one per core)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024))]
    threads: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    #[value(name = "llama.cpp")]
    LlamaCpp,
    Transformers,
}

/// The file with the served experts whose training rows are here, for the router of `auto`; None without any. A warning
/// names each of the others.
fn router(
    named: &[PathBuf],
    allowed: &[PathBuf],
    adapters: &[Adapter],
    console: &Console,
) -> Option<PathBuf> {
    let usual = [experts::usual().to_owned()];
    let folders = if named.is_empty() { &usual[..] } else { named };
    let mut left_out = Vec::new();
    let mut here: BTreeMap<String, RoutedExpert> = BTreeMap::new();
    for found in folders.iter().filter_map(|folder| routing::find(folder, allowed).ok()) {
        left_out.extend(found.left_out);
        here.extend(found.experts.into_iter().map(|expert| (expert.name.clone(), expert)));
    }
    let mut routed = Vec::new();
    for adapter in adapters {
        let Some(name) = adapter.name() else { continue };
        if let Some(expert) = here.remove(&name) {
            routed.push(expert);
        } else if let Some(reason) = left_out.iter().find(|it| it.expert == name || has(it, adapter)) {
            console.warn(&reason.message, Some(reason.hint));
        } else {
            let message = format!("{name} is left out of the router: its training rows are not here");
            console.warn(&message, Some("name the expert's own folder, which has its manifest.json"));
        }
    }
    routed.sort_by(|one, two| one.name.cmp(&two.name));
    let Some(shelf) = routing::shelf(routed) else {
        console.warn("there is no model `auto`: the router has no expert to choose from", None);
        return None;
    };
    match routing::written(&shelf) {
        Ok(path) => Some(path),
        Err(failure) => {
            let message = format!("there is no model `auto`: {}", failure.message);
            console.warn(&message, failure.hint.as_deref());
            None
        }
    }
}

/// The name in a manifest with errors may be missing.
fn has(left_out: &LeftOut, adapter: &Adapter) -> bool {
    Path::new(&adapter.folder).starts_with(absolute(&left_out.folder))
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    if args.engine == Engine::Transformers && args.quantize.is_some() {
        let message = "--quantize is for llama.cpp; transformers holds the base as it is";
        return Err(Failure::bad_input("quantize-engine", message)
            .hint("leave out --quantize, or choose --engine llama.cpp"));
    }
    if let Some(folder) = args.base.as_ref().filter(|folder| !folder.join("config.json").is_file()) {
        let message = format!("there is no base model in {}: it has no config.json", near(folder));
        return Err(Failure::bad_input("base-missing", message)
            .hint("name with --base the folder that holds config.json and the safetensors files"));
    }
    let Served { adapters, left_out } = served(&args.experts, args.model.as_deref())?;
    for failure in left_out {
        console.warn(&format!("{}; it is not served", failure.message), failure.hint.as_deref());
    }
    for (message, hint) in adapters.iter().filter_map(changed_since) {
        console.warn(&format!("{message}; it is served as the run has it"), Some(&hint));
    }
    let given = args.base.as_deref().map(absolute);
    // Without a folder the worker asks the Hub's cache again: an update may have removed the commit of the training.
    let is_there = |folder: &String| Path::new(folder).join("config.json").is_file();
    let base = given.or_else(|| adapters.iter().filter_map(|adapter| adapter.base.clone()).find(is_there));
    let engine = args.engine.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let mut words: Vec<OsString> = [
        format!("--host={}", args.host),
        format!("--port={}", args.port),
        format!("--engine={engine}"),
        format!("--parallel={}", args.parallel),
        format!("--context={}", args.context),
        format!("--max-tokens={}", args.max_tokens),
        format!("--queue={}", args.queue),
        format!("--timeout={}", args.timeout),
        format!("--grace={}", args.grace),
        format!("--threads={}", args.threads.unwrap_or(0)),
    ]
    .map(OsString::from)
    .into();
    words.extend(args.quantize.map(|kind| format!("--quantize={kind}").into()));
    words.extend(["--home".into(), home().into_os_string()]);
    if let Some(base) = base {
        words.extend(["--base-folder".into(), base.into()]);
    }
    if let Some(shelf) = router(&args.experts, &args.allow_path, &adapters, console) {
        words.extend(["--router".into(), shelf.into_os_string()]);
    }
    for folder in &args.allow_path {
        words.extend(["--allow-path".into(), absolute(folder).into()]);
    }
    if let Some(file) = &args.token_file {
        words.extend(["--token-file".into(), file.clone().into_os_string()]);
    }
    for (option, given) in [("--json", console.json), ("--quiet", console.quiet)] {
        if given {
            words.push(option.into());
        }
    }
    words.push("--".into());
    words.extend(adapters.into_iter().map(|adapter| adapter.folder.into()));
    hand_over(
        &Search::here(global.python.as_deref(), None).find()?.of_this_version()?,
        "expert_worker.endpoint",
        &words,
    )
}
