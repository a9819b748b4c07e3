//! `expert.lock`: the inputs and results of an expert's trained adapters.
//!
//! It is beside the manifest and meant to be committed. A run records the same inputs for itself, in its checkpoints and
//! in `run.json`, because a lock may come from another machine than the run.

pub mod code;
pub mod inputs;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use expert_contract::event::Body;
use expert_contract::manifest::model_slug;
use expert_contract::plan::{Grammar, Inputs, Paths, Recipe, Source, TestSet};
use expert_contract::results::{self, DuplicateRows, EvaluationResult, SearchScoring, TestFile, TestScores};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use inputs::{Difference, Kind, differences, listed};

use crate::failure::Failure;
use crate::sys::digests::Digests;
use crate::sys::durable;
use crate::sys::paths::near;
use crate::sys::run_lock;

pub const FILE: &str = "expert.lock";
/// The lock that could not be read when a training wrote a new one.
pub const UNREADABLE: &str = "expert.lock.unreadable";
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    /// By the name of the run's folder below `weights/`.
    adapters: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub inputs: Inputs,
    pub result: Outcome,
}

impl Entry {
    /// Whether the run was trained on this data.
    pub fn has_read(&self, source: &str, sha256: Option<&str>) -> bool {
        self.inputs.data.get(source).map(String::as_str) == sha256
    }

    /// Whether the adapter was scored on this data, if it was scored.
    pub fn has_scored(&self, source: &str, sha256: Option<&str>) -> bool {
        let of_test_rows = |score: &Score| {
            let sets = score.test_sets.values().map(|set| &set.data);
            std::iter::once(&score.data).chain(sets).find_map(|data| data.get(source)).cloned()
        };
        self.result.score.as_ref().is_none_or(|score| of_test_rows(score).as_deref() == sha256)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// SHA-256 of the adapter's weights.
    pub adapter: String,
    pub steps: Option<u64>,
    /// The environment that reproduces these bytes.
    pub device: String,
    pub threads: Option<u32>,
    /// Trained in one pass with other experts: the bytes are not those that it has alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fused: bool,
    pub score: Option<Score>,
    /// Rows that copy rows of another part of the data, or earlier training rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<Copied>,
}

/// How many rows of a part copy rows of another one, which may be the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    pub part: String,
    pub of: String,
    pub rows: u64,
    pub exact: u64,
    pub near: u64,
}

impl From<&DuplicateRows> for Copied {
    fn from(found: &DuplicateRows) -> Self {
        let DuplicateRows { part, of, rows, exact, near, .. } = found.clone();
        Self { part, of, rows, exact, near }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub rows: u64,
    pub base: f64,
    pub adapter: f64,
    /// Of the test data, as in the inputs; without the manifest's own cases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// SHA-256 of the expert's own scorer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
    /// SHA-256 of the grammar that constrained the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<String>,
    /// SHA-256 of the recipe's settings of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_digest: Option<String>,
    /// Of further test sets, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, SetScore>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetScore {
    pub rows: u64,
    pub base: f64,
    pub adapter: f64,
    /// As in the inputs.
    pub data: BTreeMap<String, String>,
}

impl Score {
    /// The scores of `evaluate`, if it scored both.
    pub fn of(evaluation: &EvaluationResult) -> Option<Self> {
        let (rows, base, adapter) = numbers(&evaluation.main)?;
        let sets = evaluation.test_sets.iter();
        Some(Self {
            rows,
            base,
            adapter,
            data: data_of(&evaluation.main),
            scorer: evaluation.scorer_sha256.clone(),
            grammar: evaluation.grammar_sha256.clone(),
            evaluation_digest: evaluation.evaluation_digest.clone(),
            test_sets: sets
                .filter_map(|(name, scores)| Some((name.clone(), SetScore::of(scores)?)))
                .collect(),
        })
    }

