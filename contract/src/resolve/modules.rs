//! The layers that an adapter is put on: `all-linear`, defaults and every name of the manifest, held against the layers
//! that the base has.

use crate::budget::{Shape, adapter_parameters};
use crate::diagnostic::{Code, Problem};
use crate::families::{self, selects};
use crate::foreign::is_pattern;
use crate::manifest::{Effective, Modules, Origin, Setting};
use crate::plan::{AdaptedModules, Adapter, AdapterKind};
use crate::source::Span;

use super::base::FoundBase;

/// The recipe's adapter with names of this base's layers in place of `all-linear` and of the kind's default.
pub fn named(adapter: &Adapter, shape: &Shape) -> Adapter {
    let mut adapter = adapter.clone();
    if adapter.kind == AdapterKind::Prompt {
        return adapter;
    }
    if adapter.target_modules == [Modules::ALL_LINEAR] {
        adapter.target_modules = all_linear(shape);
    } else if let (true, Some(family)) =
        (adapter.target_modules.is_empty(), families::family(&shape.architecture))
    {
        adapter.target_modules.clone_from(&family.ia3.target);
        if adapter.feedforward_modules.is_empty() {
            adapter.feedforward_modules.clone_from(&family.ia3.feedforward);
        }
        adapter.target_modules.sort();
    }
    adapter
}

/// What the plan says about them; the worker compares it with what it trains.
pub fn adapted(named: &Adapter, shape: &Shape) -> AdaptedModules {
    // Of the embedding and the head, only LoRA's own formula is the same as that of a linear layer.
    let plain = matches!(named.kind, AdapterKind::Lora | AdapterKind::Rslora | AdapterKind::Prompt);
    let selected = |name: &str| named.target_modules.iter().any(|entry| selects(entry, name));
    let outside = shape.linears.iter().any(|it| !it.adaptable && selected(&it.name));
    AdaptedModules {
        target: named.target_modules.clone(),
        feedforward: named.feedforward_modules.clone(),
        parameters: (shape.exact && (plain || !outside)).then(|| adapter_parameters(shape, named)),
    }
}

