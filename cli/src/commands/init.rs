//! `init NAME`: an expert to start from, which validates and can be trained as it is, with sample rows, with the user's own, or
//! with rows made from a database's schema; `init --ci`: a workflow for a shelf.

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use expert_contract::exit::Exit;
use expert_contract::sample_rows::{self, Split};
use expert_contract::shell::quoted;
use fs_err as fs;
use serde_json::{Value, json};

use crate::args::Global;
use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::own_rows::{self, OwnRows};
use crate::scaffold::workflow::{self, Tool};
use crate::scaffold::{self, Preset, SchemaRows, name};
use crate::schema_rows::{self, Made, Options};
use crate::split_rows::{self, Division};
use crate::sys::durable;
use crate::sys::paths::portable;
use crate::ui::{Align, Console, Table};

#[derive(clap::Args)]
#[command(mut_arg("mapping", |it| it.conflicts_with("schema_file")), mut_arg("by", |it| it.conflicts_with("schema_file")))]
pub struct Args {
    /// Its name and folder: lower-case letters, digits, hyphens, underscores and dots
    #[arg(required_unless_present_any = ["list_presets", "ci", "schema_file", "data"])]
    name: Option<String>,
    /// Where the folder is made, or with --ci where the experts are (experts/ if there is one, else here)
    #[arg(long, value_name = "DIR")]
    parent: Option<PathBuf>,
    /// Settings for a kind of machine or task, each with its reason in the manifest
    #[arg(long, value_enum, default_value_t)]
    preset: Preset,
    #[command(flatten)]
    schema: Options,
    /// Your rows, in any format that training reads: they are divided into training, validation and test rows, and the
    /// scorer is chosen by their answers. A file, a folder, or a pattern in quotes; --data once for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schema_file", "words"])]
    data: Vec<PathBuf>,
    #[command(flatten)]
    rows_of: split_rows::Reading,
    /// List the presets and what they are for
    #[arg(long, conflicts_with_all = ["name", "ci", "schema_file", "data", "words", "mapping", "by", "tool"])]
    list_presets: bool,
    /// Write a workflow that trains each changed expert for a few steps, into the repository of the working directory
    #[arg(long, conflicts_with_all = ["name", "schema_file", "data"], requires = "tool")]
    ci: bool,
    /// Your copy of expert-cli on GitHub, which the workflow builds, and the commit that `git rev-parse HEAD` prints in it
    #[arg(long, value_name = "OWNER/NAME@COMMIT", requires = "ci", conflicts_with_all = ["name", "schema_file", "data"])]
    tool: Option<String>,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let of_data = args.data.first().map(|file| {
        // `tickets.csv.gz` is called tickets.
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split('.').find(|it| !it.is_empty()).unwrap_or_default().to_owned()
    });
    match (&args.name, args.schema.name().or(of_data), &args.tool) {
        (Some(name), _, _) => expert(name, args, global, console),
        (None, Some(source), _) => expert(&named_after(&source), args, global, console),
        (None, None, Some(tool)) => repository(tool, &parent(args), console),
        (None, None, None) => list(console),
    }
}

/// `Music Shop.sql` makes expert-music-shop.
fn named_after(schema: &str) -> String {
    let schema = schema.to_lowercase();
    let words: Vec<_> =
        schema.split(|c: char| !c.is_ascii_alphanumeric()).filter(|it| !it.is_empty()).collect();
    format!("expert-{}", words.join("-"))
}

fn expert(name: &str, args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    name::check(name)?;
    fits(args)?;
    let folder = parent(args).join(name);
    if folder.symlink_metadata().is_ok() {
        return Err(there_already(&folder).hint("choose another name, or remove it first"));
    }
    let path = portable(&folder);
    let Started { files: mut written, manifest, is_scored } = start(name, args, &folder, global, console)
        .inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        })?;
    let schema = scaffold::schema().map_err(|error| broken(args.preset, &error))?;
    let files = [
        (PathBuf::from(MANIFEST), manifest),
        (PathBuf::from(scaffold::SCHEMA), schema),
        (PathBuf::from("README.md"), readme(name, &path, args, is_scored)),
        (PathBuf::from(".gitignore"), scaffold::IGNORED.to_owned()),
        (PathBuf::from(".gitattributes"), scaffold::ATTRIBUTES.to_owned()),
    ];
    for (file, text) in files {
        let file = folder.join(file);
        durable::write(&file, text.as_bytes()).map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            unwritten(&file, &error)
        })?;
        written.push(portable(&file));
    }
    if console.json {
        let preset = args.preset.name();
        console
            .document(&json!({"ok": true, "expert": name, "preset": preset, "path": path, "files": written}));
    } else {
        console.data(&format!("{path}\n"));
        let path = quoted(&path);
        let evaluate = if is_scored { " --evaluate" } else { "" };
        console.say(&format!("next: expert-cli plan {path}, then expert-cli train {path}{evaluate}"));
    }
    Ok(Exit::Done)
}

