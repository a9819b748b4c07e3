//! The layers that PEFT adapts where a configuration names none. Here all linear layers are the default.

use std::path::Path;

use expert_contract::manifest::model_slug;
use expert_contract::resolve::find_base;

/// PEFT's `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`, for the architectures that train here. It refuses a base
/// that is not in it.
const BY_ARCHITECTURE: [(&[&str], &[&str]); 6] = [
    (
        &[
            "llama",
            "mistral",
            "mixtral",
            "qwen2",
            "qwen3",
            "gemma",
            "gemma2",
            "gemma3_text",
            "stablelm",
            "opt",
            "gptj",
            "gpt_neo",
        ],
        &["q_proj", "v_proj"],
    ),
    (&["phi"], &["q_proj", "v_proj", "fc1", "fc2"]),
    (&["gpt2", "gpt_bigcode"], &["c_attn"]),
    (&["gpt_neox", "falcon", "bloom"], &["query_key_value"]),
    (&["codegen"], &["qkv_proj"]),
    (&["mpt"], &["Wqkv"]),
];

/// What the last part of a base's name holds, in small letters, and its architecture.
const BY_NAME: [(&str, &str); 20] = [
    ("llama", "llama"),
    ("smollm2-", "llama"),
    ("smollm-", "llama"),
    ("qwen1.5-", "qwen2"),
    ("qwen2-", "qwen2"),
    ("qwen2.5-", "qwen2"),
    ("distill-qwen-", "qwen2"),
    ("qwen3-", "qwen3"),
    ("mistral-7b", "mistral"),
    ("mistral-nemo", "mistral"),
    ("mixtral-", "mixtral"),
    ("gemma-2b", "gemma"),
    ("gemma-7b", "gemma"),
    ("gemma-2-", "gemma2"),
    ("gemma-3-1b", "gemma3_text"),
    ("gemma-3-270m", "gemma3_text"),
    ("gpt2", "gpt2"),
    ("pythia-", "gpt_neox"),
    ("phi-1", "phi"),
    ("phi-2", "phi"),
];

/// Names of other architectures that hold one of those above.
const OTHERS: [&str; 9] =
    ["vision", "-vl", "omni", "audio", "multimodal", "moe", "-next", "embed", "recurrent"];

/// PEFT's layers for the base, where its `config.json`, its published dimensions or its name says what it is.
pub fn of_peft(base: &str) -> Option<&'static [&'static str]> {
    let architecture = find_base(base, Path::new(""), None).architecture;
    let architecture = architecture.as_deref().or_else(|| by_name(base))?;
    BY_ARCHITECTURE.iter().find(|(names, _)| names.contains(&architecture)).map(|(_, layers)| *layers)
}

fn by_name(base: &str) -> Option<&'static str> {
    let name = model_slug(base);
    // `30b-a3b`: of 30 billion parameters 3 are used for a token.
    let is_mixture = name.split('-').any(|part| {
        let active = part.strip_prefix('a').and_then(|rest| rest.strip_suffix('b'));
        active.is_some_and(|number| number.parse::<f64>().is_ok())
    });
    if is_mixture || OTHERS.iter().any(|other| name.contains(other)) {
        return None;
    }
    BY_NAME.iter().find(|(part, _)| name.contains(part)).map(|(_, architecture)| *architecture)
}
