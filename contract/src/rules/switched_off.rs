//! Settings of a feature that is off. One message per feature; a switch that a later layer turned off is intended.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Origin, RopeWord, Setting};
use crate::plan::{DeviceKind, OptimizerName, RopeKind, Strategy};
use crate::source::Span;

/// A setting that may have no effect.
struct Part {
    key: &'static str,
    origin: Origin,
    span: Span,
}

fn part<T>(key: &'static str, setting: &Setting<T>) -> Part {
    Part { key, origin: setting.origin, span: setting.key }
}

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let mut report = |off: bool, why: &str, switch: Origin, parts: &[Part]| {
        if off {
            report(why, switch, parts, problems);
        }
    };
    let is_off = *config.torch_compile == Some(false);
    report(is_off, "`torch_compile` is false", config.torch_compile.origin, &of_compile(effective));
    let best = [
        part("metric_for_best_model", &config.metric_for_best_model),
        part("greater_is_better", &config.greater_is_better),
    ];
    report(
        !*config.load_best_model_at_end,
        "`load_best_model_at_end` is false",
        config.load_best_model_at_end.origin,
        &best,
    );
    let evaluation = &config.evaluation_strategy;
    let why = format!("`evaluation_strategy` is `{}`", **evaluation);
    report(
        **evaluation != Strategy::Steps,
        &why,
        evaluation.origin,
        &[part("eval_steps", &config.eval_steps)],
    );
    let rows = [part("eval_rows", &config.eval_rows)];
    report(**evaluation == Strategy::No, &why, evaluation.origin, &rows);
    let save = &config.save_strategy;
    let why = format!("`save_strategy` is `{}`", **save);
    let is_off = **save != Strategy::Steps && !evaluates_as_it_saves(effective);
    report(is_off, &why, save.origin, &[part("save_steps", &config.save_steps)]);
    let cache = [part("pretokenized_cache", &config.pretokenized_cache)];
    report(!effective.uses_cache(), "rows are tokenized on the fly", Origin::Default, &cache);
    adam(effective, &mut report);
    rope(effective, &mut report);
    grammar(effective, &mut report);
}

/// Without `eval_steps`, `save_steps` are the steps between two evaluations.
fn evaluates_as_it_saves(effective: &Effective<'_>) -> bool {
    let config = &effective.config;
    *config.evaluation_strategy == Strategy::Steps
        && config.eval_steps.is_none()
        && effective.manifest.root.training.dataset.has_validation()
}

/// Null compiles on an NVIDIA GPU alone.
pub fn check_compiled(effective: &Effective<'_>, device: DeviceKind, problems: &mut Problems) {
    if effective.config.torch_compile.is_none() && device != DeviceKind::Cuda {
        let why = "only `torch_compile: true` compiles on this machine";
        report(why, Origin::Default, &of_compile(effective), problems);
    }
}

fn of_compile(effective: &Effective<'_>) -> [Part; 2] {
    let config = &effective.config;
    [
        part("torch_compile_backend", &config.torch_compile_backend),
        part("torch_compile_mode", &config.torch_compile_mode),
    ]
}

fn adam(effective: &Effective<'_>, report: &mut impl FnMut(bool, &str, Origin, &[Part])) {
    let config = &effective.config;
    let settings = [
        part("adam_beta1", &config.adam_beta1),
        part("adam_beta2", &config.adam_beta2),
        part("adam_epsilon", &config.adam_epsilon),
    ];
    let is_adam = match *config.optim {
        OptimizerName::AdamwTorch
        | OptimizerName::AdamwTorchFused
        | OptimizerName::AdamwBnb8bit
        | OptimizerName::PagedAdamw32bit
        | OptimizerName::PagedAdamw8bit => true,
        OptimizerName::Adafactor | OptimizerName::Sgd | OptimizerName::Muon => false,
    };
    let why = format!("`{}` is not an Adam optimizer", *config.optim);
    report(!is_adam, &why, config.optim.origin, &settings);
}

/// Numbers that the type of scaling does not read.
fn rope(effective: &Effective<'_>, report: &mut impl FnMut(bool, &str, Origin, &[Part])) {
    let given = effective.base.rope_scaling.as_ref().filter(|rope| rope.kind.is_given());
    let Some(rope) = given else { return };
    let kind = match *rope.kind {
        RopeWord::Default => None,
        RopeWord::NtkByParts => Some(RopeKind::Yarn),
        RopeWord::Kind(kind) => Some(kind),
    };
    let reads = |kinds: &[RopeKind]| kind.is_some_and(|kind| kinds.contains(&kind));
    let any = kind.is_some();
    let numbers = [
        (any, part("factor", &rope.factor)),
        (any, part("max_position_embeddings", &rope.max_position_embeddings)),
        (any, part("original_max_position_embeddings", &rope.original_max_position_embeddings)),
        (reads(&[RopeKind::Yarn, RopeKind::Longrope]), part("attention_factor", &rope.attention_factor)),
        (reads(&[RopeKind::Yarn]), part("beta_fast", &rope.beta_fast)),
        (reads(&[RopeKind::Yarn]), part("beta_slow", &rope.beta_slow)),
        (reads(&[RopeKind::Llama3]), part("low_freq_factor", &rope.low_freq_factor)),
        (reads(&[RopeKind::Llama3]), part("high_freq_factor", &rope.high_freq_factor)),
        (reads(&[RopeKind::Longrope]), part("short_factor", &rope.short_factor)),
        (reads(&[RopeKind::Longrope]), part("long_factor", &rope.long_factor)),
    ];
    let unread: Vec<Part> =
        numbers.into_iter().filter(|(is_read, _)| !is_read).map(|(_, part)| part).collect();
    let why = match kind {
        Some(kind) => format!("the type is `{kind}`"),
        None => "the base's own positions are kept".to_owned(),
    };
    report(true, &why, rope.kind.origin, &unread);
}

fn grammar(effective: &Effective<'_>, report: &mut impl FnMut(bool, &str, Origin, &[Part])) {
    let decoding = &effective.manifest.root.training.decoding;
    let (file, kind) =
        (part("grammar_file", &decoding.grammar_file), part("grammar_type", &decoding.grammar_type));
    if *decoding.use_grammar == Some(false) {
        report(true, "`use_grammar` is false", decoding.use_grammar.origin, &[file, kind]);
    } else {
        report(decoding.grammar_file.is_some(), "`grammar_file` is used", Origin::Default, &[kind]);
    }
}

fn report(why: &str, switch: Origin, parts: &[Part], problems: &mut Problems) {
    let written: Vec<_> =
        parts.iter().filter(|part| part.origin != Origin::Default && switch <= part.origin).collect();
    let Some(first) = written.first() else { return };
    let keys: Vec<_> = written.iter().map(|part| format!("`{}`", part.key)).collect();
    let verb = if keys.len() == 1 { "has" } else { "have" };
    let message = format!("{} {verb} no effect: {why}", keys.join(", "));
    let pronoun = if keys.len() == 1 { "it" } else { "them" };
    let hint = format!("remove {pronoun}, or change the setting that makes {pronoun} idle");
    problems.push(Problem::new(Code::SwitchedOff, first.span, message).hint(hint));
}
