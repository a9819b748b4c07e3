//! Axolotl's `datasets` and `test_datasets`: each names one dataset or several, with keys for each.

use serde_json::{Value as Json, json};

use super::items::{builder, files_of, listed, no_file, with_further_files, within};
use super::settings::write;
use super::source::{FIELDS, Source, place, said};
use crate::import::draft::{Fate, Import};
use crate::import::keys;
use crate::import::running_text::{DIALOGUE, LONG_TEXTS, is_running_text};
use crate::import::tree::{Entry, Value};

pub(super) fn read(import: &mut Import<'_>) {
    for (key, target) in [("datasets", "path"), ("test_datasets", "validation_path")] {
        if let Some(entry) = import.source.entry(key).filter(|entry| entry.value != Value::Null) {
            let found = datasets(import, entry, target);
            write(import, &found, target, &entry.key);
        }
    }
}

fn datasets(import: &mut Import<'_>, entry: &Entry, target: &str) -> Vec<Source> {
    let items = match &entry.value {
        Value::List(items) => items.clone(),
        other => vec![other.clone()],
    };
    // Also where the texts are in files that are not read, and are written as rows later.
    if target == "path" && !items.is_empty() && items.iter().all(holds_running_text) {
        import.put(DIALOGUE, json!("raw"));
    }
    let items = items.iter().enumerate();
    let found: Vec<_> = items
        .filter_map(|(index, item)| {
            let first = dataset(import, entry, target, index, item)?;
            Some(with_further_files(import, entry, target, (index, item), first))
        })
        .collect();
    found.concat()
}

fn is_dialogue(kind: &str) -> bool {
    ["chat_template", "sharegpt", "chatml"].iter().any(|name| kind.starts_with(name))
}

/// Whether questions stand below `### Instruction:` and answers below `### Response:`.
fn has_alpaca_headings(kind: &str) -> bool {
    let known = [
        "alpaca",
        "alpaca:instruct",
        "alpaca_instruct",
        "alpaca_instruct.load",
        "alpaca_instruct.load_no_prompt",
        "alpaca_w_system.load_instruct",
    ];
    known.contains(&kind)
}

/// Types of one question with one answer that have other prompts, such as `USER: ` and `ASSISTANT:`.
fn has_other_prompts(kind: &str) -> bool {
    let family = kind.split([':', '.']).next().unwrap_or_default();
    !has_alpaca_headings(kind) && ["alpaca", "alpaca_chat", "alpaca_w_system"].contains(&family)
}

/// Whether a dataset has texts, which are learned as they are.
fn holds_running_text(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::text).unwrap_or_default();
    kind.starts_with("completion") || kind == "pretrain"
}

fn dataset(
    import: &mut Import<'_>,
    entry: &Entry,
    target: &str,
    index: usize,
    item: &Value,
) -> Option<Source> {
    let text = |key: &str| item.get(key).and_then(Value::text);
    let files = files_of(item);
    let builder = builder(item);
    let raw = match (builder, files.first()) {
        (Some(_), Some(file)) => file.as_str(),
        (Some(reader), None) => {
            no_file(import, &listed(entry, index, item), reader);
            return None;
        }
        _ => text("path").or_else(|| item.text())?,
    };
    let kind = text("ds_type").or(builder);
    let mut source = place(import, target, raw, text("split"), text("name"), kind);
    if source.unread.is_some() {
        for inner in item.entries() {
            let line = within(entry, index, inner);
            match inner.key.as_str() {
                "path" | "data_files" => said(import, &line, &source),
                _ => import.unneeded(&line, "these rows are not read"),
            }
        }
        if item.entries().is_empty() {
            said(import, &listed(entry, index, item), &source);
        }
        return None;
    }
    let kind = text("type").unwrap_or_default().to_owned();
    // The keys of a custom dataset type are inside of `type`.
    let own = item.get("type").filter(|it| matches!(it, Value::Map(_)));
    let fields = |key: &str| text(key).or_else(|| own.and_then(|own| own.get(key)).and_then(Value::text));
    source.alpaca = has_alpaca_headings(&kind);
    source.raw = holds_running_text(item);
    if is_dialogue(&kind) {
        source.train_on = (!learns_all(import) && target == "path").then_some("assistant");
        if let Some(name) =
            fields("field_messages").filter(|name| !["messages", "conversations"].contains(name))
        {
            source.mapping.insert("messages", name.to_owned());
        }
    } else if source.raw {
        if let Some(name) = fields("field").filter(|name| *name != "text") {
            source.mapping.insert("text", name.to_owned());
        }
    } else if kind == "alpaca_chat.load_camel_ai" {
        source.mapping = [("instruction", "message_1"), ("output", "message_2")]
            .map(|(here, there)| (here, there.to_owned()))
            .into();
    } else {
        let named = [
            ("instruction", "field_instruction"),
            ("input", "field_input"),
            ("output", "field_output"),
            ("system", "field_system"),
        ];
        let found: Vec<_> = named.iter().filter_map(|(here, there)| Some((*here, fields(there)?))).collect();
        if found.iter().any(|(here, there)| here != there) {
            source.mapping.extend(["instruction", "output"].map(|usual| (usual, usual.to_owned())));
            source.mapping.extend(found.iter().map(|(here, there)| (*here, (*there).to_owned())));
        }
    }
    for inner in item.entries() {
        let inner_entry = within(entry, index, inner);
        dataset_key(import, &inner_entry, item, &source, &kind, builder.is_some() && !files.is_empty());
    }
    if item.entries().is_empty() {
        said(import, &listed(entry, index, item), &source);
    }
    Some(source)
}

