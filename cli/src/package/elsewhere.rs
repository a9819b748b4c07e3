//! The manifest in a package, as another machine reads it: without the folders of this one.

use std::path::Path;

use expert_contract::diagnostic::{Diagnostic, Severity};
use expert_contract::manifest::Options;
use expert_contract::paths::{behind_local_scheme, holds_path, holds_paths_by_name};
use expert_contract::read;
use fs_err as fs;
use serde_json::Value;

use super::build::Files;
use super::layout::{GRAMMARS, MANIFEST, TEMPLATE};
use crate::failure::Failure;
use crate::sys::paths::near;
use crate::sys::temporary::TemporaryFolder;
use crate::ui::Console;

/// Of paths that lead out of the expert's folder the last part stays. `key` is where the value is.
pub fn without_folders(value: &mut Value, key: &str) {
    match value {
        Value::String(text) if holds_path(key) && leads_out(text) => *text = last_part(text).to_owned(),
        Value::Array(items) => {
            let key = if holds_paths_by_name(key) { "path" } else { key };
            for item in items {
                without_folders(item, key);
            }
        }
        Value::Object(map) => {
            let by_name = holds_paths_by_name(key);
            for (name, value) in map {
                without_folders(value, if by_name { "path" } else { name });
            }
        }
        _ => {}
    }
}

fn leads_out(text: &str) -> bool {
    let drive =
        |bytes: &[u8]| matches!(bytes, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    let upwards = || !text.contains("://") && text.split(['/', '\\']).any(|part| part == "..");
    behind_local_scheme(text).is_some()
        || text.starts_with(['/', '~'])
        || text.starts_with("\\\\")
        || drive(text.as_bytes())
        || upwards()
}

fn last_part(text: &str) -> &str {
    let path = behind_local_scheme(text).unwrap_or(text);
    path.rsplit(['/', '\\']).find(|part| !["", ".", "..", "~"].contains(part)).unwrap_or(".")
}

/// A package whose manifest has errors would be installed, and no command would take it.
pub fn check(manifest: &[u8], files: &Files, original: &Path, console: &Console) -> Result<(), Failure> {
    let folder = TemporaryFolder::new()?;
    // The files that must be there for a manifest to be read.
    for (name, path) in files.iter().filter(|(name, _)| *name == TEMPLATE || GRAMMARS.contains(name)) {
        fs::copy(path, folder.path().join(name)).map_err(|error| Failure::temporary(&error))?;
    }
    let options = Options { trains_nothing: true, ..Options::default() };
    let loaded = read::from_bytes(manifest.to_vec(), &folder.path().join(MANIFEST), &options);
    if loaded.manifest.is_some() {
        return Ok(());
    }
    let is_error = |it: &Diagnostic| it.severity == Severity::Error;
    let errors: Vec<Diagnostic> = loaded.diagnostics.into_iter().filter(is_error).collect();
    console.report(&errors, &loaded.document.sources);
    let message = format!("the manifest for the package, made from {}, has errors", near(original));
    let failure = Failure::bad_input("unusable-package", message);
    Err(Failure {
        diagnostics: errors,
        ..failure.hint("change the keys that are named above in the manifest")
    })
}
