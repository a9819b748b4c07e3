//! Keys whose value here is another one than there, or depends on other keys.

mod arithmetic;
mod model;
mod rows;
mod schedule;
mod trackers;

use serde_json::{Value as Json, json};

use crate::import::defaults::SAVE_TOTAL_LIMIT;
use crate::import::draft::Import;
use crate::import::tool::{Tool, is_usual_loss};
use crate::import::tree::{Entry, Value};
use arithmetic::{attention, checkpointing, number_format, precision};
use rows::{
    TRAIN_ON, completions, held_out, overlong, sampling, shuffled, stage, truncated, without_validation,
};
use schedule::{
    EVALUATION, OPTIONS, SAVING, by_steps_of_a_share, every, per_epoch, scheduler, scheduler_options, warmup,
    whole_batch,
};
use trackers::{tracker, trackers};

pub(super) use model::{own_template, whole_model};
pub(super) use rows::HELD_OUT;

/// What is written where the other trainer has no limit of a row's tokens: the default here.
const USUAL_LENGTH: u64 = 2048;

/// Keys that decide where another key names the same setting: they are read first, in this order.
const DECIDING: [&str; 14] = [
    "seed",
    // TRL cuts rows by it; the other one is the tokenizer's.
    "truncation_mode",
    "neat_packing",
    "assistant_only_loss",
    "use_dora",
    "peft_use_dora",
    "lora_use_dora",
    "use_rslora",
    "peft_use_rslora",
    "adapter",
    "finetuning_type",
    "peft_type",
    "lora",
    "lr_scheduler_kwargs",
];

pub(super) fn deciding_first(entries: &[Entry]) -> Vec<&Entry> {
    let place = |entry: &Entry| DECIDING.iter().position(|key| *key == entry.key).unwrap_or(DECIDING.len());
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by_key(|entry| place(entry));
    entries
}

/// A key without a value.
pub(super) fn empty(import: &mut Import<'_>, entry: &Entry) {
    if entry.key == "save_total_limit" && import.tool != Tool::Axolotl {
        return import.carry(entry, SAVE_TOTAL_LIMIT, Json::Null);
    }
    let limits = ["max_seq_length", "max_seq_len", "model_max_length"];
    let has_other = || limits.iter().any(|key| import.source.get(key).is_some_and(|it| *it != Value::Null));
    if import.tool != Tool::Trl || entry.key != "max_length" || has_other() {
        return import.unneeded(entry, "empty: the default holds");
    }
    import.change(
        entry,
        "training.config.max_seq_length",
        json!(USUAL_LENGTH),
        "rows have no limit there; here they are cut at max_seq_length",
        "set max_seq_length to the tokens of the longest row, or training.dataset.overlong to \"error\" to find such rows",
    );
}

