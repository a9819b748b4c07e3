//! Flags that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use expert_contract::manifest::Set;

use crate::experts::MANIFEST;
use crate::failure::Failure;

/// Which expert, on which base and data, with which changes: what decides a plan.
#[derive(Args, Debug, Clone)]
pub struct PlanOptions {
    /// The expert's manifest.json, or its folder (the working directory, if it is one)
    #[arg(long, short, value_name = "PATH")]
    pub manifest: Option<PathBuf>,
    /// The base to use: its name in the manifest, or a short one such as smollm2-135m
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Training data in place of the manifest's
    #[arg(long, short, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Where the run lives (weights/<model> beside the manifest)
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Change one value: a dotted path of the manifest and a JSON value; bare words are strings
    #[arg(long, value_name = "KEY=VALUE", value_parser = Set::parse)]
    pub set: Vec<Set>,
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// A folder that the manifest's datasets and outputs may lie in, besides the expert's own
    #[arg(long, value_name = "ROOT")]
    pub allow_path: Vec<PathBuf>,
    #[command(flatten)]
    pub training: TrainingOptions,
}

/// Shorthands for `--set training.config.*`.
#[derive(Args, Debug, Clone, Default)]
pub struct TrainingOptions {
    #[arg(long, value_name = "N")]
    pub epochs: Option<f64>,
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    #[arg(long, value_name = "ROWS")]
    pub batch_size: Option<u64>,
    #[arg(long, value_name = "R")]
    pub lora_rank: Option<u32>,
    #[arg(long, value_enum)]
    pub mixed_precision: Option<MixedPrecision>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    Auto,
    Cuda,
    Mps,
    Cpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MixedPrecision {
    No,
    Fp16,
    Bf16,
}

impl PlanOptions {
    /// The manifest's file; a folder stands for the one in it.
    pub fn manifest_file(&self) -> Result<PathBuf, Failure> {
        let here = || Some(PathBuf::from(MANIFEST)).filter(|file| file.is_file());
        let named = self.manifest.clone().or_else(here).ok_or_else(|| {
            Failure::bad_input("no-manifest", "no expert is named, and there is no manifest.json here")
                .hint("name one: --manifest experts/expert-sql")
        })?;
        Ok(if named.is_dir() { named.join(MANIFEST) } else { named })
    }

    /// Every change that the command line asks for, shorthands first, so that an explicit `--set` has the last word.
    pub fn sets(&self) -> Vec<Set> {
        let training = &self.training;
        let flag = |option: &str, key: &str, value: Option<String>| {
            value.map(|value| Set::flag(option, format!("training.config.{key}"), value))
        };
        let precision = |key: &str, named: MixedPrecision| {
            let value = training.mixed_precision.map(|value| (value == named).to_string());
            flag("--mixed-precision", key, value)
        };
        let shorthands = [
            flag("--epochs", "epochs", training.epochs.map(|value| value.to_string())),
            flag("--max-steps", "max_steps", training.max_steps.map(|value| value.to_string())),
            flag("--batch-size", "batch_size", training.batch_size.map(|value| value.to_string())),
            flag("--lora-rank", "rank", training.lora_rank.map(|value| value.to_string())),
            precision("fp16", MixedPrecision::Fp16),
            precision("bf16", MixedPrecision::Bf16),
        ];
        shorthands.into_iter().flatten().chain(self.set.iter().cloned()).collect()
    }
}
