//! The adapter that training starts from is one of the same base, kind, rank and alpha. Whether its layers are the same is
//! seen when the base is loaded.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::problems::Problems;
use crate::adapters::CONFIG;
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{Effective, model_slug};
use crate::paths::data_path;
use crate::plan::AdapterKind;

/// What a configuration of peft may set. Its other keys make another kind of adapter, such as `rank_pattern`, `modules_to_save`,
/// `layers_to_transform` or `alora_invocation_tokens`, which would be trained as a plain one.
const KNOWN: [&str; 45] = [
    "peft_type",
    "peft_version",
    "task_type",
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "r",
    "lora_alpha",
    "alpha",
    "lora_dropout",
    "rank_dropout",
    "module_dropout",
    "rank_dropout_scale",
    "bias",
    "fan_in_fan_out",
    "use_dora",
    "use_rslora",
    "target_modules",
    "feedforward_modules",
    "exclude_modules",
    // How a new adapter would be made, and how one is computed or kept.
    "init_lora_weights",
    "init_ia3_weights",
    "init_weights",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "runtime_config",
    "megatron_core",
    "qalora_group_size",
    "ensure_weight_tying",
    // The shapes that these give are compared with the weights.
    "decompose_both",
    "decompose_factor",
    "use_effective_conv2d",
    // Of soft prompts.
    "num_virtual_tokens",
    "token_dim",
    "num_transformer_submodules",
    "num_attention_heads",
    "num_layers",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "prompt_tuning_init_state_dict_path",
    "tokenizer_name_or_path",
    "tokenizer_kwargs",
];

/// With other beginnings, peft changes the base's weights when it loads the adapter.
const PLAIN_STARTS: [&str; 2] = ["gaussian", "orthogonal"];

const MERGE: &str = "remove the key, merge the adapter into its base with `expert-cli export --merge --from FOLDER`, and name the merged folder as the base";

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let setting = &effective.config.initial_adapter;
    let Some(text) = setting.as_deref() else { return };
    let refused =
        |message: String, hint: String| Problem::new(Code::InitialAdapter, setting.span, message).hint(hint);
    if text.trim().is_empty() {
        let hint = "name the folder of an adapter, or remove the key to start with a new one";
        problems.push(refused("`initial_adapter` names no folder".to_owned(), hint.to_owned()));
        return;
    }
    if *effective.config.adapter_type == AdapterKind::Adalora {
        let message =
            "training of an `adalora` adapter cannot start from another: ranks were taken from it already";
        problems.push(refused(message.to_owned(), "start with a new one, or use `lora`".to_owned()));
        return;
    }
    // The path check says whether the folder is there.
    let file = data_path(text, &effective.manifest.folder).join(CONFIG);
    if !file.is_file() {
        return;
    }
    match read(&file) {
        Ok(saved) => {
            let found = saved.differences(effective).into_iter();
            problems.extend(found.map(|(message, hint)| refused(format!("`{text}` {message}"), hint)));
            problems.extend(saved.other_base(effective).map(|message| {
                refused(
                    format!("`{text}` {message}"),
                    "check that both have the same weights; an adapter on other weights starts worse than a new one".to_owned(),
                )
                .severity(Severity::Warning)
            }));
        }
        Err(reason) => {
            let message = format!("`{text}/{CONFIG}` {reason}");
            problems.push(refused(message, "name the folder of an adapter that peft has saved".to_owned()));
        }
    }
}

fn read(file: &Path) -> Result<Saved, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(config)) => Ok(Saved(config)),
        Ok(_) => Err("is not a JSON object".to_owned()),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

/// peft's configuration of a saved adapter.
struct Saved(serde_json::Map<String, Value>);

