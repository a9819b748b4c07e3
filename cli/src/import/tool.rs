//! Whose configuration it is, and whether that trainer fine-tunes with it.

use clap::ValueEnum;

use super::tree::{Entry, Value};

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
const TRL: [&str; 12] = [
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
    "use_peft",
    "test_split_size",
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

/// The trainer whose configurations are known and not read, if it is one of theirs.
pub fn unread(source: &Value) -> Option<&'static str> {
    let has = |key: &str| source.get(key).is_some();
    if source.entries().iter().any(|entry| entry.value.get("_component_").is_some()) {
        return Some("torchtune");
    }
    let is_swift = has("rlhf_type") || has("model") && (has("train_type") || has("tuner_type"));
    is_swift.then_some("ms-swift")
}

/// Keys of TRL's other trainers, which its SFTConfig and PEFT's configurations do not have.
const OTHER_TRAINERS: [&str; 41] = [
    // DPO, KTO, CPO, ORPO and their relatives.
    "beta",
    "max_prompt_length",
    "max_completion_length",
    "max_target_length",
    "desirable_weight",
    "undesirable_weight",
    "precompute_ref_log_probs",
    "precompute_ref_batch_size",
    "ref_model_init_kwargs",
    "ref_model_mixup_alpha",
    "ref_model_sync_steps",
    "ref_adapter_name",
    "reference_free",
    "sync_ref_model",
    "f_divergence_type",
    "loss_weights",
    "rpo_alpha",
    "cpo_alpha",
    "simpo_gamma",
    "generate_during_eval",
    // Rewards, and what is learned from answers that the model gives while it trains.
    "num_generations",
    "num_generations_eval",
    "num_iterations",
    "reward_funcs",
    "reward_weights",
    "reward_model_path",
    "reward_model_name_or_path",
    "center_rewards_coefficient",
    "scale_rewards",
    "steps_per_generation",
    "generation_batch_size",
    "epsilon_high",
    "missing_eos_penalty",
    "num_ppo_epochs",
    "kl_coef",
    "cliprange",
    "vf_coef",
    "response_length",
    // Distillation.
    "teacher_model_name_or_path",
    "lmbda",
    "seq_kd",
];

/// What `loss_type` of TRL's SFTConfig may be, apart from `dft`, which weights the tokens.
const SUPERVISED_LOSSES: [&str; 2] = ["nll", "chunked_nll"];

/// Whether TRL's `loss_type`, a word or a list of them as DPOConfig has it, is the loss here.
pub(super) fn is_usual_loss(value: &Value) -> bool {
    value.texts().is_some_and(|words| words.iter().all(|word| SUPERVISED_LOSSES.contains(&&**word)))
}

/// Before a key of TRL's `peft_config` that is written outside of it too.
pub(super) const NESTED: &str = "peft_config.";

/// With the keys of TRL's `peft_config` among the others.
pub(super) fn flat(source: Value) -> Value {
    let Some(nested) = source.get("peft_config").map(|it| it.entries().to_vec()) else { return source };
    let Value::Map(mut entries) = source else { return source };
    for Entry { key, line, value } in nested {
        let is_twice = entries.iter().any(|outer| outer.key == key);
        entries.push(Entry { key: if is_twice { format!("{NESTED}{key}") } else { key }, line, value });
    }
    Value::Map(entries)
}

/// The key that asks for another method than supervised fine-tuning, with its value.
pub fn other_method(tool: Tool, source: &Value) -> Option<(String, Option<usize>)> {
    let of_trl = tool == Tool::Trl;
    let has_stage = source.get("stage").is_some_and(|it| *it != Value::Null);
    let found = source.entries().iter().find(|entry| match (entry.key.as_str(), entry.value.text()) {
        ("stage", Some(stage)) => !["sft", "pt"].contains(&stage),
        // Classification and the like, which train a separate head.
        ("task_type" | "lora_task_type", Some(task)) => !["", "causal_lm"].contains(&&*task.to_lowercase()),
        ("rl", _) | ("reward_model" | "process_reward_model", None) => !entry.value.is_off(),
        ("loss_type", word) if of_trl => {
            entry.value != Value::Null && word != Some("dft") && !is_usual_loss(&entry.value)
        }
        // With a stage that is written they have no effect on another one.
        ("pref_beta" | "pref_loss", _) => {
            tool == Tool::LlamaFactory && !has_stage && entry.value != Value::Null
        }
        (key, _) => of_trl && entry.value != Value::Null && OTHER_TRAINERS.contains(&key),
    })?;
    Some((format!("{}: {}", found.key, found.value.json()), (found.line > 0).then_some(found.line)))
}
