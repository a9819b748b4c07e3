//! `adapters[]` describes what `training.config` trains; keys in both must agree, unless the base's overrides decide.

use std::collections::BTreeSet;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{AdapterEntry, Effective, Manifest, Modules, Origin, Setting};

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let base = effective.base;
    let Some((first, others)) = base.adapters.split_first() else { return };
    if !others.is_empty() {
        let message =
            format!("{} more adapters are described here; only the first one is trained", others.len());
        let problem = Problem::new(Code::NoEffect, base.adapters.key, message);
        problems.push(problem.hint("one manifest trains one adapter; give each its own expert"));
    }
    dora_of_lora(first, problems);
    let config = &effective.config;
    let mut judge = Judge { problems };
    judge.compare("type", &first.described_kind(), "adapter_type", &config.adapter_type, |entry, own| {
        entry.is_none_or(|entry| entry == *own)
    });
    judge.compare("r", &first.rank, "rank", &config.rank, |entry, own| entry.is_none() || entry == own);
    judge
        .compare("alpha", &first.alpha, "alpha", &config.alpha, |entry, own| entry.is_none() || entry == own);
    judge.compare("dropout", &first.dropout, "dropout", &config.dropout, |entry, own| {
        entry.total_cmp(own).is_eq()
    });
    judge.compare(
        "target_modules",
        &first.target_modules,
        "target_modules",
        &config.target_modules,
        same_modules,
    );
    judge.compare(
        "feedforward_modules",
        &first.feedforward_modules,
        "feedforward_modules",
        &config.feedforward_modules,
        |entry, own| set(entry) == set(own),
    );
}

/// The description at the root is for bases that have none.
pub fn at_root(manifest: &Manifest, problems: &mut Problems) {
    let (adapters, bases) = (&manifest.root.adapters, &manifest.root.base_models);
    let is_used = bases.is_empty() || bases.iter().any(|base| base.adapters.is_empty());
    if !adapters.is_empty() && !is_used {
        let message = "`adapters` has no effect: each of `base_models` has its own";
        let problem = Problem::new(Code::NoEffect, adapters.key, message);
        problems.push(problem.hint("remove it here, or in `base_models`"));
    }
}

fn dora_of_lora(entry: &AdapterEntry, problems: &mut Problems) {
    let Some(kind) = *entry.kind else { return };
    if *entry.use_dora && kind.traits().with_dora.is_none() {
        let message = format!("`use_dora` makes a DoRA of a LoRA; the adapter's type is `{kind}`");
        let problem = Problem::new(Code::AdapterConflict, entry.use_dora.span, message);
        problems.push(problem.hint("remove `use_dora`, or set the type to `dora`"));
    }
}

struct Judge<'a> {
    problems: &'a mut Problems,
}

impl Judge<'_> {
    fn compare<E, C>(
        &mut self,
        name: &str,
        entry: &Setting<E>,
        own_name: &str,
        own: &Setting<C>,
        same: fn(&E, &C) -> bool,
    ) {
        let both = entry.is_given() && own.origin == Origin::Manifest;
        if !both || same(entry, own) {
            return;
        }
        let message = format!("`{name}` differs from `{own_name}` of training.config");
        let problem = Problem::new(Code::AdapterConflict, entry.span, message);
        self.problems.push(problem.hint(format!("make them agree, or leave `{name}` out here")));
    }
}

fn same_modules(entry: &Modules, own: &Modules) -> bool {
    set(&entry.0) == set(&own.0)
}

fn set(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}