    /// Whether an evaluation made now would be of the same settings, scorer, grammar and test data.
    pub fn is_of(&self, now: &Scoring) -> bool {
        let sets = self.test_sets.iter().map(|(name, set)| (name.clone(), set.data.clone())).collect();
        now.has_settings_of(self.evaluation_digest.as_deref())
            && self.scorer == now.scorer
            && self.grammar == now.grammar
            && now.has_data_of(&self.data, &sets)
    }
}

fn is_of_files(data: &BTreeMap<String, String>, now: &TestFiles) -> bool {
    let same = |(name, now): (&String, &Option<String>)| {
        data.get(name).is_some_and(|before| now.as_ref().is_none_or(|now| now == before))
    };
    data.len() == now.len() && now.iter().all(same)
}

impl SetScore {
    fn of(scores: &TestScores) -> Option<Self> {
        let (rows, base, adapter) = numbers(scores)?;
        Some(Self { rows, base, adapter, data: data_of(scores) })
    }
}

fn data_of(scores: &TestScores) -> BTreeMap<String, String> {
    let digest = |file: &TestFile| match &file.revision {
        Some(commit) => Some(inputs::of_commit(commit)),
        None => file.sha256.clone(),
    };
    scores.test_set.iter().filter_map(|file| Some((file.name.clone()?, digest(file)?))).collect()
}

fn numbers(scores: &TestScores) -> Option<(u64, f64, f64)> {
    let accuracy = |score: &Option<results::Score>| score.as_ref()?.share.accuracy;
    Some((scores.rows?, accuracy(&scores.base)?, accuracy(&scores.adapter)?))
}

/// Source name -> digest, as in the inputs. A Hub dataset that is not on this machine has none, which never counts as a
/// change.
type TestFiles = BTreeMap<String, Option<String>>;

/// What an evaluation reads that a run does not: neither changes the adapter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scoring {
    /// SHA-256 of the recipe's settings of an evaluation.
    digest: String,
    /// SHA-256 of the expert's own scorer.
    scorer: Option<String>,
    /// SHA-256 of the grammar of answers.
    grammar: Option<String>,
    data: TestFiles,
    /// Of further test sets, by name.
    test_sets: BTreeMap<String, TestFiles>,
}

impl Scoring {
    /// As it is now.
    pub fn here(
        recipe: &Recipe,
        paths: &Paths,
        test_sets: &BTreeMap<String, TestSet>,
        digests: &Digests,
    ) -> Self {
        let of_files = |sources: &[Source], files: &BTreeMap<String, String>| {
            let digest = |source: &Source| inputs::of_source(source, files, digests);
            sources.iter().map(|source| (source.name.clone(), digest(source))).collect()
        };
        let data = of_files(&recipe.data.test, &paths.data);
        let test_sets = test_sets.iter();
        let test_sets =
            test_sets.map(|(name, set)| (name.clone(), of_files(&set.sources, &set.files))).collect();
        let grammar = recipe.decoding.grammar.as_ref().map(Grammar::sha256);
        let digest = recipe.evaluation_digest();
        Self { digest, scorer: inputs::scorer(paths, digests), grammar, data, test_sets }
    }

    /// All but the rows.
    pub fn of_search(self) -> SearchScoring {
        let Self { digest, scorer, grammar, .. } = self;
        SearchScoring { evaluation_digest: digest, scorer_sha256: scorer, grammar_sha256: grammar }
    }

    /// Scores of older versions have no digest, which never counts as a change.
    fn has_settings_of(&self, digest: Option<&str>) -> bool {
        digest.is_none_or(|digest| digest == self.digest)
    }

    fn has_data_of(
        &self,
        data: &BTreeMap<String, String>,
        test_sets: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> bool {
        let same = |(name, files): (&String, &TestFiles)| {
            test_sets.get(name).is_some_and(|data| is_of_files(data, files))
        };
        is_of_files(data, &self.data)
            && test_sets.len() == self.test_sets.len()
            && self.test_sets.iter().all(same)
    }

    /// Whether an evaluation of the adapter alone made now would be of the same settings, scorer, grammar and test data.
    pub fn is_of_adapter(&self, evaluation: &EvaluationResult) -> bool {
        let scored = evaluation.main.adapter.as_ref().is_some_and(|score| score.share.accuracy.is_some());
        let sets = evaluation.test_sets.iter();
        let sets = sets.map(|(name, scores)| (name.clone(), data_of(scores))).collect();
        scored
            && self.has_settings_of(evaluation.evaluation_digest.as_deref())
            && evaluation.scorer_sha256 == self.scorer
            && evaluation.grammar_sha256 == self.grammar
            && self.has_data_of(&data_of(&evaluation.main), &sets)
    }
}

/// The lock of an expert, for one of its bases.
pub struct Place {
    file: PathBuf,
    key: String,
}

impl Place {
    /// None if the run is outside the manifest's output folder: such trials do not write the lock.
    pub fn of(base: &str, paths: &Paths) -> Option<Self> {
        let (expert, key) = (Path::new(&paths.expert_dir), model_slug(base));
        let usual = expert.join("weights").join(&key) == Path::new(&paths.output);
        usual.then(|| Self { file: expert.join(FILE), key })
    }