/// `entry` is a key of the dataset `item`, under its name in the whole configuration.
fn dataset_key(
    import: &mut Import<'_>,
    entry: &Entry,
    item: &Value,
    source: &Source,
    kind: &str,
    named_by_files: bool,
) {
    let key = entry.key.rsplit_once("].").map_or(entry.key.as_str(), |(_, key)| key);
    let roles = |value: &Value| {
        let all = ["assistant", "gpt", "model", "chatbot"];
        value.texts().is_some_and(|roles| roles.iter().all(|role| all.contains(&&**role)))
    };
    match key {
        _ if entry.value == Value::Null => import.unneeded(entry, "empty: the default holds"),
        "split" if source.from.is_some() && entry.value.text().is_some_and(|it| it.contains('[')) => {
            import.left(entry, "all rows of a file are trained on", "write a file with these rows");
        }
        "split" | "name" if source.from.is_some() => import.unneeded(entry, "a file has no splits"),
        "path" if named_by_files => import.unneeded(entry, "data_files names the file"),
        "data_files" if !named_by_files => import.left(
            entry,
            "every file of the dataset or folder is read",
            "put that file into the expert's folder and set training.dataset.path to it",
        ),
        "ds_type" if source.format.is_none() => import.unneeded(entry, "the file's ending says its format"),
        "path" | "data_files" | "split" | "name" | "ds_type" => said(import, entry, source),
        "type" => rows_type(import, entry, kind, source),
        "field" | "field_messages" | "field_instruction" | "field_input" | "field_output"
        | "field_system" => {
            if source.mapping.is_empty() {
                import.unneeded(entry, "the field is found by its name");
            } else {
                here(import, entry, FIELDS, &json!(source.mapping));
            }
        }
        _ if key.starts_with("message_") => message_field(import, entry, key),
        "roles_to_train" if learns_all(import) => {
            import.unneeded(entry, "train_on_inputs has every turn learned");
        }
        "roles_to_train" if entry.value.is_off() => no_role(import, entry, item),
        "roles_to_train" if roles(&entry.value) => import.unneeded(entry, "every assistant turn is learned"),
        "train_on_eos" | "train_on_eot" if entry.value.text() == Some("turn") => {
            import.unneeded(entry, "the end of each learned turn is learned");
        }
        "train_on_eos" | "train_on_eot" => import.left(
            entry,
            "the end of each learned turn is learned, and no other",
            "nothing; training goes without it",
        ),
        "roles_to_train" => import.left(
            entry,
            "assistant turns are learned, or every token",
            "set training.dataset.train_on to \"assistant\" or \"all\"",
        ),
        "roles" => import
            .unneeded(entry, "the usual names of system, user and assistant are known; others are reported"),
        "chat_template" => template(import, entry),
        "conversation" => import.unneeded(entry, "the base's template renders the turns"),
        "trust_remote_code" => import.unneeded(entry, "no code of a downloaded dataset is run"),
        "field_tools" if entry.value.text() == Some("tools") => {
            import.unneeded(entry, "the field is found by its name");
        }
        "drop_system_message" | "preprocess_shards" if entry.value.is_off() => {
            import.unneeded(entry, "off, as here");
        }
        "preprocess_shards" => {
            import.unneeded(entry, "rows are tokenized by the native tokenizer on every core");
        }
        "revision" => import.left(
            entry,
            "a dataset of the Hub is named without a revision",
            "download that revision into the expert's folder",
        ),
        "shards" | "shards_idx" => {
            import.left(entry, "all rows of a file are used", "write a file with fewer rows");
        }
        _ => unread(import, entry),
    }
}

