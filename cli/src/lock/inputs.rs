//! Everything that decides a trained adapter, by digest, and its comparison with what the lock or a run recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::adapters;
use expert_contract::digest;
use expert_contract::manifest::{EMBEDDED, is_hub_id};
use expert_contract::plan::{Code, DataFormat, Inputs, Machine, Paths, Recipe, Source};
use expert_contract::resolve::{hub_dataset_revision, weight_files};
use serde::Serialize;

use super::code;
use crate::sys::digests::Digests;
use crate::sys::files::children;
use crate::sys::host::hub_cache;
use crate::sys::paths::portable;
use crate::worker::Search;

/// How a difference of recipes is called: they come out of the manifest and the flags that stand in for it.
pub const RECIPE: &str = "manifest";

/// Begins what stands for a snapshot of the Hub, before its commit.
const REVISION: &str = "revision:";

/// What `save_to_disk` of Hugging Face's library leaves in a data set's folder, and beside those of several splits.
const SAVED_DATA_SET: [&str; 2] = ["state.json", "dataset_info.json"];
const SAVED_SPLITS: &str = "dataset_dict.json";

/// In place of a digest that could not be taken.
const UNKNOWN: &str = "unknown";

/// What a difference means for a run that is to be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Recipe,
    /// Data, base, tokenizer or template: a resumed run would be made of two things.
    Material,
    /// The program itself: a resumed run is finished by another version of it.
    Code,
}

/// One thing that is not as it was, or is not known to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    pub kind: Kind,
    pub locked: String,
    pub found: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if [&self.locked, &self.found].iter().all(|side| *side == UNKNOWN) {
            return write!(out, "{}: no digest is known, so it counts as changed", self.what);
        }
        write!(out, "{}: {} -> {}", self.what, short(&self.locked), short(&self.found))
    }
}

/// Of a run's data, base and code, as they are now.
pub fn of(recipe: &Recipe, machine: &Machine, python: Option<&Path>, digests: &Digests) -> Inputs {
    let paths = &machine.paths;
    let (base, tokenizer) = base_and_tokenizer(&recipe.base.name, paths, digests);
    Inputs {
        recipe: recipe.digest(),
        data: data(recipe, paths, digests)
            .into_iter()
            .chain(initial_adapter(recipe, paths, digests))
            .chain(tokenized_rows(machine).and_then(|(name, rows)| Some((name, digests.of_source(rows)?))))
            .collect(),
        base,
        tokenizer,
        template: digest::of(&recipe.template),
        code: code::of(python),
        scorer: scorer(paths, digests).filter(|_| recipe.chooses_by_score()),
    }
}

pub fn base_and_tokenizer(name: &str, paths: &Paths, digests: &Digests) -> (Option<String>, Option<String>) {
    let folder = base_folder(name, paths);
    (base(name, folder.as_deref(), digests), digests.of_files(&tokenizer(folder.as_deref())))
}

/// The file of the expert's own scorer.
pub fn scorer(paths: &Paths, digests: &Digests) -> Option<String> {
    digests.of_file(Path::new(paths.scorer.as_ref()?))
}

/// The same, with the interpreter that the worker would run in.
pub fn here(recipe: &Recipe, machine: &Machine, python: Option<&Path>, digests: &Digests) -> Inputs {
    let expert = Path::new(&machine.paths.expert_dir);
    let found = Search::here(python, Some(expert)).find().ok();
    of(recipe, machine, found.as_ref().map(|found| found.python.as_path()), digests)
}

/// What differs from `before` to `now`. Two unknown digests differ too.
pub fn differences(before: &Inputs, now: &Inputs) -> Vec<Difference> {
    let names = before.data.keys().chain(now.data.keys().filter(|name| !before.data.contains_key(*name)));
    let data = names.filter_map(|name| {
        difference(name, Kind::Material, before.data.get(name), now.data.get(name), "absent")
    });
    let one = |what: &str, kind: Kind, before: Option<&String>, now: Option<&String>| {
        difference(what, kind, before, now, UNKNOWN)
    };
    // Most experts have no scorer file: absent is the same as absent.
    let scorer = (before.scorer.is_some() || now.scorer.is_some())
        .then(|| difference("scorer", Kind::Material, before.scorer.as_ref(), now.scorer.as_ref(), "absent"))
        .flatten();
    let others = [
        one(RECIPE, Kind::Recipe, Some(&before.recipe), Some(&now.recipe)),
        one("base", Kind::Material, before.base.as_ref(), now.base.as_ref()),
        one("tokenizer", Kind::Material, before.tokenizer.as_ref(), now.tokenizer.as_ref()),
        one("template", Kind::Material, Some(&before.template), Some(&now.template)),
    ];
    data.chain(others.into_iter().flatten())
        .chain(scorer)
        .chain(code_differences(&before.code, &now.code))
        .collect()
}

