//! `export`: the adapter merged into its base, or the plain adapter, also as GGUF or for MLX; the worker compares what it wrote. `--push`
//! uploads the folder to the Hub.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::is_hub_id;
use expert_contract::plan::{GgufQuantization, Request};
use expert_contract::resolve::Resolved;
use expert_contract::results::ExpertRecord;
use expert_contract::shell;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::{Global, PlanOptions, Supervision, quantization};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, prepare};
use crate::run::{CONFIG, EXPERT, WEIGHTS, adapter, damages};
use crate::runs::answers::{self, Answers};
use crate::sys::digests::read_digest;
use crate::sys::files::{children, read_json};
use crate::sys::paths::{absolute, file_name, is_inside, near};
use crate::ui::number::bytes;
use crate::ui::{Align, Console, Table, summary};
use crate::worker::{self, Home, Search, carry_out, run_module};

/// Files that an export has not as they are beside the adapter: it names the base in them, or people edit them.
const CHANGED: [&str; 3] = [CONFIG, EXPERT, "README.md"];
const MODULE: &str = "expert_worker.push";

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("kind").required(true).multiple(true).args(["merge", "adapter", "gguf", "mlx"])))]
pub struct Args {
    #[command(flatten)]
    options: PlanOptions,
    /// A merged model: the adapter's weights added to the base's
    #[arg(long)]
    merge: bool,
    /// The adapter alone, in PEFT's layout
    #[arg(long, conflicts_with = "merge")]
    adapter: bool,
    /// GGUF files for llama.cpp, Ollama and LM Studio: the adapter beside its base, or with --merge one model
    #[arg(long)]
    gguf: bool,
    /// The base's weights in the GGUF file, or the merged model's, in blocks of 8 or 4 bits instead of f16
    #[arg(long, value_name = "TYPE", requires = "gguf", conflicts_with = "mlx", value_parser = quantization())]
    quantize: Option<GgufQuantization>,
    /// The adapter in the layout of mlx-lm, for Macs with Apple silicon
    #[arg(long, conflicts_with_all = ["merge", "adapter", "gguf"])]
    mlx: bool,
    /// The adapter's folder (default: that of the expert's run)
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The new folder (default: export/merged, export/adapter, export/mlx, export/gguf or export/merged-gguf, with the quantization, in the run's folder;
    /// of an installed expert EXPERT-merged and so on in the working directory)
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Upload the folder to this model repository of the Hugging Face Hub, which is made where there is none; files of an earlier export are deleted
    #[arg(long, value_name = "OWNER/NAME", value_parser = repository)]
    push: Option<String>,
    /// Export, and only list what --push would upload and delete
    #[arg(long, requires = "push")]
    dry_run: bool,
    /// A private repository; refused where it is a public one
    #[arg(long, requires = "push")]
    private: bool,
    #[command(flatten)]
    supervision: Supervision,
}

fn repository(text: &str) -> Result<String, String> {
    is_hub_id(text).then(|| text.to_owned()).ok_or_else(|| format!("`{text}` is not OWNER/NAME"))
}

/// What the worker's module prints.
#[derive(Serialize, Deserialize)]
struct Pushed {
    repository: String,
    private: bool,
    files: Vec<PushedFile>,
    /// Files of an earlier export, which the commit deletes; null where a dry run cannot read the repository.
    deleted: Option<Vec<String>>,
    /// Of the commit; null where nothing was uploaded.
    url: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct PushedFile {
    name: String,
    bytes: u64,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let resolved = prepare(&args.options, Reads::Nothing, console)?.resolved;
    let paths = &resolved.machine.paths;
    let adapter = match &args.from {
        Some(folder) => adapter::named(folder)?,
        None => adapter::of_run(paths).ok_or_else(|| {
            next::refuse_untrained(Path::new(&paths.output), &args.options, "name an adapter with --from")
        })?,
    };
    let usual = || {
        let name = usual_name(args);
        if adapter::is_installed(paths) {
            return PathBuf::from(format!("{}-{name}", resolved.recipe.expert));
        }
        Path::new(&paths.output).join("export").join(name)
    };
    let target = absolute(&args.to.clone().unwrap_or_else(usual));
    if adapter::is_installed(paths) && is_inside(Path::new(&paths.expert_dir), Path::new(&target)) {
        // `verify` and `install` call every other file there damage.
        let message = format!(
            "{} is in the folder of an installed expert, which has only the files of its package",
            near(Path::new(&target))
        );
        return Err(Failure::bad_input("target-in-package", message).hint("name another folder with --to"));
    }
    warn_of_changes(&resolved, Path::new(&adapter), &args.options, console);
    if let Some((run, record)) = answers::run_of(Path::new(&adapter)) {
        adapter::demand_whole(&record, run)?;
    }
    if let Some(repository) = &args.push
        && is_export(Path::new(&target), &resolved.recipe.expert, args)
    {
        let folder = near(Path::new(&target));
        // An export whose upload failed, or was only listed, is uploaded as it is.
        if let Some(reason) = out_of_date(Path::new(&adapter), Path::new(&target)) {
            let message = format!("{folder} is not uploaded as the export of this adapter: {reason}");
            let hint = "remove it, or name another folder with --to";
            return Err(Failure::bad_input("target-in-use", message).hint(hint));
        }
        console.say(&format!("{folder} is the export of this adapter already"));
        let pushed = push(args, repository, &target, global, console)?;
        if console.json {
            console.document(&json!({"ok": true, "target": target, "push": pushed}));
        }
        return Ok(Exit::Done);
    }
    check_target(Path::new(&target))?;
    let plan = resolved.plan(Request::Export {
        adapter,
        target: target.clone(),
        merge: args.merge,
        gguf: args.gguf,
        quantize: args.quantize,
        mlx: args.mlx,
    });
    let result = carry_out(&plan, Home::of(&plan)?, &args.supervision, global, console)?;
    if !console.json {
        console.data(&summary::exported(&worker::result(&result)?));
    }
    let pushed = args.push.as_ref().map(|name| push(args, name, &target, global, console)).transpose()?;
    if console.json {
        let mut document: Value = json!(result);
        if let Some(pushed) = &pushed {
            document["push"] = json!(pushed);
        }
        console.document(&document);
    }
    if !args.gguf && !args.mlx && pushed.is_none() {
        let target = near(Path::new(&target));
        let written = if args.merge { "--base-only --model" } else { "--adapter" };
        // The test rows of an installed expert stayed where it was trained.
        let data = if adapter::is_installed(paths) { " --data FILE" } else { "" };
        let written = format!("{written} {}{data}", shell::quoted(&target));
        let next = next::command("evaluate", &args.options, &written);
        next::lead_on(Path::new(&plan.machine.paths.output), &next, console);
    }
    Ok(Exit::Done)
}

/// Only what is beside an adapter that describes itself is exported as it is.
fn warn_of_changes(resolved: &Resolved, adapter: &Path, options: &PlanOptions, console: &Console) {
    let Some(record) = read_json::<ExpertRecord>(&adapter.join(EXPERT)) else { return };
    if record.name.as_ref() != Some(&resolved.recipe.expert) {
        return;
    }
    let run = answers::run_of(adapter);
    let finished = run.as_ref().map(|(_, finished)| finished);
    if let Some(found) = answers::changed(&Answers::of(&resolved.recipe), finished, &record) {
        let place = run.as_ref().map_or(adapter, |(run, _)| run);
        let message = found.message(Path::new(&resolved.machine.paths.manifest), place);
        let hint = found.hint(|verb| next::command(verb, options, ""));
        console.warn(&format!("{message}; it is exported as the run has it"), Some(&hint));
    }
}

/// Known before the worker's libraries load; an export never overwrites.
fn check_target(target: &Path) -> Result<(), Failure> {
    let refused = |message: String, hint: String| Failure::bad_input("target-in-use", message).hint(hint);
    let Ok(data) = target.symlink_metadata() else { return Ok(()) };
    if data.is_symlink() {
        let place = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let hint = format!("name the folder itself with --to: {}", near(&place));
        return Err(refused(format!("{} is a symbolic link", near(target)), hint));
    }
    if data.is_dir() && children(target).is_empty() {
        return Ok(());
    }
    let message = format!("{} exists and is not an empty folder", near(target));
    Err(refused(message, "name another folder with --to; export never overwrites".to_owned()))
}

fn usual_name(args: &Args) -> String {
    let name = match (args.merge, args.gguf) {
        (true, true) => "merged-gguf",
        (true, false) => "merged",
        (false, true) => "gguf",
        (false, false) if args.mlx => "mlx",
        (false, false) => "adapter",
    };
    args.quantize.map_or_else(|| name.to_owned(), |kind| format!("{name}-{kind}"))
}

/// Whether the folder has the files that these options write, and not another form of the adapter.
fn is_export(target: &Path, expert: &str, args: &Args) -> bool {
    let has = |name: &str| target.join(name).is_file();
    if args.gguf {
        let suffix =
            args.quantize.map(|kind| format!(".{}", kind.as_str().to_uppercase())).unwrap_or_default();
        let has_base = children(target).iter().any(|path| file_name(path).starts_with("base."));
        let model = if args.merge { expert } else { "base" };
        return has("Modelfile") && has_base != args.merge && has(&format!("{model}{suffix}.gguf"));
    }
    let config = has(CONFIG) != args.merge;
    !has("Modelfile") && has("adapters.safetensors") == args.mlx && config
}

/// Why the export at `target` is not what exporting the adapter would write now.
fn out_of_date(adapter: &Path, target: &Path) -> Option<String> {
    let known = |folder: &Path| read_json::<ExpertRecord>(&folder.join(EXPERT)).unwrap_or_default();
    let (source, export) = (known(adapter), known(target));
    let Some(weights) = export.exported_from.as_ref().and_then(|found| found.sha256.clone()) else {
        return Some(
            "it does not say of which weights it was made, as those of a checkpoint or an older version"
                .to_owned(),
        );
    };
    if Some(weights) != read_digest(&adapter.join(WEIGHTS)) {
        return Some("it was made of other weights".to_owned());
    }
    // With base, data, grammar and score, which the model card shows too.
    let described = |record: &ExpertRecord| ExpertRecord {
        files: BTreeMap::new(),
        exported_from: None,
        ..record.clone()
    };
    if described(&source) != described(&export) {
        return Some(format!("{EXPERT} of the adapter has changed since"));
    }
    for path in children(adapter) {
        let (name, copy) = (file_name(&path), target.join(file_name(&path)));
        if !CHANGED.contains(&name.as_str()) && copy.is_file() && read_digest(&path) != read_digest(&copy) {
            return Some(format!("{name} is not that of the adapter"));
        }
    }
    damages(target, &export.files).first().map(|(name, how)| format!("{name} is {how}"))
}

fn push(
    args: &Args,
    repository: &str,
    target: &str,
    global: &Global,
    console: &Console,
) -> Result<Pushed, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    if !args.dry_run {
        console.say(&format!("uploading {} to {repository}", near(Path::new(target))));
    }
    let flags = [(args.private, "--private"), (args.dry_run, "--dry-run")];
    let chosen = flags.iter().filter(|(chosen, _)| *chosen).map(|(_, flag)| *flag);
    let words: Vec<&str> = [target, repository].into_iter().chain(chosen).collect();
    let printed = run_module(&python, MODULE, &words)?.stdout;
    let pushed: Pushed = serde_json::from_str(&printed).map_err(|error| {
        Failure::new(Exit::Failed, "worker-failed", format!("the upload ended without a result: {error}"))
    })?;
    if !console.json {
        show(&pushed, console);
    }
    if args.dry_run {
        if pushed.deleted.is_none() {
            console.say(&format!(
                "{repository} cannot be read: which of its files the upload deletes is not known"
            ));
        }
        console.say("nothing was uploaded");
        console.say(&format!("next: {}", without_dry_run(args, repository)));
    }
    Ok(pushed)
}

/// The same command, which uploads what was listed.
fn without_dry_run(args: &Args, repository: &str) -> String {
    let flags =
        [(args.merge, "--merge"), (args.adapter, "--adapter"), (args.gguf, "--gguf"), (args.mlx, "--mlx")];
    let mut words: Vec<String> =
        flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_owned()).collect();
    words.extend(args.quantize.map(|kind| format!("--quantize {kind}")));
    for (option, path) in [("--from", &args.from), ("--to", &args.to)] {
        words.extend(path.iter().map(|path| format!("{option} {}", shell::quoted(&near(path)))));
    }
    words.push(format!("--push {repository}"));
    words.extend(args.private.then(|| "--private".to_owned()));
    next::command("export", &args.options, &words.join(" "))
}

fn show(pushed: &Pushed, console: &Console) {
    let mut table = Table::new(&[("file", Align::Left), ("size", Align::Right)]);
    for file in &pushed.files {
        table.row([file.name.clone(), bytes(file.bytes)]);
    }
    for name in pushed.deleted.iter().flatten() {
        table.row([name.clone(), "deleted".to_owned()]);
    }
    console.data(&table.render());
    if let Some(url) = &pushed.url {
        console.data(url);
    }
}
