//! Keys whose value here is another one than there, or depends on other keys.

use serde_json::{Value as Json, json};

use super::running_text::{LONG_TEXTS, is_pretraining, is_running_text};
use super::tool::{Tool, has_validation, is_usual_loss};
use super::tree::{Entry, Value};
use super::{Import, foreign};
use expert_contract::plan::TemplateKind;

const KIND: &str = "training.config.adapter_type";
const MODULES: &str = "training.config.target_modules";
const QUANTIZATION: &str = "base_models[].quantization";
const TEMPLATE: &str = "base_models[].prompt_template";
const BF16: &str = "training.config.bf16";
const FP16: &str = "training.config.fp16";
const FLASH: &str = "training.config.flash_attention_2";
const SDPA: &str = "training.config.use_sdpa";
const CHECKPOINTING: &str = "training.config.gradient_checkpointing";
const SCHEDULER: &str = "training.config.lr_scheduler";
const OPTIONS: &str = "training.config.lr_scheduler_kwargs";
const REPORT: &str = "training.config.report";
const EVALUATION: &str = "training.config.evaluation_strategy";
const SAVING: &str = "training.config.save_strategy";
const TRAIN_ON: &str = "training.dataset.train_on";
const OVERLONG: &str = "training.dataset.overlong";
/// What is written where the other trainer has no limit of a row's tokens: the default here.
const USUAL_LENGTH: u64 = 2048;
/// The rank of an adapter that stands for training the whole model.
const HIGH_RANK: u64 = 64;

/// Keys that decide where another key names the same setting: they are read first, in this order.
const DECIDING: [&str; 13] = [
    "seed",
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
        "base_model"
        | "model_name_or_path"
        | "model_name"
        | "base_model_name_or_path"
        | "pretrained_model_name_or_path"
        | "model_id" => base(import, entry),
        "adapter" | "finetuning_type" | "peft_type" | "lora" => adapter(import, entry),
        "quantization_bit" => quantized(import, entry),
        "bnb_4bit_quant_type" | "quantization_type" => match value.text() {
            Some("nf4") => import.unneeded(entry, "int4 is NF4"),
            _ => import.left(entry, "int4 is NF4 here", "set base_models[].quantization to \"int4\""),
        },
        "lora_target_modules" | "lora_target" | "target_modules" | "lora_modules" => modules(import, entry),
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
        "chat_template" | "template" => template(import, entry),
        "chat_template_jinja" | "chat_template_path" => jinja(import, entry),
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
        "stage" | "training_stage" => stage(import, entry),
        "evals_per_epoch" => per_epoch(import, entry, EVALUATION, "eval_steps"),
        "saves_per_epoch" => per_epoch(import, entry, SAVING, "save_steps"),
        "eval_strategy" | "evaluation_strategy" | "eval_steps" if !has_validation(import) => {
            import.unneeded(entry, "there is no validation data");
        }
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
            if !has_validation(import) =>
        {
            import.unneeded(entry, "there is no validation data to choose a checkpoint by");
        }
        // TRL's trainer does not read it.
        "do_train" if value.is_off() && import.tool != Tool::Trl => {
            import.left(entry, "`train` always trains", "use `evaluate` or `generate` with an adapter");
        }
        "output_dir" => {
            import
                .unneeded(entry, "a run's folder is weights/<base> in the expert's; `-o DIR` names another");
        }
        _ => return special_of_trl(import, entry),
    }
    true
}