    /// None also where the lock cannot be read: it says nothing of any run.
    pub fn entry(&self) -> Option<Entry> {
        read(&self.file).ok()?.remove(&self.key)
    }

    /// That of a lock which has been read already.
    pub fn entry_of<'e>(&self, entries: &'e BTreeMap<String, Entry>) -> Option<&'e Entry> {
        entries.get(&self.key)
    }

    /// A lock that cannot be read is kept beside the new one. Returns a warning about that.
    pub fn write(&self, entry: &Entry) -> Result<Option<Body>, Failure> {
        // Two bases of one expert may finish at once, in this process or in two.
        static WRITING: Mutex<()> = Mutex::new(());
        let _alone_here = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let _alone = self.file.parent().and_then(run_lock::alone_in);
        let (mut adapters, warning) = match read(&self.file) {
            Ok(adapters) => (adapters, None),
            Err(failure) => (BTreeMap::new(), Some(self.set_aside(&failure)?)),
        };
        if adapters.insert(self.key.clone(), entry.clone()).as_ref() == Some(entry) {
            return Ok(warning);
        }
        // As a value, its keys are sorted.
        let document = serde_json::to_value(Document { format: FORMAT, adapters });
        let document = document.map_err(|error| Failure::bad_input("not-json", error.to_string()))?;
        durable::write_json(&self.file, &document)?;
        Ok(warning)
    }

    fn set_aside(&self, failure: &Failure) -> Result<Body, Failure> {
        let aside = self.file.with_file_name(UNREADABLE);
        durable::rename(&self.file, &aside).map_err(|error| Failure::changing("move", &self.file, &error))?;
        let message = format!(
            "{}; it is kept as {UNREADABLE}, and the new {FILE} has an entry for {} only",
            failure.message, self.key
        );
        let hint = format!("copy the entries of other bases into {FILE}, or train those again");
        Ok(Body::Warning { code: failure.code.clone(), message, hint: Some(hint) })
    }
}

/// The entries of an expert's lock; none where there is no lock.
pub fn read(file: &Path) -> Result<BTreeMap<String, Entry>, Failure> {
    let refused = |reason: String, hint: &str| {
        Err(Failure::bad_input("lock-unreadable", format!("{} cannot be read: {reason}", near(file)))
            .hint(hint))
    };
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return refused(error.to_string(), "make it readable, or remove it"),
    };
    // Another format may have other fields.
    let format = serde_json::from_slice::<Value>(&text).ok().and_then(|it| it["format"].as_u64());
    if let Some(format) = format.filter(|it| *it != u64::from(FORMAT)) {
        let reason = format!("it has format {format}, and this expert-cli knows format {FORMAT}");
        return refused(reason, "update expert-cli, or restore the lock of this version");
    }
    match serde_json::from_slice::<Document>(&text) {
        Ok(document) => Ok(document.adapters),
        Err(error) => refused(error.to_string(), "resolve the merge conflict in it, or restore it from git"),
    }
}

/// The settings in which a recipe differs from the one with this digest, a line for each; none where that one is not on record.
pub type SettingsSince<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// Refuses inputs that differ from the expert's lock, and shows the difference.
pub fn check(
    recipe: &Recipe,
    paths: &Paths,
    inputs: &Inputs,
    settings: SettingsSince,
) -> Result<(), Failure> {
    check_with(recipe, paths, settings, |_| inputs.clone())
}

/// The same before base and Hub datasets are downloaded: those that are not on this machine yet count as equal.
pub fn check_before_download(
    recipe: &Recipe,
    paths: &Paths,
    inputs: &Inputs,
    settings: SettingsSince,
) -> Result<(), Failure> {
    check_with(recipe, paths, settings, |locked| inputs::completed(inputs.clone(), locked))
}

