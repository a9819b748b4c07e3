//! `matrix`: the experts to train, as a CI matrix; with `--changed-since`, those whose result would differ.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use fs_err as fs;
use serde::Serialize;

use crate::changed;
use crate::experts;
use crate::failure::Failure;
use crate::render::Console;
use crate::usage::Global;

#[derive(clap::Args)]
pub struct Args {
    /// The folder that holds the experts
    #[arg(default_value = "experts")]
    folder: PathBuf,
    /// Only experts whose recipe, files or code differ between this git revision and the working tree
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    changed_since: Option<String>,
}

#[derive(Serialize)]
struct Matrix {
    include: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    expert: String,
    manifest: String,
    path: String,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let mut manifests = experts::below(&args.folder)?;
    if let Some(reference) = &args.changed_since {
        changed::keep_changed(&mut manifests, &args.folder, reference, global.python.as_deref(), console);
    }
    console.document(&Matrix { include: manifests.iter().map(|manifest| entry(manifest)).collect() });
    Ok(Exit::Done)
}

fn entry(manifest: &Path) -> Entry {
    let named = fs::read(manifest).ok().and_then(|bytes| changed::read(bytes, manifest));
    Entry {
        expert: named.map_or_else(|| experts::folder_name(manifest), |it| it.root.name.value.clone()),
        manifest: experts::portable(manifest),
        path: experts::portable(manifest.parent().unwrap_or(Path::new("."))),
    }
}