/// The same for keys that only TRL, PEFT and transformers have.
fn special_of_trl(import: &mut Import<'_>, entry: &Entry) -> bool {
    let Entry { key, value, .. } = entry;
    match key.as_str() {
        // The newer name in transformers; here it is another setting.
        "activation_checkpointing" if import.tool == Tool::Trl => checkpointing(import, entry),
        "truncation_mode" if value.text() == Some("keep_start") => {
            import.unneeded(entry, "the beginning of a long row is kept, as here");
        }
        "truncation_mode" => import.left(
            entry,
            "of a long row the beginning is kept, or every part",
            "set training.dataset.overlong to \"split\" to keep every part",
        ),
        "hub_strategy" if import.source.get("push_to_hub").is_none_or(Value::is_off) => {
            import.unneeded(entry, "nothing is uploaded without push_to_hub, as here");
        }
        "init_lora_weights" if *value == Value::Bool(true) => {
            import.unneeded(entry, "adapters start as PEFT's do: A random, B zero");
        }
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

fn sampling(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.text() {
        Some("group_by_length") => import.carry(entry, "training.config.group_by_length", json!(true)),
        Some("random") => import.unneeded(entry, "rows are shuffled in each epoch, as here"),
        _ => import.left(entry, "rows are shuffled in each epoch", "nothing; training goes without it"),
    }
}

fn completions(import: &mut Import<'_>, entry: &Entry) {
    if !entry.value.is_off() {
        import.carry(entry, TRAIN_ON, json!("completions"));
    } else if import.at(TRAIN_ON).is_some() {
        import.unneeded(entry, "off: assistant_only_loss decides");
    } else {
        import.carry(entry, TRAIN_ON, json!("all"));
    }
}

fn base(import: &mut Import<'_>, entry: &Entry) {
    let Some(name) = entry.value.text() else {
        return import.left(entry, "this is not the name of a base", "set base_models[].name");
    };
    if expert_contract::manifest::is_hub_id(name) && !std::path::Path::new(name).exists() {
        return import.carry(entry, "base_models[].name", json!(name));
    }
    match std::fs::canonicalize(name) {
        // A folder here, by whichever folder the other trainer was started in.
        Ok(folder) => import.carry(entry, "base_models[].name", json!(folder.to_string_lossy())),
        Err(_) => import.change(
            entry,
            "base_models[].name",
            json!(name),
            "a relative folder counts from the expert's folder here",
            "correct it if the base is elsewhere",
        ),
    }
}

fn adapter(import: &mut Import<'_>, entry: &Entry) {
    let word = match (&entry.value, entry.value.flag()) {
        (_, Some(true)) => "lora".to_owned(),
        (Value::Text(text), None) => text.to_lowercase(),
        _ => "full".to_owned(),
    };
    match word.as_str() {
        // `use_dora` and the like say more.
        "qlora" if import.at(KIND).is_some() => import.carry(entry, QUANTIZATION, json!("int4")),
        "lora" | "full" | "freeze" | "none" if import.at(KIND).is_some() => {
            import.unneeded(entry, "another key says which kind of LoRA");
        }
        "qlora" => {
            import.carry(entry, KIND, json!("lora"));
            import.also("base_models.0.quantization", json!("int4"));
        }
        "full" | "freeze" | "none" => whole_model(import, entry),
        _ => match foreign::word_here("adapter_type", &word)
            .or_else(|| known(expert_contract::plan::AdapterKind::WORDS, &word))
        {
            Some(kind) => import.carry(entry, KIND, json!(kind)),
            None => import.left(
                entry,
                "this kind of adapter is not here",
                "LoRA is written instead; docs/manifest.md lists the kinds",
            ),
        },
    }
}

fn known(words: &'static [&'static str], word: &str) -> Option<&'static str> {
    words.iter().find(|it| **it == word).copied()
}

pub(super) fn whole_model(import: &mut Import<'_>, entry: &Entry) {
    import.change(
        entry,
        KIND,
        json!("lora"),
        "only adapters are trained here, so LoRA of a high rank on all linear layers is written",
        "raise learning_rate about tenfold: adapters take more than the whole model does",
    );
    import.also("training.config.rank", json!(HIGH_RANK));
    import.also("training.config.alpha", json!(HIGH_RANK));
    import.also(MODULES, json!("all-linear"));
}

