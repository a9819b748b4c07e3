//! `validate [PATH...]`: reports every problem in manifests, before anything starts.

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Code, Diagnostic, Severity};
use expert_contract::exit::Exit;
use expert_contract::manifest::Options;
use expert_contract::read::{Loaded, load};
use expert_contract::shell::quoted;
use serde::Serialize;

use crate::experts;
use crate::failure::Failure;
use crate::sys::paths::portable;
use crate::ui::{Console, one_line};

#[derive(clap::Args)]
pub struct Args {
    /// Manifests, experts, or folders of experts (default: this expert, else experts, else this folder)
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Missing data and base models are errors
    #[arg(long)]
    strict: bool,
    /// Another folder that may hold data
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    path: String,
    ok: bool,
    diagnostics: &'a [Diagnostic],
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let options = Options { strict: args.strict, allowed: args.allow_path.clone(), ..Options::default() };
    let files = manifests(&args.paths)?;
    let loaded: Vec<_> = files.iter().map(|path| (path, load(path, &options))).collect();
    if console.json {
        let files = loaded.iter().map(|(path, loaded)| FileReport {
            path: portable(path),
            ok: loaded.ok(),
            diagnostics: &loaded.diagnostics,
        });
        let files: Vec<_> = files.collect();
        console.document(&Report { ok: files.iter().all(|file| file.ok), files });
    } else {
        for (path, loaded) in &loaded {
            console.report(&loaded.diagnostics, &loaded.document.sources);
            console.data(&format!("{}: {}", one_line(&portable(path)), verdict(loaded)));
        }
        if let ([path], [(manifest, only)]) = (args.paths.as_slice(), loaded.as_slice())
            && only.ok()
        {
            // A folder of experts may hold one.
            let expert = manifest.parent().filter(|_| path.is_dir()).unwrap_or(path);
            console.say(&format!("next: expert-cli plan {}", quoted(&portable(expert))));
        }
    }
    Ok(exit(loaded.iter().map(|(_, loaded)| loaded)))
}

/// A missing base model is a problem of this machine; everything else is one of the input.
fn exit<'a>(loaded: impl Iterator<Item = &'a Loaded>) -> Exit {
    let errors =
        loaded.flat_map(|loaded| &loaded.diagnostics).filter(|found| found.severity == Severity::Error);
    let codes: Vec<_> = errors.map(|found| found.code).collect();
    match codes.as_slice() {
        [] => Exit::Done,
        codes if codes.iter().all(|code| *code == Code::BaseMissing) => Exit::Missing,
        _ => Exit::BadInput,
    }
}

fn verdict(loaded: &Loaded) -> String {
    let count = |severity| loaded.diagnostics.iter().filter(|found| found.severity == severity).count();
    let words = [(Severity::Error, "error"), (Severity::Warning, "warning")]
        .map(|(severity, word)| (count(severity), word));
    let parts: Vec<_> = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    match (loaded.ok(), parts.is_empty()) {
        (true, true) => "ok".to_owned(),
        (true, false) => format!("ok, {}", parts.join(", ")),
        (false, _) => parts.join(", "),
    }
}

/// The manifests that the arguments mean, in a stable order.
fn manifests(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if !paths.is_empty() {
        return paths
            .iter()
            .map(|path| below(path))
            .collect::<Result<Vec<_>, _>>()
            .map(|found| found.concat());
    }
    let found = experts::below(experts::usual())?;
    if found.is_empty() {
        return Err(none("here, nor in experts/ or another folder"));
    }
    Ok(found)
}

/// A file is used as it is; a folder means its manifest, or those of the folders in it.
fn below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found = experts::below(path)?;
    if found.is_empty() {
        return Err(none(&format!("in {} nor in the folders in it", path.display())));
    }
    Ok(found)
}

fn none(place: &str) -> Failure {
    Failure::bad_input("no-manifest", format!("there is no manifest.json {place}"))
        .hint("name one, or make an expert with `expert-cli init NAME`")
}
