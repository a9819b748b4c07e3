//! From the command line to a plan, for `plan` and every command that starts a worker.

use std::io::Read;
use std::path::Path;

use expert_contract::diagnostic::{Code, Diagnostic, Problem, Severity};
use expert_contract::exit::Exit;
use expert_contract::manifest::{
    Manifest, Options, OtherBase, TestCases, is_embedded, is_hub_id, is_lfs_pointer, is_path,
};
use expert_contract::paths::{NotData, data_files, may_be_on_hub, unknown_ending};
use expert_contract::plan::{DataFormat, DeviceKind, Source};
use expert_contract::read;
use expert_contract::resolve::{Note, Place, Resolved, resolve};
use expert_contract::rules::{MachineFacts, check_machine, test_cases_are_missing};

use super::cache::Caches;
use super::site::Here;
use super::{first_row, links, site};
use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::next;
use crate::run::{EXPERT, adapter};
use crate::sys::cards::Card;
use crate::sys::gpus::Gpus;
use crate::ui::Console;

/// The note of a plan for a machine that is not this one.
const ANOTHER_MACHINE: &str = "another-machine";

pub fn is_elsewhere(resolved: &Resolved) -> bool {
    resolved.notes.iter().any(|it| it.code == ANOTHER_MACHINE)
}

pub struct Prepared {
    pub resolved: Resolved,
    /// The manifest's warnings and advice.
    pub diagnostics: Vec<Diagnostic>,
    /// How many devices of the kind there are, from the plan's on.
    pub devices: u32,
    pub caches: Caches,
}

/// The data that a command reads.
#[derive(Debug, Clone, Copy)]
pub enum Reads {
    TrainingData,
    /// Also what a training is scored on afterwards, with how it trains without scores.
    TrainingAndTestData(&'static str),
    TestData,
    Nothing,
}

impl Reads {
    fn trains_nothing(self) -> bool {
        matches!(self, Self::TestData | Self::Nothing)
    }
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
    let prepared = resolved_here(options, reads, here, console)?;
    check_presence(&prepared.resolved, options, reads)?;
    Ok(prepared)
}

/// The same, whether base and data are on this machine or not.
pub fn resolved(options: &PlanOptions, reads: Reads, console: &Console) -> Result<Prepared, Failure> {
    resolved_here(options, reads, Here::default(), console)
}

fn resolved_here(
    options: &PlanOptions,
    reads: Reads,
    here: Here,
    console: &Console,
) -> Result<Prepared, Failure> {
    let path = options.manifest_file()?;
    let read_as = Options {
        other_base: options.model.as_deref().and_then(base_elsewhere),
        trains_nothing: reads.trains_nothing(),
        ..options.reading()
    };
    let loaded = read::load(&path, &read_as);
    let mut diagnostics = loaded.diagnostics;
    let Some(mut manifest) = loaded.manifest else {
        console.report(&diagnostics, &loaded.document.sources);
        return Err(Failure::manifest(&path, diagnostics));
    };
    if matches!(reads, Reads::Nothing) {
        forget_missing_questions(&mut manifest);
    }
    let (resolved, devices, caches) = {
        let index = choose(&manifest, options.model.as_deref())?;
        let expert = manifest.effective(index).ok_or_else(|| unknown(&manifest, ""))?;
        // The data of an installed expert stayed where it was trained.
        let expected = |it: &Diagnostic| it.code == Code::DataMissing && it.severity != Severity::Error;
        let installed = adapter::is_beside(&path);
        diagnostics.retain(|it| concerns(it, index) && !(installed && expected(it)));
        console.report(&diagnostics, &manifest.document.sources);
        let site = site::of(options, here, &path)?;
        let mut resolved =
            resolve(&expert, &site).map_err(|problem| reported(problem, &manifest, console))?;
        resolved.typed = next::of_result(options).concat();
        let caches = Caches::of(&resolved);
        if !resolved.fits()
            && let Some(lengths) = caches.lengths(&resolved)
        {
            resolved = resolved.with_row_lengths(&lengths);
        }
        if let Some(counted) = caches.rows(&resolved) {
            resolved = resolved.with_counted_rows(counted);
        }
        if let Some(card) = &options.card {
            resolved.notes.push(for_another(card));
        }
        if options.card.is_none() && options.device.kind() != Some(DeviceKind::Cpu) {
            let on_gpu = site.device.kind == DeviceKind::Cuda;
            resolved.notes.extend(Gpus::here().notes(on_gpu.then_some(site.device.index)));
        }
        if let Some(relation) = &manifest.other_base {
            resolved.notes.push(other_base(&resolved.base.declared, relation));
        }
        let facts = MachineFacts { device: site.device.kind, devices: site.devices, launched: site.launched };
        let found = manifest.locate(check_machine(&expert, facts));
        console.report(&found, &manifest.document.sources);
        diagnostics.extend(found);
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(Failure::manifest(&path, diagnostics));
        }
        (resolved, site.devices, caches)
    };
    links::refuse_links_out(&resolved.machine.paths, options.output.is_some(), &options.allow_path)?;
    Ok(Prepared { resolved, diagnostics, devices, caches })
}

