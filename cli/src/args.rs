//! Options that several commands share.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use expert_contract::ledger::{Kind, WHOLE, entries};
use expert_contract::manifest::{Bases, Options, PRESET, ROOT, Set};
use expert_contract::plan::{DeviceKind, GgufQuantization};
use expert_contract::shell;
use serde::{Deserialize, Serialize};

use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::scaffold::Preset;
use crate::sys::cards::{self, Card};
use crate::sys::paths::near;

#[derive(Args)]
#[command(next_help_heading = "Every command")]
pub struct Global {
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only the result, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// The Python interpreter that runs the worker
    #[arg(long, global = true, value_name = "PATH")]
    pub python: Option<PathBuf>,
}

/// The expert, base, data and changes that decide a plan.
#[derive(Args, Debug, Clone, Serialize, Deserialize)]
pub struct PlanOptions {
    /// The expert: its folder or its manifest.json (default: the working directory)
    #[arg(value_name = "EXPERT", conflicts_with = "manifest")]
    pub expert: Option<PathBuf>,
    /// The expert, as a flag
    #[arg(long, short, value_name = "PATH")]
    pub manifest: Option<PathBuf>,
    /// The base to use: its name in the manifest or the beginning of one, such as qwen3 for Qwen/Qwen3-4B; or any other, by
    /// Hub id or folder, or smollm2-135m-instruct, which comes with the worker
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Rows to train on instead of the manifest's, from [`TrainingData`].
    #[arg(skip)]
    pub data: Option<PathBuf>,
    /// Rows to score on instead of the manifest's, where the command scores.
    #[arg(skip)]
    pub test: Option<PathBuf>,
    /// The run's folder (default: weights/<model> beside the manifest)
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Change one value: a dotted path of the manifest and a JSON value; bare words are strings
    #[arg(long, value_name = "KEY=VALUE", value_parser = Set::parse)]
    pub set: Vec<Set>,
    /// The machine that the plan is for, where it is not this one.
    #[arg(skip)]
    #[serde(skip)]
    pub card: Option<Card>,
    /// The most memory of the device to use, where the command computes.
    #[arg(skip)]
    pub max_memory: Option<u64>,
    /// Where to train and compute
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Number format to compute in: fp16, bf16, or no for fp32
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub mixed_precision: Option<MixedPrecision>,
    /// Another folder that may hold the manifest's datasets and outputs
    #[arg(long, value_name = "ROOT")]
    pub allow_path: Vec<PathBuf>,
}

/// For the commands that read training rows.
#[derive(Args, Debug, Clone)]
pub struct TrainingData {
    /// Training data instead of the manifest's
    #[arg(long, short, value_name = "PATH")]
    pub data: Option<PathBuf>,
}

/// The options of what trains: data, and more shorthands.
#[derive(Args, Debug, Clone)]
pub struct TrainOptions {
    #[command(flatten)]
    plan: PlanOptions,
    #[command(flatten)]
    training: TrainingData,
    #[command(flatten)]
    shorthands: Shorthands,
    /// Maximum device memory to use, such as 8GB: decides the micro-batch, and on a GPU the allocator's limit
    #[arg(long, value_name = "SIZE", value_parser = cards::memory)]
    max_memory: Option<u64>,
}

const SETTINGS: &str = "Settings, in place of the manifest's";