/// `--ddl` and `--schema` are required by their preset and refused with any other.
fn fits(args: &Args) -> Result<(), Failure> {
    match (args.preset, &args.schema.ddl, args.schema.payload()) {
        (Preset::Sql, None, _) => {
            Err(Failure::bad_input("no-schema", "the preset sql makes its rows from your tables")
                .hint("name a file of CREATE TABLE statements with --ddl"))
        }
        (Preset::Json, _, None) => {
            Err(Failure::bad_input("no-schema", "the preset json makes its rows from a JSON Schema")
                .hint("name its file with --schema"))
        }
        (Preset::Sql | Preset::Json, ..) | (_, None, None) => Ok(()),
        (other, Some(_), _) => {
            let message = format!("the preset {} does not read --ddl", other.name());
            Err(Failure::bad_input("bad-preset", message).hint("use --preset sql"))
        }
        (other, ..) => {
            let message = format!("the preset {} does not read --schema", other.name());
            Err(Failure::bad_input("bad-preset", message).hint("use --preset json"))
        }
    }
}

fn readme(name: &str, path: &str, args: &Args, is_scored: bool) -> String {
    let Options { rows, seed, .. } = args.schema;
    match args.preset {
        Preset::Sql | Preset::Json => scaffold::schema_readme(args.preset, name, path, rows, seed),
        _ if !args.data.is_empty() => scaffold::readme_of_rows(name, path, is_scored),
        _ => scaffold::readme(name, path),
    }
}

struct Started {
    files: Vec<String>,
    manifest: String,
    /// Whether there are test rows.
    is_scored: bool,
}

const SCHEMA_COPY: &str = "schema.json";

/// Writes the rows to start from. The manifest says how to read, train on and score them.
fn start(
    name: &str,
    args: &Args,
    folder: &Path,
    global: &Global,
    console: &Console,
) -> Result<Started, Failure> {
    let data = folder.join("datasets");
    let unreadable = |error| broken(args.preset, &error);
    if !args.data.is_empty() {
        let written = split_rows::write(
            &args.data,
            "--data",
            &args.rows_of,
            &Division::measured(),
            &data,
            global,
            console,
        )?;
        written.report(console);
        written.report_scorer(console);
        let names: Vec<_> =
            args.data.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy()).collect();
        let rows = OwnRows { source: &names.join(", "), options: &args.rows_of, written: &written };
        let manifest = own_rows::manifest(name, args.preset, &rows).map_err(unreadable)?;
        return Ok(Started {
            files: written.files.iter().map(|file| portable(file)).collect(),
            manifest,
            is_scored: written.rows.test > 0,
        });
    }
    let (files, rows) = if args.schema.name().is_some() {
        rows_of_schema(args, folder, &data, global, console)?
    } else {
        (sample(&data)?, SchemaRows::default())
    };
    let manifest = scaffold::manifest(name, args.preset, &rows).map_err(unreadable)?;
    Ok(Started { files, manifest, is_scored: true })
}

/// The files, with the schema that the rows are made from, and what the manifest says of them.
fn rows_of_schema(
    args: &Args,
    folder: &Path,
    data: &Path,
    global: &Global,
    console: &Console,
) -> Result<(Vec<String>, SchemaRows), Failure> {
    let copy = folder.join(SCHEMA_COPY);
    let mut made = schema_rows::make(&args.schema, data, Some(&copy), global, console)?;
    made.report(&args.schema, console);
    if args.schema.ddl.is_none() && !made.is_grammar {
        console.say(&format!(
            "{SCHEMA_COPY} is not the grammar of answers: llguidance cannot read all of it, or refuses answers of the rows"
        ));
    }
    if let Some(file) = &args.schema.ddl {
        let copy = folder.join("schema.sql");
        let text = fs::read(file).map_err(|error| Failure::reading("read", file, &error))?;
        durable::write(&copy, &text).map_err(|error| unwritten(&copy, &error))?;
        made.files.push(copy);
    }
    let files = made.files.iter().map(|file| portable(file)).collect();
    let Made { answer_tokens, row_tokens, is_grammar, .. } = made;
    Ok((files, SchemaRows { grammar: is_grammar.then_some(SCHEMA_COPY), answer_tokens, row_tokens }))
}

