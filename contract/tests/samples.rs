//! `tests/manifests/{valid,invalid}` and `tests/clusters/{valid,invalid}`: one file a case, its exact messages beside it in
//! `<case>.stderr`.
//! `UPDATE=1 cargo test -p expert-contract --test samples` writes them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::cluster;
use expert_contract::diagnostic::{Diagnostic, Severity, Style};
use expert_contract::manifest::Options;
use expert_contract::read::from_bytes;

const FEWEST_INVALID: usize = 60;

const MANIFESTS: [&str; 2] = ["manifests/valid", "manifests/invalid"];
const CLUSTERS: [&str; 2] = ["clusters/valid", "clusters/invalid"];

/// What reading a case gave.
struct Loaded {
    ok: bool,
    diagnostics: Vec<Diagnostic>,
    text: String,
}

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(kind)
}

fn cases(kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(kind)).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    cases.sort();
    cases
}

/// Messages name the file as it is called from the folder of the cases.
fn load(case: &Path) -> Loaded {
    let bytes = std::fs::read(case).unwrap();
    let folder = case.parent().unwrap().to_string_lossy().replace('\\', "/");
    let (ok, diagnostics, text) = if folder.contains("tests/clusters") {
        let loaded = cluster::from_bytes(bytes, &case.to_string_lossy().replace('\\', "/"));
        (loaded.ok(), loaded.diagnostics.clone(), loaded.rendered(Style::default()))
    } else {
        let loaded = from_bytes(bytes, case, &Options::default());
        (loaded.ok(), loaded.diagnostics.clone(), loaded.rendered(Style::default()))
    };
    Loaded { ok, diagnostics, text: text.replace(&format!("{folder}/"), "") }
}

fn check_places(case: &Path, loaded: &Loaded) {
    let name = case.display();
    let text = std::fs::read(case).unwrap();
    let lines = text.split(|byte| *byte == b'\n').count();
    for Diagnostic { code, place, pointer, hint, .. } in &loaded.diagnostics {
        assert!((1..=lines).contains(&place.line), "{name}: {code} is at line {} of {lines}", place.line);
        assert!(place.column >= 1, "{name}: {code}");
        assert!(
            hint.as_deref().is_some_and(|hint| !hint.is_empty()),
            "{name}: {code} does not say what to do"
        );
        assert!(pointer.is_empty() || pointer.starts_with('/'), "{name}: {code} points to {pointer}");
    }
}

fn hold(kind: &str, verdict: fn(&Loaded) -> bool) {
    let mut differing = BTreeSet::new();
    for case in cases(kind) {
        let loaded = load(&case);
        let text = loaded.text.clone();
        assert!(verdict(&loaded), "{} is not {kind}:\n{text}", case.display());
        check_places(&case, &loaded);
        let golden = case.with_extension("stderr");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default().replace("\r\n", "\n");
        if expected != text {
            differing.insert(format!("{}:\n{text}", golden.display()));
        }
    }
    let differing: Vec<_> = differing.into_iter().collect();
    assert!(differing.is_empty(), "run with UPDATE=1 and review:\n{}", differing.join("\n"));
}

#[test]
fn invalid_manifests_say_why() {
    assert!(cases(MANIFESTS[1]).len() >= FEWEST_INVALID);
    hold(MANIFESTS[1], is_refused);
}

#[test]
fn invalid_clusters_say_why() {
    assert!(!cases(CLUSTERS[1]).is_empty());
    hold(CLUSTERS[1], is_refused);
}

fn is_refused(loaded: &Loaded) -> bool {
    !loaded.ok && loaded.diagnostics.iter().any(|found| found.severity == Severity::Error)
}

#[test]
fn valid_cases_are_accepted() {
    for kind in [MANIFESTS[0], CLUSTERS[0]] {
        assert!(!cases(kind).is_empty());
        hold(kind, |loaded| loaded.ok);
    }
}

#[test]
fn every_golden_belongs_to_a_case() {
    for kind in MANIFESTS.into_iter().chain(CLUSTERS) {
        for entry in std::fs::read_dir(folder(kind)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "stderr") {
                assert!(path.with_extension("json").is_file(), "{} has no case", path.display());
            }
        }
    }
}
