//! `matrix`: the experts to train, as a CI matrix; with `--changed-since`, those whose result would differ.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use serde::Serialize;

use crate::args::Global;
use crate::experts;
use crate::failure::Failure;
use crate::sys::paths::portable;
use crate::train::changed;
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {
    /// The folder that holds the experts (default: this expert, else experts/, else here)
    #[arg(default_value_os_t = experts::usual().to_owned(), hide_default_value = true, value_parser = experts::folder_argument())]
    folder: PathBuf,
    /// Only experts whose recipe, files or code differ between this git revision and the working tree
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    changed_since: Option<String>,
    /// Only one part of the list: 2/3 is the second of three
    #[arg(long, value_name = "PART/PARTS", value_parser = part)]
    shard: Option<Shard>,
}

/// GitHub runs no matrix with more entries.
const MOST: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    part: usize,
    parts: usize,
}

impl Shard {
    /// The parts cover everything once, and differ in length by one at most.
    fn of<T>(self, all: &[T]) -> &[T] {
        let start = |part: usize| all.len() * part / self.parts;
        &all[start(self.part - 1)..start(self.part)]
    }
}

fn part(text: &str) -> Result<Shard, String> {
    let numbers =
        text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    match numbers {
        Some((part, parts)) if (1..=parts).contains(&part) => Ok(Shard { part, parts }),
        _ => Err(format!("`{text}` is not a part of a whole, such as 1/2")),
    }
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
    let names = names(&manifests, console);
    if let Some(reference) = &args.changed_since {
        changed::keep_changed(&mut manifests, &args.folder, reference, global.python.as_deref(), console);
    }
    let listed = args.shard.map_or(manifests.as_slice(), |shard| shard.of(&manifests));
    if listed.len() > MOST {
        warn_of_too_many(listed.len(), args.shard, console);
    }
    let matrix = Matrix { include: listed.iter().map(|manifest| entry(manifest, &names)).collect() };
    match serde_json::to_string_pretty(&matrix) {
        // A person reads it in lines.
        Ok(text) if !console.json && std::io::stdout().is_terminal() => console.data(&text),
        _ => console.document(&matrix),
    }
    Ok(Exit::Done)
}

/// Not an error: other systems than GitHub take more.
fn warn_of_too_many(count: usize, shard: Option<Shard>, console: &Console) {
    let parts = count.div_ceil(MOST) * shard.map_or(1, |shard| shard.parts);
    console.warn(
        &format!("the matrix has {count} entries, and GitHub refuses more than {MOST}"),
        Some(&format!(
            "list them in {parts} parts, one job per part: --shard 1/{parts} to --shard {parts}/{parts}"
        )),
    );
}

/// Of all experts of the folder, so that what a job is called does not depend on the changes or the part. The jobs'
/// artifacts have these names, and GitHub refuses a second artifact `a`: folders differ where names do not.
fn names(manifests: &[PathBuf], console: &Console) -> BTreeMap<PathBuf, String> {
    let mut folders = BTreeMap::<String, Vec<String>>::new();
    let mut names = BTreeMap::new();
    for manifest in manifests {
        let name = changed::name(manifest);
        folders.entry(name.clone()).or_default().push(experts::folder_name(manifest));
        names.insert(manifest.clone(), name);
    }
    folders.retain(|_, folders| folders.len() > 1);
    for (name, folders) in &folders {
        console.warn(
            &format!("the experts {} have one name: {name}", folders.join(", ")),
            Some("the matrix lists the folders' names instead; change `name` in the copied manifest"),
        );
    }
    if !folders.is_empty() {
        for (manifest, name) in &mut names {
            *name = experts::folder_name(manifest);
        }
    }
    names
}

fn entry(manifest: &Path, names: &BTreeMap<PathBuf, String>) -> Entry {
    Entry {
        expert: names[manifest].clone(),
        manifest: portable(manifest),
        path: portable(manifest.parent().unwrap_or(Path::new("."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        for count in [0, 1, 5, 300] {
            let all: Vec<usize> = (0..count).collect();
            for parts in 1..=7 {
                let shards: Vec<_> = (1..=parts).map(|part| Shard { part, parts }.of(&all)).collect();
                assert_eq!(shards.concat(), all);
                assert!(shards.iter().all(|shard| shard.len() <= count.div_ceil(parts)));
            }
        }
    }

    #[test]
    fn a_part_is_one_of_the_parts() {
        assert_eq!(part("2/3"), Ok(Shard { part: 2, parts: 3 }));
        for text in ["0/2", "3/2", "1", "a/b", "-1/2", "1/0", ""] {
            assert!(part(text).is_err(), "{text}");
        }
    }
}
