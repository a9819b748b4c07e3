//! How the numbers are computed: their format, attention, and recomputation.

use serde_json::json;

use crate::import::draft::Import;
use crate::import::tree::{Entry, Value};

const BF16: &str = "training.config.bf16";
const FP16: &str = "training.config.fp16";
const FLASH: &str = "training.config.flash_attention_2";
const SDPA: &str = "training.config.use_sdpa";
const CHECKPOINTING: &str = "training.config.gradient_checkpointing";

pub(super) fn precision(import: &mut Import<'_>, entry: &Entry) {
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
        value if is_switched_on(value) => import.carry(entry, path, json!(true)),
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

pub(super) fn number_format(import: &mut Import<'_>, entry: &Entry) {
    let text = entry.value.text().unwrap_or_default().trim_start_matches("torch.").to_lowercase();
    match text.as_str() {
        "bfloat16" | "bf16" => one_format(import, entry, BF16, &["fp16", "float16"]),
        "float16" | "fp16" | "half" => one_format(import, entry, FP16, &["bf16", "bfloat16", "pure_bf16"]),
        "auto" | "" => import.unneeded(entry, "chosen by what the device computes in"),
        _ => import.unneeded(entry, "fp32 is used where neither bf16 nor fp16 is"),
    }
}

/// One key has the format of the weights and that of the computation here, so a switch for another format decides.
fn one_format(import: &mut Import<'_>, entry: &Entry, path: &str, others: &[&str]) {
    let is_on = |key: &&&str| import.source.get(key).is_some_and(is_switched_on);
    match others.iter().find(is_on) {
        Some(other) => import.left(
            entry,
            &format!("`{other}` decides the number format"),
            &format!("set {path} to true in place of the other format if that is meant"),
        ),
        None => import.carry(entry, path, json!(true)),
    }
}

fn is_switched_on(value: &Value) -> bool {
    value.flag() == Some(true) || value.text() == Some("full")
}

pub(super) fn attention(import: &mut Import<'_>, entry: &Entry) {
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

pub(super) fn checkpointing(import: &mut Import<'_>, entry: &Entry) {
    let on = !entry.value.is_off();
    match (entry.key.as_str(), entry.value.text()) {
        ("disable_gradient_checkpointing", _) => import.carry(entry, CHECKPOINTING, json!(!on)),
        ("use_unsloth_gc", _) if !on => import.unneeded(entry, "off, as here"),
        (_, Some("unsloth" | "offload" | "offload_disk")) => import.change(
            entry,
            CHECKPOINTING,
            json!("full"),
            "each layer is computed again, and nothing is moved to the processor's memory",
            "set \"selective\" for more speed where memory allows",
        ),
        (_, Some(_)) if entry.value.flag().is_none() => import.left(
            entry,
            "gradient checkpointing is true, false, or the name of a way to offload",
            "true, false, \"selective\" or \"full\" as `gradient_checkpointing`",
        ),
        _ => import.carry(entry, CHECKPOINTING, json!(on)),
    }
}
