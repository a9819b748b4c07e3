//! Manifests that people wrote, as they are found. They are not part of the project, so this runs where they are present:
//! in `../shared/real/manifests` beside the project, or under `$EXPERT_SHARED`.
//! `UPDATE=1 cargo test -p expert-contract --test real` writes the expected diagnostics.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::Severity;
use expert_contract::manifest::Options;
use expert_contract::read::{Loaded, load};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifests() -> Option<PathBuf> {
    let named = std::env::var_os("EXPERT_SHARED").map(PathBuf::from);
    let places = named.into_iter().chain(["../shared", "../../shared"].map(|place| project().join(place)));
    places.map(|place| place.join("real/manifests")).find(|place| place.is_dir())
}

/// One line a diagnostic: the manifests themselves are not copied into the project.
fn lines(loaded: &Loaded) -> String {
    let line = |found: &expert_contract::diagnostic::Diagnostic| {
        let (severity, code, pointer) = (found.severity.as_str(), found.code, &found.pointer);
        format!(
            "{severity}[{code}] {pointer} {}:{}: {}\n",
            found.place.line, found.place.column, found.message
        )
    };
    loaded.diagnostics.iter().map(line).collect()
}

fn hold(name: &str) {
    let Some(folder) = manifests() else { return };
    let loaded = load(&folder.join(format!("{name}.json")), &Options::default());
    let found = lines(&loaded);
    assert!(loaded.ok(), "{found}");
    let golden = project().join("tests/manifests/real").join(format!("{name}.diagnostics"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default().replace("\r\n", "\n");
    assert!(expected == found, "{}: run with UPDATE=1 and review:\n{found}", golden.display());
}

#[test]
fn expert_json() {
    hold("expert-json");
}

#[test]
fn expert_neo4j() {
    hold("expert-neo4j");
}

#[test]
fn expert_sql() {
    hold("expert-sql");
}

#[test]
fn expert_typescript() {
    hold("expert-typescript");
}

#[test]
fn what_is_absent_is_an_error_when_strict() {
    let Some(folder) = manifests() else { return };
    let options = Options { strict: true, ..Options::default() };
    let loaded = load(&folder.join("expert-sql.json"), &options);
    let errors: Vec<_> = loaded
        .diagnostics
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .map(|found| found.code.as_str())
        .collect();
    assert_eq!(errors, ["base-missing", "data-missing"]);
}
