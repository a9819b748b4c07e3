//! `manifest.json`: every mistake has a place; an accepted manifest means the same after it is written out again.

use std::path::Path;

use expert_contract::diagnostic::{Severity, Style, is_visible};
use expert_contract::manifest::{Manifest, Options, json};
use expert_contract::read::{Loaded, from_bytes};

pub fn check(input: &[u8]) {
    let loaded = load(input);
    let has_error = loaded.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(loaded.ok(), !has_error, "a manifest is accepted exactly if no diagnostic is an error");
    check_places(input, &loaded);
    for columns in [None, Some(60)] {
        check_text(&loaded.rendered(Style { width: 80, columns, ..Style::default() }));
    }
    check_against_serde(input, &loaded);
    if let Some(manifest) = &loaded.manifest {
        check_round_trip(manifest, &loaded);
    }
}

fn load(bytes: &[u8]) -> Loaded {
    from_bytes(bytes.to_vec(), Path::new("/nowhere/expert/manifest.json"), &Options::default())
}

fn check_places(input: &[u8], loaded: &Loaded) {
    let text = String::from_utf8_lossy(input);
    let lines: Vec<_> = text.split('\n').collect();
    assert!(loaded.diagnostics.len() <= 300, "{} diagnostics", loaded.diagnostics.len());
    for found in &loaded.diagnostics {
        let line = lines.get(found.place.line - 1);
        let line = line.unwrap_or_else(|| panic!("line {} of {}: {found:?}", found.place.line, lines.len()));
        assert!((1..=line.chars().count() + 1).contains(&found.place.column), "{found:?}");
        assert!(!found.message.is_empty(), "{found:?}");
        assert!(found.pointer.is_empty() || found.pointer.starts_with('/'), "{found:?}");
    }
}

/// What a terminal would obey is not shown as it is.
fn check_text(text: &str) {
    let bad = text.chars().find(|c| *c != '\n' && !is_visible(*c));
    assert_eq!(bad, None, "{text}");
}

/// The parser refuses JSON only for its size, its depth, its numbers, a key that stands twice or a lone surrogate.
fn check_against_serde(input: &[u8], loaded: &Loaded) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let theirs = serde_json::from_str::<serde_json::Value>(text);
    let ours = json::parse(text, 0);
    match (&theirs, ours.problems.is_empty()) {
        (Ok(theirs), true) => {
            let ours = ours.root.expect("a root where nothing is wrong").to_json();
            assert!(same(theirs, &ours), "{theirs} is read as {ours}");
        }
        (Err(error), true) => {
            // serde_json stops at 128 levels; the parser here at 64.
            assert!(error.to_string().contains("out of range"), "accepted, but {error}");
        }
        _ => {}
    }
    assert!(theirs.is_ok() || loaded.manifest.is_none(), "not JSON, and accepted");
}

fn same(one: &serde_json::Value, two: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, two) {
        (Number(one), Number(two)) => one.as_f64() == two.as_f64(),
        (Array(one), Array(two)) => one.len() == two.len() && one.iter().zip(two).all(|(a, b)| same(a, b)),
        (Object(one), Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(key).is_some_and(|it| same(value, it)))
        }
        _ => one == two,
    }
}

fn check_round_trip(manifest: &Manifest, loaded: &Loaded) {
    let root = manifest.document.root.as_ref().expect("an accepted manifest has a root").to_json();
    let written = serde_json::to_vec(&root).expect("JSON");
    let again = load(&written);
    let codes = |loaded: &Loaded| {
        let mut codes: Vec<_> = loaded.diagnostics.iter().map(|found| found.code.as_str()).collect();
        codes.sort_unstable();
        // These two are about the text, and the text that is written has neither.
        codes.retain(|code| !["byte-order-mark", "duplicate-comment"].contains(code));
        codes
    };
    assert_eq!(codes(loaded), codes(&again), "other diagnostics once written out again");
    let again = again.manifest.expect("accepted once is accepted again");
    assert_eq!(again.document.root.as_ref().expect("a root").to_json(), root);
    let shown = |manifest: &Manifest| -> Vec<(&'static str, Option<serde_json::Value>)> {
        let settings = manifest.all_effective().flat_map(|effective| effective.shown());
        settings.map(|shown| (shown.key, shown.value)).collect()
    };
    assert_eq!(shown(manifest), shown(&again), "other settings once written out again");
}