fn quantized(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.number() {
        Some(4.0) => import.carry(entry, QUANTIZATION, json!("int4")),
        Some(8.0) => import.carry(entry, QUANTIZATION, json!("int8")),
        _ => import.left(entry, "a base is quantized to 8 or 4 bits", "set base_models[].quantization"),
    }
}

fn modules(import: &mut Import<'_>, entry: &Entry) {
    let Some(names) = entry.value.texts() else {
        return import.left(entry, "modules are a list of names", "set training.config.target_modules");
    };
    if names.iter().any(|name| ["all", "all-linear", "all_linear"].contains(&&**name)) {
        return import.carry(entry, MODULES, json!("all-linear"));
    }
    let is_pattern = |name: &String| name.contains(['*', '\\', '(', '|', '[', '^', '$']);
    match names.len() {
        0 => import.unneeded(entry, "empty: the default holds"),
        _ if names.iter().any(is_pattern) => import.left(
            entry,
            "modules are named, not matched by a pattern",
            "list the names in training.config.target_modules; all linear layers are written",
        ),
        _ if import.source.get("lora_target_linear").is_some_and(|it| !it.is_off()) => {
            import.unneeded(entry, "lora_target_linear adapts all linear layers, and these with them");
        }
        _ => import.carry(entry, MODULES, json!(names)),
    }
}

fn precision(import: &mut Import<'_>, entry: &Entry) {
    let path = match entry.key.as_str() {
        "tf32" | "use_tf32" => "training.config.use_tf32",
        "fp16" | "float16" => FP16,
        _ => BF16,
    };
    let bf16_is_off = import.source.get("bf16").and_then(Value::flag) == Some(false);
    match &entry.value {
        Value::Text(text) if text == "auto" => {
            import.unneeded(entry, "chosen by what the device computes in");
        }
        value if value.flag() == Some(true) || value.text() == Some("full") => {
            import.carry(entry, path, json!(true));
        }
        // bf16 off means fp32 here, as there; fp16 off alone says nothing.
        _ if entry.value.is_off()
            && (path != FP16 || bf16_is_off)
            && !["bfloat16", "pure_bf16"].contains(&&*entry.key) =>
        {
            import.carry(entry, path, json!(false));
        }
        _ if entry.value.is_off() => import.unneeded(entry, "off, as here"),
        _ => import.left(entry, "it is on or off here", &format!("set {path} to true or false")),
    }
}

fn number_format(import: &mut Import<'_>, entry: &Entry) {
    let text = entry.value.text().unwrap_or_default().trim_start_matches("torch.").to_lowercase();
    match text.as_str() {
        "bfloat16" | "bf16" => import.carry(entry, BF16, json!(true)),
        "float16" | "fp16" | "half" => import.carry(entry, FP16, json!(true)),
        "auto" | "" => import.unneeded(entry, "chosen by what the device computes in"),
        _ => import.unneeded(entry, "fp32 is used where neither bf16 nor fp16 is"),
    }
}

fn attention(import: &mut Import<'_>, entry: &Entry) {
    let word = match (entry.key.as_str(), entry.value.flag()) {
        ("eager_attention", Some(true)) => "eager",
        (_, Some(true)) => "flash_attention_2",
        (_, Some(false)) => "auto",
        _ => entry.value.text().unwrap_or_default(),
    };
    match word.to_lowercase().as_str() {
        "flash_attention_2" | "fa2" | "flash_attention" | "flash" => import.carry(entry, FLASH, json!(true)),
        "flash_attention_3" | "fa3" => {
            import.change(entry, FLASH, json!(true), "FlashAttention 2 is the newest that is used", "");
        }
        "sdpa" | "sdp" => import.carry(entry, SDPA, json!(true)),
        "eager" | "disabled" => import.carry(entry, SDPA, json!(false)),
        "auto" => import.unneeded(entry, "torch's own attention is the default"),
        _ => import.left(
            entry,
            "attention is FlashAttention 2, torch's own, or eager",
            "nothing; torch's own is used. `use_sdpa` and `flash_attention_2` choose another",
        ),
    }
}