/// Names of the linear layers in the base's blocks: the shortest that peft understands, sorted.
pub fn all_linear(shape: &Shape) -> Vec<String> {
    let mut names: Vec<_> = shape.blocks().map(|linear| short(&linear.name).to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// The last part of a name; of a list's items (`experts.0`) the last two.
fn short(name: &str) -> &str {
    let last = name.rsplit('.').next().unwrap_or(name);
    let dots = if last.bytes().all(|byte| byte.is_ascii_digit()) { 2 } else { 1 };
    name.rmatch_indices('.').nth(dots - 1).map_or(name, |(dot, _)| &name[dot + 1..])
}

/// Whether the base can be trained at all, and whether every name that the manifest gives matches one of its layers.
pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Vec<Problem> {
    let Some(architecture) = &base.architecture else { return Vec::new() };
    if let Some(reason) = families::refusal(architecture) {
        let message = format!("the base's architecture `{architecture}` cannot be trained: it has {reason}");
        return vec![
            Problem::new(Code::BaseUnsupported, expert.base.name.span, message)
                .hint("choose a base made of attention and MLP layers, such as Qwen/Qwen3-0.6B"),
        ];
    }
    let kind = *expert.config.adapter_type;
    let Some(shape) = &base.shape else { return Vec::new() };
    if kind == AdapterKind::Prompt || !shape.names_known {
        return Vec::new();
    }
    let config = &expert.config;
    let mut problems = Vec::new();
    let family = families::family(architecture);
    if kind == AdapterKind::Lokr && family.is_some_and(|it| it.transposed.contains(architecture)) {
        let message =
            format!("lokr cannot be put on the layers of `{architecture}`, which are not linear modules");
        let problem = Problem::new(Code::AdapterModules, config.adapter_type.span, message);
        return vec![problem.hint("use `lora` or `dora`")];
    }
    let target = &config.target_modules;
    let feedforward = &config.feedforward_modules;
    let feedforward_at = place(feedforward, expert);
    missing("feedforward_modules", feedforward, feedforward_at, base, shape, &mut problems);
    if kind == AdapterKind::Ia3 && target.value.0.is_empty() && problems.is_empty() {
        // The rules compare two lists; here one of them is the base's.
        let chosen = match family {
            _ if target.is_given() => all_linear(shape),
            Some(family) => family.ia3.target.clone(),
            None => {
                let message =
                    format!("there are no default modules of ia3 for the architecture `{architecture}`");
                let problem = Problem::new(Code::AdapterModules, config.adapter_type.span, message);
                problems.push(problem.hint(format!("set `target_modules` to some of {}", listed(shape))));
                return problems;
            }
        };
        if let Some(stray) = feedforward.iter().find(|name| !chosen.contains(name)) {
            let word = if target.is_given() { Modules::ALL_LINEAR } else { "the default" };
            let message = format!(
                "`{stray}` is in `feedforward_modules` and not in `target_modules`, of which {word} is {}",
                quoted(&chosen)
            );
            let problem = Problem::new(Code::AdapterModules, feedforward_at, message);
            problems.push(problem.hint("name one of these, or set `target_modules` to a list with it"));
        }
    }
    let at = place(target, expert);
    let named = target.value.0.iter().find(|entry| selects(entry, families::embedding(architecture)));
    if let Some(entry) = named.filter(|_| !kind.traits().on_embedding) {
        let message = format!("{kind} cannot be put on the embedding, which is not a linear layer");
        let problem = Problem::new(Code::AdapterModules, at, message);
        problems.push(problem.hint(format!("leave `{entry}` out of `target_modules`, or use `lora`")));
    }
    missing("target_modules", &target.value.0, at, base, shape, &mut problems);
    problems
}

/// Advice about an adapter on the head or the embedding of a base where both are the same weights.
pub fn shared_head(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    let (config, shape) = (&expert.config, base.shape.as_ref().filter(|it| it.tied && it.names_known)?);
    let target = &config.target_modules;
    if *config.adapter_type == AdapterKind::Prompt {
        return None;
    }
    let selected = |name: &str| target.value.0.iter().any(|entry| selects(entry, name));
    let outside = shape.linears.iter().find(|it| !it.adaptable && selected(&it.name))?;
    let message = format!(
        "llama.cpp, Ollama and MLX cannot serve an adapter on `{}`: head and embedding of {} are the same weights",
        outside.name, base.logical
    );
    let hint = "leave it out of `target_modules`, or serve merged weights (`export --merge`)";
    Some(Problem::new(Code::NotServable, place(target, expert), message).hint(hint))
}

/// Dropout of an adapter that is on the embedding alone: peft's has none there.
pub fn idle_dropout(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    let (config, shape) = (&expert.config, base.shape.as_ref().filter(|it| it.names_known)?);
    let embedding = families::embedding(base.architecture.as_ref()?);
    let names = &config.target_modules.value.0;
    let in_a_block = |entry: &String| shape.linears.iter().any(|it| it.adaptable && selects(entry, &it.name));
    let is_alone = !names.is_empty() && names.iter().all(|it| selects(it, embedding) && !in_a_block(it));
    if !is_alone || *config.dropout <= 0.0 || !config.adapter_type.traits().on_embedding {
        return None;
    }
    let message = "`dropout` has no effect: an adapter on the embedding has none";
    Some(Problem::new(Code::NoEffect, place(&config.dropout, expert), message).hint("remove it"))
}

fn missing(
    key: &str,
    names: &[String],
    at: Span,
    base: &FoundBase,
    shape: &Shape,
    problems: &mut Vec<Problem>,
) {
    let fits = |name: &String| {
        name.trim().is_empty() || shape.linears.iter().any(|linear| selects(name, &linear.name))
    };
    let strays: Vec<_> = names.iter().filter(|name| !fits(name)).map(|name| format!("`{name}`")).collect();
    if strays.is_empty() {
        return;
    }
    let verb = if strays.len() == 1 { "matches" } else { "match" };
    let message = format!("{} of `{key}` {verb} no layer of {}", strays.join(", "), base.logical);
    let hint =
        format!("its layers are {}; `\"{key}\": \"{}\"` takes all", listed(shape), Modules::ALL_LINEAR);
    let hint = if key == "target_modules" { hint } else { format!("its layers are {}", listed(shape)) };
    let is_pattern = names.iter().any(|name| !fits(name) && is_pattern(name));
    let hint = if is_pattern { format!("patterns are not taken; {hint}") } else { hint };
    problems.push(Problem::new(Code::ModuleMissing, at, message).hint(hint));
}

fn listed(shape: &Shape) -> String {
    quoted(&all_linear(shape))
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A list that several bases share is wrong for this one only.
fn place<T>(setting: &Setting<T>, expert: &Effective<'_>) -> Span {
    if setting.origin != Origin::Overrides && expert.manifest.bases.len() > 1 {
        expert.base.name.span
    } else {
        setting.span
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn the_shortest_name() {
        for (name, expected) in [
            ("model.layers.0.self_attn.q_proj", "q_proj"),
            ("model.decoder.layers.0.fc1", "fc1"),
            ("model.layers.0.adapters.3", "adapters.3"),
            ("q_proj", "q_proj"),
        ] {
            assert_eq!(short(name), expected);
        }
    }
}