fn check_with(
    recipe: &Recipe,
    paths: &Paths,
    settings: SettingsSince,
    now: impl FnOnce(&Inputs) -> Inputs,
) -> Result<(), Failure> {
    let (expert, base) = (&recipe.expert, &recipe.base.name);
    let entry = match Place::of(base, paths) {
        Some(place) => read(&place.file)?.remove(&place.key),
        None => None,
    };
    let Some(entry) = entry else {
        return Err(Failure::bad_input(
            "not-locked",
            format!("{expert} is not locked for {base}: there is no entry in {FILE}"),
        )
        .hint("train it once without --locked, and commit the lock"));
    };
    let differences = differences(&entry.inputs, &now(&entry.inputs));
    if differences.is_empty() {
        return Ok(());
    }
    let lines = |it: &Difference| match it.kind {
        Kind::Recipe => Some(settings(&it.locked)).filter(|settings| !settings.is_empty()),
        _ => None,
    };
    let lines: Vec<String> =
        differences.iter().flat_map(|it| lines(it).unwrap_or_else(|| vec![it.to_string()])).collect();
    let message = format!("{expert} differs from its {FILE}:\n  {}", lines.join("\n  "));
    Err(Failure::bad_input("lock-differs", message)
        .hint("train without --locked to update the lock, or undo the change"))
}

#[cfg(test)]
mod tests {
    use expert_contract::plan::Code;
    use serde_json::json;

    use super::*;

    fn entry(recipe: &str) -> Entry {
        let inputs = Inputs {
            recipe: recipe.to_owned(),
            template: "t".to_owned(),
            code: Code { version: "1".to_owned(), ..Code::default() },
            ..Inputs::default()
        };
        let result = Outcome {
            fused: false,
            adapter: "a".to_owned(),
            steps: Some(3),
            device: "cpu".to_owned(),
            threads: Some(1),
            score: None,
            duplicates: Vec::new(),
        };
        Entry { inputs, result }
    }

    #[test]
    fn entries_of_several_bases_stand_side_by_side_with_sorted_keys() {
        let folder = tempfile::tempdir().unwrap();
        let place = |key: &str| Place { file: folder.path().join(FILE), key: key.to_owned() };
        place("b").write(&entry("one")).unwrap();
        place("a").write(&entry("two")).unwrap();
        place("b").write(&entry("three")).unwrap();
        assert_eq!(place("a").entry(), Some(entry("two")));
        assert_eq!(place("b").entry(), Some(entry("three")));
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        let order: Vec<_> =
            ["\"a\"", "\"inputs\"", "\"base\"", "\"code\"", "\"result\"", "\"adapter\"", "\"b\""]
                .map(|key| text.find(key).unwrap())
                .into();
        assert!(order.is_sorted(), "{text}");
    }