fn checkpointing(import: &mut Import<'_>, entry: &Entry) {
    let on = !entry.value.is_off();
    match (entry.key.as_str(), entry.value.text()) {
        ("disable_gradient_checkpointing", _) => import.carry(entry, CHECKPOINTING, json!(!on)),
        ("use_unsloth_gc", _) if !on => import.unneeded(entry, "off, as here"),
        (_, Some(_)) if on && entry.value.flag().is_none() => import.change(
            entry,
            CHECKPOINTING,
            json!("full"),
            "each layer is computed again, and nothing is moved to the processor's memory",
            "set \"selective\" for more speed where memory allows",
        ),
        _ => import.carry(entry, CHECKPOINTING, json!(on)),
    }
}

fn template(import: &mut Import<'_>, entry: &Entry) {
    let word = entry.value.text().unwrap_or_default().to_lowercase();
    if word == "jinja" {
        return import.unneeded(entry, "chat_template_jinja has the text");
    }
    if word == "tokenizer_default" {
        return import.unneeded(entry, "the base's own template is the default");
    }
    if import.at("base_models.0.prompt_template").is_some() {
        return import.unneeded(entry, "the template follows from the datasets' own keys");
    }
    let here = foreign::word_here("prompt_template", &word).or_else(|| known(TemplateKind::WORDS, &word));
    match here.filter(|here| *here != TemplateKind::Custom.as_str()) {
        Some(here) if here == word => import.carry(entry, TEMPLATE, json!(here)),
        Some(here) => import.change(
            entry,
            TEMPLATE,
            json!(here),
            if here == "tokenizer" { "the base brings this template itself" } else { "the template that comes nearest" },
            "`pretokenize --preview 3` shows rows as they are rendered",
        ),
        None => import.change(
            entry,
            TEMPLATE,
            json!("tokenizer"),
            "there is no template of this name, so the base's own is used",
            "`pretokenize --preview 3` shows rows as they are rendered; a `custom` template takes any Jinja text",
        ),
    }
}

fn jinja(import: &mut Import<'_>, entry: &Entry) {
    let text = entry.value.text().unwrap_or_default();
    if !text.contains('{') {
        return import.left(
            entry,
            "the file is not in the expert's folder",
            "copy it there, and set base_models[].prompt_template to \"custom\" and template_path to its name",
        );
    }
    import.carry(entry, "base_models[].template_source", json!(text));
    import.put("base_models.0.prompt_template", json!("custom"));
}

fn scheduler(import: &mut Import<'_>, entry: &Entry) {
    let word = entry.value.text().unwrap_or_default().to_lowercase();
    let words = expert_contract::plan::ScheduleKind::WORDS;
    match foreign::word_here("lr_scheduler", &word).or_else(|| known(words, &word)) {
        Some(here) => import.carry(entry, SCHEDULER, json!(here)),
        None => import.change(
            entry,
            SCHEDULER,
            json!("cosine"),
            "there is no schedule of this name, so cosine is used",
            &format!("choose one of {} in {SCHEDULER}", words.join(", ")),
        ),
    }
}

