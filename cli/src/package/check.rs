//! The manifest inside a package, and the package's files compared with what it lists.

use std::collections::BTreeMap;
use std::path::Path;

use expert_contract::digest::hex;
use expert_contract::results::ExpertRecord;
use expert_contract::rules::unusable_name;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::contents::{Contents, Found, Problem};
use super::document::{Document, Key};
use super::layout::{EXPERT, GRAMMARS, MANIFEST, REQUIRED, SIGNATURE};

pub const INTEGRITY: &str = "integrity";
const DIGEST: &str = "digest";
const PREFIX: &str = "sha256:";

/// What a package's manifest says about the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub name: String,
    pub version: String,
    /// The one base that the adapter was trained on.
    pub base: String,
}

/// `integrity` as `.expert` packages have it; `sizes` and `digest` are additions.
#[derive(Deserialize)]
struct Integrity {
    files: BTreeMap<String, String>,
    #[serde(default)]
    sizes: BTreeMap<String, u64>,
    digest: Option<String>,
}

/// `manifest` with the list of the package's files, as it stands in the package.
pub fn sealed(
    mut manifest: Map<String, Value>,
    files: &BTreeMap<&'static str, Found>,
) -> serde_json::Result<Vec<u8>> {
    let digests: BTreeMap<&str, String> =
        files.iter().map(|(name, found)| (*name, format!("{PREFIX}{}", found.sha256))).collect();
    let sizes: BTreeMap<&str, u64> = files.iter().map(|(name, found)| (*name, found.bytes)).collect();
    manifest.insert(INTEGRITY.to_owned(), json!({"files": digests, "sizes": sizes}));
    let digest = format!("{PREFIX}{}", hex(&Sha256::digest(text(&manifest)?)));
    if let Some(Value::Object(integrity)) = manifest.get_mut(INTEGRITY) {
        integrity.insert(DIGEST.to_owned(), Value::String(digest));
    }
    text(&manifest)
}

fn text(manifest: &Map<String, Value>) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(manifest)?;
    text.push(b'\n');
    Ok(text)
}

/// Name, version and base, which become folders: each must be fit for that.
pub fn label(manifest: &[u8]) -> Result<Label, Problem> {
    let wrong = |problem: String| Problem::new(MANIFEST, problem);
    let manifest: Document =
        serde_json::from_slice(manifest).map_err(|error| wrong(format!("is not JSON ({error})")))?;
    let base = match manifest.base_models.typed().map(Vec::as_slice) {
        Some([one]) => one.typed(),
        Some(several) => {
            return Err(wrong(format!("names {} base models, and a package has one", several.len())));
        }
        None => manifest.base_model.typed(),
    };
    let text = |what: &str, key: Option<&Key<String>>| {
        let text = key.and_then(Key::typed).filter(|text| !text.is_empty());
        text.cloned().ok_or_else(|| wrong(format!("does not name {what}")))
    };
    let label = Label {
        name: text("the expert", Some(&manifest.name))?,
        version: text("a version", Some(&manifest.version))?,
        base: text("the base model", base.map(|base| &base.name))?,
    };
    if let Some(reason) = unusable_name(&label.name) {
        return Err(wrong(format!("names an expert whose name {reason}")));
    }
    if let Some(reason) = unusable_version(&label.version) {
        return Err(wrong(format!("names a version that {reason}")));
    }
    Ok(label)
}

/// A version is part of the names of files and folders.
pub fn unusable_version(version: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    match version.chars().find(|c| !allowed(*c)) {
        Some(c) => Some(format!("holds {c:?}")),
        None => unusable_name(&version.replace('+', "-")),
    }
}

/// Every file that is not as the manifest lists it, missing, or not listed, once; and files whose content is not fit for a package.
pub fn of(contents: &Contents) -> Vec<Problem> {
    let mut problems = if contents.files.contains_key(MANIFEST) {
        integrity(&contents.manifest)
            .map_or_else(|problem| vec![problem], |integrity| compared(contents, &integrity))
    } else {
        vec![Problem::new(MANIFEST, "is missing")]
    };
    problems.extend(grammar(contents));
    problems.extend(contents.problems.iter().cloned());
    // Stable: of a changed file, that it was changed comes first.
    problems.sort_by(|one, other| one.file.cmp(&other.file));
    problems.dedup_by(|later, first| later.file == first.file);
    problems
}

/// `serve` answers only by the grammar that `expert.json` names. A record of another tool names none.
fn grammar(contents: &Contents) -> Option<Problem> {
    let record: ExpertRecord = serde_json::from_slice(contents.record.as_deref()?).ok()?;
    let named = record.grammar?;
    let name = GRAMMARS.into_iter().find(|it| named.name.as_deref() == Some(it))?;
    match contents.files.get(name) {
        None => Some(Problem::new(name, format!("is missing, and {EXPERT} names it"))),
        Some(found) if named.sha256.as_ref() != Some(&found.sha256) => {
            Some(Problem::new(name, format!("is not the grammar that {EXPERT} names")))
        }
        Some(_) => None,
    }
}

/// Whether `package` wrote this manifest; true where there is none that can be read.
pub fn is_of_package(manifest: &Path) -> bool {
    let text = std::fs::read(manifest).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).map_or(true, |document| document.get(INTEGRITY).is_some())
}

fn integrity(manifest: &[u8]) -> Result<Integrity, Problem> {
    let wrong = |problem: String| Problem::new(MANIFEST, problem);
    let mut document: Map<String, Value> =
        serde_json::from_slice(manifest).map_err(|error| wrong(format!("is not JSON ({error})")))?;
    let listed = document.get(INTEGRITY).cloned().unwrap_or_default();
    let listed: Integrity = serde_json::from_value(listed)
        .map_err(|_| wrong("does not list the package's files in integrity.files".to_owned()))?;
    let Some(digest) = &listed.digest else { return Ok(listed) };
    let whole = text(&document).ok();
    if let Some(Value::Object(integrity)) = document.get_mut(INTEGRITY) {
        integrity.remove(DIGEST);
    }
    let found = text(&document).map(|text| format!("{PREFIX}{}", hex(&Sha256::digest(text)))).ok();
    if found.as_ref() == Some(digest) && whole.as_deref() == Some(manifest) {
        Ok(listed)
    } else {
        Err(wrong("was changed after the package was made".to_owned()))
    }
}

fn compared(contents: &Contents, integrity: &Integrity) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, listed) in integrity.files.iter().filter(|(name, _)| *name != MANIFEST) {
        let listed = listed.strip_prefix(PREFIX).unwrap_or(listed);
        match contents.files.get(name.as_str()) {
            None => problems.push(Problem::new(name, "is missing")),
            Some(found) if !found.sha256.eq_ignore_ascii_case(listed) => {
                let problem =
                    format!("was changed: its SHA-256 is {}, and {MANIFEST} lists {listed}", found.sha256);
                problems.push(Problem::new(name, problem));
            }
            Some(found) if integrity.sizes.get(name).is_some_and(|size| *size != found.bytes) => {
                problems.push(Problem::new(
                    name,
                    format!("has {} bytes, and {MANIFEST} lists others", found.bytes),
                ));
            }
            Some(_) => {}
        }
    }
    for name in contents.files.keys().filter(|name| ![MANIFEST, SIGNATURE].contains(*name)) {
        if !integrity.files.contains_key(*name) {
            problems.push(Problem::new(name, format!("is extra: {MANIFEST} does not list it")));
        }
    }
    for name in REQUIRED.iter().filter(|name| !contents.files.contains_key(*name)) {
        problems.push(Problem::new(name, "is missing"));
    }
    problems
}
