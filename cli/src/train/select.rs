//! The selected experts of a shelf.

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::one_of;

use super::changed;
use super::options::ShelfOptions;
use crate::args::Global;
use crate::experts;
use crate::failure::Failure;
use crate::ui::Console;

/// The manifests, in the order of their folders' names. Empty only where nothing has changed.
pub fn select(
    folder: &Path,
    shelf: &ShelfOptions,
    global: &Global,
    console: &Console,
) -> Result<Vec<PathBuf>, Failure> {
    let mut manifests = experts::some_below(folder)?;
    if !shelf.only.is_empty() {
        manifests = named(&manifests, &shelf.only)?;
    }
    if let Some(reference) = &shelf.changed_since {
        changed::keep_changed(&mut manifests, folder, reference, global.python.as_deref(), console);
    }
    Ok(manifests)
}

/// What `--fuse` names, in that order: folders or manifests, or names of experts in `experts/`.
pub fn each(named: &[String]) -> Result<Vec<PathBuf>, Failure> {
    named.iter().map(|wanted| one(wanted)).collect()
}

fn one(wanted: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(wanted);
    if path.join(experts::MANIFEST).is_file() {
        return Ok(path.join(experts::MANIFEST));
    }
    if path.is_file() {
        return Ok(path);
    }
    let shelf = experts::below(experts::usual())?;
    let found = self::named(&shelf, &[wanted.to_owned()])?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Failure::bad_input("unknown-expert", format!("there is no expert `{wanted}`")))
}

/// An expert is selected by its folder's name or by the name in its manifest.
fn named(manifests: &[PathBuf], only: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let names: Vec<[String; 2]> = manifests.iter().map(|manifest| names_of(manifest)).collect();
    for wanted in only {
        if !names.iter().any(|names| names.contains(wanted)) {
            let known: Vec<&str> = names.iter().map(|names| names[0].as_str()).collect();
            return Err(Failure::bad_input("unknown-expert", format!("there is no expert `{wanted}` here"))
                .hint(one_of(wanted, &known)));
        }
    }
    let is_meant = |names: &[String; 2]| only.iter().any(|wanted| names.contains(wanted));
    let meant = manifests.iter().zip(&names).filter(|(_, names)| is_meant(names));
    Ok(meant.map(|(manifest, _)| manifest.clone()).collect())
}

fn names_of(manifest: &Path) -> [String; 2] {
    [experts::folder_name(manifest), changed::name(manifest)]
}
