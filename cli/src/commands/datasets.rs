//! `datasets`: the data that experts name, and whether it exists; `datasets generate`: rows from a schema; `datasets split`:
//! rows in three files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::Options;
use expert_contract::paths::FILE;
use expert_contract::plan::Source;
use expert_contract::read;
use expert_contract::resolve::{DataFacts, Resolved, resolve};
use serde::Serialize;
use serde_json::json;

use crate::args::Global;
use crate::experts;
use crate::failure::Failure;
use crate::plan::{is_pointer, on_cpu, reported};
use crate::sys::paths::{near, portable};
use crate::ui::number::{bytes, grouped};
use crate::ui::{Align, Console, Table};
use crate::{schema_rows, split_rows};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// An expert, or the folder that holds the experts (default: this expert, else experts/, else here)
    #[arg(default_value_os_t = experts::usual().to_owned(), hide_default_value = true, value_parser = experts::folder_argument())]
    folder: PathBuf,
    /// Another folder that may hold data
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make training, validation and test rows from a schema alone: no data of yours is read
    Generate(GenerateArgs),
    /// Divide rows into training, validation and test files; copies of a row stay in one file
    Split(SplitArgs),
}

#[derive(clap::Args)]
struct GenerateArgs {
    #[command(flatten)]
    options: schema_rows::Options,
    /// The folder to write into; files that are there are never overwritten
    #[arg(long, short, value_name = "DIR", default_value = "datasets")]
    output: PathBuf,
}

#[derive(clap::Args)]
struct SplitArgs {
    /// Files of rows in any format that training reads, folders of them, or patterns
    #[arg(value_name = "FILE", required = true)]
    data: Vec<PathBuf>,
    #[command(flatten)]
    options: split_rows::Reading,
    #[command(flatten)]
    division: split_rows::Division,
    /// The folder to write into; files that are there are never overwritten
    #[arg(long, short, value_name = "DIR", default_value = "datasets")]
    output: PathBuf,
}

#[derive(Serialize)]
struct Listed {
    expert: String,
    /// `train`, `validation`, `test`, or the name of a further test set.
    split: String,
    here: bool,
    /// What is here is a Git LFS pointer and not the data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lfs_pointer: bool,
    format: &'static str,
    #[serde(flatten)]
    facts: DataFacts,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    match &args.command {
        Some(Command::Generate(args)) => generate(args, global, console),
        Some(Command::Split(args)) => split(args, global, console),
        None => list(args, console),
    }
}

fn generate(args: &GenerateArgs, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let made = schema_rows::make(&args.options, &args.output, None, global, console)?;
    made.report(&args.options, console);
    if console.json {
        console.document(&json!({"ok": true, "made": made}));
    } else {
        console.data(&made.rows.table(&made.files).render());
    }
    Ok(Exit::Done)
}

fn split(args: &SplitArgs, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let SplitArgs { data, options, division, output } = args;
    let written = split_rows::write(data, FILE, options, division, output, global, console)?;
    written.report(console);
    if console.json {
        console.document(&json!({"ok": true, "written": written}));
    } else {
        console.data(&written.rows.table(&written.files).render());
    }
    Ok(Exit::Done)
}

fn list(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let manifests = experts::below(&args.folder)?;
    let is_shelf = !args.folder.join(experts::MANIFEST).is_file();
    let (mut listed, mut failed) = (Vec::new(), Vec::new());
    for manifest in &manifests {
        match of_expert(manifest, &args.allow_path, console) {
            Ok(found) => listed.extend(found),
            Err(failure) if !is_shelf => return Err(failure),
            // The others are listed.
            Err(failure) => {
                let path = portable(manifest.parent().unwrap_or(Path::new(".")));
                console.trouble(&path, &failure);
                failed.push(failure.added_to(json!({"path": path})));
            }
        }
    }
    let is_whole = failed.is_empty() && !listed.iter().any(|one| one.lfs_pointer);
    let exit = if is_whole { Exit::Done } else { Exit::Failed };
    if console.json {
        console.document(&json!({"ok": is_whole, "datasets": listed, "failed": failed}));
    } else {
        let (text, left_out) = table(&listed).narrow("data", &["size"]);
        console.data(&text);
        console.left_out(&left_out);
    }
    Ok(exit)
}

fn of_expert(path: &Path, allowed: &[PathBuf], console: &Console) -> Result<Vec<Listed>, Failure> {
    let loaded =
        read::load(path, &Options { allowed: allowed.to_vec(), trains_nothing: true, ..Options::default() });
    let Some(manifest) = &loaded.manifest else {
        console.report(&loaded.diagnostics, &loaded.document.sources);
        return Err(Failure::manifest(path, loaded.diagnostics));
    };
    let Some(expert) = manifest.effective(0) else { return Ok(Vec::new()) };
    let site = on_cpu(path);
    let resolved = resolve(&expert, &site).map_err(|problem| reported(problem, manifest, console))?;
    let data = &resolved.recipe.data;
    let splits = [("train", &data.train), ("validation", &data.validation), ("test", &data.test)];
    let of = |split: &str, sources: &[Source], files: &BTreeMap<String, String>| {
        sources.iter().map(|source| listed(&resolved, split, source, files)).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for (split, sources) in splits {
        found.extend(of(split, sources, &resolved.machine.paths.data));
    }
    for (name, set) in &resolved.test_sets {
        found.extend(of(name, &set.sources, &set.files));
    }
    Ok(found)
}

fn listed(resolved: &Resolved, split: &str, source: &Source, files: &BTreeMap<String, String>) -> Listed {
    let facts = DataFacts::of(source, files.get(&source.name).map(Path::new));
    Listed {
        expert: resolved.recipe.expert.clone(),
        split: split.to_owned(),
        here: facts.is_here(),
        lfs_pointer: facts.path.as_deref().is_some_and(is_pointer),
        format: source.format.as_str(),
        facts,
    }
}

fn table(listed: &[Listed]) -> Table {
    let columns = [
        ("expert", Align::Left),
        ("split", Align::Left),
        ("rows", Align::Right),
        ("size", Align::Right),
        ("data", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for one in listed {
        let place = one.facts.path.as_ref().map_or_else(|| one.facts.name.clone(), |path| near(path));
        let state = match one {
            Listed { lfs_pointer: true, .. } => " (Git LFS pointer)",
            Listed { here: false, .. } => " (absent)",
            _ => "",
        };
        table.row([
            one.expert.clone(),
            one.split.clone(),
            one.facts.rows.map_or(String::new(), grouped),
            one.facts.bytes.map_or(String::new(), bytes),
            place + state,
        ]);
    }
    table
}
