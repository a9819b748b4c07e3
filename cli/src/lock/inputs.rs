//! Everything that decides a trained adapter, by digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::digest;
use expert_contract::plan::Plan;
use expert_contract::resolve::{EMBEDDED, Place};
use serde::{Deserialize, Serialize};

use super::code::Code;
use super::digests::Digests;
use crate::prepare::Prepared;
use crate::worker::Search;

/// How a difference of recipes is called: they come out of the manifest and of nothing else.
pub const RECIPE: &str = "manifest";

/// What is not known here is null, and differs from nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The manifest's digest: comments, formatting and settings of the machine do not count.
    pub recipe: String,
    /// Source name -> SHA-256 of every byte that its rows are read from.
    pub data: BTreeMap<String, String>,
    /// `sha256:` of the weights and their configuration, or `revision:` of the Hub's snapshot.
    pub base: Option<String>,
    pub tokenizer: Option<String>,
    pub template: String,
    pub code: Code,
}

/// One thing that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub locked: String,
    pub found: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {} -> {}", self.what, short(&self.locked), short(&self.found))
    }
}

impl Inputs {
    pub fn of(prepared: &Prepared, python: Option<&Path>, digests: &Digests) -> Self {
        let plan = &prepared.resolved.plan;
        let folder = base_folder(plan);
        let revision = match &prepared.resolved.base.place {
            Place::Hub { snapshot: Some(snapshot), .. } => {
                snapshot.file_name().map(|name| format!("revision:{}", name.to_string_lossy()))
            }
            _ => None,
        };
        Self {
            recipe: plan.recipe_digest.clone(),
            data: data(plan, digests),
            base: revision
                .or_else(|| digests.of_files(&weights(folder.as_deref())).map(|it| format!("sha256:{it}"))),
            tokenizer: digests.of_files(&tokenizer(folder.as_deref())),
            template: digest::of(&plan.recipe.template),
            code: Code::of(python),
        }
    }

    /// The same, with the interpreter that the worker would run in.
    pub fn here(prepared: &Prepared, python: Option<&Path>, digests: &Digests) -> Self {
        let expert = Path::new(&prepared.resolved.plan.machine.paths.expert_dir);
        let found = Search::here(python, Some(expert)).find().ok();
        Self::of(prepared, found.as_ref().map(|found| found.python.as_path()), digests)
    }

    /// What differs from `self`, the older, to `found`.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        let plain = |what: &str, locked: &str, found: &str| {
            let (locked, found) = (locked.to_owned(), found.to_owned());
            (locked != found).then(|| Difference { what: what.to_owned(), locked, found })
        };
        let known = |what: &str, locked: &Option<String>, found: &Option<String>| {
            plain(what, locked.as_deref()?, found.as_deref()?)
        };
        let names = self.data.keys().chain(found.data.keys().filter(|name| !self.data.contains_key(*name)));
        let absent = || "absent".to_owned();
        let data = names.filter_map(|name| {
            let locked = self.data.get(name).cloned().unwrap_or_else(absent);
            let found = found.data.get(name).cloned().unwrap_or_else(absent);
            plain(name, &locked, &found)
        });
        let others = [
            plain(RECIPE, &self.recipe, &found.recipe),
            known("base", &self.base, &found.base),
            known("tokenizer", &self.tokenizer, &found.tokenizer),
            plain("template", &self.template, &found.template),
            plain("expert-cli", &self.code.version, &found.code.version),
            known("worker", &self.code.worker, &found.code.worker),
        ];
        data.chain(others.into_iter().flatten()).collect()
    }
}

/// A digest is recognised by its first digits.
fn short(text: &str) -> &str {
    let bare = text.strip_prefix("sha256:").or(text.strip_prefix("revision:")).unwrap_or(text);
    if bare.len() >= 40 { &bare[..12] } else { bare }
}

fn data(plan: &Plan, digests: &Digests) -> BTreeMap<String, String> {
    let sources = &plan.machine.paths.data;
    sources
        .iter()
        .filter_map(|(name, path)| Some((name.clone(), digests.of_source(Path::new(path))?)))
        .collect()
}

/// The embedded base stands in the cache once it is converted.
fn base_folder(plan: &Plan) -> Option<PathBuf> {
    let paths = &plan.machine.paths;
    match &paths.base {
        Some(folder) => Some(PathBuf::from(folder)),
        None if plan.recipe.base.name == EMBEDDED => {
            Some(Path::new(&paths.home).join("bases").join(EMBEDDED))
        }
        None => None,
    }
}

fn weights(folder: Option<&Path>) -> Vec<PathBuf> {
    matching(folder, |name| name == "config.json" || ends_with(name, "safetensors"))
}

fn tokenizer(folder: Option<&Path>) -> Vec<PathBuf> {
    matching(folder, |name| {
        name.starts_with("tokenizer") || name == "special_tokens_map.json" || ends_with(name, "jinja")
    })
}

fn ends_with(name: &str, end: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == end)
}

fn matching(folder: Option<&Path>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let files = folder.map(crate::output::children).unwrap_or_default().into_iter();
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.is_file() && file.file_name().and_then(|it| it.to_str()).is_some_and(&wanted))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(recipe: &str, data: &[(&str, &str)], base: Option<&str>) -> Inputs {
        let data = data.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect();
        Inputs { recipe: recipe.to_owned(), data, base: base.map(str::to_owned), ..Inputs::default() }
    }

    #[test]
    fn what_differs_is_named_and_what_is_unknown_differs_from_nothing() {
        let locked = inputs("r", &[("train", "1"), ("old", "2")], Some("sha256:a"));
        assert!(locked.differences(&locked).is_empty());
        assert!(locked.differences(&inputs("r", &[("train", "1"), ("old", "2")], None)).is_empty());
        let found = locked.differences(&inputs("s", &[("train", "3"), ("new", "4")], Some("sha256:b")));
        let named: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            named,
            ["old: 2 -> absent", "train: 1 -> 3", "new: absent -> 4", "manifest: r -> s", "base: a -> b"]
        );
    }

    #[test]
    fn a_digest_is_shown_by_its_first_digits() {
        assert_eq!(short(&format!("sha256:{}", "ab".repeat(32))), "abababababab");
        assert_eq!(short("0.1.0"), "0.1.0");
    }
}
