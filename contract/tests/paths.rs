//! Where data may be.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Code, Severity};
use expert_contract::manifest::{Options, Set};
use expert_contract::read::{Loaded, load};
use tempfile::TempDir;

struct Shelf {
    folder: TempDir,
}

impl Shelf {
    fn new(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let expert = folder.path().join("experts/x");
        std::fs::create_dir_all(expert.join("datasets")).unwrap();
        std::fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
        std::fs::write(folder.path().join("elsewhere/data.jsonl"), "{}\n").unwrap();
        std::fs::write(expert.join("datasets/data.jsonl"), "{}\n").unwrap();
        let shelf = Self { folder };
        shelf.write(path);
        shelf
    }

    fn write(&self, path: &str) {
        let manifest = serde_json::json!({
            "name": "x", "base_models": ["Qwen/Qwen3-0.6B"],
            "training": {"dataset": {"path": path, "format": "jsonl"}, "config": {"rank": 8, "alpha": 16}},
        });
        std::fs::write(self.expert().join("manifest.json"), manifest.to_string()).unwrap();
    }

    fn expert(&self) -> PathBuf {
        self.folder.path().join("experts/x")
    }

    fn elsewhere(&self) -> PathBuf {
        self.folder.path().join("elsewhere")
    }

    fn load(&self, options: &Options) -> Loaded {
        load(&self.expert().join("manifest.json"), options)
    }

    fn codes(&self, options: &Options) -> Vec<Code> {
        self.load(options).diagnostics.iter().map(|found| found.code).collect()
    }
}

fn allowing(root: &Path) -> Options {
    Options { allowed: vec![root.to_owned()], ..Options::default() }
}

#[test]
fn data_stays_in_the_experts_folder() {
    let shelf = Shelf::new("../../elsewhere/data.jsonl");
    assert_eq!(shelf.codes(&Options::default()), [Code::PathOutside]);
    shelf.write(&shelf.elsewhere().join("data.jsonl").to_string_lossy());
    assert_eq!(shelf.codes(&Options::default()), [Code::PathOutside]);
    shelf.write("datasets/data.jsonl");
    assert_eq!(shelf.codes(&Options::default()), []);
}

#[test]
fn another_folder_is_allowed_by_name() {
    let shelf = Shelf::new("../../elsewhere/data.jsonl");
    assert_eq!(shelf.codes(&allowing(&shelf.elsewhere())), []);
    shelf.write("../../elsewhere/absent.jsonl");
    assert_eq!(shelf.codes(&allowing(&shelf.elsewhere())), [Code::DataMissing]);
    shelf.write("../../elsewhere/absent/../../secret.jsonl");
    assert_eq!(shelf.codes(&allowing(&shelf.elsewhere())), [Code::PathOutside]);
}

#[test]
fn what_the_command_line_names_may_be_anywhere() {
    let shelf = Shelf::new("datasets/data.jsonl");
    let place = shelf.elsewhere().join("data.jsonl").to_string_lossy().replace('\\', "/");
    let sets = vec![Set::new("training.dataset.path", place)];
    assert_eq!(shelf.codes(&Options { sets, ..Options::default() }), []);
}

#[cfg(unix)]
#[test]
fn a_link_must_not_leave_the_folder() {
    let shelf = Shelf::new("datasets/link.jsonl");
    std::os::unix::fs::symlink(
        shelf.elsewhere().join("data.jsonl"),
        shelf.expert().join("datasets/link.jsonl"),
    )
    .unwrap();
    assert_eq!(shelf.codes(&Options::default()), [Code::PathOutside]);
    assert_eq!(shelf.codes(&allowing(&shelf.elsewhere())), []);
    std::os::unix::fs::symlink("data.jsonl", shelf.expert().join("datasets/inside.jsonl")).unwrap();
    shelf.write("datasets/inside.jsonl");
    assert_eq!(shelf.codes(&Options::default()), []);
}

#[cfg(unix)]
#[test]
fn a_scorer_is_a_file_inside_the_folder_with_links_resolved() {
    let shelf = Shelf::new("datasets/data.jsonl");
    let manifest = shelf.expert().join("manifest.json");
    let codes = |scorer: &str, options: &Options| {
        let text = std::fs::read_to_string(&manifest).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["evaluation"] = serde_json::json!({"scorer": {"python": format!("{scorer}:score")}});
        std::fs::write(&manifest, document.to_string()).unwrap();
        shelf.codes(options)
    };
    std::fs::write(shelf.elsewhere().join("theirs.py"), "def score(a, b): return 1").unwrap();
    std::fs::write(shelf.expert().join("score.py"), "def score(a, b): return 1").unwrap();
    std::os::unix::fs::symlink(shelf.elsewhere().join("theirs.py"), shelf.expert().join("link.py")).unwrap();
    std::fs::create_dir(shelf.expert().join("folder.py")).unwrap();
    assert_eq!(codes("score.py", &Options::default()), []);
    assert_eq!(codes("link.py", &Options::default()), [Code::PathOutside]);
    assert_eq!(codes("link.py", &allowing(&shelf.elsewhere())), []);
    assert_eq!(codes("../elsewhere/theirs.py", &Options::default()), [Code::PathOutside]);
    assert_eq!(codes("folder.py", &Options::default()), [Code::PathInvalid]);
    assert_eq!(codes("absent.py", &Options::default()), [Code::DataMissing]);
}