/// A command that scores nothing needs no questions.
fn forget_missing_questions(manifest: &mut Manifest) {
    if test_cases_are_missing(manifest) {
        manifest.root.evaluation.value.test_cases.value = TestCases::default();
    }
}

/// An error of the manifest that only planning finds, shown at its place.
pub fn reported(problem: Problem, manifest: &Manifest, console: &Console) -> Failure {
    let found = manifest.locate(vec![problem]);
    console.report(&found, &manifest.document.sources);
    Failure::manifest(&manifest.path, found)
}

/// The selected base of the manifest; the first one by default.
fn choose(manifest: &Manifest, model: Option<&str>) -> Result<usize, Failure> {
    if manifest.other_base.is_some() {
        return Ok(0);
    }
    model
        .map_or(Some(0), |name| manifest.find_base(name))
        .ok_or_else(|| unknown(manifest, model.unwrap_or_default()))
}

/// What `--model` names beside the manifest's bases: the embedded base, a folder with a base, or a Hub id.
pub(super) fn base_elsewhere(model: &str) -> Option<String> {
    if is_embedded(model) {
        return Some(model.to_owned());
    }
    let folder = Path::new(model);
    if folder.join("config.json").is_file() {
        let folder = std::fs::canonicalize(folder).ok()?;
        return Some(folder.to_string_lossy().into_owned());
    }
    // A folder that is here is meant, and not a model of the Hub that is called as its path.
    (is_hub_id(model) && !folder.is_dir()).then(|| model.to_owned())
}

fn for_another(card: &Card) -> Note {
    let speed = if card.has_limits() { "calculated, not measured" } else { "not known" };
    Note {
        code: ANOTHER_MACHINE,
        message: format!(
            "this plan is for {}. Its speed is {speed}, and what else uses its memory (a display takes up to 1 GiB) and which software \
             it has are not known",
            card.description()
        ),
        hint: "on that machine, run `expert-cli doctor` and plan without --for".to_owned(),
    }
}

fn other_base(base: &str, relation: &OtherBase) -> Note {
    let (message, hint) = match relation {
        OtherBase::New => (
            format!(
                "{base} is not in the manifest: the manifest's training settings hold, with the quantization and adapters of its first base"
            ),
            "add it to base_models to keep it, and to give it a prompt template, overrides or a digest",
        ),
        OtherBase::CopyOf(declared) => (
            format!(
                "{base} is used in place of the manifest's {declared}, with that base's prompt template, overrides and digest"
            ),
            "if it is another model, add it to base_models with its own settings",
        ),
    };
    Note { code: "base-not-in-manifest", message, hint: hint.to_owned() }
}

fn unknown(manifest: &Manifest, model: &str) -> Failure {
    if is_path(model) || (is_hub_id(model) && Path::new(model).is_dir()) {
        return Failure::bad_input(
            "unknown-model",
            format!("there is no base model in {model}: no config.json"),
        )
        .hint("check the path; a relative one starts at the working directory");
    }
    let names: Vec<_> = manifest.bases.iter().map(|base| base.name.as_str()).collect();
    let embedded = if names.iter().any(|it| is_embedded(it)) {
        ""
    } else {
        "; smollm2-135m-instruct comes with the worker"
    };
    Failure::bad_input("unknown-model", format!("the manifest has no base model {model}")).hint(format!(
        "it has {}{embedded}; any other is named by its Hub id (owner/name) or its folder",
        names.join(", ")
    ))
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

fn check_presence(resolved: &Resolved, options: &PlanOptions, reads: Reads) -> Result<(), Failure> {
    if resolved.base.place == Place::Absent {
        let message = format!("the base model {} is not on this machine", resolved.base.declared);
        return Err(Failure::missing("base-missing", message).hint(
            "put the folder there, or choose another base with --model; smollm2-135m-instruct comes with the worker",
        ));
    }
    let train = || {
        unreadable_part(resolved, Part::Train, options.data.as_deref(), WITH_DATA)
            .or_else(|| unreadable_part(resolved, Part::Validation, None, WITH_DATA))
    };
    let test = |otherwise| {
        unreadable_set(resolved, otherwise)
            .or_else(|| unreadable_part(resolved, Part::Test, options.test.as_deref(), otherwise))
    };
    let found = match reads {
        Reads::TrainingData => train(),
        Reads::TrainingAndTestData(unscored) => {
            train().or_else(|| test(unscored)).or_else(|| first_row::refuse_broken(resolved, unscored))
        }
        Reads::TestData => test(WITH_DATA),
        Reads::Nothing => None,
    };
    found.map_or(Ok(()), Err)
}

/// A part of the data, by its key in the manifest.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Train,
    Validation,
    Test,
}

