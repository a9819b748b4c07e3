//! The manifest's keys behind the recipe: messages name what people write.

use serde_json::{Map, Value, json};

use super::recipe::{EVAL_LOSS, PrecisionRequest};

/// Paths of the recipe that one key decides. The others name their own place: `batch.rows_per_step` is a product of two
/// keys, `data.train` may be of several tasks.
const KEYS: [(&str, &str); 63] = [
    ("expert", "name"),
    ("seed", "seed"),
    ("objective", "method"),
    ("base.sha256", "sha256"),
    ("base.quantization", "quantization"),
    ("base.rope_scaling.kind", "rope_scaling.type"),
    ("template.kind", "prompt_template"),
    ("data.validation_split", "validation_split"),
    ("data.train_on", "train_on"),
    ("data.on_bad_row", "on_bad_row"),
    ("data.overlong", "overlong"),
    ("data.text_dialogue", "text_dialogue"),
    ("data.streaming", "streaming"),
    ("data.stopping_strategy", "stopping_strategy"),
    ("data.deduplicate", "validation.deduplicate"),
    ("data.min_length", "validation.min_length"),
    ("data.max_length", "validation.max_length"),
    ("adapter.kind", "adapter_type"),
    ("adapter.rank", "rank"),
    ("adapter.alpha", "alpha"),
    ("adapter.dropout", "dropout"),
    ("adapter.target_modules", "target_modules"),
    ("adapter.feedforward_modules", "feedforward_modules"),
    ("adapter.soft_prompts", "soft_prompts"),
    ("adapter.initial", "initial_adapter"),
    ("batch.max_seq_length", "max_seq_length"),
    ("batch.packing", "packing"),
    ("batch.share_prefixes", "share_prefixes"),
    ("batch.group_by_length", "group_by_length"),
    ("batch.drop_last", "dataloader_drop_last"),
    ("optimizer.name", "optim"),
    ("optimizer.learning_rate", "learning_rate"),
    ("optimizer.weight_decay", "weight_decay"),
    ("optimizer.beta1", "adam_beta1"),
    ("optimizer.beta2", "adam_beta2"),
    ("optimizer.epsilon", "adam_epsilon"),
    ("optimizer.max_grad_norm", "max_grad_norm"),
    ("optimizer.neftune.noise_alpha", "neftune_noise_alpha"),
    ("schedule.kind", "lr_scheduler"),
    ("schedule.warmup.steps", "warmup_steps"),
    ("schedule.warmup.ratio", "warmup_ratio"),
    ("schedule.duration.steps", "max_steps"),
    ("schedule.duration.epochs", "epochs"),
    ("precision.bf16", "bf16"),
    ("precision.fp16", "fp16"),
    ("precision.tf32", "use_tf32"),
    ("evaluation.strategy", "evaluation_strategy"),
    ("evaluation.steps", "eval_steps"),
    ("evaluation.rows", "eval_rows"),
    ("evaluation.load_best_model_at_end", "load_best_model_at_end"),
    ("evaluation.best.metric", "metric_for_best_model"),
    ("evaluation.best.greater_is_better", "greater_is_better"),
    ("evaluation.best.patience", "early_stopping_patience"),
    ("evaluation.scorer", "scorer"),
    ("evaluation.test_cases", "test_cases"),
    ("saving.strategy", "save_strategy"),
    ("saving.steps", "save_steps"),
    ("decoding.temperature", "temperature"),
    ("decoding.top_p", "top_p"),
    ("decoding.top_k", "top_k"),
    ("decoding.min_p", "min_p"),
    ("decoding.stop_sequences", "stop_sequences"),
    ("decoding.max_new_tokens", "max_new_tokens"),
];

/// Objects whose members have the same names in the manifest.
const OBJECTS: [(&str, &str); 4] = [
    ("base.rope_scaling.", "rope_scaling."),
    ("template.kwargs.", "chat_template_kwargs."),
    ("data.field_mapping.", "field_mapping."),
    ("schedule.options.", "lr_scheduler_kwargs."),
];

/// The manifest's key that decides what stands at this path of [`by_key`]'s recipe, or the path where no single key does.
pub fn manifest_key(path: &str) -> String {
    if let Some((_, key)) = KEYS.iter().find(|(known, _)| *known == path) {
        return (*key).to_owned();
    }
    let member = |(object, key): &(&str, &str)| Some(format!("{key}{}", path.strip_prefix(object)?));
    OBJECTS.iter().find_map(member).unwrap_or_else(|| path.to_owned())
}

/// The recipe with each value under the path of the key that it is written with: a length under its unit, near copies as
/// a value of `deduplicate`, the number format as `bf16` and `fp16`, and whether there is a best checkpoint apart from how
/// it is chosen.
pub fn by_key(mut recipe: Value) -> Value {
    for part in ["warmup", "duration"] {
        if let Some(length) = recipe.pointer_mut(&format!("/schedule/{part}"))
            && let Some(unit) = length["unit"].as_str()
        {
            *length = json!({unit: length["value"]});
        }
    }
    if let Some(data) = recipe.get_mut("data").and_then(Value::as_object_mut)
        && data.remove("drop_near_copies") == Some(Value::Bool(true))
    {
        data.insert("deduplicate".to_owned(), "near".into());
    }
    if let Some(precision) = recipe.get_mut("precision").and_then(Value::as_object_mut) {
        number_format(precision);
    }
    if let Some(evaluation) = recipe.get_mut("evaluation").and_then(Value::as_object_mut) {
        best_checkpoint(evaluation);
    }
    recipe
}

/// As the manifest's two keys select it together (`Config::precision`).
fn number_format(precision: &mut Map<String, Value>) {
    let Some(compute) = precision.remove("compute") else { return };
    let is = |format: PrecisionRequest| compute == format.as_str();
    let bf16 = if is(PrecisionRequest::Bf16) {
        true.into()
    } else if is(PrecisionRequest::Fp32) {
        false.into()
    } else {
        Value::Null
    };
    precision.insert("bf16".to_owned(), bf16);
    precision.insert("fp16".to_owned(), is(PrecisionRequest::Fp16).into());
}

/// Where no best checkpoint is chosen, how it would be is the default: switching it on changes one setting.
fn best_checkpoint(evaluation: &mut Map<String, Value>) {
    let best = evaluation.entry("best").or_insert(Value::Null);
    let chosen = best.is_object();
    if !chosen {
        *best = json!({"metric": EVAL_LOSS});
    }
    let is_loss = best["metric"].as_str().is_some_and(|metric| metric.ends_with("loss"));
    if let Some(best) = best.as_object_mut()
        && best.get("greater_is_better") == Some(&Value::Bool(!is_loss))
    {
        best.remove("greater_is_better");
    }
    evaluation.insert("load_best_model_at_end".to_owned(), chosen.into());
}
