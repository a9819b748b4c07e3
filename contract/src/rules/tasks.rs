//! One file, one Hub dataset, or a mixture whose weights match its tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, listed, one_of};
use crate::manifest::{Dataset, DatasetType, Manifest, Weights};
use crate::source::Span;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    let kind = dataset.resolved_kind();
    empty_paths(dataset, problems);
    if kind == DatasetType::MultiTask {
        mixture(dataset, problems);
    } else {
        plain(manifest, dataset, kind, problems);
    }
}

fn empty_paths(dataset: &Dataset, problems: &mut Problems) {
    for path in [&dataset.path, &dataset.validation_path, &dataset.test_path] {
        if path.as_deref().is_some_and(|path| path.trim().is_empty()) {
            problems.push(
                Problem::new(Code::EmptyValue, path.span, "the path is empty")
                    .hint("remove the key, or name a file"),
            );
        }
    }
}

fn plain(manifest: &Manifest, dataset: &Dataset, kind: DatasetType, problems: &mut Problems) {
    without_data(manifest, problems);
    if !dataset.tasks.0.is_empty() {
        let message = format!("`tasks` make a mixture, and `type` is `{kind}`");
        let problem = Problem::new(Code::TaskData, dataset.tasks.key, message);
        problems.push(problem.hint("set `type` to `multi_task`, or remove `tasks`"));
    }
    let weighted = dataset.weights.is_given() && dataset.tasks.0.is_empty();
    if weighted {
        let message = "`weights` have no effect: there are no `tasks`";
        problems.push(Problem::new(Code::NoEffect, dataset.weights.key, message).hint("remove them"));
    }
    unused_strategy(dataset, problems);
    let on_hub = dataset.path.as_deref().is_some_and(|path| path.contains("::"));
    if kind == DatasetType::Single && on_hub {
        let problem = Problem::new(
            Code::TaskData,
            dataset.path.span,
            "this names a Hub dataset, and `type` is `single`",
        );
        problems.push(problem.hint("set `type` to `huggingface`, or name a file"));
    }
}

/// Only shares can leave rows out or repeat them.
fn unused_strategy(dataset: &Dataset, problems: &mut Problems) {
    if dataset.stopping_strategy.is_given() && !dataset.is_weighted() {
        let message = "`stopping_strategy` has no effect: no task has a weight, so all rows are used once";
        let problem = Problem::new(Code::NoEffect, dataset.stopping_strategy.key, message);
        problems.push(problem.hint("give the `tasks` a weight each, or remove it"));
    }
}

fn without_data(manifest: &Manifest, problems: &mut Problems) {
    let training = &manifest.root.training;
    let path = &training.dataset.path;
    let reported = training.is_broken() || training.dataset.is_broken() || path.is_broken();
    if path.is_some() || reported {
        return;
    }
    let whole = manifest.document.root.as_ref().map(|root| root.span).unwrap_or_default();
    let around = [path.span, training.dataset.span, training.span, whole];
    let span = around.into_iter().find(|span| *span != Span::default()).unwrap_or_default();
    let problem =
        Problem::new(Code::MissingKey, span, "the manifest names no training data: `training.dataset.path`");
    problems.push(problem.hint("add \"path\": \"datasets/train.jsonl\" to `training.dataset`"));
}

fn mixture(dataset: &Dataset, problems: &mut Problems) {
    if dataset.tasks.0.is_empty() {
        let span = if dataset.kind.is_given() { dataset.kind.span } else { dataset.tasks.span };
        let problem = Problem::new(Code::TaskData, span, "a `multi_task` dataset needs `tasks`");
        problems.push(
            problem.hint("add \"tasks\": [{\"name\": \"a\", \"path\": \"datasets/a.jsonl\", \"weight\": 1}]"),
        );
        return;
    }
    if dataset.path.is_some() {
        let problem = Problem::new(
            Code::TaskData,
            dataset.path.span,
            "`path` and `tasks` are both set; only one of them can name the data",
        );
        problems.push(problem.hint("make a task of it, or remove it"));
    }
    unused_strategy(dataset, problems);
    let tasks = dataset.weighted_tasks();
    let mut names = BTreeSet::new();
    for (name, _, task) in &tasks {
        if task.path.trim().is_empty() {
            let problem =
                Problem::new(Code::EmptyValue, task.path.span, format!("the path of task `{name}` is empty"));
            problems.push(problem.hint("name the task's file"));
        }
        if !names.insert(name.as_str()) {
            let problem =
                Problem::new(Code::TaskData, task.path.span, format!("two tasks are named `{name}`"));
            problems.push(problem.hint("give each task a different `name`"));
        }
    }
    weights(dataset, &names, problems);
    if tasks.iter().all(|(_, share, _)| *share <= 0.0) {
        let span = if dataset.weights.is_given() { dataset.weights.span } else { dataset.tasks.span };
        let problem =
            Problem::new(Code::TaskWeights, span, "every weight is 0, so there is no training data");
        problems.push(problem.hint("give at least one task a weight above 0"));
    }
}

/// An unknown name, reported already, is likely that of the task without a weight.
fn without_weight(weights: &BTreeMap<String, f64>, dataset: &Dataset, problems: &mut Problems) {
    let tasks = dataset.weighted_tasks();
    let is_unknown = |name: &String| !tasks.iter().any(|(task, ..)| task == name);
    if weights.is_empty() || weights.keys().any(is_unknown) {
        return;
    }
    let without = tasks.iter().filter(|(name, _, task)| task.weight.is_none() && !weights.contains_key(name));
    let names: Vec<String> = without.map(|(name, ..)| format!("`{name}`")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return;
    }
    let (tasks, have) = if names.len() == 1 { ("task", "has") } else { ("tasks", "have") };
    let message = format!("{tasks} {} {have} no weight", listed(&names));
    let problem = Problem::new(Code::TaskWeights, dataset.weights.span, message);
    problems.push(problem.hint("give each task one weight; 0 leaves it out"));
}

fn weights(dataset: &Dataset, names: &BTreeSet<&str>, problems: &mut Problems) {
    let span = dataset.weights.span;
    let tasks = dataset.tasks.0.len();
    match &*dataset.weights {
        Weights::InOrder(weights) if dataset.weights.is_given() && weights.len() != tasks => {
            let message = format!("there are {} weights for {tasks} tasks", weights.len());
            problems.push(Problem::new(Code::TaskWeights, span, message).hint("give each task one weight"));
        }
        Weights::ByName(weights) => {
            for name in weights.keys().filter(|name| !names.contains(name.as_str())) {
                let problem =
                    Problem::new(Code::TaskWeights, span, format!("`{name}` has a weight but is not a task"));
                let known: Vec<_> = names.iter().copied().collect();
                problems.push(problem.hint(one_of(name, &known)));
            }
            without_weight(weights, dataset, problems);
        }
        Weights::InOrder(_) => {}
    }
    if dataset.weights.is_given() && dataset.tasks.0.iter().any(|task| task.weight.is_some()) {
        let problem =
            Problem::new(Code::TaskWeights, span, "`weights` is set, and tasks have a `weight` too");
        problems.push(problem.hint("keep one of the two"));
    }
}
