//! One base model's view of the manifest, with every value's origin.

use super::base::{AdapterEntry, BaseModel};
use super::config::Config;
use super::model::Manifest;
use super::rivals;
use super::root::Root;
use super::section::Shown;
use super::sets::PRESET;
use super::setting::Origin;
use super::vocabulary::{ActivationCheckpointing, GradientCheckpointing};
use crate::plan::{ACCURACY, CheckpointingMode, EVAL_LOSS, Warmup};

/// The settings for one base: defaults, then `adapters[]`, `training.config`, the base's `overrides`, and the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective<'a> {
    pub manifest: &'a Manifest,
    pub base: &'a BaseModel,
    pub config: Config,
}

/// The base models of either version; in version 1.0 the adapters are at the root.
pub fn bases(root: &Root) -> Vec<BaseModel> {
    let mut bases = root.base_models.value.clone();
    if let (true, Some(base)) = (bases.is_empty(), &*root.base_model) {
        bases.push(base.clone());
    }
    for base in bases.iter_mut().filter(|base| base.adapters.is_empty()) {
        base.adapters = root.adapters.clone();
    }
    bases
}

fn from_adapter(entry: &AdapterEntry) -> Config {
    let kind = entry.described_kind();
    let mut config = Config::default();
    if let Some(word) = kind.value {
        config.adapter_type = kind.map(|_| word);
    }
    if entry.rank.is_some() {
        config.rank = entry.rank.clone();
    }
    if entry.alpha.is_some() {
        config.alpha = entry.alpha.clone();
    }
    config.dropout = entry.dropout.clone();
    config.target_modules = entry.target_modules.clone();
    config.feedforward_modules = entry.feedforward_modules.clone();
    config.moved(Origin::Adapter)
}

impl Manifest {
    /// The settings that train `bases[index]`.
    pub fn effective(&self, index: usize) -> Option<Effective<'_>> {
        self.bases.get(index).map(|base| Effective { manifest: self, base, config: self.config_for(base) })
    }

    /// Every base's settings, in the manifest's order.
    pub fn all_effective(&self) -> impl Iterator<Item = Effective<'_>> {
        self.bases.iter().map(|base| Effective { manifest: self, base, config: self.config_for(base) })
    }

    fn config_for(&self, base: &BaseModel) -> Config {
        let adapter = base.adapters.first().map(from_adapter).unwrap_or_default();
        let overrides = base.overrides.value.clone().moved(Origin::Overrides);
        let sources = &self.document.sources;
        let is_preset = |span| sources.get(span).is_some_and(|source| source.name.starts_with(PRESET));
        let mut config = overrides.or(self.config.clone()).or(adapter).attribute_presets(is_preset);
        rivals::settle(&mut config);
        config
    }
}

impl Effective<'_> {
    /// Effective packing: off for prompt learning.
    pub fn packing(&self) -> bool {
        *self.config.packing && !self.config.adapter_type.is_soft_prompt()
    }

    /// Effective sharing: off without packing.
    pub fn share_prefixes(&self) -> bool {
        *self.config.share_prefixes && self.packing()
    }

    /// Effective grouping: off with packing.
    pub fn group_by_length(&self) -> bool {
        *self.config.group_by_length && !self.packing()
    }

    /// Tokens that soft prompts put before every row.
    pub fn virtual_tokens(&self) -> u64 {
        if !self.config.adapter_type.is_soft_prompt() {
            return 0;
        }
        self.manifest.root.soft_prompts.iter().map(|prompt| u64::from(*prompt.tokens)).sum()
    }

    pub fn warmup(&self) -> Warmup {
        if *self.config.warmup_steps > 0 {
            Warmup::Steps(*self.config.warmup_steps)
        } else {
            Warmup::Ratio(*self.config.warmup_ratio)
        }
    }

    /// The extent that `gradient_checkpointing` names, or leaves to `activation_checkpointing`.
    pub fn checkpointing(&self) -> CheckpointingMode {
        let gradient = &self.config.gradient_checkpointing;
        // Where only `activation_checkpointing` is written, it is meant.
        let gradient = if gradient.is_given() { **gradient } else { GradientCheckpointing::On };
        let activation = *self.config.activation_checkpointing;
        if activation.is_none() && !self.config.gradient_checkpointing.is_given() {
            return CheckpointingMode::None;
        }
        match (gradient, activation) {
            (GradientCheckpointing::Off, _)
            | (GradientCheckpointing::On, Some(ActivationCheckpointing::None)) => CheckpointingMode::None,
            (GradientCheckpointing::Selective, _)
            | (GradientCheckpointing::On, Some(ActivationCheckpointing::AttentionOnly)) => {
                CheckpointingMode::Selective
            }
            (GradientCheckpointing::Full | GradientCheckpointing::On, _) => CheckpointingMode::Full,
        }
    }

    /// Whether rows come from the mapped token cache.
    pub fn uses_cache(&self) -> bool {
        let dataset = &self.manifest.root.training.dataset;
        *dataset.use_pretokenized && !*dataset.streaming
    }

    /// The metric by the worker's name for it.
    pub fn best_metric(&self) -> &str {
        match self.config.metric_for_best_model.as_str() {
            "loss" => EVAL_LOSS,
            "eval_accuracy" => ACCURACY,
            other => other,
        }
    }

    /// Every setting of the base with its origin, for `plan`.
    pub fn shown(&self) -> Vec<Shown> {
        self.config.shown()
    }
}