fn scheduler_options(import: &mut Import<'_>, entry: &Entry) {
    let mut options = serde_json::Map::new();
    let mut lost = Vec::new();
    for Entry { key, value, .. } in entry.value.entries() {
        let rate = import.source.get("learning_rate").and_then(Value::number);
        match (key.as_str(), value.number(), rate) {
            ("num_cycles" | "power" | "lr_end" | "min_lr_ratio", Some(_), _) => {
                options.insert(key.clone(), value.json());
            }
            ("min_lr_rate", Some(_), _) => {
                options.insert("min_lr_ratio".to_owned(), value.json());
            }
            ("min_lr", Some(least), Some(rate)) if rate > 0.0 => {
                options.insert("min_lr_ratio".to_owned(), json!(least / rate));
            }
            _ => lost.push(key.clone()),
        }
    }
    let instead = "schedules take num_cycles, power, lr_end and min_lr_ratio";
    match (options.is_empty(), lost.is_empty()) {
        (true, true) => import.unneeded(entry, "empty"),
        (true, false) => import.left(entry, "no schedule takes these", instead),
        (false, true) => import.carry(entry, OPTIONS, Json::Object(options)),
        (false, false) => {
            import.change(
                entry,
                OPTIONS,
                Json::Object(options),
                &format!("without {}", lost.join(", ")),
                instead,
            );
        }
    }
}

fn warmup(import: &mut Import<'_>, entry: &Entry) {
    let steps = import.source.get("warmup_steps").and_then(Value::number).unwrap_or(0.0);
    match (entry.key.as_str(), entry.value.number()) {
        ("warmup_ratio", _) if steps > 0.0 => import.unneeded(entry, "warmup_steps wins, there as here"),
        ("warmup_steps", Some(steps)) if steps > 0.0 && steps < 1.0 => {
            import.carry(entry, "training.config.warmup_ratio", json!(steps));
        }
        (key, _) => import.carry(entry, &format!("training.config.{key}"), entry.value.json()),
    }
}

fn overlong(import: &mut Import<'_>, entry: &Entry) {
    if is_running_text(import) {
        return import.unneeded(entry, "texts are cut into pieces of sequence_len, so that none is longer");
    }
    let word = match entry.value.text() {
        Some("raise") => "error",
        Some(other) => other,
        None => "",
    };
    import.carry(entry, OVERLONG, json!(word));
}

/// Axolotl's `batch_size` is that of a whole step.
fn whole_batch(import: &mut Import<'_>, entry: &Entry) {
    let micro = import.source.get("micro_batch_size").and_then(Value::number).unwrap_or(1.0).max(1.0);
    match entry.value.number() {
        _ if import.source.get("gradient_accumulation_steps").is_some_and(|it| *it != Value::Null) => {
            import.unneeded(entry, "gradient_accumulation_steps says the same");
        }
        Some(rows) if rows >= micro => {
            import.carry(entry, "training.config.gradient_accumulation_steps", json!((rows / micro) as u64));
        }
        _ => import.left(
            entry,
            "it is smaller than a micro-batch",
            "set batch_size and gradient_accumulation_steps",
        ),
    }
}

fn stage(import: &mut Import<'_>, entry: &Entry) {
    if !is_pretraining(import.source) {
        return import.carry(entry, "training.config.method", json!("sft"));
    }
    let why = "every token of the texts is learned, by an adapter";
    let is_on = |key: &str| import.source.get(key).is_some_and(|it| !it.is_off());
    // Where packing is off, LLaMA-Factory too cuts off what is longer than cutoff_len.
    let is_unset = import.source.get("packing").is_none_or(|it| *it == Value::Null);
    let packs = is_on("packing") || is_on("neat_packing") || is_unset;
    match (packs, is_running_text(import)) {
        (true, true) => {
            import.change(entry, TRAIN_ON, json!("all"), why, "");
            import.also(OVERLONG, json!("split"));
        }
        (true, false) => {
            let why =
                format!("{why}; texts are cut into blocks of cutoff_len there, and some rows are dialogues");
            import.change(entry, TRAIN_ON, json!("all"), &why, LONG_TEXTS);
        }
        (false, _) => import.change(entry, TRAIN_ON, json!("all"), why, ""),
    }
}