pub fn code_differences(before: &Code, now: &Code) -> Vec<Difference> {
    let one = |what: &str, before: Option<&String>, now: Option<&String>| {
        difference(what, Kind::Code, before, now, UNKNOWN)
    };
    let each = [
        one("expert-cli", Some(&before.version), Some(&now.version)),
        one("worker", before.worker.as_ref(), now.worker.as_ref()),
        one("native module", before.native.as_ref(), now.native.as_ref()),
    ];
    each.into_iter().flatten().collect()
}

fn difference(
    what: &str,
    kind: Kind,
    before: Option<&String>,
    now: Option<&String>,
    none: &str,
) -> Option<Difference> {
    let same = before.is_some() && before == now;
    let text = |side: Option<&String>| side.map_or_else(|| none.to_owned(), Clone::clone);
    (!same).then(|| Difference { what: what.to_owned(), kind, locked: text(before), found: text(now) })
}

/// One line per difference, each indented.
pub fn listed(differences: &[Difference]) -> String {
    differences.iter().fold(String::new(), |text, it| text + &format!("\n  {it}"))
}

/// A digest is recognised by its first digits.
pub fn short(text: &str) -> &str {
    let bare = text.strip_prefix("sha256:").or(text.strip_prefix(REVISION)).unwrap_or(text);
    if bare.len() >= 40 { bare.get(..12).unwrap_or(bare) } else { bare }
}

/// Training and validation data. Test data decides scores alone: see `Scoring`.
fn data(recipe: &Recipe, paths: &Paths, digests: &Digests) -> BTreeMap<String, String> {
    let sources = recipe.data.train.iter().chain(&recipe.data.validation);
    let digest = |source: &Source| Some((source.name.clone(), of_source(source, &paths.data, digests)?));
    sources.filter_map(digest).collect()
}

/// The adapter that training starts from, by its name and the digest of its two files.
pub fn initial_adapter(recipe: &Recipe, paths: &Paths, digests: &Digests) -> Option<(String, String)> {
    let name = recipe.adapter.initial.clone()?;
    let folder = Path::new(paths.initial_adapter.as_ref()?);
    Some((name, digests.of_files(&adapters::files(folder))?))
}

/// The folder of rows that another tool tokenized and left where the token cache would be: they are trained on instead of
/// the data. Named by its place in the expert's folder, or by its last part.
pub fn tokenized_rows(machine: &Machine) -> Option<(String, &Path)> {
    let folder = Path::new(&machine.paths.cache);
    let is_saved =
        SAVED_DATA_SET.iter().all(|name| folder.join(name).is_file()) || folder.join(SAVED_SPLITS).is_file();
    let inside = folder.strip_prefix(&machine.paths.expert_dir).ok();
    let name = inside.or_else(|| folder.file_name().map(Path::new))?;
    (machine.loader.use_cache && is_saved).then(|| (portable(name), folder))
}

/// A file by its bytes, a Hub dataset by the commit that it is read at. `files` has the place of each file.
pub fn of_source(source: &Source, files: &BTreeMap<String, String>, digests: &Digests) -> Option<String> {
    if source.format == DataFormat::Huggingface {
        return hub_dataset_revision(&source.name, &hub_cache()).map(|commit| of_commit(&commit));
    }
    digests.of_source(Path::new(files.get(&source.name)?))
}

pub fn of_commit(commit: &str) -> String {
    format!("{REVISION}{commit}")
}

/// Whether it stands for a snapshot of the Hub, and not for bytes.
pub fn is_revision(digest: &str) -> bool {
    digest.starts_with(REVISION)
}

fn hub_datasets(recipe: &Recipe) -> impl Iterator<Item = &Source> {
    let data = &recipe.data;
    let sources = data.train.iter().chain(&data.validation).chain(&data.test);
    sources.filter(|source| source.format == DataFormat::Huggingface)
}

/// Whether each Hub dataset is in the Hub's cache, so that its commit is known.
pub fn hub_datasets_are_here(recipe: &Recipe) -> bool {
    let cache = hub_cache();
    hub_datasets(recipe).all(|source| hub_dataset_revision(&source.name, &cache).is_some())
}

/// Inputs that were written where base or Hub datasets were not known yet, with those of `now`.
pub fn completed(written: Inputs, now: &Inputs) -> Inputs {
    let fetched = now.data.iter().filter(|(_, digest)| digest.starts_with(REVISION));
    let mut data: BTreeMap<_, _> = fetched.map(|(name, digest)| (name.clone(), digest.clone())).collect();
    data.extend(written.data);
    let base = written.base.or_else(|| now.base.clone());
    let tokenizer = written.tokenizer.or_else(|| now.tokenizer.clone());
    Inputs { data, base, tokenizer, ..written }
}