#[test]
fn what_is_absent_is_a_warning_unless_strict() {
    let shelf = Shelf::new("datasets/absent.jsonl");
    let severity = |strict| {
        let loaded = shelf.load(&Options { strict, ..Options::default() });
        (loaded.ok(), loaded.diagnostics[0].code, loaded.diagnostics[0].severity)
    };
    assert_eq!(severity(false), (true, Code::DataMissing, Severity::Warning));
    assert_eq!(severity(true), (false, Code::DataMissing, Severity::Error));
}

#[test]
fn folders_may_have_spaces_and_any_letters() {
    let shelf = Shelf::new("data sets/düğme 数据.jsonl");
    std::fs::create_dir(shelf.expert().join("data sets")).unwrap();
    std::fs::write(shelf.expert().join("data sets/düğme 数据.jsonl"), "{}\n").unwrap();
    assert_eq!(shelf.codes(&Options::default()), []);
}

#[test]
fn a_base_may_be_a_folder_beside_the_manifest() {
    let shelf = Shelf::new("datasets/data.jsonl");
    let sets = vec![Set::new("base_models[0]", "models/mine")];
    let options = Options { sets, ..Options::default() };
    assert_eq!(shelf.codes(&options), []);
    let sets = vec![Set::new("base_models[0]", "./models/mine")];
    let options = Options { sets, ..Options::default() };
    assert_eq!(shelf.codes(&options), [Code::BaseMissing]);
    std::fs::create_dir_all(shelf.expert().join("models/mine")).unwrap();
    std::fs::write(shelf.expert().join("models/mine/config.json"), "{}").unwrap();
    assert_eq!(shelf.codes(&options), []);
}

#[test]
fn files_that_are_not_manifests_are_reported() {
    let shelf = Shelf::new("datasets/data.jsonl");
    let code = |path: &Path| load(path, &Options::default()).diagnostics[0].code;
    assert_eq!(code(&shelf.expert()), Code::FileUnreadable);
    assert_eq!(code(&shelf.expert().join("absent.json")), Code::FileUnreadable);
    let large = shelf.expert().join("large.json");
    // A sparse file of 100 MB: nothing beyond the limit is read.
    std::fs::File::create(&large).unwrap().set_len(100_000_000).unwrap();
    assert_eq!(code(&large), Code::FileTooLarge);
}

/// The folders that a run writes to are held to the same rule as its data.
#[test]
fn the_cache_and_the_mirror_stay_in_the_experts_folder() {
    let shelf = Shelf::new("datasets/data.jsonl");
    let elsewhere = shelf.elsewhere().to_string_lossy().replace('\\', "/");
    let codes = |key: &str, value: &str, options: &Options| {
        let config = serde_json::json!({"rank": 8, "alpha": 16, key: value});
        let manifest = serde_json::json!({
            "name": "x", "base_models": ["Qwen/Qwen3-0.6B"],
            "training": {"dataset": "datasets/data.jsonl", "config": config},
        });
        std::fs::write(shelf.expert().join("manifest.json"), manifest.to_string()).unwrap();
        shelf.codes(options)
    };
    let none = Options::default();
    for key in ["pretokenized_cache", "checkpoint_mirror"] {
        for place in ["cache", "a/b", "./a", "a/{expert-name}/{model-slug}"] {
            assert_eq!(codes(key, place, &none), [], "{key}: {place}");
        }
        assert_eq!(codes(key, "a/{model}", &none), [Code::PathInvalid], "{key}");
        for place in ["/etc", "~/x", "~", "../y", "a/../../y", &elsewhere, &format!("{elsewhere}/new")] {
            assert_eq!(codes(key, place, &none), [Code::PathOutside], "{key}: {place}");
        }
        for place in [&elsewhere, "../../elsewhere/new"] {
            assert_eq!(codes(key, place, &allowing(&shelf.elsewhere())), [], "{key}: {place}");
        }
        let sets = vec![Set::new(format!("training.config.{key}"), elsewhere.clone())];
        assert_eq!(codes(key, "cache", &Options { sets, ..Options::default() }), [], "{key}");
    }
    for place in ["file:///etc/x", "file:/etc/x", "local:///etc/x"] {
        assert_eq!(codes("checkpoint_mirror", place, &none), [Code::PathOutside], "{place}");
    }
    assert_eq!(codes("checkpoint_mirror", "simplecache::file:///etc", &none), [Code::PathInvalid]);
    assert_eq!(codes("checkpoint_mirror", "s3://bucket/x", &none), []);
}

#[cfg(unix)]
#[test]
fn the_cache_is_not_written_through_a_link_that_leaves_the_folder() {
    let shelf = Shelf::new("datasets/data.jsonl");
    assert_eq!(shelf.codes(&Options::default()), []);
    std::os::unix::fs::symlink(shelf.elsewhere(), shelf.expert().join("datasets_optimized")).unwrap();
    assert_eq!(shelf.codes(&Options::default()), [Code::PathOutside]);
    assert_eq!(shelf.codes(&allowing(&shelf.elsewhere())), []);
}

#[test]
fn a_slash_behind_a_file_is_named() {
    let found = Shelf::new("datasets/data.jsonl/").load(&Options::default()).diagnostics;
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(one.code, Code::DataMissing);
    assert_eq!(one.message, "`datasets/data.jsonl` is a file, and a slash ends the name of a folder");
    assert_eq!(one.hint.as_deref(), Some("write `datasets/data.jsonl`"));
}
