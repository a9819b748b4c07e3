//! Whether a manifest still names the grammar, the settings of answers and the chat template that a finished adapter has.

use std::path::{Path, PathBuf};

use expert_contract::manifest::Manifest;
use expert_contract::plan::{Decoding, Grammar, GrammarKind, Recipe, Template};
use expert_contract::resolve;
use expert_contract::results::{ExpertGrammar, ExpertRecord};
use expert_contract::rules::read_grammar;
use expert_contract::shell::quoted;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, json};

use super::served::Adapter;
use crate::experts::MANIFEST;
use crate::failure::Failure;
use crate::run::{EXPERT, FINAL, Finished, read_plan};
use crate::sys::files::read_json;
use crate::sys::paths::near;

pub const GBNF: &str = "grammar.gbnf";
pub const JSON_SCHEMA: &str = "grammar.json";

/// What decides an answer beside the weights.
pub struct Answers {
    pub decoding: Decoding,
    /// None where the manifest has no such base.
    pub template: Option<Template>,
}

impl Answers {
    /// As the manifest names them for this base.
    pub fn named(manifest: &Manifest, base: Option<&str>) -> Result<Self, Failure> {
        let grammar = read_grammar(manifest).map_err(|problem| {
            Failure::bad_input("no-grammar", problem.message).hint("correct the grammar")
        })?;
        let expert = base.and_then(|name| manifest.entry_for(name)).and_then(|base| manifest.effective(base));
        let template = expert
            .map(|expert| resolve::template(&expert, &manifest.folder))
            .transpose()
            .map_err(|problem| Failure::bad_input("no-template", problem.message))?;
        Ok(Self { decoding: resolve::decoding(&manifest.root, grammar), template })
    }

    pub fn of(recipe: &Recipe) -> Self {
        Self { decoding: recipe.decoding.clone(), template: Some(recipe.template.clone()) }
    }

    /// As `expert.json` names the grammar.
    pub fn grammar(&self) -> Option<ExpertGrammar> {
        let named = |grammar: &Grammar| ExpertGrammar {
            name: Some(grammar_file(grammar.kind).unwrap_or(grammar.kind.as_str()).to_owned()),
            sha256: Some(grammar.sha256()),
        };
        self.decoding.grammar.as_ref().map(named)
    }
}

/// The file beside `expert.json` that holds a grammar; none for one that is written for each prompt.
pub fn grammar_file(kind: GrammarKind) -> Option<&'static str> {
    match kind {
        GrammarKind::Gbnf => Some(GBNF),
        GrammarKind::JsonSchema => Some(JSON_SCHEMA),
        GrammarKind::Sql | GrammarKind::Cypher => None,
    }
}

/// What a manifest names otherwise than a run's `final/` has it.
pub struct Changed {
    names: Vec<String>,
    /// `evaluate` does not bring the change into `final/`.
    needs_training: bool,
}

impl Changed {
    pub fn is_grammar_alone(&self) -> bool {
        self.names == [GRAMMAR]
    }

    pub fn message(&self, manifest: &Path, run: &Path) -> String {
        format!(
            "{} names another {} than the run in {} has",
            near(manifest),
            self.names.join(", "),
            near(run)
        )
    }

    /// `command` is the one with this verb for the expert.
    pub fn hint(&self, command: impl Fn(&str) -> String) -> String {
        if self.needs_training {
            format!("change it back, or train with it as it is: {} --fresh", command("train"))
        } else {
            format!("change it back, or score the run with it as it is: {}", command("evaluate"))
        }
    }
}

const GRAMMAR: &str = "grammar";