fn sample(data: &Path) -> Result<Vec<String>, Failure> {
    let mut written = Vec::new();
    for split in Split::ALL {
        let file = data.join(split.file());
        durable::write(&file, sample_rows::rows(split).as_bytes())
            .map_err(|error| unwritten(&file, &error))?;
        written.push(portable(&file));
    }
    Ok(written)
}

fn list(console: &Console) -> Result<Exit, Failure> {
    let mut table = Table::new(&[("preset", Align::Left), ("for", Align::Left)]);
    let mut presets: Vec<Value> = Vec::new();
    for preset in Preset::value_variants() {
        let situation = preset.parts().map_err(|error| broken(*preset, &error))?.situation;
        presets.push(json!({"preset": preset.name(), "for": situation}));
        table.row([preset.name(), situation.to_owned()]);
    }
    if console.json {
        console.document(&json!({"ok": true, "presets": presets}));
    } else {
        console.data(&table.stacked());
    }
    Ok(Exit::Done)
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::storing("write", file, error, Some("--parent"))
}

fn repository(tool: &str, experts: &Path, console: &Console) -> Result<Exit, Failure> {
    let file = Path::new(workflow::PATH);
    if !is_repository(Path::new(".")) {
        return Err(no_repository());
    }
    if file.symlink_metadata().is_ok() {
        return Err(there_already(file).hint("remove it first, or keep it"));
    }
    let text = workflow::text(Some(&named(tool)?), &plain(&portable(experts))?);
    durable::write(file, text.as_bytes()).map_err(|error| {
        Failure::writing("write", file, &error).hint("make the folder writable, and see that it has space")
    })?;
    if console.json {
        console.document(&json!({"ok": true, "files": [portable(file)]}));
    } else {
        console.data(&format!("{}\n", portable(file)));
        console.say("next: read it, commit it, and change an expert in a pull request");
    }
    Ok(Exit::Done)
}

/// `.git` is a file in a worktree and in a submodule.
fn is_repository(folder: &Path) -> bool {
    folder.join(".git").exists()
}

/// GitHub reads workflows of the top folder, and the experts' folder in them counts from there.
fn no_repository() -> Failure {
    let here = std::env::current_dir().unwrap_or_default();
    let refused = |message: String| Failure::bad_input("no-repository", message);
    match here.ancestors().skip(1).find(|folder| is_repository(folder)) {
        Some(top) => {
            let top = top.display().to_string();
            refused(format!("this folder is not the top of its git repository, which is {top}"))
                .hint(format!("run it there: cd {}", quoted(&top)))
        }
        None => refused("the working directory is not in a git repository".to_owned())
            .hint("make one with `git init`, in the folder that holds the experts"),
    }
}

fn named(tool: &str) -> Result<Tool<'_>, Failure> {
    let found = tool.split_once('@').filter(|(repository, commit)| {
        let halves: Vec<&str> = repository.split('/').collect();
        halves.len() == 2
            && halves.iter().all(|half| !matches!(*half, "" | "." | "..") && half.bytes().all(is_plain))
            && commit.len() == 40
            && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let refused = || {
        Failure::bad_input("bad-tool", format!("{tool:?} does not name a commit of a repository")).hint(
            "write OWNER/NAME@ and the commit's 40 digits: a branch or tag could change under the workflow",
        )
    };
    found.map(|(repository, commit)| Tool { repository, commit }).ok_or_else(refused)
}

/// It is part of a shell command line.
fn plain(folder: &str) -> Result<String, Failure> {
    if !folder.starts_with(['-', '/']) && folder.bytes().all(|byte| byte == b'/' || is_plain(byte)) {
        return Ok(folder.to_owned());
    }
    Err(Failure::bad_input("bad-folder", format!("{folder:?} cannot be used in a workflow"))
        .hint("name a folder inside the repository, of letters, digits, - _ . and /"))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn there_already(path: &Path) -> Failure {
    Failure::bad_input("exists", format!("{} is there already", path.display()))
}

fn broken(preset: Preset, error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, "bad-preset", format!("the preset {} cannot be read: {error}", preset.name()))
}

fn parent(args: &Args) -> PathBuf {
    args.parent.clone().unwrap_or_else(|| experts::usual_parent().to_owned())
}
