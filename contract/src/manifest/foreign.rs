//! What other trainers call a setting, and its name here: Axolotl, LLaMA-Factory, Unsloth, PEFT, TRL, torchtune.

/// A key of another trainer, and where the same is said here.
const KEYS: &[(&str, &str)] = &[
    ("lora_r", "training.config.rank"),
    ("r", "training.config.rank"),
    ("lora_target_modules", "training.config.target_modules"),
    ("lora_target", "training.config.target_modules"),
    ("lora_modules", "training.config.target_modules"),
    ("lora_attn_modules", "training.config.target_modules"),
    ("lora_target_linear", "training.config.target_modules: \"all-linear\""),
    ("apply_lora_to_mlp", "training.config.target_modules: \"all-linear\""),
    ("use_dora", "training.config.adapter_type: \"dora\""),
    ("peft_use_dora", "training.config.adapter_type: \"dora\""),
    ("use_rslora", "training.config.adapter_type: \"rslora\""),
    ("peft_use_rslora", "training.config.adapter_type: \"rslora\""),
    ("finetuning_type", "training.config.adapter_type"),
    ("peft_type", "training.config.adapter_type"),
    ("adapter", "training.config.adapter_type"),
    ("micro_batch_size", "training.config.batch_size"),
    ("train_batch_size", "training.config.batch_size"),
    ("per_device_batch_size", "training.config.batch_size"),
    ("grad_accumulation", "training.config.gradient_accumulation_steps"),
    ("gradient_accumulation", "training.config.gradient_accumulation_steps"),
    ("grad_accum_steps", "training.config.gradient_accumulation_steps"),
    ("sequence_len", "training.config.max_seq_length"),
    ("cutoff_len", "training.config.max_seq_length"),
    ("max_seq_len", "training.config.max_seq_length"),
    ("model_max_length", "training.config.max_seq_length"),
    ("block_size", "training.config.max_seq_length"),
    ("sample_packing", "training.config.packing"),
    ("pad_to_sequence_len", "training.config.packing"),
    ("neat_packing", "training.config.packing"),
    ("lr", "training.config.learning_rate"),
    ("scheduler", "training.config.lr_scheduler"),
    ("warmup", "training.config.warmup_steps"),
    ("num_warmup_steps", "training.config.warmup_steps"),
    ("max_steps_per_epoch", "training.config.max_steps"),
    ("optimizer", "training.config.optim"),
    ("clip_grad_norm", "training.config.max_grad_norm"),
    ("gradient_clipping", "training.config.max_grad_norm"),
    ("neftune_alpha", "training.config.neftune_noise_alpha"),
    ("random_seed", "training.config.seed"),
    ("random_state", "training.config.seed"),
    ("load_in_4bit", "base_models[].quantization: \"int4\""),
    ("load_in_8bit", "base_models[].quantization: \"int8\""),
    ("quantization_bit", "base_models[].quantization"),
    ("bnb_4bit_quant_type", "base_models[].quantization: \"int4\""),
    ("bnb_4bit_compute_dtype", "training.config.bf16"),
    ("dtype", "training.config.bf16"),
    ("torch_dtype", "training.config.bf16"),
    ("mixed_precision", "training.config.bf16"),
    ("flash_attention", "training.config.flash_attention_2"),
    ("flash_attn", "training.config.flash_attention_2"),
    ("sdp_attention", "training.config.use_sdpa"),
    ("use_gradient_checkpointing", "training.config.gradient_checkpointing"),
    ("enable_activation_checkpointing", "training.config.gradient_checkpointing"),
    ("base_model_name_or_path", "base_models[].name"),
    ("model_name_or_path", "base_models[].name"),
    ("model_name", "base_models[].name"),
    ("chat_template", "base_models[].prompt_template"),
    ("template", "base_models[].prompt_template"),
    ("datasets", "training.dataset.path, or training.dataset.tasks for several"),
    ("dataset_path", "training.dataset.path"),
    ("train_file", "training.dataset.path"),
    ("validation_file", "training.dataset.validation_path"),
    ("test_datasets", "training.dataset.validation_path"),
    ("val_set_size", "training.dataset.validation_split"),
    ("val_size", "training.dataset.validation_split"),
    ("train_on_inputs", "training.dataset.train_on: \"all\""),
    ("train_on_prompt", "training.dataset.train_on: \"all\""),
    ("completion_only_loss", "training.dataset.train_on"),
    ("assistant_only_loss", "training.dataset.train_on"),
    ("dataset_text_field", "training.dataset.text_field"),
    ("columns", "training.dataset.field_mapping"),
    ("evals_per_epoch", "training.config.evaluation_strategy and eval_steps"),
    ("saves_per_epoch", "training.config.save_strategy and save_steps"),
    ("load_best_model", "training.config.load_best_model_at_end"),
    ("use_wandb", "training.config.report: \"wandb\""),
    ("wandb_project", "training.config.report: \"wandb\", with the project in WANDB_PROJECT"),
    ("logging_dir", "training.config.report; TensorBoard's files are in the run's folder"),
    ("output_dir", "the command line: `-o DIR`"),
    ("resume_from_checkpoint", "the command line: `train --resume`"),
    ("deepspeed", "training.config.distributed"),
    ("fsdp", "training.config.distributed: \"fsdp2\""),
];

