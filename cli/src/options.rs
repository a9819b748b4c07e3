//! Flags that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

/// Which expert, on which base and data, with which changes: what decides a plan.
#[derive(Args, Debug, Clone)]
pub struct PlanOptions {
    /// The expert's manifest.json, or its folder
    #[arg(long, short, value_name = "PATH")]
    pub manifest: PathBuf,
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
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_assignment)]
    pub set: Vec<Assignment>,
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

/// One `--set key=value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub key: String,
    pub value: Value,
}

impl Assignment {
    fn new(key: &str, value: impl Into<Value>) -> Self {
        Self { key: key.to_owned(), value: value.into() }
    }
}

impl PlanOptions {
    /// Every change that the command line asks for, shorthands first, so that an explicit `--set` has the last word.
    pub fn assignments(&self) -> Vec<Assignment> {
        let training = &self.training;
        let precision = training.mixed_precision;
        let shorthands = [
            training.epochs.map(|value| Assignment::new("training.config.epochs", value)),
            training.max_steps.map(|value| Assignment::new("training.config.max_steps", value)),
            training.batch_size.map(|value| Assignment::new("training.config.batch_size", value)),
            training.lora_rank.map(|value| Assignment::new("training.config.rank", value)),
            precision.map(|value| Assignment::new("training.config.fp16", value == MixedPrecision::Fp16)),
            precision.map(|value| Assignment::new("training.config.bf16", value == MixedPrecision::Bf16)),
        ];
        shorthands.into_iter().flatten().chain(self.set.iter().cloned()).collect()
    }
}

fn parse_assignment(text: &str) -> Result<Assignment, String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as training.config.epochs=3")?;
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(format!("`{key}` is not a dotted path such as training.config.epochs"));
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok(Assignment { key: key.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_and_bare_words_are_strings() {
        assert_eq!(parse_assignment("a.b=5e-5").unwrap(), Assignment::new("a.b", 5e-5));
        assert_eq!(parse_assignment("a=true").unwrap(), Assignment::new("a", true));
        assert_eq!(parse_assignment("a=cosine").unwrap(), Assignment::new("a", "cosine"));
        assert_eq!(parse_assignment("a=x=y").unwrap(), Assignment::new("a", "x=y"));
        assert_eq!(parse_assignment("a=").unwrap(), Assignment::new("a", ""));
        assert_eq!(parse_assignment("a=[1,2]").unwrap().value, serde_json::json!([1, 2]));
    }

    #[test]
    fn a_path_needs_every_part() {
        for wrong in ["a", "=1", ".a=1", "a..b=1", "a.=1"] {
            assert!(parse_assignment(wrong).is_err(), "{wrong}");
        }
    }
}