/// Shorthands for `--set training.config.*`. The check of the manifest says which numbers are allowed.
#[derive(Args, Debug, Clone)]
struct Shorthands {
    /// A preset's training settings, below the following ones and --set; base and data stay the manifest's
    #[arg(long, help_heading = SETTINGS, value_enum, value_name = "PRESET")]
    preset: Option<Preset>,
    /// Number of epochs; may be a fraction
    #[arg(long, help_heading = SETTINGS, value_name = "N", value_parser = number_of::<f64>("training.config.epochs"))]
    epochs: Option<f64>,
    /// Optimizer steps, instead of epochs
    #[arg(long, help_heading = SETTINGS, value_name = "N", value_parser = number_of::<i64>("training.config.max_steps"))]
    max_steps: Option<i64>,
    /// Rows per micro-batch
    #[arg(long, help_heading = SETTINGS, value_name = "ROWS", value_parser = number_of::<i64>("training.config.batch_size"))]
    batch_size: Option<i64>,
    /// Rank of the adapter
    #[arg(long, help_heading = SETTINGS, value_name = "R", value_parser = number_of::<i64>("training.config.rank"))]
    lora_rank: Option<i64>,
    /// Peak learning rate
    #[arg(long, help_heading = SETTINGS, value_name = "RATE", value_parser = number_of::<f64>("training.config.learning_rate"))]
    learning_rate: Option<f64>,
    /// Maximum tokens per row
    #[arg(long, help_heading = SETTINGS, value_name = "TOKENS", value_parser = number_of::<i64>("training.config.max_seq_length"))]
    max_seq_length: Option<i64>,
    /// Random seed
    #[arg(long, help_heading = SETTINGS, value_name = "N", value_parser = number_of::<i64>("training.config.seed"))]
    seed: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum DeviceChoice {
    Auto,
    Cuda,
    Mps,
    Cpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum MixedPrecision {
    No,
    Fp16,
    Bf16,
}

impl DeviceChoice {
    /// None: the best one that is here.
    pub fn kind(self) -> Option<DeviceKind> {
        match self {
            Self::Auto => None,
            Self::Cuda => Some(DeviceKind::Cuda),
            Self::Mps => Some(DeviceKind::Mps),
            Self::Cpu => Some(DeviceKind::Cpu),
        }
    }
}

impl PlanOptions {
    /// Every change of the command line, shorthands first, so that an explicit `--set` wins.
    pub fn sets(&self) -> Vec<Set> {
        let precision = |key: &str, named: MixedPrecision| {
            shorthand("--mixed-precision", key, self.mixed_precision.map(|value| value == named))
        };
        let shorthands = [precision("fp16", MixedPrecision::Fp16), precision("bf16", MixedPrecision::Bf16)];
        shorthands.into_iter().flatten().chain(self.set.iter().cloned()).collect()
    }

    /// With these changes in place of earlier ones of the same values. A preset's stay: it is one option.
    #[must_use]
    pub fn with(&self, sets: &[Set]) -> Self {
        let is_replaced =
            |it: &Set| !it.option.starts_with(PRESET) && sets.iter().any(|set| set.path == it.path);
        let kept = self.set.iter().filter(|it| !is_replaced(it)).cloned();
        Self { set: kept.chain(sets.iter().cloned()).collect(), ..self.clone() }
    }

    /// How the manifest is read.
    pub fn reading(&self) -> Options {
        Options {
            allowed: self.allow_path.clone(),
            sets: self.sets(),
            bases: self.model.clone().map_or(Bases::First, Bases::Named),
            ..Options::default()
        }
    }

    /// The manifest's file; a folder stands for the one in it.
    pub fn manifest_file(&self) -> Result<PathBuf, Failure> {
        let named = self.manifest.clone().or_else(|| self.expert.clone());
        let here = || Some(PathBuf::from(MANIFEST)).filter(|file| file.is_file());
        let named = named.or_else(here).ok_or_else(|| {
            Failure::bad_input("no-manifest", "no expert is named, and there is no manifest.json here")
                .hint("name its folder, such as experts/expert-sql")
        })?;
        if !named.is_dir() {
            return Ok(named);
        }
        let manifests = experts::below(&named).unwrap_or_default();
        match manifests.first().and_then(|manifest| manifest.parent()) {
            Some(first) if first != named => Err(a_shelf(&named, manifests.len(), first)),
            _ => Ok(named.join(MANIFEST)),
        }
    }
}

fn a_shelf(folder: &Path, count: usize, first: &Path) -> Failure {
    let experts = if count == 1 { "an expert".to_owned() } else { format!("{count} experts") };
    let message = format!("{} holds {experts}, and has no {MANIFEST} itself", near(folder));
    let (first, folder) = (shell::quoted(&near(first)), shell::quoted(&near(folder)));
    Failure::bad_input("no-manifest", message)
        .hint(format!("name an expert, such as {first}, or train all by `train --all {folder}`"))
}

fn shorthand<T: ToString>(option: &str, key: &str, value: Option<T>) -> Option<Set> {
    value.map(|value| Set::flag(option, format!("training.config.{key}"), value.to_string()))
}

impl TrainOptions {
    /// With the shorthands as changes before those of `--set`.
    pub fn plan(&self) -> PlanOptions {
        let set = self.shorthands.sets().chain(self.plan.set.iter().cloned()).collect();
        PlanOptions {
            set,
            data: self.training.data.clone(),
            max_memory: self.max_memory,
            ..self.plan.clone()
        }
    }
}

impl Shorthands {
    fn sets(&self) -> impl Iterator<Item = Set> {
        let sets = [
            shorthand("--epochs", "epochs", self.epochs),
            shorthand("--max-steps", "max_steps", self.max_steps),
            shorthand("--batch-size", "batch_size", self.batch_size),
            shorthand("--lora-rank", "rank", self.lora_rank),
            shorthand("--learning-rate", "learning_rate", self.learning_rate),
            shorthand("--max-seq-length", "max_seq_length", self.max_seq_length),
            shorthand("--seed", "seed", self.seed),
        ];
        self.preset.into_iter().flat_map(Preset::sets).chain(sets.into_iter().flatten())
    }
}

/// What the machine costs.
#[derive(Args, Debug, Clone)]
pub struct Price {
    /// Price of this machine per hour, in any currency: adds the cost
    #[arg(long, value_name = "AMOUNT", value_parser = price)]
    pub price_per_hour: Option<f64>,
}

fn price(text: &str) -> Result<f64, String> {
    positive(text, "amount")
}

/// Of the weights in a GGUF file.
pub fn quantization() -> impl TypedValueParser<Value = GgufQuantization> {
    PossibleValuesParser::new(GgufQuantization::WORDS)
        .try_map(|text| GgufQuantization::parse(&text).ok_or("not a quantization"))
}

/// A number for this setting of the manifest, whose check has the range: only what is not such a number is refused here.
pub fn number_of<T: FromStr>(setting: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        text.parse().map_err(|_| {
            let entry = entries(&ROOT).into_iter().find(|entry| entry.path == setting);
            let kind = entry.map_or(&WHOLE, |entry| &entry.field.kind);
            // The other kind is null, which an option has no word for.
            let number = if let Kind::OneOf([number, ..]) = kind { number } else { kind };
            format!("write {}", number.describe())
        })
    }
}

/// A number in this range, which the refusal names.
pub fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| match *range.end() {
            u64::MAX => format!("write a whole number of at least {}", range.start()),
            most => format!("write a whole number from {} to {most}", range.start()),
        })
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    positive(text, "number of seconds")
}

/// `what` is the word for it in the refusal.
pub fn positive(text: &str, what: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    (value.is_finite() && value > 0.0)
        .then_some(value)
        .ok_or_else(|| format!("`{text}` is not a positive {what}"))
}

/// Supervision options, shared by every command that starts a worker.
#[derive(Args, Debug, Clone)]
pub struct Supervision {
    /// End a worker without progress for this many seconds and for longer than its stage's budget
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub stall_timeout: Option<Duration>,
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is not a positive number of seconds"))
}
