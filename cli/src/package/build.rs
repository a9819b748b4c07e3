//! A package of a finished run: the manifest reduced to one base, the adapter's folder, grammar and licence.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use expert_contract::diagnostic::{Diagnostic, Severity};
use expert_contract::manifest::{Manifest, Options, is_embedded, is_hub_id, model_slug};
use expert_contract::read;
use expert_contract::results::ExpertRecord;
use fs_err as fs;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::archive::{self, Source};
use super::contents::{Contents, Found};
use super::document::{Base, Document, Key};
use super::elsewhere;
use super::layout::{self, CONFIG, EXPERT, LICENSE, MANIFEST, SIGNATURE, TEMPLATE, WEIGHTS};
use super::run::Chosen;
use super::{check, keys, verify};
use crate::failure::Failure;
use crate::run::FINAL;
use crate::runs::answers::{self, Answers, grammar_file, words};
use crate::sys::digests::read_digest;
use crate::sys::durable;
use crate::sys::files::{children, read_json, without_following};
use crate::sys::paths::{absolute, file_name, near};
use crate::sys::temporary::TemporaryFolder;
use crate::ui::Console;

#[derive(Serialize)]
pub struct Built {
    /// The `.expert` file.
    pub package: String,
    pub sha256: String,
    #[serde(flatten)]
    pub report: verify::Report,
    /// Whether the very same file was there already.
    pub unchanged: bool,
}

/// Files with their places, in the order of the archive.
pub type Files = Vec<(&'static str, PathBuf)>;

pub fn build(
    chosen: &Chosen,
    output: Option<&Path>,
    key: Option<&SigningKey>,
    console: &Console,
) -> Result<Built, Failure> {
    let folder = chosen.run.join(FINAL);
    let record = describes(&folder)?;
    let (mut manifest, checked) = manifest(&chosen.manifest, console)?;
    let name = manifest.name.typed().cloned().unwrap_or_default();
    let trained = record.name.clone().unwrap_or_default();
    if name != trained {
        let message = format!("{} is {name}, and the run is of {trained}", near(&chosen.manifest));
        return Err(Failure::bad_input("another-expert", message).hint("name the run's own manifest with -m"));
    }
    let version = version(&manifest, &chosen.manifest)?;
    let answers = answers_as_trained(&checked, chosen, &record)?;
    let base = record.base.as_ref().and_then(|base| base.name.clone()).unwrap_or_default();
    let mut files = of_run(&folder, console)?;
    files.extend(license(&chosen.manifest));
    files.extend(grammar(&mut manifest, &answers, chosen)?);
    files.sort();
    let mut contents = read_all(&files)?;
    let declared = chosen.record.base().unwrap_or(&base);
    // A folder means nothing elsewhere; the embedded base needs no network under its short name.
    let public = if is_embedded(declared) || is_hub_id(declared) { declared } else { &base };
    let entry = adapter(&folder, record.adapter.as_deref(), &contents)?;
    reduce(&mut manifest, checked.entry_for(declared), public, &entry);
    let left_out = without_files(&mut manifest, contents.files.contains_key(TEMPLATE));
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        console.say(&format!("the package's manifest leaves out {names}: the file stays with the expert"));
    }
    let mut manifest = as_map(&manifest)?;
    for key in ["base_model", "base_models", "training", "evaluation"] {
        manifest.get_mut(key).into_iter().for_each(|value| elsewhere::without_folders(value, key));
    }
    let sealed = check::sealed(manifest, &contents.files).map_err(|error| unwritable(&error))?;
    elsewhere::check(&sealed, &files, &chosen.manifest, console)?;
    take(&mut contents, MANIFEST, &sealed)?;
    let signature =
        key.map(|key| keys::sign(&contents, key)).transpose().map_err(|error| unwritable(&error))?;
    if let Some(signature) = &signature {
        take(&mut contents, SIGNATURE, signature)?;
    }
    let trusted = key.map(SigningKey::verifying_key);
    let report = verify::Report::of(&contents, trusted.as_ref());
    report.check(&folder, key.is_some())?;

    let usual = || PathBuf::from(format!("{name}-{}.v{version}.expert", model_slug(&base)));
    let output = output.map_or_else(usual, Path::to_owned);
    if output.is_dir() {
        let message = format!("{} is a folder, and a package is a file", near(&output));
        return Err(Failure::bad_input("output-folder", message).hint("name a file with --output"));
    }
    let beside = PathBuf::from(format!("{}.sha256", output.display()));
    is_ours(&beside, &file_name(&output))?;
    let mut entries = vec![(MANIFEST, Source::Bytes(&sealed))];
    entries.extend(files.iter().map(|(name, path)| (*name, Source::File(path))));
    entries.extend(signature.iter().map(|signature| (SIGNATURE, Source::Bytes(signature))));
    let unchanged = publish(&output, &entries, &contents)?;
    let sha256 = read_digest(&output).unwrap_or_default();
    durable::write(&beside, checksum(&sha256, &file_name(&output)).as_bytes())
        .map_err(|error| Failure::writing("write", &beside, &error))?;
    Ok(Built { package: absolute(&output), sha256, report, unchanged })
}

