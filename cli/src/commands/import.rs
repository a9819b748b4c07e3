//! `import FILE`: a manifest from another trainer's configuration, and what became of each of its keys.

use std::io::Read;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::manifest::is_hub_id;
use expert_contract::paths::anywhere;
use expert_contract::shell::quoted;
use serde_json::json;

use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::import::{self, Fate, Imported, KeyFate, Refused, Tool};
use crate::scaffold::{self, name};
use crate::sys::durable;
use crate::sys::paths::portable;
use crate::ui::{Align, Console, Table};

const LIST: &str = "IMPORT.md";

#[derive(clap::Args)]
pub struct Args {
    /// A configuration of Axolotl or LLaMA-Factory (YAML or JSON), or of TRL and PEFT
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The expert's folder, made if it is not there (default: the file's name, in experts/ if there is one, else here)
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// The trainer that the configuration is for (default: found by its keys)
    #[arg(long, value_enum, value_name = "TRAINER")]
    from: Option<Tool>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let text = read(&args.file)?;
    let folder = args.to.clone().unwrap_or_else(|| usual_folder(&args.file));
    let expert = folder_name(&folder);
    name::check(&expert).map_err(|failure| match args.to {
        Some(_) => failure,
        None => failure.hint("name the expert's folder with --to"),
    })?;
    for file in [MANIFEST, LIST] {
        let file = folder.join(file);
        if file.symlink_metadata().is_ok() {
            return Err(Failure::bad_input("exists", format!("{} is there already", file.display()))
                .hint("name another folder with --to; nothing is overwritten"));
        }
    }
    let imported = import::import(&text, &args.file, args.from, &expert, &folder)
        .map_err(|refused| refusal(&args.file, &refused))?;
    let written = write(&folder, &args.file, &imported)?;
    if console.json {
        console.document(&json!({
            "ok": true,
            "expert": expert,
            "path": portable(&folder),
            "files": written,
            "keys": imported.lines,
            "copy": imported.copies,
            "diagnostics": imported.diagnostics,
        }));
        return Ok(Exit::Done);
    }
    console.data(&listed(&imported, &folder));
    for copy in &imported.copies {
        console.say(&fetching(copy, &portable(&folder.join(&copy.to))));
    }
    console.say(&format!("next: expert-cli plan {}", quoted(&portable(&folder))));
    Ok(Exit::Done)
}

/// How data or an adapter gets to its place in the expert's folder.
fn fetching(copy: &import::Copy, target: &str) -> String {
    let import::Copy { what, from, .. } = copy;
    if import::is_remote(from) {
        return format!("download the {what}: {from} to {}", quoted(target));
    }
    if *what == "adapter" && is_hub_id(from) && !Path::new(from).exists() {
        return format!("download the adapter {from} from the Hugging Face Hub to {}", quoted(target));
    }
    if *what == "data" && import::is_pattern(from) {
        return gathering(from, target);
    }
    let Some(place) = anywhere(from, Path::new("")).filter(|path| path.exists()) else {
        return format!("the {what} is not here: put {} at {}", quoted(from), quoted(target));
    };
    // The shell fills in the home folder only where it is not quoted.
    let source = from.strip_prefix("~/").map_or_else(|| quoted(from), |rest| format!("~/{}", quoted(rest)));
    let copy = if place.is_dir() { "cp -r" } else { "cp" };
    format!("copy the {what}: mkdir -p {} && {copy} {source} {}", quoted(&parent(target)), quoted(target))
}

/// How the files of a pattern get into the folder `target`.
fn gathering(from: &str, target: &str) -> String {
    let is_here = anywhere(from, Path::new("")).is_some_and(|pattern| import::matches_files(&pattern));
    let target = quoted(&format!("{target}/"));
    // Not every shell reads `**` as folders in folders.
    if !is_here || from.contains("**") {
        let place = if is_here { "in several folders" } else { "not here" };
        return format!("the data is {place}: put the files of {} into {target}", quoted(from));
    }
    format!("copy the data: mkdir -p {target} && cp {} {target}", quoted_pattern(from))
}

/// As a shell takes it and fills in the files: quoted except for the pattern itself and the home folder.
fn quoted_pattern(pattern: &str) -> String {
    let (home, mut rest) = pattern.strip_prefix("~/").map_or(("", pattern), |rest| ("~/", rest));
    let mut text = home.to_owned();
    while let Some(at) = rest.find(['*', '?', '[', ']']) {
        let (before, mark) = rest.split_at(at);
        text += &if before.is_empty() { String::new() } else { quoted(before) };
        let length = if mark.starts_with("[!") { 2 } else { 1 };
        text += &mark[..length];
        rest = &mark[length..];
    }
    if rest.is_empty() { text } else { text + &quoted(rest) }
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or(".", |(before, _)| before).to_owned()
}