impl Saved {
    /// Each as what the adapter is, and what to do.
    fn differences(&self, effective: &Effective<'_>) -> Vec<(String, String)> {
        let config = &effective.config;
        let kind = *config.adapter_type;
        match self.kind() {
            Ok(found) if found == kind => {}
            Ok(found) => {
                let message = format!("is of the kind `{found}`, and `{kind}` is to be trained");
                return vec![(message, format!("set `adapter_type` to `{found}`"))];
            }
            Err(found) => {
                let message = format!("is of the kind {found}, which cannot be trained");
                return vec![(message, "start with a new one".to_owned())];
            }
        }
        let mut found = Vec::new();
        let alpha = if kind == AdapterKind::Lokr { "alpha" } else { "lora_alpha" };
        let wanted = [
            ("rank", "r", config.rank.value.map(f64::from).filter(|_| kind.has_rank())),
            ("alpha", alpha, config.alpha.value.filter(|_| kind.has_rank())),
            (
                "soft_prompts",
                "num_virtual_tokens",
                kind.is_soft_prompt().then(|| effective.virtual_tokens() as f64),
            ),
        ];
        for (key, theirs, ours) in wanted {
            let (Some(ours), Some(saved)) = (ours, self.0.get(theirs).and_then(Value::as_f64)) else {
                continue;
            };
            if (saved - ours).abs() > f64::EPSILON * saved.abs() {
                found.push(if key == "soft_prompts" {
                    (
                        format!("has {saved} virtual tokens, and `{key}` have {ours}"),
                        format!("make `{key}` {saved} tokens long"),
                    )
                } else {
                    (
                        format!("has `{key}` {saved}, and {ours} is to be trained"),
                        format!("set `{key}` to {saved}"),
                    )
                });
            }
        }
        found.extend(self.unknown().map(|what| (what, MERGE.to_owned())));
        found
    }

    /// What makes it another kind of adapter.
    fn unknown(&self) -> Option<String> {
        if let Some((key, _)) = self.0.iter().find(|(key, it)| !KNOWN.contains(&key.as_str()) && is_set(it)) {
            return Some(format!("sets `{key}`, which cannot be trained here"));
        }
        if self.0.get("bias").and_then(Value::as_str).is_some_and(|bias| bias != "none") {
            return Some("has trained biases, which cannot be trained here".to_owned());
        }
        let start = self.0.get("init_lora_weights").and_then(Value::as_str)?;
        (!PLAIN_STARTS.contains(&start)).then(|| {
            format!("started with `init_lora_weights` {start}, which changes the base when it is loaded")
        })
    }

    fn kind(&self) -> Result<AdapterKind, String> {
        let is = |key: &str| self.0.get(key) == Some(&Value::Bool(true));
        match self.0.get("peft_type").and_then(Value::as_str).unwrap_or_default() {
            "LORA" => match (is("use_dora"), is("use_rslora")) {
                (true, true) => Err("DoRA with the scale of rsLoRA".to_owned()),
                (true, false) => Ok(AdapterKind::Dora),
                (false, true) => Ok(AdapterKind::Rslora),
                (false, false) => Ok(AdapterKind::Lora),
            },
            "IA3" => Ok(AdapterKind::Ia3),
            "LOKR" => Ok(AdapterKind::Lokr),
            "ADALORA" => Ok(AdapterKind::Adalora),
            "PROMPT_TUNING" => Ok(AdapterKind::Prompt),
            "" => Err("that its configuration does not name".to_owned()),
            other => Err(other.to_owned()),
        }
    }

    /// By the names alone: a folder may be a copy of a model of the Hub, or the same base under another name.
    fn other_base(&self, effective: &Effective<'_>) -> Option<String> {
        let trained_on =
            self.0.get("base_model_name_or_path")?.as_str().filter(|name| !name.trim().is_empty())?;
        let base = &*effective.base.name;
        (model_slug(named_in(trained_on)) != model_slug(base))
            .then(|| format!("was trained on {trained_on}, and the base is {base}"))
    }
}

/// Of a path in the Hub's cache, the name in `models--OWNER--NAME`.
fn named_in(path: &str) -> &str {
    let (folder, _) = path.split_once("/snapshots/").unwrap_or((path, ""));
    let named = folder.rsplit_once("models--").and_then(|(_, named)| named.rsplit_once("--"));
    named.map_or(path, |(_, name)| name)
}

/// peft writes empty lists and objects, and zeros, for what is not used.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}
