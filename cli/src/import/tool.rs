//! Whose configuration it is, and what that trainer does where nothing is written.

use clap::ValueEnum;
use serde_json::json;

use super::tree::{Entry, Value};
use super::{Import, keys};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    Axolotl,
    LlamaFactory,
    /// TRL's SFTConfig, PEFT's LoraConfig, transformers' TrainingArguments, Unsloth
    Trl,
}

/// Keys that only one of them has.
const AXOLOTL: [&str; 10] = [
    "base_model",
    "micro_batch_size",
    "sequence_len",
    "datasets",
    "sample_packing",
    "adapter",
    "num_epochs",
    "val_set_size",
    "lora_target_linear",
    "dataset_prepared_path",
];
const LLAMA_FACTORY: [&str; 9] = [
    "finetuning_type",
    "stage",
    "template",
    "cutoff_len",
    "lora_target",
    "dataset_dir",
    "do_train",
    "plot_loss",
    "quantization_bit",
];
const TRL: [&str; 10] = [
    "model_name_or_path",
    "model_name",
    "base_model_name_or_path",
    "peft_type",
    "dataset_name",
    "lora_r",
    "per_device_train_batch_size",
    "max_seq_length",
    "max_length",
    "r",
];

impl Tool {
    pub fn of(source: &Value) -> Option<Self> {
        let count = |keys: &[&str]| keys.iter().filter(|key| source.get(key).is_some()).count();
        let found = [
            (count(&AXOLOTL), Self::Axolotl),
            (count(&LLAMA_FACTORY), Self::LlamaFactory),
            (count(&TRL), Self::Trl),
        ];
        // Of equals the first; one key alone says too little.
        let best = found.into_iter().rev().max_by_key(|(count, _)| *count)?;
        (best.0 > 1).then_some(best.1)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Axolotl => "Axolotl",
            Self::LlamaFactory => "LLaMA-Factory",
            Self::Trl => "TRL and PEFT",
        }
    }
}

pub fn is_torchtune(source: &Value) -> bool {
    source.entries().iter().any(|entry| entry.value.get("_component_").is_some())
}

/// The key that asks for another method than supervised fine-tuning, with its value.
pub fn other_method(source: &Value) -> Option<(String, Option<usize>)> {
    let found = source.entries().iter().find(|entry| match (entry.key.as_str(), entry.value.text()) {
        ("stage", Some(stage)) => !["sft", "pt"].contains(&stage),
        ("rl", _) | ("reward_model" | "process_reward_model", None) => !entry.value.is_off(),
        _ => false,
    })?;
    Some((format!("{}: {}", found.key, found.value.json()), (found.line > 0).then_some(found.line)))
}

/// Defaults of the other trainer that differ from those here.
pub(super) fn defaults(import: &mut Import<'_>) {
    match import.tool {
        Tool::Axolotl => axolotl(import),
        Tool::LlamaFactory => llama_factory(import),
        Tool::Trl => trl(import),
    }
    adapter(import);
}

fn axolotl(import: &mut Import<'_>) {
    if import.at("training.config.adapter_type").is_none() {
        // Without `adapter`, Axolotl trains the whole model.
        import.lines.retain(|line| line.key != "adapter");
        keys::whole_model(import, &Entry { key: "adapter".to_owned(), line: 0, value: Value::Null });
    }
    duration(import, "num_epochs", 1.0);
    import.default("micro_batch_size", "training.config.batch_size", json!(1));
    import.default("sequence_len", "training.config.max_seq_length", json!(512));
    import.default("excess_length_strategy", "training.dataset.overlong", json!("drop"));
    if import.at("training.config.warmup_steps").is_none() {
        import.default("warmup_ratio", "training.config.warmup_ratio", json!(0.03));
    }
    import.default("save_strategy", "training.config.save_strategy", json!("epoch"));
    if has_validation(import) {
        import.default("eval_strategy", "training.config.evaluation_strategy", json!("epoch"));
    }
    if import.at("training.config.early_stopping_patience").is_some() {
        import.default("load_best_model_at_end", "training.config.load_best_model_at_end", json!(true));
    }
}

fn llama_factory(import: &mut Import<'_>) {
    duration(import, "num_train_epochs", 3.0);
    import.default("learning_rate", "training.config.learning_rate", json!(5e-5));
    import.default("lr_scheduler_type", "training.config.lr_scheduler", json!("linear"));
    import.default("cutoff_len", "training.config.max_seq_length", json!(2048));
    import.default("train_on", "training.dataset.train_on", json!("assistant"));
    import.default("disable_gradient_checkpointing", "training.config.gradient_checkpointing", json!(true));
}

fn trl(import: &mut Import<'_>) {
    duration(import, "num_train_epochs", 3.0);
    import.default("learning_rate", "training.config.learning_rate", json!(2e-5));
    import.default("lr_scheduler_type", "training.config.lr_scheduler", json!("linear"));
    import.default("max_length", "training.config.max_seq_length", json!(1024));
    import.default("gradient_checkpointing", "training.config.gradient_checkpointing", json!(true));
    import.default("train_on", "training.dataset.train_on", json!("assistant"));
}

fn duration(import: &mut Import<'_>, key: &str, epochs: f64) {
    let steps = import.at("training.config.max_steps").and_then(serde_json::Value::as_f64);
    if steps.is_none_or(|steps| steps <= 0.0) {
        import.default(key, "training.config.epochs", json!(epochs as u64));
    }
}

/// PEFT's rank and alpha, and LLaMA-Factory's alpha of twice the rank. Where the whole model was trained, a high rank.
fn adapter(import: &mut Import<'_>) {
    if import.at("training.config.adapter_type").is_none() {
        import.put("training.config.adapter_type", json!("lora"));
    }
    let kind =
        import.at("training.config.adapter_type").and_then(serde_json::Value::as_str).unwrap_or_default();
    if !["lora", "rslora", "dora", "lokr", "adalora"].contains(&kind) {
        return;
    }
    import.default("lora_r", "training.config.rank", json!(8));
    let rank = import.at("training.config.rank").and_then(serde_json::Value::as_f64).unwrap_or(8.0);
    let alpha = if import.tool == Tool::LlamaFactory { 2.0 * rank } else { 8.0 };
    import.default("lora_alpha", "training.config.alpha", json!(alpha as u64));
}

pub(super) fn has_validation(import: &Import<'_>) -> bool {
    ["validation_path", "validation_split"]
        .iter()
        .any(|key| import.at(&format!("training.dataset.{key}")).is_some())
}
