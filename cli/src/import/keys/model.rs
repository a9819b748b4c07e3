//! The base with the template that renders its turns, and the adapter on it.

use expert_contract::plan::{AdapterKind, TemplateKind};
use serde_json::json;

use crate::import::draft::{Copy, Fate, Import, names, word_here};
use crate::import::tool::Tool;
use crate::import::tree::{Entry, Value};

const QUANTIZATION: &str = "base_models[].quantization";
const TEMPLATE: &str = "base_models[].prompt_template";
const VARIABLES: &str = "base_models[].chat_template_kwargs";
/// The same, as a line of the list has it.
const FIRST_TEMPLATE: &str = "base_models.0.prompt_template";
const LOOK_AT_ROWS: &str = "`pretokenize --preview 3` shows rows as they are rendered";
const KIND: &str = "training.config.adapter_type";
const MODULES: &str = "training.config.target_modules";
/// Names of embedding and head in models of several families; "all-linear" adapts neither.
const OUTSIDE_THE_BLOCKS: [&str; 7] =
    ["embed_tokens", "embed_in", "wte", "word_embeddings", "lm_head", "embed_out", "output_layer"];
/// The rank of an adapter that stands for training the whole model.
const HIGH_RANK: u64 = 64;

/// Whether the key is one about the base, its template or the adapter; then it has its line.
pub(super) fn special(import: &mut Import<'_>, entry: &Entry) -> bool {
    match entry.key.as_str() {
        "base_model"
        | "model_name_or_path"
        | "model_name"
        | "base_model_name_or_path"
        | "pretrained_model_name_or_path"
        | "model_id" => base(import, entry),
        "adapter" | "finetuning_type" | "peft_type" | "lora" => adapter(import, entry),
        "lora_model_dir" | "adapter_name_or_path" => initial_adapter(import, entry),
        "quantization_bit" => quantized(import, entry),
        "bnb_4bit_quant_type" | "quantization_type" => match entry.value.text() {
            Some("nf4") => import.unneeded(entry, "int4 is NF4"),
            _ => import.left(entry, "int4 is NF4 here", "set base_models[].quantization to \"int4\""),
        },
        "lora_target_modules" | "lora_target" | "target_modules" | "lora_modules" => modules(import, entry),
        "chat_template" | "template" => template(import, entry),
        "chat_template_jinja" | "chat_template_path" => jinja(import, entry),
        "enable_thinking" => {
            import.carry(entry, &format!("{VARIABLES}.enable_thinking"), entry.value.json());
        }
        "chat_template_kwargs" => variables(import, entry),
        _ => return false,
    }
    true
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

fn quantized(import: &mut Import<'_>, entry: &Entry) {
    match entry.value.number() {
        Some(4.0) => import.carry(entry, QUANTIZATION, json!("int4")),
        Some(8.0) => import.carry(entry, QUANTIZATION, json!("int8")),
        _ => import.left(entry, "a base is quantized to 8 or 4 bits", "set base_models[].quantization"),
    }
}

/// The template for all datasets.
fn template(import: &mut Import<'_>, entry: &Entry) {
    let is_jinja = |text: &str| text.contains('{');
    if import.source.get("chat_template_jinja").and_then(Value::text).is_some_and(is_jinja) {
        return import.unneeded(entry, "chat_template_jinja has the text");
    }
    let names_alpaca = |here: &String| *here == format!("{FIRST_TEMPLATE} = \"alpaca\"");
    if import.lines.iter().any(|line| line.here.iter().any(names_alpaca)) {
        return import.unneeded(entry, "no dataset uses it: all rows get Alpaca's headings");
    }
    if each_chat_names_its_own(import.source) {
        return import.unneeded(entry, "each dataset names its own template");
    }
    if entry.value.text().is_some_and(is_jinja) {
        return jinja(import, entry);
    }
    overrule(import, "chat_template");
    own_template(import, entry);
}

/// Whether Axolotl would render no dataset with the template for all of them.
fn each_chat_names_its_own(source: &Value) -> bool {
    let Some(Value::List(datasets)) = source.get("datasets") else { return false };
    let text = |dataset: &Value, key: &str| dataset.get(key).and_then(Value::text).map(str::to_owned);
    let mut chats = datasets
        .iter()
        .filter(|dataset| text(dataset, "type").is_none_or(|kind| kind.starts_with("chat_template")))
        .peekable();
    chats.peek().is_some() && chats.all(|dataset| text(dataset, "chat_template").is_some())
}

/// One template renders all rows: that of `key` takes the place of those that single datasets name.
fn overrule(import: &mut Import<'_>, key: &str) {
    for line in import.lines.iter_mut().filter(|line| line.key.ends_with("].chat_template")) {
        line.here.retain(|here| !names(here, FIRST_TEMPLATE));
        line.fate = Fate::Left;
        line.why = format!("one template renders all rows, and `{key}` names it");
        "train on these rows alone to use this template".clone_into(&mut line.instead);
    }
    import.remove(FIRST_TEMPLATE);
}

/// The template of one dataset, or of all.
pub(in crate::import) fn own_template(import: &mut Import<'_>, entry: &Entry) {
    let word = entry.value.text().unwrap_or_default().to_lowercase();
    if word == "jinja" {
        return import.unneeded(entry, "chat_template_jinja has the text");
    }
    if word == "tokenizer_default" {
        return import.unneeded(entry, "the base's own template is the default");
    }
    if word == "default" && import.tool == Tool::LlamaFactory {
        return import.change(
            entry,
            TEMPLATE,
            json!("tokenizer"),
            "there the turns begin with `Human:` and `Assistant:`; here the base's own template renders them",
            LOOK_AT_ROWS,
        );
    }
    let here = word_here("prompt_template", TemplateKind::WORDS, &word);
    match here.filter(|here| *here != TemplateKind::Custom.as_str()) {
        Some(here) if here == word => import.carry(entry, TEMPLATE, json!(here)),
        Some(here) => import.change(
            entry,
            TEMPLATE,
            json!(here),
            if here == "tokenizer" {
                "the base brings this template itself"
            } else {
                "the template that comes nearest"
            },
            LOOK_AT_ROWS,
        ),
        None => import.change(
            entry,
            TEMPLATE,
            json!("tokenizer"),
            "there is no template of this name, so the base's own is used",
            &format!("{LOOK_AT_ROWS}; a `custom` template takes any Jinja text"),
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
    overrule(import, &entry.key);
    import.carry(entry, "base_models[].template_source", json!(text));
    import.put("base_models.0.prompt_template", json!("custom"));
}

/// Each variable of the template has a line, so that one that is refused takes no other with it.
fn variables(import: &mut Import<'_>, entry: &Entry) {
    let members = match &entry.value {
        Value::Map(members) => members.as_slice(),
        value if value.is_off() => &[],
        _ => {
            return import.left(
                entry,
                "variables of the template are an object",
                "set base_models[].chat_template_kwargs, such as {\"enable_thinking\": true}",
            );
        }
    };
    if members.is_empty() {
        import.unneeded(entry, "empty: the default holds");
    }
    for Entry { key: name, line, value } in members {
        let member = Entry { key: format!("{}.{name}", entry.key), line: *line, value: value.clone() };
        if *value == Value::Null {
            import.unneeded(&member, "empty: the default holds");
        } else if can_be_a_variable(name) {
            import.carry(&member, &format!("{VARIABLES}.{name}"), value.json());
        } else {
            import.left(
                &member,
                "this is not the name of a variable",
                "a name begins with a letter and has letters, digits and `_`",
            );
        }
    }
}

/// Other names would be read as a path, or as a comment of the manifest. `validate` knows further ones that no template
/// reads.
fn can_be_a_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
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
        _ => match word_here("adapter_type", AdapterKind::WORDS, &word) {
            Some(kind) => import.carry(entry, KIND, json!(kind)),
            None => import.left(
                entry,
                "this kind of adapter is not here",
                "LoRA is written instead; docs/manifest.md lists the kinds",
            ),
        },
    }
}

/// An adapter to train on, which is copied into the expert's folder.
fn initial_adapter(import: &mut Import<'_>, entry: &Entry) {
    let is_new = import.source.get("create_new_adapter").is_some_and(|other| !other.is_off());
    // LLaMA-Factory takes several there.
    let is_list = |path: &str| import.tool == Tool::LlamaFactory && path.contains(',');
    let named = entry.value.text().filter(|path| !is_list(path) && !is_new);
    let Some(from) = named.map(|path| path.trim_end_matches(['/', '\\'])) else {
        return import.left(
            entry,
            "training starts from one adapter, and merges none into the base",
            "merge it with `export --merge --from FOLDER` and name the merged folder as the base",
        );
    };
    let last = from.rsplit(['/', '\\']).next().filter(|it| !matches!(*it, "" | "." | ".."));
    let last = last.unwrap_or("initial");
    let to = format!("adapters/{last}");
    import.change(
        entry,
        "training.config.initial_adapter",
        json!(to),
        "the adapter is read from the expert's folder",
        "copy it there, as the last lines say",
    );
    import.copies.push(Copy { what: "adapter", from: from.to_owned(), to });
}

pub(in crate::import) fn whole_model(import: &mut Import<'_>, entry: &Entry) {
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
            beside_all_linear(import, entry, &names);
        }
        _ => import.carry(entry, MODULES, json!(names)),
    }
}

/// Axolotl joins the named modules with all linear layers of the blocks.
fn beside_all_linear(import: &mut Import<'_>, entry: &Entry, names: &[String]) {
    let is_outside =
        |name: &&str| name.rsplit('.').next().is_some_and(|last| OUTSIDE_THE_BLOCKS.contains(&last));
    let outside: Vec<&str> = names.iter().map(String::as_str).filter(is_outside).collect();
    if outside.is_empty() {
        return import.unneeded(entry, "lora_target_linear adapts all linear layers, and these with them");
    }
    let outside = outside.join(", ");
    import.left(
        entry,
        &format!("lora_target_linear becomes \"all-linear\", which leaves out {outside}"),
        &format!(
            "to adapt {outside} too, list all layers by name in training.config.target_modules, which is \
             \"all-linear\" or a list"
        ),
    );
}
