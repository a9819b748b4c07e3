//! Which layers an adapter is put on.

use std::collections::BTreeSet;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Setting};
use crate::plan::AdapterKind;
use crate::source::Span;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let kind = *config.adapter_type;
    let (targets, feedforward) = (&config.target_modules, &config.feedforward_modules);
    names(&targets.value.0, targets.span, problems);
    names(feedforward, feedforward.span, problems);
    if kind == AdapterKind::Prompt && targets.is_given() {
        no_effect("target_modules", targets, "prompt learning changes no layer", problems);
    }
    if kind == AdapterKind::Ia3 {
        let known: BTreeSet<&str> = targets.value.0.iter().map(String::as_str).collect();
        if let Some(stray) =
            feedforward.iter().find(|name| !known.is_empty() && !known.contains(name.as_str()))
        {
            let message = format!("`{stray}` is in `feedforward_modules` and not in `target_modules`");
            problems
                .push(Problem::new(Code::AdapterModules, feedforward.span, message).hint("name it in both"));
        }
    } else if !feedforward.is_empty() {
        no_effect("feedforward_modules", feedforward, &format!("only ia3 has them, not `{kind}`"), problems);
    }
}

fn names(names: &[String], span: Span, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.trim().is_empty() {
            let problem = Problem::new(Code::EmptyValue, span, "the name of a module is empty");
            problems.push(problem.hint("remove it"));
        } else if !seen.insert(name) {
            let message = format!("naming `{name}` twice has no effect: it gets one adapter");
            problems.push(Problem::new(Code::NoEffect, span, message).hint("name each module once"));
        }
    }
}

fn no_effect<T>(key: &str, setting: &Setting<T>, reason: &str, problems: &mut Problems) {
    let message = format!("`{key}` has no effect: {reason}");
    problems.push(Problem::new(Code::NoEffect, setting.span, message).hint("remove it"));
}
