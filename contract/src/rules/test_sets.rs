//! Each further test set has a name that fits tables and files, and rows that no other part of the data has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Dataset, Manifest, TestCases};
use crate::paths::{data_files, data_path};

/// The name of `training.dataset.test_path` where test sets are listed.
const MAIN: &str = "test";
const LONGEST: usize = 32;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let sets = &manifest.root.evaluation.test_sets;
    if sets.0.is_empty() {
        return;
    }
    if !has_main(manifest) {
        let message = "`test_sets` are scored beside the test set, and there is none";
        let hint = "name the file that decides as `training.dataset.test_path`";
        problems.push(Problem::new(Code::TestSet, sets.key, message).hint(hint));
    }
    let mut known = known_files(&manifest.root.training.dataset, &manifest.folder);
    for set in &sets.0 {
        if let Some(reason) = bad_name(&set.name) {
            let problem = Problem::new(Code::TestSet, set.key, format!("`{}` {reason}", set.name));
            problems.push(
                problem
                    .hint("take another name of at most 32 letters, digits, `_` and `-`, such as `people`"),
            );
        }
        if set.path.trim().is_empty() {
            let problem = Problem::new(Code::EmptyValue, set.span, "the path is empty");
            problems.push(problem.hint("remove the key, or name a file"));
            continue;
        }
        let files = files(&set.path, &manifest.folder);
        if let Some(key) = files.iter().find_map(|file| known.get(file)) {
            let message = format!("`{}` holds the rows of `{key}`", set.path);
            let hint = if key.ends_with("test_path") || key.starts_with("evaluation") {
                "rows are scored once: remove one of the two"
            } else {
                "a score on rows that training reads says nothing: name other rows"
            };
            problems.push(Problem::new(Code::TestSet, set.span, message).hint(hint));
        }
        let key = format!("evaluation.test_sets.{}", set.name);
        for file in files {
            known.entry(file).or_insert_with(|| key.clone());
        }
    }
}

fn has_main(manifest: &Manifest) -> bool {
    let (dataset, cases) = (&manifest.root.training.dataset, &manifest.root.evaluation.test_cases);
    dataset.test_path.is_some()
        || dataset.used_tasks().any(|(.., task)| task.test_path.is_some())
        || !matches!(&**cases, TestCases::Listed(cases) if cases.is_empty())
}

fn bad_name(name: &str) -> Option<&'static str> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-');
    if name == MAIN {
        Some("is the name of the test set in `training.dataset.test_path`")
    } else if name.is_empty() || name.len() > LONGEST || !name.chars().all(plain) {
        Some("cannot name a test set")
    } else {
        None
    }
}

/// The key that names each file of the data so far.
fn known_files(dataset: &Dataset, folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut known = BTreeMap::new();
    let mut add = |path: Option<&String>, key: &str| {
        let files = path.map(|path| files(path, folder)).unwrap_or_default();
        known.extend(files.into_iter().map(|file| (file, format!("training.dataset.{key}"))));
    };
    for task in &dataset.tasks.0 {
        add(Some(&task.path), "tasks[].path");
        add(task.validation_path.as_ref(), "tasks[].validation_path");
        add(task.test_path.as_ref(), "tasks[].test_path");
    }
    add(dataset.test_path.as_ref(), "test_path");
    add(dataset.validation_path.as_ref(), "validation_path");
    add(dataset.path.as_ref(), "path");
    known
}

/// The files that a path means, with links resolved; the path itself where there are none yet.
fn files(text: &str, folder: &Path) -> Vec<PathBuf> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.contains("::") {
        return vec![PathBuf::from(text)];
    }
    let path = data_path(text, folder);
    let found = data_files(&text.replace('\\', "/"), &path).unwrap_or_default();
    let files: Vec<PathBuf> = found.into_iter().map(|(_, file)| file).collect();
    let real = |file: PathBuf| file.canonicalize().unwrap_or(file);
    if files.is_empty() { vec![real(path)] } else { files.into_iter().map(real).collect() }
}