/// None where `final/`, which `expert.json` and the run's record describe, has all of it. What an older version did not
/// record is not compared.
pub fn changed(now: &Answers, record: Option<&Finished>, expert: &ExpertRecord) -> Option<Changed> {
    let recipe = record.and_then(Finished::recipe);
    let mut names = Vec::new();
    names.extend((now.grammar() != expert.grammar).then(|| GRAMMAR.to_owned()));
    if let Some(was) = recipe.and_then(|recipe| part::<Decoding>(recipe, "decoding")) {
        let without_grammar = |decoding: &Decoding| json!(Decoding { grammar: None, ..decoding.clone() });
        let (was, now) = (without_grammar(&was), without_grammar(&now.decoding));
        let keys = now.as_object().into_iter().flat_map(Map::keys);
        names.extend(keys.filter(|name| was.get(*name) != now.get(*name)).cloned());
    }
    let other_template =
        record.zip(now.template.as_ref()).is_some_and(|(it, now)| has_other_template(it, now));
    names.extend(other_template.then(|| "chat template".to_owned()));
    // Scores chose such a run's checkpoint: its scores stay those of the settings that it was trained with.
    let chosen_by_score =
        || recipe.and_then(|it| Recipe::deserialize(it).ok()).is_some_and(|it| it.chooses_by_score());
    (!names.is_empty()).then(|| Changed { needs_training: other_template || chosen_by_score(), names })
}

/// Whether the run was trained with another template than this one.
pub fn has_other_template(record: &Finished, now: &Template) -> bool {
    record.recipe().and_then(|recipe| part::<Template>(recipe, "template")).is_some_and(|was| was != *now)
}

fn part<T: DeserializeOwned>(recipe: &serde_json::Value, name: &str) -> Option<T> {
    serde_json::from_value(recipe.get(name)?.clone()).ok()
}

/// Of an adapter's folder: the run that it is the `final/` of, and its record.
pub fn run_of(folder: &Path) -> Option<(&Path, Finished)> {
    let run = folder.parent().filter(|_| folder.ends_with(FINAL))?;
    Some((run, Finished::of(run)?))
}

/// The same for an adapter that is served, where its run leads to a manifest of this expert, with what to do about it.
pub fn changed_since(adapter: &Adapter) -> Option<(String, String)> {
    let folder = Path::new(&adapter.folder);
    let (run, record) = run_of(folder)?;
    let expert: ExpertRecord = read_json(&folder.join(EXPERT))?;
    let path = manifest_of(run)?;
    let manifest = load(&path)?;
    if expert.name.as_ref() != Some(&manifest.root.name.value) {
        return None;
    }
    let now = Answers::named(&manifest, record.base()).ok()?;
    let found = changed(&now, Some(&record), &expert)?;
    let model = record.base().filter(|base| must_name(&manifest, base));
    let hint = found.hint(|verb| format!("expert-cli {verb} {}", words(&path, model)));
    Some((found.message(&path, run), hint))
}

fn load(path: &Path) -> Option<Manifest> {
    let options =
        expert_contract::manifest::Options { anywhere: true, trains_nothing: true, ..Default::default() };
    expert_contract::read::load(path, &options).manifest
}

/// As a command names the expert that a run was planned from, and its base where it has to.
pub fn planned_words(run: &Path) -> Option<String> {
    let path = manifest_of(run)?;
    let plan = read_plan(run);
    Some(words(&path, plan.base_name().filter(|base| is_named(&path, base))))
}

/// Whether a command for this expert has to name the base of a run.
pub fn is_named(manifest: &Path, base: &str) -> bool {
    load(manifest).is_some_and(|manifest| must_name(&manifest, base))
}

/// Where there are several, or it is one that the manifest does not have.
fn must_name(manifest: &Manifest, base: &str) -> bool {
    manifest.bases.len() > 1 || manifest.find_base(base).is_none()
}

/// As a command names the expert and its base.
pub fn words(manifest: &Path, model: Option<&str>) -> String {
    let folder = manifest.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = quoted(&near(folder));
    model.map_or_else(|| folder.clone(), |model| format!("{folder} --model {}", quoted(model)))
}

/// Of the expert whose `weights/` has the run, else the one that the run was planned from.
pub fn manifest_of(run: &Path) -> Option<PathBuf> {
    let run = std::path::absolute(run).ok()?;
    let owner =
        run.parent().filter(|it| it.ends_with("weights")).and_then(Path::parent).map(|it| it.join(MANIFEST));
    let planned = || Some(PathBuf::from(read_plan(&run).manifest()?));
    owner.filter(|path| path.is_file()).or_else(|| planned().filter(|path| path.is_file()))
}
