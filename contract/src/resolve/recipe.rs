//! The recipe: what decides the result, said the same way on every machine.

use crate::manifest::{
    Accumulation, BaseModel, Config, Dataset, Deduplicate, Effective, Modules, Root, RopeWord, Scorer,
};
use crate::plan::{
    Adapter, AdapterKind, Base, Batch, BestModel, Data, Decoding, Duration, Evaluation, Grammar, Neftune,
    Optimizer, Precision, Recipe, RopeKind, RopeScaling, Saving, Schedule, ScorerSettings, SoftPrompt,
    StoppingStrategy, Strategy, Template, TestCase,
};

use super::base::FoundBase;
use super::data::DataFacts;
use super::sources::Sources;
use super::steps;

pub fn build(
    expert: &Effective<'_>,
    base: &FoundBase,
    template: Template,
    sources: &Sources,
    cases: &[crate::manifest::TestCase],
    facts: &[DataFacts],
    grammar: Option<Grammar>,
) -> Recipe {
    let (root, config) = (&expert.manifest.root, &expert.config);
    let dataset = &root.training.dataset;
    let validated = !sources.validation.is_empty() || dataset.validation_split.is_some();
    Recipe {
        expert: root.name.value.clone(),
        base: self::base(expert.base, base),
        template,
        data: data(dataset, sources),
        adapter: adapter(root, config),
        batch: batch(expert, sources, facts),
        optimizer: optimizer(config),
        schedule: schedule(expert),
        precision: Precision { compute: config.precision(), tf32: *config.use_tf32 },
        evaluation: evaluation(expert, validated, cases),
        saving: saving(config),
        decoding: decoding(root, grammar),
        seed: *config.seed,
        objective: *config.method,
    }
}

pub fn base(declared: &BaseModel, found: &FoundBase) -> Base {
    Base {
        name: found.logical.clone(),
        sha256: declared.sha256.value.clone().filter(|digest| !digest.is_empty()),
        quantization: *declared.quantization,
        rope_scaling: declared.rope_scaling.as_ref().and_then(rope_scaling),
    }
}

fn rope_scaling(declared: &crate::manifest::RopeScaling) -> Option<RopeScaling> {
    if declared.is_word() {
        return None;
    }
    let (kind, forced_attention) = match *declared.kind {
        RopeWord::Default => return None,
        RopeWord::Kind(kind) => (kind, None),
        RopeWord::NtkByParts => (RopeKind::Yarn, Some(1.0)),
    };
    let lengths = (*declared.max_position_embeddings, *declared.original_max_position_embeddings);
    let implied = match lengths {
        (Some(long), Some(short)) if short > 0 => long as f64 / short as f64,
        _ => 1.0,
    };
    Some(RopeScaling {
        kind,
        factor: declared.factor.unwrap_or(implied),
        original_max_position_embeddings: *declared.original_max_position_embeddings,
        max_position_embeddings: *declared.max_position_embeddings,
        attention_factor: declared.attention_factor.value.or(forced_attention),
        beta_fast: *declared.beta_fast,
        beta_slow: *declared.beta_slow,
        low_freq_factor: *declared.low_freq_factor,
        high_freq_factor: *declared.high_freq_factor,
        short_factor: declared.short_factor.value.clone(),
        long_factor: declared.long_factor.value.clone(),
    })
}

/// The share of the training rows that validates.
fn held_out(dataset: &Dataset, sources: &Sources) -> Option<f64> {
    dataset.validation_split.filter(|_| sources.validation.is_empty())
}

/// Where no task has a share, nothing is left out or repeated.
fn stopping_strategy(dataset: &Dataset, sources: &Sources) -> StoppingStrategy {
    let has_shares = sources.train.iter().any(|source| source.weight < 1.0);
    if has_shares { *dataset.stopping_strategy } else { StoppingStrategy::default() }
}

fn data(dataset: &Dataset, sources: &Sources) -> Data {
    Data {
        train: sources.train.clone(),
        validation: sources.validation.clone(),
        test: sources.test.clone(),
        validation_split: held_out(dataset, sources),
        field_mapping: dataset.fields(),
        train_on: *dataset.train_on,
        on_bad_row: *dataset.on_bad_row,
        overlong: *dataset.overlong,
        text_dialogue: *dataset.text_dialogue,
        deduplicate: *dataset.validation.deduplicate != Deduplicate::No,
        drop_near_copies: *dataset.validation.deduplicate == Deduplicate::Near,
        min_length: *dataset.validation.min_length,
        max_length: *dataset.validation.max_length,
        streaming: *dataset.streaming,
        stopping_strategy: stopping_strategy(dataset, sources),
    }
}

fn adapter(root: &Root, config: &Config) -> Adapter {
    let kind = *config.adapter_type;
    let mut target_modules = sorted(&config.target_modules.0);
    let mut feedforward_modules = sorted(&config.feedforward_modules);
    match kind {
        AdapterKind::Prompt => {
            target_modules.clear();
            feedforward_modules.clear();
        }
        // Its default is the family's.
        AdapterKind::Ia3 if !config.target_modules.is_given() => {}
        _ if target_modules.is_empty() => target_modules = vec![Modules::ALL_LINEAR.to_owned()],
        _ => {}
    }
    Adapter {
        kind,
        rank: config.rank.filter(|_| kind.has_rank()),
        alpha: config.alpha.filter(|_| kind.has_rank()),
        dropout: *config.dropout,
        target_modules,
        feedforward_modules,
        soft_prompts: if kind == AdapterKind::Prompt { soft_prompts(root) } else { Vec::new() },
        initial: config.initial_adapter.as_deref().map(plain_path),
    }
}

