//! What the other trainer does where nothing is written.

use serde_json::{Value as Json, json};

use super::draft::Import;
use super::tool::Tool;
use super::tree::{Entry, Value};
use super::{keys, layers, running_text};

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

pub(super) const SAVE_TOTAL_LIMIT: &str = "training.config.save_total_limit";

/// How long each trains where no key says it.
pub(super) fn epochs_of(tool: Tool) -> f64 {
    if tool == Tool::Axolotl { 1.0 } else { 3.0 }
}

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
pub(super) fn set(import: &mut Import<'_>) {
    match import.tool {
        Tool::Axolotl => axolotl(import),
        Tool::LlamaFactory => llama_factory(import),
        Tool::Trl => trl(import),
    }
    // The others keep all checkpoints.
    let kept = if import.tool == Tool::Axolotl { json!(4) } else { Json::Null };
    import.default("save_total_limit", SAVE_TOTAL_LIMIT, kept);
    adapter(import);
}

fn axolotl(import: &mut Import<'_>) {
    duration(import, "num_epochs");
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
    if import.has_validation() {
        import.default("eval_strategy", "training.config.evaluation_strategy", json!("epoch"));
    }
    let stops_early = import.at("training.config.early_stopping_patience").is_some();
    if stops_early || keeps_the_best_checkpoint(import) {
        import.default("load_best_model_at_end", "training.config.load_best_model_at_end", json!(true));
    }
}

/// Whether Axolotl ends with the best checkpoint unless the file says false: each save falls on an evaluation.
fn keeps_the_best_checkpoint(import: &Import<'_>) -> bool {
    let saves = interval(import.source, "save_steps", "saves_per_epoch");
    let evaluations = interval(import.source, "eval_steps", "evals_per_epoch");
    let (Some(saves), Some(evaluations)) = (saves, evaluations) else { return false };
    // Axolotl takes this remainder too, so that its rounding decides here as there.
    import.has_validation() && saves % evaluations == 0.0
}

/// The steps between two of them as Axolotl has them: a number, or a share of all steps.
fn interval(source: &Value, steps: &str, per_epoch: &str) -> Option<f64> {
    let positive = |key: &str| source.get(key).and_then(Value::number).filter(|it| *it > 0.0);
    let share = || {
        let epochs = positive("num_epochs").unwrap_or(epochs_of(Tool::Axolotl));
        // One at the very end of training is none there.
        Some(1.0 / (positive(per_epoch)? * epochs)).filter(|share| *share < 1.0)
    };
    positive(steps).or_else(share)
}

fn llama_factory(import: &mut Import<'_>) {
    duration(import, "num_train_epochs");
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
    duration(import, "num_train_epochs");
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

fn duration(import: &mut Import<'_>, key: &str) {
    let steps = import.at("training.config.max_steps").and_then(Json::as_f64);
    if steps.is_none_or(|steps| steps <= 0.0) {
        import.default(key, "training.config.epochs", json!(epochs_of(import.tool) as u64));
    }
}

/// PEFT's rank and alpha, those of TRL's scripts, and LLaMA-Factory's alpha of twice the rank. Where the whole model
/// was trained, a high rank.
fn adapter(import: &mut Import<'_>) {
    if import.at("training.config.adapter_type").is_none() {
        import.put("training.config.adapter_type", json!("lora"));
    }
    let kind = import.at("training.config.adapter_type").and_then(Json::as_str).unwrap_or_default();
    if !["lora", "rslora", "dora", "lokr", "adalora"].contains(&kind) {
        return;
    }
    // Only TRL's scripts have `use_peft`.
    let by_script = import.tool == Tool::Trl && import.source.get("use_peft").is_some_and(|it| !it.is_off());
    import.default("lora_r", "training.config.rank", json!(if by_script { 16 } else { 8 }));
    let rank = import.at("training.config.rank").and_then(Json::as_f64).unwrap_or(8.0);
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
    let base = import.at("base_models.0.name").and_then(Json::as_str).unwrap_or_default();
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