impl Part {
    fn key(self) -> &'static str {
        match self {
            Self::Train => "path",
            Self::Validation => "validation_path",
            Self::Test => "test_path",
        }
    }

    /// What to do where a file of it is not here.
    fn advice(self, source: &Source, otherwise: &str) -> String {
        let key = self.key();
        let key = match &source.task {
            Some(task) => format!("{key} of the task {task}"),
            None => format!("training.dataset.{key}"),
        };
        match self {
            Self::Validation => format!("correct or remove {key}, or use validation_split"),
            Self::Train | Self::Test => or_make(&key, otherwise),
        }
    }
}

/// What else can be done about data that is not here.
const WITH_DATA: &str = "name a file with --data";

fn or_make(key: &str, otherwise: &str) -> String {
    format!("check {key}, make the data with the expert's generator, or {otherwise}")
}

/// `given`: what --data names, in the user's words; the sources of a folder or pattern are files that are here.
fn unreadable_part(
    resolved: &Resolved,
    part: Part,
    given: Option<&Path>,
    otherwise: &str,
) -> Option<Failure> {
    let data = &resolved.recipe.data;
    let sources = match part {
        Part::Train => &data.train,
        Part::Validation => &data.validation,
        Part::Test => &data.test,
    };
    let places = &resolved.machine.paths.data;
    sources.iter().enumerate().find_map(|(at, source)| {
        let path = Path::new(places.get(&source.name)?);
        if let Some(data) = given.filter(|_| at == 0) {
            let advice = "check the path; a relative one starts at the current folder";
            return unreadable(&data.to_string_lossy(), "--data", path, None, advice);
        }
        let advice = part.advice(source, otherwise);
        unreadable(&source.name, part.key(), path, Some(source.format), &advice)
            .map(|failure| of_installed(resolved, failure))
    })
}

/// Of the further test sets.
fn unreadable_set(resolved: &Resolved, otherwise: &str) -> Option<Failure> {
    resolved.test_sets.iter().find_map(|(name, set)| {
        let advice = or_make(&format!("evaluation.test_sets.{name}"), otherwise);
        set.sources.iter().find_map(|source| {
            let path = Path::new(set.files.get(&source.name)?);
            unreadable(&source.name, "path", path, Some(source.format), &advice)
                .map(|failure| of_installed(resolved, failure))
        })
    })
}

/// Whether the expert's folder is an unpacked package, which holds neither data nor a generator.
fn is_installed(resolved: &Resolved) -> bool {
    Path::new(&resolved.machine.paths.expert_dir).join(EXPERT).is_file()
}

/// Data that the manifest names is not part of a package.
fn of_installed(resolved: &Resolved, failure: Failure) -> Failure {
    if failure.code == "data-missing" && is_installed(resolved) {
        return failure.hint("an installed expert comes without its data: name a file with --data");
    }
    failure
}

/// Why this cannot be data, where that is clear without a look at its rows. `format`: that of the manifest's source; the
/// rules of the manifest have refused a file of it whose format nothing names.
fn unreadable(
    name: &str,
    key: &str,
    path: &Path,
    format: Option<DataFormat>,
    advice: &str,
) -> Option<Failure> {
    let failure = |code: &'static str, message: String, hint: String| {
        Some(Failure::new(Exit::BadInput, code, message).hint(hint))
    };
    if let Err(reason) = data_files(name, path) {
        let (message, hint) = reason.words(name, key);
        return match reason {
            NotData::Missing if may_be_on_hub(name).is_none() => {
                failure("data-missing", format!("there is no data at {}", path.display()), advice.to_owned())
            }
            NotData::Missing => failure("data-missing", message, hint),
            NotData::Pipe => failure("data-pipe", message, hint),
            _ => failure("data-folder", message, hint),
        };
    }
    if let Some((message, hint)) = unknown_ending(&path.to_string_lossy(), format) {
        return failure("data-format", message, hint);
    }
    let packed = |kind: &str, how: &str| {
        let message = format!("{} is compressed with {kind}", path.display());
        failure("data-packed", message, format!("unpack it: {how} {}", path.display()))
    };
    if path.metadata().is_ok_and(|data| data.is_file() && data.len() == 0) {
        return failure("data-empty", format!("{} is empty", path.display()), advice.to_owned());
    }
    let first = match first_bytes(path) {
        Ok(first) => first,
        Err(error) if path.is_file() => return Some(Failure::reading("read", path, &error)),
        Err(_) => return None,
    };
    match &first[..] {
        [0xfd, b'7', b'z', b'X', ..] => packed("xz", "unxz"),
        [b'B', b'Z', b'h', _, ..] => packed("bzip2", "bunzip2"),
        first if is_lfs_pointer(first) => failure(
            "lfs-pointer",
            format!("{} is a Git LFS pointer, not the data", path.display()),
            "run `git lfs install` and `git lfs pull` in its repository".to_owned(),
        ),
        _ => None,
    }
}

pub fn is_pointer(path: &Path) -> bool {
    path.is_file() && first_bytes(path).is_ok_and(|first| is_lfs_pointer(&first))
}

fn first_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
