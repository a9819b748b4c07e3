//! A scorer is one of the worker's own, or one that an installed package offers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, did_you_mean, one_of};
use crate::manifest::{Function, Judge, Manifest, Scorer, ScorerChoice, Setting};

/// As `expert_worker.evaluate.scorers` has them.
pub const BUILT_IN: &[&str] =
    &["sql", "json", "cypher", "typescript", "exact", "contains", "regex", "classification", "rouge", "chrf"];

/// Those that are written as an object.
const WITH_SETTINGS: &[&str] = &["python", "judge"];

const HOW_TO_CHECK: &str = "the worker looks it up when scoring starts; to see what is installed there, run with its interpreter: \
     python -c \"from importlib.metadata import entry_points as e; print(*e(group='expert_worker.scorers'))\"";

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let scorer = &manifest.root.evaluation.scorer;
    if let Some(choice) = scorer.as_ref().and_then(Scorer::choice) {
        return check_choice(scorer, choice, problems);
    }
    let name = scorer.as_ref().and_then(Scorer::named);
    let Some(name) = name.filter(|name| !BUILT_IN.contains(name)) else { return };
    if WITH_SETTINGS.contains(&name) {
        let message = format!("the scorer `{name}` needs settings");
        let hint = match name {
            "judge" => {
                "write \"scorer\": {\"judge\": {\"url\": \"http://127.0.0.1:8000/v1\", \"model\": \"NAME\"}}"
            }
            _ => {
                "write \"scorer\": {\"python\": \"score.py:score\"}, a function in a file beside the manifest"
            }
        };
        return problems.push(Problem::new(Code::ScorerChoice, scorer.span, message).hint(hint));
    }
    if Function::parse(name).is_some() {
        let message = format!("`{name}` is your own function, which is named by an object");
        let hint = format!("write \"scorer\": {{\"python\": \"{name}\"}}");
        return problems.push(Problem::new(Code::ScorerChoice, scorer.span, message).hint(hint));
    }
    if is_installed_name(name) {
        let message =
            format!("`{name}` is an installed scorer, which cannot be checked before the worker starts");
        problems.push(Problem::new(Code::ScorerInstalled, scorer.span, message).hint(HOW_TO_CHECK));
        return;
    }
    let message = format!("there is no scorer `{name}`");
    let offered = || {
        format!(
            "{}; a scorer that a package offers is written `package:name`, your own {{\"python\": \"score.py:score\"}}, another model {{\"judge\": {{...}}}}",
            one_of(name, BUILT_IN)
        )
    };
    let hint = did_you_mean(name, BUILT_IN.iter().copied()).unwrap_or_else(offered);
    problems.push(Problem::new(Code::UnknownScorer, scorer.span, message).hint(hint));
}

/// Exactly one scorer, with all that it needs.
fn check_choice(scorer: &Setting<Option<Scorer>>, choice: &ScorerChoice, problems: &mut Problems) {
    if choice.judge.is_broken()
        || choice.python.is_broken()
        || choice.classification.is_broken()
        || choice.rouge.is_broken()
    {
        return;
    }
    let chosen = scorer.as_ref().map(Scorer::chosen).unwrap_or_default();
    if chosen.len() != 1 {
        let message = match chosen.as_slice() {
            [] => "`evaluation.scorer` is an object and names no scorer".to_owned(),
            several => format!("`evaluation.scorer` names {} scorers, and one is used", several.len()),
        };
        let hint = "write one of them, as {\"python\": \"score.py:score\"}, or a scorer's name as a text";
        return problems.push(Problem::new(Code::ScorerChoice, scorer.span, message).hint(hint));
    }
    if let Some(function) = choice.python.as_deref().filter(|function| Function::parse(function).is_none()) {
        let message = format!("`{function}` is not a function of a Python file");
        let problem = Problem::new(Code::ScorerChoice, choice.python.span, message);
        problems.push(problem.hint("write the file, a colon and the function, as \"score.py:score\""));
    }
    if let Some(judge) = choice.judge.as_ref() {
        check_judge(judge, problems);
    }
    if let Some(labels) = choice.classification.as_ref().map(|it| &it.labels).filter(|it| it.is_given()) {
        check_labels(labels, problems);
    }
}

/// What a manifest's judge may read of the environment.
const JUDGE_VARIABLES: &str = "JUDGE_";

/// Where answers are sent, without a secret in the manifest.
fn check_judge(judge: &Judge, problems: &mut Problems) {
    let rest = ["https://", "http://"].into_iter().find_map(|scheme| judge.url.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let is_variable = |name: &String| {
        name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    };
    if host.is_some_and(|host| host.contains('@')) {
        let problem =
            Problem::new(Code::Credentials, judge.url.span, "the judge's URL holds a user or password");
        problems.push(problem.hint("remove it, and name the variable that holds the key as `key_variable`"));
    } else if judge.url.is_given() && host.is_none_or(str::is_empty) {
        let problem =
            Problem::new(Code::ScorerChoice, judge.url.span, "the judge's `url` is not an http or https URL");
        problems.push(problem.hint("write the endpoint, as \"http://127.0.0.1:8000/v1\""));
    }
    let is_clear = judge.url.starts_with("http://") && !host.is_none_or(is_loopback);
    if is_clear && judge.key_variable.is_some() {
        let message = "a judge's key would be sent to another machine without encryption";
        let problem = Problem::new(Code::ScorerChoice, judge.url.span, message);
        problems.push(problem.hint(
            "write an https URL, or one of this machine such as \"http://127.0.0.1:8000/v1\"; an endpoint that needs no key takes no `key_variable`",
        ));
    }
    if judge.key_variable.as_ref().is_some_and(|name| !is_variable(name)) {
        let message = "`key_variable` is not the name of an environment variable";
        let problem = Problem::new(Code::ScorerChoice, judge.key_variable.span, message);
        problems
            .push(problem.hint("write the variable's name, such as JUDGE_KEY; a key does not belong here"));
    } else if judge.key_variable.as_ref().is_some_and(|name| !name.starts_with(JUDGE_VARIABLES)) {
        let message = format!("`key_variable` must begin with {JUDGE_VARIABLES}");
        let problem = Problem::new(Code::ScorerChoice, judge.key_variable.span, message);
        problems.push(problem.hint(
            "set JUDGE_KEY to the key and write its name here: a downloaded manifest must not choose which of your secrets is sent to its `url`",
        ));
    }
}

/// With or without a port. A URL without a host is reported by itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((name, port))) if port.is_empty() || port.starts_with(':') => name,
        Some(_) => return false,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Answers are compared with labels without regard to case and spaces.
pub fn plain_label(label: &str) -> String {
    label.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check_labels(labels: &Setting<Vec<String>>, problems: &mut Problems) {
    let mut known = BTreeSet::new();
    let twice = labels.iter().find(|label| !known.insert(plain_label(label)));
    let message = match twice {
        Some(label) => {
            format!("the label `{label}` is there twice; labels differ in more than case and spaces")
        }
        None if known.contains("") => "a label is empty".to_owned(),
        None if known.len() < 2 => "a classification needs two labels or more".to_owned(),
        None => return,
    };
    let problem = Problem::new(Code::ScorerChoice, labels.span, message);
    problems.push(problem.hint(
        "write each label once, as [\"yes\", \"no\"], or leave `labels` out to take those of the rows",
    ));
}

/// `package:name`, each as Python's packaging has them.
fn is_installed_name(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.split_once(':').is_some_and(|(package, name)| is_name(package) && is_name(name))
}