/// As `sha256sum` writes and reads it.
fn checksum(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

/// A file that is there already may only be the checksum of a package of this name.
fn is_ours(path: &Path, name: &str) -> Result<(), Failure> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let found = is_plain(path).then(|| fs::read_to_string(path).ok()).flatten().unwrap_or_default();
    let digest = found.get(..64).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if digest.is_some_and(|digest| found == checksum(digest, name)) {
        return Ok(());
    }
    let message = format!("{} is there already, and is not the checksum of {name}", near(path));
    Err(Failure::bad_input("checksum-exists", message)
        .hint("move it away, or name another file with --output"))
}

fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::bad_input("not-json", format!("cannot write {MANIFEST}: {error}"))
}

/// The archive appears whole and read back, or not at all; it replaces only the same package without a signature. True
/// where the same bytes are there already.
fn publish(output: &Path, entries: &[(&'static str, Source)], wanted: &Contents) -> Result<bool, Failure> {
    let folder = TemporaryFolder::new()?;
    let draft = folder.path().join("draft.expert");
    write_draft(&draft, entries).map_err(|error| match error.kind() {
        // Of a file of the run that is gone, or that may not be read.
        ErrorKind::NotFound | ErrorKind::PermissionDenied => {
            Failure::bad_input("run-unreadable", format!("the package cannot be made: {error}"))
                .hint("repair the run's folder, and run the command again")
        }
        _ => Failure::temporary(&error),
    })?;
    if archive::read(&draft, None)?.files != wanted.files {
        let message = "a file of the run was changed while it was packaged";
        return Err(Failure::new(expert_contract::exit::Exit::Failed, "changed-meanwhile", message)
            .hint("run the command again"));
    }
    if output.symlink_metadata().is_ok() {
        if output.is_file() && read_digest(output) == read_digest(&draft) {
            return Ok(true);
        }
        if !is_unsigned_form(output, wanted)? {
            let message = format!("{} is there already, with other contents", near(output));
            return Err(Failure::bad_input("package-exists", message)
                .hint("give the expert a new version in its manifest, or name another file with --output"));
        }
    }
    let copy =
        |target: &mut std::fs::File| std::io::copy(&mut std::fs::File::open(&draft)?, target).map(drop);
    let placed = if output.is_file() {
        durable::replace_with(output, copy)
    } else {
        durable::create_with(output, copy)
    };
    placed.map_err(|error| {
        Failure::writing("write", output, &error).hint("choose another file with --output")
    })?;
    Ok(false)
}

fn write_draft(draft: &Path, entries: &[(&'static str, Source)]) -> std::io::Result<()> {
    let mut target = BufWriter::new(fs::File::create_new(draft)?);
    archive::write(&mut target, entries)?;
    target.flush()
}

/// Whether the file there is the wanted package without the signature, so that signing it loses nothing. The same package
/// with another signature, or with one where none is wanted, is refused.
fn is_unsigned_form(output: &Path, wanted: &Contents) -> Result<bool, Failure> {
    let Some(found) = output.is_file().then(|| archive::read(output, None).ok()).flatten() else {
        return Ok(false);
    };
    match (found.listing() == wanted.listing(), found.signature.is_some()) {
        (false, _) => Ok(false),
        (true, false) => Ok(true),
        (true, true) => {
            let how = if wanted.signature.is_some() { "another signature" } else { "a signature" };
            let message = format!("{} is there already: the same package with {how}", near(output));
            Err(Failure::bad_input("package-exists", message)
                .hint("keep that file, or name another one with --output"))
        }
    }
}

/// `expert.json` of a finished adapter.
fn describes(folder: &Path) -> Result<ExpertRecord, Failure> {
    read_json(&folder.join(EXPERT)).ok_or_else(|| {
        let message =
            format!("{} does not say what the adapter is: {EXPERT} is missing or unreadable", near(folder));
        Failure::bad_input("not-described", message)
            .hint("a run of an older version has none: train again with --fresh")
    })
}

/// As the file has it, and as it is read, once the checks of `validate` have passed. Data is not packaged, so it may be anywhere.
fn manifest(path: &Path, console: &Console) -> Result<(Document, Manifest), Failure> {
    let loaded = read::load(path, &Options { anywhere: true, trains_nothing: true, ..Options::default() });
    let Some(checked) = loaded.manifest else {
        let is_error = |it: &Diagnostic| it.severity == Severity::Error;
        let errors: Vec<Diagnostic> = loaded.diagnostics.into_iter().filter(is_error).collect();
        console.report(&errors, &loaded.document.sources);
        return Err(Failure::manifest(path, errors));
    };
    let bytes = fs::read(path).map_err(|error| Failure::reading("read", path, &error))?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let document = serde_json::from_slice(text)
        .map_err(|error| Failure::bad_input("not-json", format!("{} is not JSON: {error}", near(path))))?;
    Ok((document, checked))
}

fn version(manifest: &Document, path: &Path) -> Result<String, Failure> {
    let Some(version) = manifest.version.typed().filter(|it| !it.is_empty()) else {
        let message = format!("{} has no version, and a package needs one", near(path));
        return Err(
            Failure::bad_input("no-version", message).hint("add \"version\": \"0.1.0\" to the manifest")
        );
    };
    match check::unusable_version(version) {
        None => Ok(version.to_owned()),
        Some(reason) => Err(Failure::bad_input(
            "bad-version",
            format!("the version {version:?} of {} {reason}", near(path)),
        )
        .hint("use letters, digits, `.`, `-` and `+`, such as 1.0.0")),
    }
}

/// The adapter's folder. A pickle in it is refused; other files that do not belong there are named and stay behind.
fn of_run(folder: &Path, console: &Console) -> Result<Files, Failure> {
    let mut files = Files::new();
    let mut paths = children(folder);
    paths.sort();
    for path in paths {
        let name = file_name(&path);
        let data = path.symlink_metadata().map_err(|error| Failure::reading("read", &path, &error))?;
        if layout::is_pickle_name(&name) {
            let message = format!("{} is a pickle, which can run any program when it is loaded", near(&path));
            return Err(Failure::bad_input("pickle", message)
                .hint("remove it from the folder; packages hold safetensors only"));
        }
        match layout::of_adapter(&name) {
            Some(known) if data.is_file() => files.push((known, path)),
            Some(_) => {
                let message = format!("{} is not a plain file", near(&path));
                return Err(Failure::bad_input("not-a-file", message).hint("replace it by the file itself"));
            }
            // `expert.json` names the grammar.
            None if layout::GRAMMARS.contains(&name.as_str()) => {}
            None => {
                console.warn(&format!("{} is not a file of a package and is left out", near(&path)), None);
            }
        }
    }
    Ok(files)
}

/// Beside the manifest.
fn license(manifest: &Path) -> Option<(&'static str, PathBuf)> {
    let license = manifest.with_file_name(LICENSE);
    is_plain(&license).then_some((LICENSE, license))
}

fn is_plain(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_file())
}

/// The run's files have the grammar, the chat template and the settings for answers that it was scored with. The manifest in
/// a package must name the same ones.
fn answers_as_trained(
    checked: &Manifest,
    chosen: &Chosen,
    record: &ExpertRecord,
) -> Result<Answers, Failure> {
    let now = Answers::named(checked, chosen.record.base())?;
    let Some(changed) = answers::changed(&now, Some(&chosen.record), record) else { return Ok(now) };
    let code = if changed.is_grammar_alone() { "grammar-changed" } else { "settings-changed" };
    let hint = changed.hint(|verb| format!("expert-cli {verb} {}", same_expert(checked, chosen)));
    Err(Failure::bad_input(code, changed.message(&chosen.manifest, &chosen.run)).hint(hint))
}

/// As a command names the expert, and the base as it was typed or, where the manifest has several, as the run has it.
fn same_expert(checked: &Manifest, chosen: &Chosen) -> String {
    let base = chosen.record.base().filter(|_| checked.bases.len() > 1);
    words(&chosen.manifest, chosen.model.as_deref().or(base))
}

/// The grammar that constrained the run's scored answers. The manifest then names it by its name in the package.
fn grammar(
    manifest: &mut Document,
    answers: &Answers,
    chosen: &Chosen,
) -> Result<Option<(&'static str, PathBuf)>, Failure> {
    let file = answers.decoding.grammar.as_ref().and_then(|grammar| grammar_file(grammar.kind));
    let Some(file) = file else { return Ok(None) };
    let path = chosen.run.join(FINAL).join(file);
    if !is_plain(&path) || answers.grammar().and_then(|it| it.sha256) != read_digest(&path) {
        let message = format!("{} is not the grammar that {EXPERT} names", near(&path));
        return Err(Failure::bad_input("damaged-run", message).hint("restore the file, or evaluate again"));
    }
    let decoding = manifest.training.typed_mut().and_then(|it| it.decoding.typed_mut());
    if let Some(name) = decoding.and_then(|decoding| decoding.grammar_file.typed_mut()) {
        file.clone_into(name);
    }
    Ok(Some((file, path)))
}

fn read_all(files: &Files) -> Result<Contents, Failure> {
    let mut contents = Contents::default();
    for (name, path) in files {
        let unreadable = |error: &std::io::Error| Failure::reading("read", path, error);
        let mut file = without_following().read(true).open(path).map_err(|error| unreadable(&error))?;
        let bytes = file.metadata().map_err(|error| unreadable(&error))?.len();
        contents.take(name, bytes, &mut file, None).map_err(|error| error.or_unread(unreadable))?;
    }
    Ok(contents)
}

fn take(contents: &mut Contents, name: &'static str, text: &[u8]) -> Result<(), Failure> {
    contents
        .take(name, text.len() as u64, &mut &text[..], None)
        .map_err(|error| error.or_unread(|error| Failure::reading("read", Path::new(name), error)))
}

type Entry = Map<String, Value>;

/// An entry of `adapters`: what peft's configuration says, and the weights' file.
fn adapter(folder: &Path, kind: Option<&str>, contents: &Contents) -> Result<Entry, Failure> {
    let config: Value = read_json(&folder.join(CONFIG)).ok_or_else(|| {
        Failure::bad_input("no-adapter", format!("{} cannot be read", near(&folder.join(CONFIG))))
    })?;
    let none = Found { sha256: String::new(), bytes: 0 };
    let weights = contents.files.get(WEIGHTS).unwrap_or(&none);
    let mut entry = Entry::new();
    entry.extend(kind.map(|kind| ("type".to_owned(), json!(kind))));
    for (ours, peft) in [
        ("target_modules", "target_modules"),
        ("r", "r"),
        ("alpha", "lora_alpha"),
        ("dropout", "lora_dropout"),
    ] {
        if let Some(value) = config.get(peft).filter(|value| !value.is_null()) {
            entry.insert(ours.to_owned(), value.clone());
        }
    }
    entry.extend([
        ("path".to_owned(), json!(WEIGHTS)),
        ("size_bytes".to_owned(), json!(weights.bytes)),
        ("sha256".to_owned(), json!(weights.sha256)),
    ]);
    Ok(entry)
}

/// One base, under the name by which others know it, with the one adapter; settings of the adapter as it was trained, whatever
/// the command line changed. `listed` is the base's place in the manifest; none where it was on the command line alone.
fn reduce(manifest: &mut Document, listed: Option<usize>, public: &str, adapter: &Entry) {
    manifest.spell_bases();
    let of_base = |base: &Base| if listed.is_some() { base.clone() } else { base.of_any_base() };
    if let Some(base) = manifest.base_model.typed_mut() {
        *base = Base { name: Key::Typed(public.to_owned()), ..of_base(base) };
        as_trained(base.overrides.typed_mut(), adapter);
        // Its own come before those of the manifest, and are in their place now.
        let own = first_adapter(&std::mem::take(&mut base.adapters));
        let stated = if own.is_empty() { first_adapter(&manifest.adapters) } else { own };
        manifest.adapters = Key::Typed(vec![merged(stated, adapter)]);
    } else {
        let bases = manifest.base_models.typed();
        let like = bases.and_then(|bases| bases.get(listed.unwrap_or(0))).and_then(Key::typed);
        let mut base = like.map(of_base).unwrap_or_default();
        base.name = Key::Typed(public.to_owned());
        base.adapters = Key::Typed(vec![merged(first_adapter(&base.adapters), adapter)]);
        as_trained(base.overrides.typed_mut(), adapter);
        manifest.base_models = Key::Typed(vec![Key::Typed(base)]);
    }
    if let Some(training) = manifest.training.typed_mut() {
        as_trained(Some(&mut training.rest), adapter);
        as_trained(training.config.typed_mut(), adapter);
    }
}

fn as_map(manifest: &Document) -> Result<Map<String, Value>, Failure> {
    let value = serde_json::to_value(manifest).map_err(|error| unwritable(&error))?;
    serde_json::from_value(value).map_err(|error| unwritable(&error))
}

/// Names of a manifest's settings for the adapter's shape, and where they stand in an entry of `adapters`.
const SHAPE: [(&str, &[&str]); 5] = [
    ("type", &["adapter_type"]),
    ("r", &["rank", "lora_rank"]),
    ("alpha", &["alpha", "lora_alpha"]),
    ("dropout", &["dropout", "lora_dropout"]),
    ("target_modules", &["target_modules"]),
];

/// What an adapter began as: it is in the package as it ended.
const INITIAL: &str = "initial_adapter";

/// With it, `type: lora` means DoRA.
const DORA: &str = "use_dora";

/// Where the settings name the adapter's shape.
fn as_trained(settings: Option<&mut Map<String, Value>>, adapter: &Entry) {
    let Some(settings) = settings else { return };
    let dora = settings.get(DORA) == Some(&Value::Bool(true));
    for (key, names) in SHAPE.iter().filter(|(key, _)| !(dora && *key == "type")) {
        for name in *names {
            if let (Some(stated), Some(trained)) = (settings.get_mut(*name), adapter.get(*key)) {
                *stated = trained.clone();
            }
        }
    }
}

fn first_adapter(adapters: &Key<Vec<Value>>) -> Entry {
    let first = adapters.typed().and_then(|entries| entries.first());
    first.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// What the manifest says about the adapter, and what it became.
fn merged(mut entry: Entry, adapter: &Entry) -> Value {
    let dora = entry.get(DORA) == Some(&Value::Bool(true));
    for (key, names) in SHAPE.iter().filter(|(key, _)| adapter.contains_key(*key)) {
        entry.retain(|name, _| name == key || !names.contains(&name.as_str()));
    }
    let kept = adapter.iter().filter(|(key, _)| !(dora && *key == "type"));
    entry.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(entry)
}

/// Keys that name files of the expert's folder. The template is in the package; training and scoring are done where the expert
/// is trained.
fn without_files(manifest: &mut Document, has_template: bool) -> Vec<&'static str> {
    let paths = manifest.bases_mut().filter(|_| has_template);
    for path in paths.filter_map(|base| base.template_path.typed_mut()) {
        TEMPLATE.clone_into(path);
    }
    let mut left_out = Vec::new();
    if without_initial_adapter(manifest) {
        left_out.push("training.config.initial_adapter");
    }
    let Some(evaluation) = manifest.evaluation.typed_mut() else {
        return left_out;
    };
    let scorer = evaluation.scorer.typed();
    if scorer.is_some_and(|scorer| scorer.python.typed().is_some_and(|it| !it.is_null())) {
        evaluation.scorer = Key::Absent;
        left_out.push("evaluation.scorer");
    }
    if evaluation.test_cases.typed().is_some() {
        evaluation.test_cases = Key::Absent;
        left_out.push("evaluation.test_cases");
    }
    left_out
}

/// Whether any of the places had one.
fn without_initial_adapter(manifest: &mut Document) -> bool {
    let mut found = false;
    let mut remove = |settings: &mut Map<String, Value>| {
        found |= settings.remove(INITIAL).is_some_and(|it| !it.is_null());
    };
    manifest.bases_mut().filter_map(|base| base.overrides.typed_mut()).for_each(&mut remove);
    if let Some(training) = manifest.training.typed_mut() {
        remove(&mut training.rest);
        training.config.typed_mut().into_iter().for_each(remove);
    }
    found
}