/// A folder has one name in recipes, however it is spelled.
fn plain_path(path: &str) -> String {
    let slashed = path.replace('\\', "/");
    let parts: Vec<&str> = slashed.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let root = if slashed.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

fn sorted(names: &[impl AsRef<str>]) -> Vec<String> {
    let mut names: Vec<_> = names.iter().map(|name| name.as_ref().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn soft_prompts(root: &Root) -> Vec<SoftPrompt> {
    let named = |(index, prompt): (usize, &crate::manifest::SoftPrompt)| SoftPrompt {
        name: prompt.name.value.clone().unwrap_or_else(|| format!("prompt-{}", index + 1)),
        tokens: *prompt.tokens,
        init: *prompt.init_method,
        init_text: prompt.init_text.value.clone(),
    };
    root.soft_prompts.iter().enumerate().map(named).collect()
}

fn batch(expert: &Effective<'_>, sources: &Sources, facts: &[DataFacts]) -> Batch {
    let config = &expert.config;
    let dataset = &expert.manifest.root.training.dataset;
    let held_out = held_out(dataset, sources);
    let rows_per_step = match *config.gradient_accumulation_steps {
        Accumulation::Steps(steps) => *config.batch_size * steps,
        Accumulation::Auto => {
            let train = (&*sources.train, stopping_strategy(dataset, sources));
            steps::rows_per_step(expert.packing(), *config.max_seq_length, train, held_out, facts)
        }
    };
    Batch {
        rows_per_step,
        max_seq_length: *config.max_seq_length,
        packing: expert.packing(),
        share_prefixes: expert.share_prefixes(),
        group_by_length: expert.group_by_length(),
        drop_last: *config.dataloader_drop_last,
    }
}

fn optimizer(config: &Config) -> Optimizer {
    Optimizer {
        name: *config.optim,
        learning_rate: *config.learning_rate,
        weight_decay: *config.weight_decay,
        beta1: *config.adam_beta1,
        beta2: *config.adam_beta2,
        epsilon: *config.adam_epsilon,
        max_grad_norm: config.max_grad_norm.filter(|norm| *norm > 0.0),
        neftune: config.neftune_noise_alpha.filter(|it| *it > 0.0).map(|noise_alpha| Neftune { noise_alpha }),
    }
}

fn schedule(expert: &Effective<'_>) -> Schedule {
    let config = &expert.config;
    Schedule {
        kind: *config.lr_scheduler,
        options: config.lr_scheduler_kwargs.value.clone(),
        warmup: expert.warmup(),
        duration: config.max_steps.0.map_or(Duration::Epochs(*config.epochs), Duration::Steps),
    }
}

fn evaluation(expert: &Effective<'_>, validated: bool, cases: &[crate::manifest::TestCase]) -> Evaluation {
    let (declared, config) = (&expert.manifest.root.evaluation, &expert.config);
    let answers = &expert.manifest.root.training.decoding;
    let strategy = if validated { *config.evaluation_strategy } else { Strategy::No };
    let wanted = *config.load_best_model_at_end && strategy != Strategy::No;
    Evaluation {
        strategy,
        steps: (strategy == Strategy::Steps).then(|| config.eval_steps.unwrap_or(*config.save_steps)),
        rows: (strategy != Strategy::No).then_some(*config.eval_rows).flatten(),
        best: wanted.then(|| best(expert)),
        scorer: declared.scorer.as_ref().map(|scorer| scorer_name(scorer).to_owned()),
        scorer_settings: declared.scorer.as_ref().and_then(scorer_settings),
        test_set_size: declared.test_set_size.0,
        test_cases: cases
            .iter()
            .map(|case| TestCase { prompt: case.prompt.value.clone(), expected: case.expected.value.clone() })
            .collect(),
        max_new_tokens: declared.max_new_tokens.filter(|most| *most != *answers.max_new_tokens),
        without_base: false,
    }
}

/// The rules have seen to it that a choice has one scorer.
fn scorer_name(scorer: &Scorer) -> &str {
    scorer.named().or_else(|| scorer.chosen().first().copied()).unwrap_or_default()
}

fn scorer_settings(scorer: &Scorer) -> Option<ScorerSettings> {
    if let Some(function) = scorer.function() {
        let (file, function) = (function.file.replace('\\', "/"), function.name.to_owned());
        return Some(ScorerSettings::Python { file, function });
    }
    let choice = scorer.choice()?;
    if let Some(classification) = choice.classification.as_ref() {
        let labels = classification.labels.value.clone();
        return (!labels.is_empty()).then_some(ScorerSettings::Classification { labels });
    }
    if let Some(judge) = choice.judge.as_ref() {
        let (model, instructions) = (judge.model.value.clone(), judge.instructions.value.clone());
        return Some(ScorerSettings::Judge { model, instructions });
    }
    choice.rouge.value.map(|variant| ScorerSettings::Rouge { variant })
}

fn best(expert: &Effective<'_>) -> BestModel {
    let (metric, config) = (expert.best_metric(), &expert.config);
    BestModel {
        metric: metric.to_owned(),
        greater_is_better: config.greater_is_better.unwrap_or(!metric.ends_with("loss")),
        patience: *config.early_stopping_patience,
    }
}

fn saving(config: &Config) -> Saving {
    let strategy = *config.save_strategy;
    Saving { strategy, steps: (strategy == Strategy::Steps).then_some(*config.save_steps) }
}

pub fn decoding(root: &Root, grammar: Option<Grammar>) -> Decoding {
    let declared = &root.training.decoding;
    Decoding {
        temperature: *declared.temperature,
        top_p: *declared.top_p,
        top_k: *declared.top_k,
        min_p: *declared.min_p,
        stop_sequences: declared.stop_sequences.value.clone(),
        max_new_tokens: *declared.max_new_tokens,
        grammar,
    }
}