/// Whether every token is learned, of whichever turn.
fn learns_all(import: &Import<'_>) -> bool {
    import.source.get("train_on_inputs").is_some_and(|it| !it.is_off())
}

/// `roles_to_train: []`: there only what the rows mark is learned.
fn no_role(import: &mut Import<'_>, entry: &Entry, item: &Value) {
    let field = |key: &str| item.get(key).and_then(Value::text).map(str::to_owned);
    let here = "here every answer is learned whose field `train`, `weight` or `loss` is not false";
    let instead = "write `\"train\": false` into each answer of the rows that must not be learned; turns of other \
                   roles are never learned here";
    if let Some(field) = field("message_field_training") {
        let why = format!("only turns with a true `{field}` are learned there, of every role; {here}");
        import.left(entry, &why, instead);
    } else if field("message_field_training_detail").is_some() {
        import.left(entry, &format!("only parts that the rows mark are learned there; {here}"), instead);
    } else {
        import.left(entry, &format!("no turn is learned for its role there; {here}"), instead);
    }
}

/// How the fields of a message are called.
fn message_field(import: &mut Import<'_>, entry: &Entry, key: &str) {
    let is_role_and_text = |value: &Value| {
        let name = |key: &str, names: &[&str]| {
            value.get(key).and_then(Value::text).is_none_or(|text| names.contains(&text))
        };
        name("role", &["role", "from"]) && name("content", &["content", "value"])
    };
    match key {
        "message_field_role" if ["role", "from"].contains(&entry.value.text().unwrap_or_default()) => {
            import.unneeded(entry, "both names of the role are read");
        }
        "message_field_content" if ["content", "value"].contains(&entry.value.text().unwrap_or_default()) => {
            import.unneeded(entry, "both names of the text are read");
        }
        "message_property_mappings" if is_role_and_text(&entry.value) => {
            import.unneeded(entry, "messages are read as {role, content} and as {from, value}");
        }
        "message_property_mappings" | "message_field_role" | "message_field_content" => import.left(
            entry,
            "messages have {role, content} or {from, value}",
            "rename the fields in the rows",
        ),
        "message_field_training"
            if ["train", "weight", "loss"].contains(&entry.value.text().unwrap_or_default()) =>
        {
            import.unneeded(entry, "answers whose field is false are not learned");
        }
        "message_field_training" => import.left(
            entry,
            "an answer is not learned where its field `train`, `weight` or `loss` is false",
            "rename the field in the rows to `train`",
        ),
        "message_field_training_detail" => import.left(
            entry,
            "an answer is learned whole or not at all",
            "leave out rows of whose answers a part must not be learned",
        ),
        _ => unread(import, entry),
    }
}

fn unread(import: &mut Import<'_>, entry: &Entry) {
    import.left(
        entry,
        "rows are read without it",
        "change the rows, or map their fields with training.dataset.field_mapping",
    );
}

/// A carried key whose value is written with those of the other keys.
fn here(import: &mut Import<'_>, entry: &Entry, path: &str, value: &Json) {
    import.line(entry, Fate::Carried, vec![format!("{path} = {value}")], "", "");
}