/// A snapshot of the Hub is named by its contents; any other folder is read.
fn base(name: &str, folder: Option<&Path>, digests: &Digests) -> Option<String> {
    if is_hub_id(name) {
        let revision = folder?.file_name()?.to_string_lossy();
        return Some(of_commit(&revision));
    }
    digests.of_files(&weights(folder)).map(|it| format!("sha256:{it}"))
}

/// The embedded base is in the worker's home once it is converted.
fn base_folder(name: &str, paths: &Paths) -> Option<PathBuf> {
    match &paths.base {
        Some(folder) => Some(PathBuf::from(folder)),
        None if name == EMBEDDED => Some(Path::new(&paths.home).join("bases").join(EMBEDDED)),
        None => None,
    }
}

/// Whether the base can be digested: it is neither to be downloaded nor to be converted.
pub fn base_is_here(name: &str, paths: &Paths) -> bool {
    base_folder(name, paths).is_some_and(|folder| folder.join("config.json").is_file())
}

/// A second copy of the weights, which nobody reads, does not count.
fn weights(folder: Option<&Path>) -> Vec<PathBuf> {
    let mut files = folder.map(weight_files).unwrap_or_default();
    files.extend(matching(folder, |name| name == "config.json"));
    files.sort();
    files
}

fn tokenizer(folder: Option<&Path>) -> Vec<PathBuf> {
    const NAMED: [&str; 4] = ["special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"];
    matching(folder, |name| {
        name.starts_with("tokenizer")
            || NAMED.contains(&name)
            || ends_with(name, "jinja")
            || ends_with(name, "model")
    })
}

fn ends_with(name: &str, end: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == end)
}