fn per_epoch(import: &mut Import<'_>, entry: &Entry, path: &str, steps: &str) {
    let times = entry.value.number().unwrap_or(0.0);
    let evaluates = path == EVALUATION;
    if evaluates && !has_validation(import) {
        return import.unneeded(entry, "there is no validation data");
    }
    if times <= 0.0 {
        return import.carry(entry, path, json!("no"));
    }
    if (times - 1.0).abs() < f64::EPSILON {
        return import.carry(entry, path, json!("epoch"));
    }
    let instead = format!(
        "for more often set it to \"steps\" and {steps} to a number; `plan` shows the steps of a run"
    );
    import.change(entry, path, json!("epoch"), "it is once an epoch, or every so many steps", &instead);
}

fn every(import: &mut Import<'_>, entry: &Entry, strategy: &str, path: &str) {
    match entry.value.number() {
        Some(steps) if steps >= 1.0 => {
            import.carry(entry, path, entry.value.json());
            let named = ["eval_strategy", "evaluation_strategy", "save_strategy"];
            let of_this = named.iter().filter(|key| key.starts_with("eval") == (strategy == EVALUATION));
            if !of_this.into_iter().any(|key| import.source.get(key).is_some_and(|it| *it != Value::Null)) {
                import.put(strategy, json!("steps"));
            }
        }
        _ => import.left(
            entry,
            "a share of all steps is not known here",
            &format!("set {path} to a number of steps"),
        ),
    }
}

fn trackers(import: &mut Import<'_>, entry: &Entry) {
    let named = entry.value.texts().unwrap_or_default();
    let known: Vec<&String> =
        named.iter().filter(|name| ["tensorboard", "wandb"].contains(&&***name)).collect();
    match named.as_slice() {
        [one] if one == "all" => import
            .unneeded(entry, "TensorBoard is the default; \"wandb\" can be added to training.config.report"),
        _ if entry.value.is_off() => import.carry(entry, REPORT, json!("none")),
        all if known.len() == all.len() => import.carry(entry, REPORT, reported(import.source)),
        _ if known.is_empty() => import.left(
            entry,
            "only TensorBoard and Weights & Biases are reported to",
            "read the numbers in the run's report.html or events.jsonl",
        ),
        _ => import.change(
            entry,
            REPORT,
            reported(import.source),
            "only TensorBoard and Weights & Biases are reported to",
            "",
        ),
    }
}

/// What all keys together report to.
fn reported(source: &Value) -> Json {
    let named = source.get("report_to").and_then(Value::texts).unwrap_or_default();
    let is_on = |name: &str, keys: &[&str]| {
        named.iter().any(|it| it == name)
            || keys.iter().any(|key| source.get(key).is_some_and(|it| !it.is_off()))
    };
    match (is_on("tensorboard", &["use_tensorboard"]), is_on("wandb", &["use_wandb", "wandb_project"])) {
        (true, true) => json!(["tensorboard", "wandb"]),
        (true, false) => json!("tensorboard"),
        (false, _) => json!("wandb"),
    }
}

fn tracker(import: &mut Import<'_>, entry: &Entry) {
    if entry.value.is_off() {
        return import.unneeded(entry, "off, as here");
    }
    if import.source.get("report_to").is_some_and(|it| *it != Value::Null && it.is_off()) {
        return import.unneeded(entry, "report_to names no tracker");
    }
    let reported = reported(import.source);
    if entry.key != "wandb_project" {
        return import.carry(entry, REPORT, reported);
    }
    let why = "Weights & Biases is reported to, and takes its project from the environment";
    let project = entry.value.text().unwrap_or_default();
    import.change(
        entry,
        REPORT,
        reported,
        why,
        &format!("set WANDB_PROJECT={} before `train`", crate::next::quoted(project)),
    );
}

fn held_out(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.number() {
        Some(share) if share > 0.0 && share < 1.0 => {
            import.carry(entry, "training.dataset.validation_split", json!(share));
        }
        Some(rows) if rows >= 1.0 => import.left(
            entry,
            "rows are held out as a share here",
            &format!("set training.dataset.validation_split to {rows} / the number of rows"),
        ),
        _ => import.unneeded(entry, "nothing is held out, as here"),
    }
}