/// Whether the key is one of these; then it has its line.
pub(super) fn special(import: &mut Import<'_>, entry: &Entry) -> bool {
    let Entry { key, value, .. } = entry;
    match key.as_str() {
        "bf16" | "fp16" | "tf32" | "use_tf32" | "bfloat16" | "pure_bf16" | "float16" => {
            precision(import, entry);
        }
        "dtype" | "torch_dtype" | "mixed_precision" | "bnb_4bit_compute_dtype" | "compute_dtype" => {
            number_format(import, entry);
        }
        "flash_attention" | "flash_attn" | "attn_implementation" | "eager_attention" => {
            attention(import, entry);
        }
        "gradient_checkpointing"
        | "use_gradient_checkpointing"
        | "enable_activation_checkpointing"
        | "disable_gradient_checkpointing"
        | "use_unsloth_gc" => checkpointing(import, entry),
        "gradient_checkpointing_kwargs" | "activation_checkpointing_kwargs" => {
            import.unneeded(entry, "recomputation is the non-reentrant kind");
        }
        "use_unsloth" => import.unneeded(entry, "the fast path has its own fused kernels"),
        "dataloader_num_workers"
        | "dataloader_pin_memory"
        | "dataloader_prefetch_factor"
        | "dataloader_persistent_workers" => {
            import.unneeded(entry, "rows come from the mapped token cache");
        }
        "scheduler" | "lr_scheduler" | "lr_scheduler_type" => scheduler(import, entry),
        "lr_scheduler_kwargs" => scheduler_options(import, entry),
        "cosine_min_lr_ratio" | "min_lr_ratio" => {
            import.carry(entry, &format!("{OPTIONS}.min_lr_ratio"), value.json());
        }
        "warmup_steps" | "warmup_ratio" => warmup(import, entry),
        "neat_packing" if value.is_off() => import.unneeded(entry, "off: `packing` decides"),
        "excess_length_strategy" => overlong(import, entry),
        "batch_size" if import.tool == Tool::Axolotl => whole_batch(import, entry),
        "mask_history" if value.is_off() => {
            import.unneeded(entry, "off: every answer of a dialogue is learned");
        }
        "mask_history" => import.carry(entry, TRAIN_ON, json!("completions")),
        "model_revision" | "revision_of_model" | "revision" if value.text() == Some("main") => {
            import.unneeded(entry, "it is the default");
        }
        "streaming" | "dataset_streaming" => {
            import.unneeded(entry, "rows are read from a mapped file, whatever their number");
        }
        "quantization_method" if ["bnb", "bitsandbytes"].contains(&value.text().unwrap_or_default()) => {
            import.unneeded(entry, "int4 and int8 are those of bitsandbytes");
        }
        "rope_scaling" if value.text().is_some() => import.left(
            entry,
            "a type without a factor changes nothing here",
            "set base_models[].rope_scaling to {\"type\": ..., \"factor\": ...}",
        ),
        // Axolotl shards by it alone.
        "fsdp_config" if shards(import, value) => {
            import.carry(entry, "training.config.distributed", json!("fsdp2"));
        }
        "stage" | "training_stage" => stage(import, entry),
        "shuffle" => shuffled(import, entry),
        "dataset_kwargs" if value.get("skip_prepare_dataset").is_none_or(Value::is_off) => {
            import.unneeded(entry, "special tokens are those of the template");
        }
        "evals_per_epoch" => per_epoch(import, entry, EVALUATION, "eval_steps"),
        "saves_per_epoch" => per_epoch(import, entry, SAVING, "save_steps"),
        "eval_strategy" | "evaluation_strategy" | "eval_steps" if !import.has_validation() => {
            without_validation(import, entry, "there is no validation data");
        }
        "eval_strategy" | "evaluation_strategy" | "save_strategy"
            if value.text() == Some("steps") && by_steps_of_a_share(import, entry) => {}
        "eval_steps" => every(import, entry, EVALUATION, "training.config.eval_steps"),
        "save_steps" => every(import, entry, SAVING, "training.config.save_steps"),
        "report_to" => trackers(import, entry),
        "use_wandb" | "wandb_project" | "use_tensorboard" => tracker(import, entry),
        "val_set_size" | "val_size" => held_out(import, entry),
        "load_best_model_at_end"
        | "load_best_model"
        | "early_stopping_patience"
        | "early_stopping_steps"
        | "metric_for_best_model"
        | "greater_is_better"
            if !import.has_validation() =>
        {
            without_validation(import, entry, "there is no validation data to choose a checkpoint by");
        }
        "load_best_model_at_end" if value.is_off() && stops_early_in_axolotl(import) => import.change(
            entry,
            "training.config.load_best_model_at_end",
            json!(true),
            "Axolotl ends with the best checkpoint wherever early_stopping_patience is set, whatever this key says",
            "remove early_stopping_patience and this key to train to the end",
        ),
        // TRL's trainer does not read it.
        "do_train" if value.is_off() && import.tool != Tool::Trl => {
            import.left(entry, "`train` always trains", "use `evaluate` or `generate` with an adapter");
        }
        "output_dir" => {
            import
                .unneeded(entry, "a run's folder is weights/<base> in the expert's; `-o DIR` names another");
        }
        _ => return model::special(import, entry) || special_of_trl(import, entry),
    }
    true
}

fn shards(import: &Import<'_>, settings: &Value) -> bool {
    let is_off = import.source.get("fsdp").is_none_or(Value::is_off);
    import.tool == Tool::Axolotl && is_off && !settings.entries().is_empty()
}

fn stops_early_in_axolotl(import: &Import<'_>) -> bool {
    let patience = import.source.get("early_stopping_patience");
    import.tool == Tool::Axolotl && patience.is_some_and(|patience| !patience.is_off())
}

/// The same for keys that only TRL, PEFT and transformers have.
fn special_of_trl(import: &mut Import<'_>, entry: &Entry) -> bool {
    let Entry { key, value, .. } = entry;
    match key.as_str() {
        // The newer name in transformers; here it is another setting.
        "activation_checkpointing" if import.tool == Tool::Trl => checkpointing(import, entry),
        "truncation_mode" | "truncation_side" => truncated(import, entry),
        "test_split_size" if import.tool != Tool::Trl => return false,
        "test_split_size" if import.source.get("datasets").is_some_and(|it| !it.is_off()) => {
            held_out(import, entry);
        }
        "test_split_size" => {
            import.unneeded(entry, "it divides the rows of `datasets`, and there are none");
        }
        "hub_strategy" if import.source.get("push_to_hub").is_none_or(Value::is_off) => {
            import.unneeded(entry, "nothing is uploaded without push_to_hub, as here");
        }
        "init_lora_weights" if *value == Value::Bool(true) => {
            import.unneeded(entry, "adapters start as PEFT's do: A random, B zero");
        }
        "peft_autocast_adapter_dtype" if value.is_off() => import.left(
            entry,
            "the adapter's weights are in fp32 while it is trained",
            "nothing; training goes without it",
        ),
        "train_sampling_strategy" => sampling(import, entry),
        "completion_only_loss" => completions(import, entry),
        "loss_type" if is_usual_loss(value) => import.unneeded(entry, "it is the loss here"),
        "assistant_only_loss" if !value.is_off() => import.carry(entry, TRAIN_ON, json!("assistant")),
        "assistant_only_loss" => import.unneeded(entry, "off: completion_only_loss decides"),
        "peft_config" if !value.entries().is_empty() => {
            import.unneeded(entry, "its keys are read as if they were outside of it");
        }
        _ => return false,
    }
    true
}
