//! Whose configuration it is, and what that trainer does where nothing is written.

use clap::ValueEnum;
use serde_json::json;

use super::tree::{Entry, Value};
use super::{Import, keys, layers, running_text};

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

/// Keys of which one says that an adapter is trained; a quantized base cannot be trained itself.
const OF_AN_ADAPTER: [&str; 14] = [
    "peft_type",
    "peft_config",
    "r",
    "lora_r",
    "lora_rank",
    "rank",
    "lora_alpha",
    "lora_dropout",
    "lora_target_modules",
    "target_modules",
    "use_dora",
    "use_rslora",
    "load_in_4bit",
    "load_in_8bit",
];

/// Where no key asks for an adapter, Axolotl and TRL train the whole model. It is decided before the other keys are
/// read: a rank beside it has no effect there.
pub(super) fn whole_model(import: &mut Import<'_>) {
    let given = |key: &str| import.source.get(key).filter(|it| **it != Value::Null);
    let is_on = |key: &&str| given(key).is_some_and(|it| !it.is_off());
    let (key, is_whole) = match import.tool {
        Tool::Axolotl => {
            let asking =
                ["adapter", "peft_type", "use_dora", "peft_use_dora", "use_rslora", "peft_use_rslora"];
            ("adapter", !asking.iter().any(is_on))
        }
        Tool::LlamaFactory => return,
        Tool::Trl => {
            let has_key = || OF_AN_ADAPTER.iter().any(|key| given(key).is_some());
            ("use_peft", given("use_peft").map_or_else(|| !has_key(), Value::is_off))
        }
    };
    if is_whole {
        let written = import.source.entry(key);
        let absent = || Entry { key: key.to_owned(), line: 0, value: Value::Null };
        let entry = written.cloned().unwrap_or_else(absent);
        keys::whole_model(import, &entry);
    }
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
    duration(import, "num_epochs", 1.0);
    import.default("micro_batch_size", "training.config.batch_size", json!(1));
    import.default("sequence_len", "training.config.max_seq_length", json!(512));
    let (key, overlong) = if running_text::is_running_text(import) {
        ("datasets (running text)", "split")
    } else {
        ("excess_length_strategy", "drop")
    };
    import.default(key, "training.dataset.overlong", json!(overlong));
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
    if running_text::is_pretraining(import.source) {
        import.default("packing", "training.config.packing", json!(true));
    }
    import.default("disable_gradient_checkpointing", "training.config.gradient_checkpointing", json!(true));
}

fn trl(import: &mut Import<'_>) {
    duration(import, "num_train_epochs", 3.0);
    import.default("learning_rate", "training.config.learning_rate", json!(2e-5));
    import.default("lr_scheduler_type", "training.config.lr_scheduler", json!("linear"));
    import.default("max_length", "training.config.max_seq_length", json!(1024));
    import.default("gradient_checkpointing", "training.config.gradient_checkpointing", json!(true));
    if import.at("training.dataset.train_on").is_none() {
        import.change(
            &Entry { key: "train_on".to_owned(), line: 0, value: Value::Null },
            "training.dataset.train_on",
            json!("assistant"),
            "TRL learns every token of rows with `messages`; here the answers in them are learned",
            "set training.dataset.train_on to \"all\" to learn every token of them",
        );
    }
}

fn duration(import: &mut Import<'_>, key: &str, epochs: f64) {
    let steps = import.at("training.config.max_steps").and_then(serde_json::Value::as_f64);
    if steps.is_none_or(|steps| steps <= 0.0) {
        import.default(key, "training.config.epochs", json!(epochs as u64));
    }
}

/// PEFT's rank and alpha, those of TRL's scripts, and LLaMA-Factory's alpha of twice the rank. Where the whole model
/// was trained, a high rank.
fn adapter(import: &mut Import<'_>) {
    if import.at("training.config.adapter_type").is_none() {
        import.put("training.config.adapter_type", json!("lora"));
    }
    let kind =
        import.at("training.config.adapter_type").and_then(serde_json::Value::as_str).unwrap_or_default();
    if !["lora", "rslora", "dora", "lokr", "adalora"].contains(&kind) {
        return;
    }
    // Only TRL's scripts have `use_peft`.
    let by_script = import.tool == Tool::Trl && import.source.get("use_peft").is_some_and(|it| !it.is_off());
    import.default("lora_r", "training.config.rank", json!(if by_script { 16 } else { 8 }));
    let rank = import.at("training.config.rank").and_then(serde_json::Value::as_f64).unwrap_or(8.0);
    let alpha = match import.tool {
        Tool::LlamaFactory => 2.0 * rank,
        _ if by_script => 32.0,
        _ => 8.0,
    };
    import.default("lora_alpha", "training.config.alpha", json!(alpha as u64));
    if by_script {
        import.default("lora_dropout", "training.config.dropout", json!(0.05));
    }
    if import.tool == Tool::Trl {
        modules(import);
    }
}

/// PEFT adapts few layers where none are named. Unsloth, whose keys are read as TRL's, names all of them by default.
fn modules(import: &mut Import<'_>) {
    const PATH: &str = "training.config.target_modules";
    let is_given = |key: &&str| import.source.get(key).is_some_and(|it| !it.is_off());
    let names = ["lora_target_modules", "target_modules", "lora_modules"];
    let of_unsloth = ["use_gradient_checkpointing", "use_unsloth_gc", "use_unsloth", "random_state"];
    if import.at(PATH).is_some() || names.iter().chain(&of_unsloth).any(is_given) {
        return;
    }
    let base = import.at("base_models.0.name").and_then(serde_json::Value::as_str).unwrap_or_default();
    match layers::of_peft(base) {
        Some(layers) => import.default("lora_target_modules", PATH, json!(layers)),
        None => import.change(
            &Entry { key: "lora_target_modules".to_owned(), line: 0, value: Value::Null },
            PATH,
            json!("all-linear"),
            "PEFT adapts the layers that it knows for the base's architecture, in most q_proj and v_proj",
            "set training.config.target_modules to [\"q_proj\", \"v_proj\"] to adapt those alone",
        ),
    }
}

pub(super) fn has_validation(import: &Import<'_>) -> bool {
    ["validation_path", "validation_split"]
        .iter()
        .any(|key| import.at(&format!("training.dataset.{key}")).is_some())
}