/// A value of another trainer by the key that it stands at, and what says the same here.
const VALUES: &[(&str, &[&str], &str)] = &[
    ("adapter_type", &["qlora"], "write \"lora\" here, and \"quantization\": \"int4\" at the base model"),
    ("type", &["qlora"], "write \"lora\" here, and \"quantization\": \"int4\" at the base model"),
    (
        "adapter_type",
        &["full", "freeze"],
        "only adapters are trained here: \"lora\" with a high rank comes nearest",
    ),
    ("optim", &["adamw_8bit", "adamw8bit", "adamw_bnb_8"], "write \"adamw_bnb_8bit\""),
    ("optim", &["paged_adamw", "paged_adamw_32"], "write \"paged_adamw_32bit\""),
    (
        "optim",
        &["adamw", "adamw_hf", "adam", "adamw_apex_fused", "adamw_torch_npu_fused"],
        "write \"adamw_torch_fused\"",
    ),
    (
        "quantization",
        &["4bit", "4-bit", "nf4", "fp4", "bnb-4bit", "bnb_nf4", "qlora", "q4"],
        "write \"int4\"",
    ),
    ("quantization", &["8bit", "8-bit", "llm.int8", "bnb-8bit", "bnb", "q8"], "write \"int8\""),
    ("lr_scheduler", &["cosine_annealing", "cosineannealinglr"], "write \"cosine\""),
];

pub fn key(name: &str) -> Option<String> {
    let folded = name.to_ascii_lowercase();
    let (_, here) = KEYS.iter().find(|(foreign, _)| *foreign == folded)?;
    Some(if here.starts_with("training") || here.starts_with("base_models") {
        format!("another trainer's name; here it is `{here}`")
    } else {
        format!("another trainer's name; here it is said on {here}")
    })
}

/// `name` is the setting's dotted path.
pub fn value(name: &str, text: &str) -> Option<&'static str> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let last = if last == "lr_scheduler_type" { "lr_scheduler" } else { last };
    let folded = text.to_ascii_lowercase();
    let found = VALUES.iter().find(|(key, words, _)| *key == last && words.contains(&folded.as_str()));
    found.map(|(_, _, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No row is for a key that is read, and each row points at a key that is.
    #[test]
    fn every_row_leads_to_a_key_that_is_read() {
        let ledger: Vec<String> = crate::reference::ledger_rows().into_iter().map(|row| row.path).collect();
        for (foreign, here) in KEYS {
            let path = here.split([':', ',', ';', ' ']).next().unwrap();
            assert!(
                path == "the" || ledger.iter().any(|known| known.split(' ').next() == Some(path)),
                "{foreign} leads to {path}, which is not a key"
            );
            assert!(!ledger.contains(&format!("training.config.{foreign}")), "{foreign} is a key here");
        }
    }
}