fn matching(folder: Option<&Path>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let files = folder.map(children).unwrap_or_default().into_iter();
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.is_file() && file.file_name().and_then(|it| it.to_str()).is_some_and(&wanted))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inputs(recipe: &str, data: &[(&str, &str)], base: Option<&str>) -> Inputs {
        let data = data.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect();
        let code =
            Code { version: "1".to_owned(), worker: Some("w".to_owned()), native: Some("n".to_owned()) };
        Inputs {
            recipe: recipe.to_owned(),
            data,
            base: base.map(str::to_owned),
            tokenizer: Some("t".to_owned()),
            template: "p".to_owned(),
            code,
            scorer: None,
        }
    }

    #[test]
    fn a_scorer_that_chooses_the_checkpoint_is_one_of_the_inputs() {
        let plain = inputs("r", &[], Some("sha256:a"));
        let scored = |digest: &str| Inputs { scorer: Some(digest.to_owned()), ..plain.clone() };
        assert!(differences(&scored("1"), &scored("1")).is_empty());
        for (before, now, line) in [
            (&plain, &scored("1"), "scorer: absent -> 1"),
            (&scored("1"), &scored("2"), "scorer: 1 -> 2"),
            (&scored("1"), &plain, "scorer: 1 -> absent"),
        ] {
            let found: Vec<_> = differences(before, now).iter().map(ToString::to_string).collect();
            assert_eq!(found, [line]);
        }
    }

    #[test]
    fn what_differs_is_named_with_both_digests() {
        let locked = inputs("r", &[("train", "1"), ("old", "2")], Some("sha256:a"));
        assert!(differences(&locked, &locked).is_empty());
        let found = differences(&locked, &inputs("s", &[("train", "3"), ("new", "4")], Some("sha256:b")));
        let named: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            named,
            ["old: 2 -> absent", "train: 1 -> 3", "new: absent -> 4", "manifest: r -> s", "base: a -> b"]
        );
    }

    #[test]
    fn what_is_unknown_is_never_the_same() {
        let known = inputs("r", &[], Some("sha256:a"));
        let unknown = inputs("r", &[], None);
        for (before, now, line) in [
            (&known, &unknown, "base: a -> unknown"),
            (&unknown, &known, "base: unknown -> a"),
            (&unknown, &unknown, "base: no digest is known, so it counts as changed"),
        ] {
            let found: Vec<_> = differences(before, now).iter().map(ToString::to_string).collect();
            assert_eq!(found, [line]);
        }
        let mut without_code = known.clone();
        without_code.code.worker = None;
        without_code.code.native = None;
        let found = differences(&without_code, &without_code);
        assert_eq!(found.iter().map(|it| it.what.as_str()).collect::<Vec<_>>(), ["worker", "native module"]);
        assert!(found.iter().all(|it| it.kind == Kind::Code));
    }

    #[test]
    fn a_plan_written_before_a_download_is_completed() {
        let written = inputs("r", &[("train", "1")], None);
        let now = inputs("r", &[("train", "1"), ("a/b::test", "revision:2")], Some("revision:3"));
        assert!(differences(&completed(written.clone(), &now), &now).is_empty());
        let now = inputs("r", &[("train", "1"), ("more", "2")], Some("revision:3"));
        assert_eq!(differences(&completed(written, &now), &now).len(), 1, "a file");
    }

    #[test]
    fn a_base_is_digested_by_its_weights_and_a_tokenizer_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "README.md",
            "added_tokens.json",
            "chat_template.jinja",
            "config.json",
            "consolidated.safetensors",
            "generation_config.json",
            "merges.txt",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "notes.txt",
            "pytorch_model.bin",
            "special_tokens_map.json",
            "spiece.model",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.json",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        let [first, second] = ["1", "2"].map(|it| format!("model-0000{it}-of-00002.safetensors"));
        let index = json!({"weight_map": {"a": first, "b": second}}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        std::fs::create_dir(folder.path().join("tokenizer")).unwrap();
        let names = |files: Vec<PathBuf>| {
            let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
            files.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(weights(Some(folder.path()))),
            ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        );
        assert_eq!(
            names(tokenizer(Some(folder.path()))),
            [
                "added_tokens.json",
                "chat_template.jinja",
                "merges.txt",
                "special_tokens_map.json",
                "spiece.model",
                "tokenizer.json",
                "tokenizer_config.json",
                "vocab.json"
            ]
        );
        assert!(weights(None).is_empty() && tokenizer(None).is_empty());
    }

    #[test]
    fn rows_that_another_tool_tokenized_are_an_input_with_their_digest() {
        let folder = tempfile::tempdir().unwrap();
        let plan = include_str!("../../../contract/tests/plans/cpu.json");
        let plan: serde_json::Value = serde_json::from_str(plan).unwrap();
        let mut machine: Machine = serde_json::from_value(plan["machine"].clone()).unwrap();
        machine.paths.expert_dir = folder.path().to_string_lossy().into_owned();
        let rows = folder.path().join("tokenized").join("sft");
        machine.paths.cache = rows.to_string_lossy().into_owned();
        std::fs::create_dir_all(rows.join("0123")).unwrap();
        std::fs::write(rows.join("0123").join("cache.json"), "{}").unwrap();
        assert_eq!(tokenized_rows(&machine), None, "the caches made here");
        for name in ["state.json", "dataset_info.json", "data-00000-of-00001.arrow"] {
            std::fs::write(rows.join(name), name).unwrap();
        }
        assert_eq!(tokenized_rows(&machine), Some(("tokenized/sft".to_owned(), &*rows)));
        let digests = Digests::open(folder.path());
        let recipe: Recipe = serde_json::from_value(plan["recipe"].clone()).unwrap();
        let now = || of(&recipe, &machine, None, &digests).data["tokenized/sft"].clone();
        let before = now();
        std::fs::write(rows.join("data-00000-of-00001.arrow"), "other rows").unwrap();
        assert_ne!(now(), before);
        let elsewhere = Machine {
            paths: Paths { expert_dir: "/somewhere/else".to_owned(), ..machine.paths.clone() },
            ..machine.clone()
        };
        assert_eq!(tokenized_rows(&elsewhere).unwrap().0, "sft");
        machine.loader.use_cache = false;
        assert_eq!(tokenized_rows(&machine), None);
    }

    #[test]
    fn a_base_is_here_where_its_configuration_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths: Paths = serde_json::from_value(serde_json::json!({
            "manifest": "", "expert_dir": "", "output": "", "cache": "", "home": folder.path(), "base": null, "data": {}
        }))
        .unwrap();
        assert!(!base_is_here("someone/model", &paths) && !base_is_here(EMBEDDED, &paths));
        let converted = folder.path().join("bases").join(EMBEDDED);
        std::fs::create_dir_all(&converted).unwrap();
        assert!(!base_is_here(EMBEDDED, &paths));
        std::fs::write(converted.join("config.json"), "{}").unwrap();
        assert!(base_is_here(EMBEDDED, &paths) && !base_is_here("someone/model", &paths));
        paths.base = Some(converted.to_string_lossy().into_owned());
        assert!(base_is_here("someone/model", &paths));
    }

    #[test]
    fn a_digest_is_shown_by_its_first_digits() {
        assert_eq!(short(&format!("sha256:{}", "ab".repeat(32))), "abababababab");
        assert_eq!(short("0.1.0"), "0.1.0");
    }
}