    /// The other process holds the folder's lock from its read to its write.
    #[cfg(unix)]
    #[test]
    fn two_processes_that_write_at_once_keep_both_entries() {
        let folder = tempfile::tempdir().unwrap();
        let place = |key: &str| Place { file: folder.path().join(FILE), key: key.to_owned() };
        place("theirs").write(&entry("two")).unwrap();
        let theirs = std::fs::read(folder.path().join(FILE)).unwrap();
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let alone = run_lock::alone_in(folder.path()).unwrap();
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| place("ours").write(&entry("one")).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::fs::write(folder.path().join(FILE), &theirs).unwrap();
            drop(alone);
            ours.join().unwrap();
        });
        assert_eq!(place("ours").entry(), Some(entry("one")));
        assert_eq!(place("theirs").entry(), Some(entry("two")));
    }

    #[test]
    fn a_lock_that_cannot_be_read_says_why_and_is_kept_beside_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { file: folder.path().join(FILE), key: "a".to_owned() };
        assert!(read(&place.file).unwrap().is_empty(), "a missing lock is fine");
        let newer = r#"{"format":99,"adapters":[]}"#;
        for (text, reason) in [
            ("", "line 1"),
            ("{\n<<<<<<< ours", "line 2"),
            (r#"{"format":1}"#, "adapters"),
            (newer, "it has format 99"),
        ] {
            std::fs::write(&place.file, text).unwrap();
            let failure = read(&place.file).unwrap_err();
            assert!(failure.message.contains(reason) && failure.hint.is_some(), "{}", failure.message);
            assert_eq!(place.entry(), None);
            let Some(Body::Warning { message, .. }) = place.write(&entry("one")).unwrap() else {
                panic!("{text}")
            };
            assert!(message.contains(reason) && message.contains(UNREADABLE), "{message}");
            assert_eq!(std::fs::read_to_string(folder.path().join(UNREADABLE)).unwrap(), text);
            assert_eq!(place.write(&entry("one")).unwrap(), None);
            assert_eq!(place.entry(), Some(entry("one")));
        }
    }

    #[test]
    fn a_score_needs_both_sides() {
        let of = |document| Score::of(&serde_json::from_value::<EvaluationResult>(document).unwrap());
        let both = json!({"rows": 5, "base": {"accuracy": 0.2}, "adapter": {"accuracy": 0.8}});
        let test_sets = BTreeMap::new();
        assert_eq!(
            of(both),
            Some(Score {
                rows: 5,
                base: 0.2,
                adapter: 0.8,
                data: BTreeMap::new(),
                scorer: None,
                grammar: None,
                evaluation_digest: None,
                test_sets
            })
        );
        assert_eq!(of(json!({"rows": 5, "base": {"accuracy": 0.2}, "adapter": null})), None);
    }

    #[test]
    fn a_score_is_of_its_test_sets_and_of_their_content() {
        let score = |sets: serde_json::Value| {
            let both = json!({"rows": 5, "base": {"accuracy": 0.2}, "adapter": {"accuracy": 0.8}, "test_sets": sets});
            Score::of(&serde_json::from_value::<EvaluationResult>(both).unwrap()).unwrap()
        };
        let set = |file: &str, sha256: &str| {
            let files = json!([{"name": file, "sha256": sha256}]);
            json!({"rows": 3, "base": {"accuracy": 0.1}, "adapter": {"accuracy": 0.3}, "test_set": files})
        };
        let now = |sets: &[(&str, &str, Option<&str>)]| {
            let files = |(set, file, digest): &(&str, &str, Option<&str>)| {
                ((*set).to_owned(), TestFiles::from([((*file).to_owned(), digest.map(str::to_owned))]))
            };
            Scoring { test_sets: sets.iter().map(files).collect(), ..Scoring::default() }
        };
        let (none, people) = (score(json!({})), score(json!({"people": set("p.jsonl", "1")})));
        let constrained = Score { grammar: Some("1".into()), ..none.clone() };
        assert!(
            !constrained.is_of(&now(&[])) && !none.is_of(&Scoring { grammar: Some("1".into()), ..now(&[]) })
        );
        let of_settings = Score { evaluation_digest: Some("1".into()), ..none.clone() };
        assert!(!of_settings.is_of(&now(&[])));
        assert!(of_settings.is_of(&Scoring { digest: "1".into(), ..now(&[]) }));
        assert!(none.is_of(&now(&[])) && people.is_of(&now(&[("people", "p.jsonl", Some("1"))])));
        assert!(
            people.is_of(&now(&[("people", "p.jsonl", None)])),
            "a dataset of the Hub has no digest here"
        );
        let (one, other) = (("people", "p.jsonl", Some("1")), ("more", "m.jsonl", Some("2")));
        assert!(!none.is_of(&now(&[one])) && !people.is_of(&now(&[])) && !people.is_of(&now(&[one, other])));
        for changed in [
            ("people", "p.jsonl", Some("2")),
            ("people", "q.jsonl", Some("1")),
            ("more", "p.jsonl", Some("1")),
        ] {
            assert!(!people.is_of(&now(&[changed])), "{changed:?}");
        }
        let locked = serde_json::to_value(&people).unwrap();
        assert_eq!(
            locked["test_sets"]["people"],
            json!({"rows": 3, "base": 0.1, "adapter": 0.3, "data": {"p.jsonl": "1"}})
        );
        assert_eq!(serde_json::to_value(&none).unwrap().get("test_sets"), None);
    }
}