fn rows_type(import: &mut Import<'_>, entry: &Entry, kind: &str, source: &Source) {
    let known = ["sharegpt", "chat_template", "completion", "chatml", "pretrain"];
    let why = "the rows' fields say what they are";
    if !source.trains
        && let Some(differs) = differs_from_training(import, kind, source)
    {
        return import.left(
            entry,
            &format!("{differs}: the training rows' settings hold for all rows"),
            "write the validation rows as rows of the training rows' type, for a loss of what is learned",
        );
    }
    match &entry.value {
        Value::Map(inner) if inner.iter().any(|it| ["format", "no_input_format", "system_prompt", "system_format"].contains(&&*it.key)) => {
            other_prompts(import, entry, source, "rows are rendered by the base's chat template", "write a `custom` template, or use the default");
        }
        Value::Map(_) if source.mapping.is_empty() => import.unneeded(entry, "the fields are found by their names"),
        Value::Map(_) => here(import, entry, FIELDS, &json!(source.mapping)),
        _ if has_other_prompts(kind) => other_prompts(
            import,
            entry,
            source,
            "its prompts do not have Alpaca's headings; rows are rendered by the base's chat template",
            "set base_models[].prompt_template to \"vicuna\" for prompts with USER: and ASSISTANT:, or write a `custom` template",
        ),
        _ if source.alpaca && !source.trains => {
            import.unneeded(entry, "rows are rendered as the training rows are");
        }
        _ if source.alpaca => {
            import.change(entry, "base_models[].prompt_template", json!("alpaca"), "rows get Alpaca's headings; an `input` follows its instruction without `### Input:`", "\"tokenizer\" renders them with the base's own template, and a `custom` template takes any Jinja text");
        }
        _ if source.raw && !source.trains && is_running_text(import) => {
            import.unneeded(entry, "text is read as in the training rows");
        }
        _ if source.raw && !source.trains => import.left(
            entry,
            "texts are cut into pieces of sequence_len there; overlong and text_dialogue are settings for all rows, and \
             the training rows are not running text",
            LONG_TEXTS,
        ),
        _ if source.raw => here(import, entry, DIALOGUE, &json!("raw")),
        _ if source.train_on.is_some() => here(import, entry, "training.dataset.train_on", &json!("assistant")),
        _ if known.iter().any(|name| kind.starts_with(name)) => import.unneeded(entry, why),
        _ => import.left(
            entry,
            "rows of this type are not known",
            "see docs/your-data.md for what is read, and map other fields with training.dataset.field_mapping",
        ),
    }
}

/// What validation rows of another type than the training rows' are read with. The training rows have been read.
fn differs_from_training(import: &Import<'_>, kind: &str, source: &Source) -> Option<&'static str> {
    let has_headings = import.at("base_models.0.prompt_template") == Some(&json!("alpaca"));
    let learns_turns =
        import.at("training.dataset.train_on") == Some(&json!("assistant")) || learns_all(import);
    let has_turns = is_dialogue(kind);
    match (has_headings, source.alpaca) {
        _ if source.raw => None,
        (true, false) if has_turns && !learns_turns => {
            Some("rows get Alpaca's headings, and of each dialogue the loss is that of the last answer")
        }
        (true, false) => Some("rows get Alpaca's headings"),
        (false, true) => Some("rows are rendered by the base's chat template, without Alpaca's headings"),
        _ if has_turns && !learns_turns => Some("of each dialogue the loss is that of the last answer"),
        _ => None,
    }
}

/// A type whose prompts no built-in template has: of it only the fields are carried.
fn other_prompts(import: &mut Import<'_>, entry: &Entry, source: &Source, why: &str, instead: &str) {
    let fields = format!("{FIELDS} = {}", json!(source.mapping));
    let (fate, here) =
        if source.mapping.is_empty() { (Fate::Left, vec![]) } else { (Fate::Changed, vec![fields]) };
    import.line(entry, fate, here, why, instead);
}

fn template(import: &mut Import<'_>, entry: &Entry) {
    let named = Entry { key: "chat_template".to_owned(), ..entry.clone() };
    let before = import.lines.len();
    keys::own_template(import, &named);
    import.lines[before..].iter_mut().for_each(|line| line.key.clone_from(&entry.key));
}
