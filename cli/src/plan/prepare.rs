//! From the command line to a plan, for `plan` and every command that starts a worker.

use std::io::Read;
use std::path::Path;

use expert_contract::diagnostic::{Code, Diagnostic, Severity};
use expert_contract::exit::Exit;
use expert_contract::manifest::{Bases, Manifest, Options};
use expert_contract::plan::Source;
use expert_contract::read;
use expert_contract::resolve::{Place, Resolved, resolve};
use expert_contract::rules::{MachineFacts, check_machine};

use super::site::Here;
use super::{links, site};
use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::ui::Console;

pub struct Prepared {
    pub resolved: Resolved,
    /// The manifest's warnings and advice.
    pub diagnostics: Vec<Diagnostic>,
}

/// The data that a command reads.
#[derive(Debug, Clone, Copy)]
pub enum Reads {
    TrainingData,
    TestData,
    Nothing,
}

/// A manifest without errors, a base that can be loaded and the data that the command reads, or the reason why not.
pub fn prepare(options: &PlanOptions, reads: Reads, console: &Console) -> Result<Prepared, Failure> {
    prepare_here(options, reads, Here::default(), console)
}

/// The same, with what the command says about this machine.
pub fn prepare_here(
    options: &PlanOptions,
    reads: Reads,
    here: Here,
    console: &Console,
) -> Result<Prepared, Failure> {
    let prepared = resolved_here(options, here, console)?;
    check_presence(&prepared.resolved, reads)?;
    Ok(prepared)
}

/// The same, whether base and data are on this machine or not.
pub fn resolved(options: &PlanOptions, console: &Console) -> Result<Prepared, Failure> {
    resolved_here(options, Here::default(), console)
}

fn resolved_here(options: &PlanOptions, here: Here, console: &Console) -> Result<Prepared, Failure> {
    let path = options.manifest_file()?;
    let settings = Options {
        strict: false,
        allowed: options.allow_path.clone(),
        sets: options.sets(),
        bases: options.model.clone().map_or(Bases::First, Bases::Named),
    };
    let loaded = read::load(&path, &settings);
    let mut diagnostics = loaded.diagnostics;
    let Some(manifest) = loaded.manifest else {
        console.report(&diagnostics, &loaded.document.sources);
        return Err(Failure::manifest(&path, diagnostics));
    };
    let resolved = {
        let index = choose(&manifest, options.model.as_deref())?;
        let expert = manifest.effective(index).ok_or_else(|| unknown(&manifest, ""))?;
        diagnostics.retain(|diagnostic| concerns(diagnostic, index));
        console.report(&diagnostics, &manifest.document.sources);
        let site = site::of(options, here, &path)?;
        let resolved = resolve(&expert, &site)
            .map_err(|problem| Failure::manifest(&path, manifest.locate(vec![problem])))?;
        let facts = MachineFacts { device: site.device.kind, devices: site.devices };
        let found = manifest.locate(check_machine(&expert, facts));
        console.report(&found, &manifest.document.sources);
        diagnostics.extend(found);
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(Failure::manifest(&path, diagnostics));
        }
        resolved
    };
    links::refuse_links_out(&resolved.machine.paths, options.output.is_some(), &options.allow_path)?;
    Ok(Prepared { resolved, diagnostics })
}

/// The selected base of the manifest; the first one by default.
fn choose(manifest: &Manifest, model: Option<&str>) -> Result<usize, Failure> {
    model
        .map_or(Some(0), |name| manifest.find_base(name))
        .ok_or_else(|| unknown(manifest, model.unwrap_or_default()))
}

fn unknown(manifest: &Manifest, model: &str) -> Failure {
    let names: Vec<_> = manifest.bases.iter().map(|base| base.name.as_str()).collect();
    Failure::bad_input("unknown-model", format!("the manifest has no base model {model}"))
        .hint(format!("it has {}", names.join(", ")))
}

/// What is said of another base than the chosen one is for `validate` to say, unless it was an error there.
fn concerns(diagnostic: &Diagnostic, index: usize) -> bool {
    let absent = matches!(
        diagnostic.code,
        Code::BaseMissing | Code::DataMissing | Code::DataEmpty | Code::DataPointer
    );
    let error = diagnostic.code.severity() == Severity::Error && !absent;
    error || diagnostic.base().is_none_or(|base| base == index)
}

fn check_presence(resolved: &Resolved, reads: Reads) -> Result<(), Failure> {
    if resolved.base.place == Place::Absent {
        let message = format!("the base model {} is not on this machine", resolved.base.declared);
        return Err(Failure::missing("base-missing", message).hint(
            "put the folder there, or choose another base with --model; smollm2-135m-instruct comes with the worker",
        ));
    }
    let data = &resolved.recipe.data;
    let (read, option): (Vec<&Source>, _) = match reads {
        Reads::TrainingData => (data.train.iter().chain(&data.validation).collect(), "training.dataset.path"),
        Reads::TestData => (data.test.iter().collect(), "training.dataset.test_path"),
        Reads::Nothing => return Ok(()),
    };
    let mut files = read.iter().filter_map(|source| resolved.machine.paths.data.get(&source.name));
    files.find_map(|path| unreadable(Path::new(path), option)).map_or(Ok(()), Err)
}

/// Why this cannot be data, where that is clear without a look at its rows.
fn unreadable(path: &Path, option: &str) -> Option<Failure> {
    let failure = |code: &'static str, what: &str, hint: &str| {
        Some(Failure::new(Exit::BadInput, code, format!("{} {what}", path.display())).hint(hint))
    };
    if path.is_dir() {
        let hint = "name one of its files, or list several under training.dataset.tasks";
        return failure("data-folder", "is a folder, and data is read from files", hint);
    }
    if !path.is_file() {
        let message = format!("there is no data at {}", path.display());
        return Some(Failure::new(Exit::BadInput, "data-missing", message).hint(format!(
            "check {option}, make the data with the expert's generator, or name a file with --data"
        )));
    }
    let unpack = "unpack it first; JSONL, JSON, CSV, Parquet and Arrow are read";
    match first_bytes(path) {
        [0x1f, 0x8b, ..] => failure("data-packed", "is compressed with gzip", unpack),
        [b'P', b'K', 3, 4] => failure("data-packed", "is a zip archive", unpack),
        [0x28, 0xb5, 0x2f, 0xfd] => failure("data-packed", "is compressed with zstd", unpack),
        [0xfd, b'7', b'z', b'X'] => failure("data-packed", "is compressed with xz", unpack),
        [b'B', b'Z', b'h', _] => failure("data-packed", "is compressed with bzip2", unpack),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            failure("data-encoding", "is UTF-16", "save it as UTF-8: iconv -f UTF-16 -t UTF-8")
        }
        _ => None,
    }
}

/// Zeros where the file is shorter or cannot be read, which the worker reports.
fn first_bytes(path: &Path) -> [u8; 4] {
    let mut bytes = [0; 4];
    if let Ok(mut file) = std::fs::File::open(path) {
        let _ = file.read_exact(&mut bytes);
    }
    bytes
}