fn read(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: &std::io::Error| Failure::reading("read", path, error);
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(Failure::bad_input("unreadable", format!("{} is not a file", path.display()))
            .hint("name the configuration itself, such as config.yml"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(import::MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > import::MAX_BYTES {
        return Err(Failure::bad_input("file-too-large", format!("{} is larger than 1 MiB", path.display()))
            .hint("a configuration is a few kilobytes; name that file"));
    }
    String::from_utf8(bytes).map_err(|_| {
        Failure::bad_input("invalid-utf8", format!("{} is not UTF-8 text", path.display()))
            .hint("save it as UTF-8")
    })
}

fn usual_folder(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    experts::usual_parent().join(plain.trim_matches(['-', '_', '.']))
}

fn folder_name(folder: &Path) -> String {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    absolute.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn refusal(file: &Path, refused: &Refused) -> Failure {
    let file = file.display();
    let at = |line: Option<usize>| line.map_or(String::new(), |line| format!(":{line}"));
    match refused {
        Refused::Unreadable(why) => Failure::bad_input("bad-configuration", format!("{file}{}: {}", at(why.line), why.message))
            .hint("correct that line; where the other trainer reads the file as it is, write each value in one line"),
        Refused::Unknown => Failure::bad_input("unknown-trainer", format!("{file} is not a configuration of Axolotl, LLaMA-Factory or TRL"))
            .hint("name the trainer with --from axolotl, llama-factory or trl; a manifest of expert-cli needs no import"),
        Refused::Unread(trainer) => Failure::bad_input("unknown-trainer", format!("{file} is a configuration of {trainer}, which is not read"))
            .hint(format!("start from `expert-cli init NAME`, and set the values in its manifest.json; docs/import.md has a table of the most used keys of {trainer}")),
        Refused::Method(key, line) => Failure::bad_input("other-method", format!("{file}{}: `{key}` is not supervised fine-tuning of a causal language model", at(*line)))
            .hint("nothing else is supported"),
        Refused::Invalid(message, dropped) if dropped.is_empty() => Failure::bad_input("not-importable", format!("{file} gives no valid manifest: {message}"))
            .hint("start from `expert-cli init NAME`, and copy the settings that you need"),
        Refused::Invalid(message, dropped) => Failure::bad_input("not-importable", format!("{file} gives no valid manifest: {}; without these values, {message}", dropped.join("; ")))
            .hint("correct these values, and import again"),
    }
}

fn write(folder: &Path, source: &Path, imported: &Imported) -> Result<Vec<String>, Failure> {
    let list = markdown(source, imported);
    let ignored = folder.join(".gitignore");
    let mut files =
        vec![(folder.join(MANIFEST), imported.manifest.as_str()), (folder.join(LIST), list.as_str())];
    if ignored.symlink_metadata().is_err() {
        files.push((ignored, scaffold::IGNORED));
    }
    let mut written = Vec::new();
    for (file, text) in files {
        durable::create(&file, text.as_bytes())
            .map_err(|error| Failure::storing("write", &file, &error, Some("--to")))?;
        written.push(portable(&file));
    }
    Ok(written)
}

fn of(imported: &Imported, fate: Fate) -> Vec<&KeyFate> {
    imported.lines.iter().filter(|line| line.fate == fate).collect()
}

/// What a person has to read comes last, next to the prompt.
fn listed(imported: &Imported, folder: &Path) -> String {
    let mut text = format!("{}\n", portable(&folder.join(MANIFEST)));
    let unneeded = of(imported, Fate::Unneeded);
    if !unneeded.is_empty() {
        let names: Vec<_> = unneeded.iter().map(|line| line.key.as_str()).collect();
        text +=
            &format!("\nnot needed here ({}; {LIST} has the reasons): {}\n", names.len(), names.join(", "));
    }
    let carried = of(imported, Fate::Carried);
    if !carried.is_empty() {
        let mut table = Table::new(&[("carried over", Align::Left), ("here", Align::Left)]);
        for line in carried {
            table.row([line.key.clone(), line.here.join(", ")]);
        }
        text += &format!("\n{}", table.render());
    }
    for (fate, title) in [
        (Fate::Default, "written out, because the default is another one here"),
        (Fate::Changed, "carried over with a difference"),
        (Fate::Left, "not carried over"),
    ] {
        let lines = of(imported, fate);
        if !lines.is_empty() {
            text += &format!("\n{title} ({}):\n", lines.len());
        }
        for line in lines {
            let place = line.line.map_or(String::new(), |number| format!("line {number}: "));
            let value = if line.value.is_empty() { String::new() } else { format!(": {}", line.value) };
            let here =
                if line.here.is_empty() { String::new() } else { format!("  ->  {}", line.here.join(", ")) };
            text += &format!("  {place}{}{value}{here}\n", line.key);
            if fate != Fate::Default {
                text += &format!("      {}\n", line.why);
            }
            if !line.instead.is_empty() {
                text += &format!("      to do: {}\n", line.instead);
            }
        }
    }
    text
}

fn markdown(source: &Path, imported: &Imported) -> String {
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!(
        "# Imported from {}\n\nWhat became of each key. Delete this file when you have read it.\n\n| line | key | value | | here | why | to do |\n|---|---|---|---|---|---|---|\n",
        cell(&file)
    );
    for fate in [Fate::Left, Fate::Changed, Fate::Default, Fate::Carried, Fate::Unneeded] {
        let word = match fate {
            Fate::Left => "not carried over",
            Fate::Changed => "with a difference",
            Fate::Default => "default written out",
            Fate::Carried => "carried over",
            Fate::Unneeded => "not needed",
        };
        for line in of(imported, fate) {
            let number = line.line.map_or(String::new(), |number| number.to_string());
            let here = line.here.iter().map(|here| cell(here)).collect::<Vec<_>>().join(", ");
            let cells = [
                number,
                cell(&line.key),
                cell(&line.value),
                word.to_owned(),
                here,
                cell(&line.why),
                cell(&line.instead),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

/// One cell of a table, whatever a configuration holds.
fn cell(text: &str) -> String {
    let visible: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    visible.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}
