//! Where the rows are, and how they are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::paths::{format_of_ending, hub_id, unknown_ending};
use serde_json::{Value as Json, json};

use super::running_text::{DIALOGUE, LONG_TEXTS, is_pretraining};
use super::tool::Tool;
use super::tree::{self, Entry, Value};
use super::{Copy, Fate, Import, KeyFate, is_remote, names, shown};
use crate::sys::paths::portable;

const DATASET: &str = "training.dataset";
const FIELDS: &str = "training.dataset.field_mapping";
const NOT_HERE: &str = "put the rows there as JSON Lines, or set training.dataset.path";

/// One source of rows, as it is named here.
#[derive(Default)]
struct Source {
    path: String,
    /// None for the Hub.
    from: Option<String>,
    /// Why its rows are not read, and what to do.
    unread: Option<(String, String)>,
    format: Option<&'static str>,
    mapping: BTreeMap<&'static str, String>,
    train_on: Option<&'static str>,
    /// Whether rows are running text, which is learned as it is.
    raw: bool,
    /// Whether the rows are trained on.
    trains: bool,
    /// Whether the rows are rendered with Alpaca's headings.
    alpaca: bool,
}

/// The data's keys; all others can then depend on whether there is validation data.
pub(super) fn read(import: &mut Import<'_>) {
    let source = import.source;
    match import.tool {
        Tool::Axolotl => {
            for (key, target) in [("datasets", "path"), ("test_datasets", "validation_path")] {
                if let Some(entry) = entry(source, key).filter(|entry| entry.value != Value::Null) {
                    let found = axolotl(import, entry, target);
                    write(import, &found, target, &entry.key);
                }
            }
        }
        Tool::LlamaFactory => {
            let (known, folder) = dataset_info(import);
            if let Some(entry) = entry(source, "dataset_dir") {
                import.unneeded(entry, "it is where dataset_info.json was looked for");
            }
            for (key, target) in [("dataset", "path"), ("eval_dataset", "validation_path")] {
                if let Some(entry) = entry(source, key).filter(|entry| entry.value != Value::Null) {
                    let found = llama_factory(import, entry, target, &folder, known.as_ref());
                    write(import, &found, target, &entry.key);
                }
            }
            if is_pretraining(source) && has_no_rows(import) {
                import.put(DIALOGUE, json!("raw"));
            }
        }
        Tool::Trl => trl(import),
    }
    for key in ["val_set_size", "val_size"] {
        if let Some(entry) = entry(source, key).filter(|entry| entry.value != Value::Null) {
            super::keys::special(import, entry);
        }
    }
    if has_no_rows(import) {
        import.put("training.dataset.path", json!("datasets/train.jsonl"));
        import.lines.push(KeyFate {
            key: "datasets".to_owned(),
            line: None,
            value: String::new(),
            fate: Fate::Changed,
            here: vec![format!("{DATASET}.path = {}", json!("datasets/train.jsonl"))],
            why: "no data is named that can be read here".to_owned(),
            instead: NOT_HERE.to_owned(),
        });
    }
}

fn has_no_rows(import: &Import<'_>) -> bool {
    import.at("training.dataset.path").is_none() && import.at("training.dataset.tasks").is_none()
}

fn entry<'a>(source: &'a Value, key: &str) -> Option<&'a Entry> {
    source.entries().iter().find(|entry| entry.key == key)
}

/// A key inside of `datasets[0]`.
fn within(entry: &Entry, index: usize, inner: &Entry) -> Entry {
    Entry {
        key: format!("{}[{index}].{}", entry.key, inner.key),
        line: inner.line,
        value: inner.value.clone(),
    }
}

/// A dataset that is only named, as `datasets[0]`.
fn listed(entry: &Entry, index: usize, item: &Value) -> Entry {
    Entry { key: format!("{}[{index}]", entry.key), line: entry.line, value: item.clone() }
}

fn axolotl(import: &mut Import<'_>, entry: &Entry, target: &str) -> Vec<Source> {
    let items = match &entry.value {
        Value::List(items) => items.clone(),
        other => vec![other.clone()],
    };
    // Also where the texts are in files that are not read, and are written as rows later.
    if target == "path" && !items.is_empty() && items.iter().all(holds_running_text) {
        import.put(DIALOGUE, json!("raw"));
    }
    let items = items.iter().enumerate();
    items.filter_map(|(index, item)| axolotl_one(import, entry, target, index, item)).collect()
}

/// Whether a dataset of Axolotl has texts, which are learned as they are.
fn holds_running_text(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::text).unwrap_or_default();
    kind.starts_with("completion") || kind == "pretrain"
}

fn axolotl_one(
    import: &mut Import<'_>,
    entry: &Entry,
    target: &str,
    index: usize,
    item: &Value,
) -> Option<Source> {
    let text = |key: &str| item.get(key).and_then(Value::text);
    let files = item.get("data_files").and_then(Value::texts).unwrap_or_default();
    let builder = text("path").filter(|path| ["json", "csv", "parquet", "arrow", "text"].contains(path));
    let raw = match (builder, files.first()) {
        (Some(_), Some(file)) => file.as_str(),
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
    source.alpaca = kind.starts_with("alpaca");
    source.raw = holds_running_text(item);
    if kind.starts_with("chat_template") || kind.starts_with("sharegpt") || kind.starts_with("chatml") {
        // `train_on_inputs` has every token learned.
        let learns_all = import.source.get("train_on_inputs").is_some_and(|it| !it.is_off());
        source.train_on = (!learns_all && target == "path").then_some("assistant");
        if let Some(name) =
            fields("field_messages").filter(|name| !["messages", "conversations"].contains(name))
        {
            source.mapping.insert("messages", name.to_owned());
        }
    } else if source.raw {
        if let Some(name) = fields("field").filter(|name| *name != "text") {
            source.mapping.insert("text", name.to_owned());
        }
    } else {
        let named = [
            ("instruction", "field_instruction"),
            ("input", "field_input"),
            ("output", "field_output"),
            ("system", "field_system"),
        ];
        let found: Vec<_> = named.iter().filter_map(|(here, there)| Some((*here, fields(there)?))).collect();
        if found.iter().any(|(here, there)| here != there) {
            source.mapping.extend(found.iter().map(|(here, there)| (*here, (*there).to_owned())));
            let has = |name: &str| found.iter().any(|(here, _)| *here == name);
            if !has("instruction") && !has("output") {
                source.mapping.clear();
            } else if !has("instruction") {
                source.mapping.insert("instruction", "instruction".to_owned());
            } else if !has("output") {
                source.mapping.insert("output", "output".to_owned());
            }
        }
    }
    for inner in item.entries() {
        let inner_entry = within(entry, index, inner);
        axolotl_key(import, &inner_entry, &inner.key, &source, &kind, builder.is_some() && !files.is_empty());
    }
    if item.entries().is_empty() {
        said(import, &listed(entry, index, item), &source);
    }
    if builder.is_some() && files.len() > 1 {
        for line in
            import.lines.iter_mut().filter(|line| line.key == format!("{}[{index}].data_files", entry.key))
        {
            line.fate = Fate::Left;
            "only the first file is named".clone_into(&mut line.why);
            "put all files into one folder and set training.dataset.path to it".clone_into(&mut line.instead);
        }
    }
    Some(source)
}

fn axolotl_key(
    import: &mut Import<'_>,
    entry: &Entry,
    key: &str,
    source: &Source,
    kind: &str,
    named_by_files: bool,
) {
    let roles = |value: &Value| {
        let all = ["assistant", "gpt", "model", "chatbot"];
        value.texts().is_some_and(|roles| roles.iter().all(|role| all.contains(&&**role)))
    };
    let is_role_and_text = |value: &Value| {
        let name = |key: &str, names: &[&str]| {
            value.get(key).and_then(Value::text).is_none_or(|text| names.contains(&text))
        };
        name("role", &["role", "from"]) && name("content", &["content", "value"])
    };
    match key {
        _ if entry.value == Value::Null => import.unneeded(entry, "empty: the default holds"),
        "split" | "name" if source.from.is_some() => import.unneeded(entry, "a file has no splits"),
        "path" if named_by_files => import.unneeded(entry, "data_files names the file"),
        "data_files" if !named_by_files => import.left(
            entry,
            "every file of the dataset or folder is read",
            "put that file into the expert's folder and set training.dataset.path to it",
        ),
        "ds_type" if source.format.is_none() => import.unneeded(entry, "the file's ending says its format"),
        "path" | "data_files" | "split" | "name" | "ds_type" => said(import, entry, source),
        "type" => axolotl_type(import, entry, kind, source),
        "field" | "field_messages" | "field_instruction" | "field_input" | "field_output"
        | "field_system" => {
            if source.mapping.is_empty() {
                import.unneeded(entry, "the field is found by its name");
            } else {
                here(import, entry, FIELDS, &json!(source.mapping));
            }
        }
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
        _ => import.left(
            entry,
            "rows are read without it",
            "change the rows, or map their fields with training.dataset.field_mapping",
        ),
    }
}

/// A carried key whose value is written with those of the other keys.
fn here(import: &mut Import<'_>, entry: &Entry, path: &str, value: &Json) {
    import.line(entry, Fate::Carried, vec![format!("{path} = {value}")], "", "");
}

fn axolotl_type(import: &mut Import<'_>, entry: &Entry, kind: &str, source: &Source) {
    let known = ["alpaca", "sharegpt", "chat_template", "completion", "chatml", "pretrain"];
    let why = "the rows' fields say what they are";
    match &entry.value {
        Value::Map(inner) if inner.iter().any(|it| ["format", "no_input_format", "system_prompt", "system_format"].contains(&&*it.key)) => {
            let fields = format!("{FIELDS} = {}", json!(source.mapping));
            let (fate, here) = if source.mapping.is_empty() { (Fate::Left, vec![]) } else { (Fate::Changed, vec![fields]) };
            let why = "rows are rendered by the base's chat template";
            import.line(entry, fate, here, why, "write a `custom` template, or use the default");
        }
        Value::Map(_) if source.mapping.is_empty() => import.unneeded(entry, "the fields are found by their names"),
        Value::Map(_) => here(import, entry, FIELDS, &json!(source.mapping)),
        _ if kind.starts_with("alpaca") && !source.trains => {
            import.unneeded(entry, "rows are rendered as the training rows are");
        }
        _ if kind.starts_with("alpaca") => {
            import.change(entry, "base_models[].prompt_template", json!("alpaca"), "rows get Alpaca's headings, as there", "\"tokenizer\" renders them with the base's own template");
        }
        _ if source.raw && !source.trains => import.unneeded(entry, "text is read as in the training rows"),
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

fn template(import: &mut Import<'_>, entry: &Entry) {
    let named = Entry { key: "chat_template".to_owned(), ..entry.clone() };
    let before = import.lines.len();
    super::keys::special(import, &named);
    import.lines[before..].iter_mut().for_each(|line| line.key.clone_from(&entry.key));
}

/// The line of a key that is part of where a source is.
fn said(import: &mut Import<'_>, entry: &Entry, source: &Source) {
    if let Some((why, instead)) = &source.unread {
        return import.left(entry, why, instead);
    }
    let (fate, instead) = match &source.from {
        Some(from) if is_remote(from) => (Fate::Changed, format!("download {from} to there")),
        Some(from) => (Fate::Changed, format!("copy {from} there")),
        None => (Fate::Carried, String::new()),
    };
    let why = if source.from.is_some() { "data is in the expert's folder" } else { "" };
    import.lines.push(KeyFate {
        key: entry.key.clone(),
        line: (entry.line > 0).then_some(entry.line),
        value: shown(&entry.key, &entry.value),
        fate,
        here: vec![source.path.clone()],
        why: why.to_owned(),
        instead,
    });
}

/// A dataset of the Hub with its split, or a file that belongs into the expert's folder. `target` is `path` or
/// `validation_path`.
fn place(
    import: &mut Import<'_>,
    target: &str,
    raw: &str,
    split: Option<&str>,
    config: Option<&str>,
    kind: Option<&str>,
) -> Source {
    let name = raw.strip_prefix("hf://datasets/").unwrap_or(raw);
    let is_file = found(import, raw).is_some()
        || format_of_ending(name).is_some()
        || unknown_ending(name).is_some()
        || is_remote(name)
        || raw.starts_with(['.', '/', '~']);
    let is_hub = !is_file && (hub_id(name).is_some() || !name.contains('/'));
    if !is_hub {
        return local(import, target, raw, kind);
    }
    let config = config.map_or_else(String::new, |config| format!("::{config}"));
    Source {
        path: format!("{name}::{}{config}", split.unwrap_or("train")),
        trains: target == "path",
        ..Source::default()
    }
}

/// What is there under this name: in the working directory, where other trainers look, or beside the configuration.
fn found(import: &Import<'_>, raw: &str) -> Option<String> {
    let places = [PathBuf::from(raw), import.beside.join(raw)];
    places.into_iter().find(|place| !raw.is_empty() && place.exists()).map(|place| portable(&place))
}

/// A file or folder that belongs into the expert's folder.
fn local(import: &mut Import<'_>, target: &str, raw: &str, kind: Option<&str>) -> Source {
    let from = found(import, raw).unwrap_or_else(|| raw.to_owned());
    let mut source = Source { trains: target == "path", unread: unknown_ending(&from), ..Source::default() };
    if source.unread.is_some() {
        return source;
    }
    let file = from.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(&from);
    source.path = format!("datasets/{}", free_name(import, target, &from, file));
    if format_of_ending(file).is_none() {
        source.format = match kind {
            Some("csv") => Some("csv"),
            Some("parquet") => Some("parquet"),
            Some("arrow") => Some("arrow"),
            Some("json") => Some("json"),
            _ => None,
        };
    }
    source.from = Some(from);
    source
}

/// The file's name, or one like it where another file has that.
fn free_name(import: &mut Import<'_>, target: &str, raw: &str, file: &str) -> String {
    let raw = raw.strip_prefix("./").unwrap_or(raw);
    // Without the endings, as of `rows.jsonl.gz`.
    let length = file.char_indices().find(|(at, it)| *at > 0 && *it == '.').map_or(file.len(), |(at, _)| at);
    let (stem, endings) = file.split_at(length);
    // Names of a split other than the folder's would make a folder several splits.
    let validation = (target != "path").then(|| format!("validation-{file}"));
    let numbered = (2..).map(|number: u32| format!("{stem}-{number}{endings}"));
    let mut names = std::iter::once(file.to_owned()).chain(validation).chain(numbered);
    let is_free = |name: &String| import.placed.get(&name.to_lowercase()).is_none_or(|other| other == raw);
    let name = names.find(is_free).unwrap_or_else(|| file.to_owned());
    import.placed.insert(name.to_lowercase(), raw.to_owned());
    name
}

/// `target` is `path` or `validation_path`.
fn write(import: &mut Import<'_>, sources: &[Source], target: &str, key: &str) {
    let Some(first) = sources.first() else { return };
    mapping(import, sources, target, key);
    if target == "path" {
        if let Some(train_on) = sources.iter().find_map(|source| source.train_on) {
            import.put("training.dataset.train_on", json!(train_on));
        }
        if sources.iter().all(|source| source.raw) {
            import.put(DIALOGUE, json!("raw"));
        } else {
            disclaim(
                import,
                key,
                |here| names(here, DIALOGUE),
                "texts are cut into pieces of sequence_len there; here overlong and text_dialogue are settings for \
                 all rows, and the other rows are not running text",
                LONG_TEXTS,
            );
        }
        if sources.iter().any(|source| source.alpaca) && !sources.iter().all(|source| source.alpaca) {
            import.put("base_models.0.prompt_template", json!("tokenizer"));
            disclaim(
                import,
                key,
                |here| here.ends_with("prompt_template = \"alpaca\""),
                "one template renders all rows, and the other rows do not fit Alpaca's",
                "nothing; they are rendered with the base's own template",
            );
        }
    }
    let files: Vec<&Source> = sources.iter().filter(|source| source.from.is_some()).collect();
    let endings = |source: &&Source| format_of_ending(&source.path);
    let one_folder = sources.len() > 1
        && files.len() == sources.len()
        && files.iter().all(|it| endings(it).is_some() && endings(it) == endings(&files[0]));
    let folder = if target == "path" { "train" } else { "validation" };
    for source in &files {
        let to = if one_folder {
            source.path.replacen("datasets/", &format!("datasets/{folder}/"), 1)
        } else {
            source.path.clone()
        };
        let copy = Copy { from: source.from.clone().unwrap_or_default(), to };
        if !import.copies.contains(&copy) {
            import.copies.push(copy);
        }
    }
    if sources.len() == 1 || target != "path" && !one_folder {
        import.put(&format!("{DATASET}.{target}"), json!(first.path));
        if let Some(format) = first.format {
            import.put(&format!("{DATASET}.format"), json!(format));
        }
        for other in &sources[1..] {
            let why = "validation rows come from one place";
            import.lines.iter_mut().filter(|line| line.here.contains(&other.path)).for_each(|line| {
                line.fate = Fate::Left;
                why.clone_into(&mut line.why);
                format!("{} holds the others", first.path).clone_into(&mut line.instead);
            });
        }
    } else if one_folder {
        import.put(&format!("{DATASET}.{target}"), json!(format!("datasets/{folder}")));
        for line in &mut import.lines {
            for here in &mut line.here {
                if files.iter().any(|file| file.path == *here) {
                    *here = here.replacen("datasets/", &format!("datasets/{folder}/"), 1);
                }
            }
        }
    } else {
        mixture(import, sources);
    }
}

/// Turns the lines of a data key that claim a setting into lines of what is left.
fn disclaim(
    import: &mut Import<'_>,
    key: &str,
    claims: impl Fn(&str) -> bool,
    why: &str,
    instead: &str,
) -> bool {
    let mut is_said = false;
    for line in import.lines.iter_mut().filter(|line| line.key.starts_with(key)) {
        if line.here.iter().any(|here| claims(here)) {
            line.here.clear();
            line.why = if line.fate == Fate::Changed && !line.why.is_empty() {
                format!("{}; {why}", line.why)
            } else {
                why.to_owned()
            };
            line.fate = Fate::Left;
            instead.clone_into(&mut line.instead);
            is_said = true;
        }
    }
    is_said
}

/// Without weights, so that all rows of each are taken, as there.
fn mixture(import: &mut Import<'_>, sources: &[Source]) {
    let task = |source: &Source| {
        let mut task = json!({"path": source.path});
        if let Some(format) = source.format {
            task["format"] = json!(format);
        }
        task
    };
    import.put("training.dataset.tasks", sources.iter().map(task).collect::<Json>());
}

/// There is one mapping for all rows: that of the training rows, where they agree.
fn mapping(import: &mut Import<'_>, sources: &[Source], target: &str, key: &str) {
    let path = "training.dataset.field_mapping";
    let found = if target == "path" {
        sources.iter().map(|source| json!(source.mapping)).find(|mapping| *mapping != json!({}))
    } else {
        import.at(path).cloned()
    };
    let found = found.unwrap_or_else(|| json!({}));
    if sources.iter().all(|source| json!(source.mapping) == found) {
        if target == "path" && found != json!({}) {
            import.put(path, found);
        }
        return;
    }
    let (why, instead) = (
        "there is one field_mapping for all rows, and the files name their fields differently",
        "rename the fields, so that all files have the same",
    );
    // `dataset_info.json` has the fields, or they have their usual names.
    if !disclaim(import, key, |here| names(here, FIELDS), why, instead) {
        let entry = Entry { key: format!("{key} (fields)"), line: 0, value: Value::Null };
        import.left(&entry, why, instead);
    }
}

/// `dataset_info.json`, if it is here, and the folder that it and the data are in.
fn dataset_info(import: &Import<'_>) -> (Option<Value>, PathBuf) {
    let folder = Path::new(import.source.get("dataset_dir").and_then(Value::text).unwrap_or("data"));
    let places = [import.beside.join(folder), folder.to_owned()];
    let read = |folder: &Path| {
        let file = folder.join("dataset_info.json");
        let size = std::fs::metadata(&file).ok().filter(std::fs::Metadata::is_file)?.len();
        let text = std::fs::read_to_string(&file).ok().filter(|_| size <= tree::MAX_BYTES)?;
        tree::read(&text).ok()
    };
    let found = places.iter().find_map(|place| Some((read(place)?, place.clone())));
    found.map_or_else(|| (None, folder.to_owned()), |(known, place)| (Some(known), place))
}

/// The key that names a dataset of preferences, with its line: LLaMA-Factory trains no supervised stage on those.
pub(super) fn ranked(import: &Import<'_>) -> Option<(String, Option<usize>)> {
    let known = dataset_info(import).0.filter(|_| import.tool == Tool::LlamaFactory)?;
    let is_ranked = |name: &String| {
        known.get(name).and_then(|info| info.get("ranking")).is_some_and(|value| !value.is_off())
    };
    ["dataset", "eval_dataset"].iter().find_map(|key| {
        let entry = entry(import.source, key)?;
        let name = entry.value.texts()?.into_iter().find(is_ranked)?;
        Some((format!("{key}: {name} (ranking: true)"), (entry.line > 0).then_some(entry.line)))
    })
}

fn llama_factory(
    import: &mut Import<'_>,
    entry: &Entry,
    target: &str,
    folder: &Path,
    known: Option<&Value>,
) -> Vec<Source> {
    let names = entry.value.texts().unwrap_or_default();
    let (mut sources, mut unread) = (Vec::new(), Vec::new());
    let (mut unknown, mut lost) = (Vec::new(), Vec::new());
    for name in names {
        let source = if let Some(info) = known.and_then(|known| known.get(&name)) {
            described(import, target, info, folder, &mut lost)
        } else {
            let is_name = !name.contains(['/', '.']);
            let raw = if is_name { portable(&folder.join(format!("{name}.jsonl"))) } else { name.clone() };
            unknown.push(name);
            let found = place(import, target, &raw, None, None, None);
            Source { raw: is_pretraining(import.source), ..found }
        };
        match source.unread {
            Some(reason) => unread.push(reason),
            None => sources.push(source),
        }
    }
    let here: Vec<String> = sources.iter().map(|source| source.path.clone()).collect();
    if !unknown.is_empty() {
        let info = portable(&folder.join("dataset_info.json"));
        unread.push((
            format!("{info} does not describe {} here", unknown.join(", ")),
            format!("{NOT_HERE}; fields of other names need field_mapping"),
        ));
    }
    if !lost.is_empty() {
        unread.push((
            format!("without {}", lost.join(", ")),
            "rows are read by their fields; change the rows, or map them with field_mapping".to_owned(),
        ));
    }
    let local = sources.iter().any(|source| source.from.is_some());
    let fate = match (sources.is_empty(), unread.is_empty()) {
        (true, _) => Fate::Left,
        (false, true) if !local => Fate::Carried,
        _ => Fate::Changed,
    };
    match fate {
        Fate::Left if unread.is_empty() => {
            unread.push(("it names no dataset".to_owned(), NOT_HERE.to_owned()));
        }
        Fate::Changed if unread.is_empty() => {
            unread.push(("data is in the expert's folder".to_owned(), String::new()));
        }
        _ => {}
    }
    let (why, instead): (Vec<_>, Vec<_>) = unread.into_iter().unzip();
    import.line(entry, fate, here, &why.join("; "), &instead.join("; "));
    sources
}

/// A dataset as `dataset_info.json` describes it.
fn described(
    import: &mut Import<'_>,
    target: &str,
    info: &Value,
    folder: &Path,
    lost: &mut Vec<String>,
) -> Source {
    let text = |key: &str| info.get(key).and_then(Value::text);
    let column = |key: &str| info.get("columns").and_then(|columns| columns.get(key)).and_then(Value::text);
    let is_renamed = |key: &str| column(key).is_some_and(|name| name != key);
    let tag = |key: &str| info.get("tags").and_then(|tags| tags.get(key)).and_then(Value::text);
    let hub = text("hf_hub_url");
    let mut source = match (hub, text("file_name")) {
        (None, Some(file)) => local(import, target, &portable(&folder.join(file)), None),
        (hub, _) => {
            let raw = hub.or(text("cloud_file_name")).or(text("script_url")).unwrap_or("train.jsonl");
            place(import, target, raw, text("split"), text("subset"), None)
        }
    };
    let formatting = text("formatting").unwrap_or("alpaca");
    if formatting == "alpaca" {
        let columns = [
            ("instruction", column("prompt"), "instruction"),
            ("input", column("query"), "input"),
            ("output", column("response"), "output"),
        ];
        let given = info.get("columns").is_some();
        let renamed = columns.iter().any(|(_, found, usual)| found.is_some_and(|found| found != *usual));
        let is_pretraining = is_pretraining(import.source);
        if is_pretraining || given && column("response").is_none() && column("prompt").is_some() {
            // Texts to learn whole; that of the prompt, whatever else a row has.
            source.raw = true;
            let prompt = column("prompt").unwrap_or("instruction");
            source.mapping.extend((prompt != "text").then(|| ("text", prompt.to_owned())));
            if is_pretraining && column("query").is_some() {
                lost.push("columns.query".to_owned());
            }
        } else if renamed || is_renamed("system") {
            source
                .mapping
                .extend(columns.iter().filter_map(|(here, found, _)| Some((*here, (*found)?.to_owned()))));
            source.mapping.extend(column("system").map(|name| ("system", name.to_owned())));
        }
        // Only dialogues are read with tools.
        if column("tools").is_some() {
            lost.push("columns.tools".to_owned());
        }
    } else {
        let messages = column("messages").unwrap_or("conversations");
        let renamed = !["messages", "conversations"].contains(&messages);
        if renamed || is_renamed("system") || is_renamed("tools") {
            source.mapping.insert("messages", messages.to_owned());
            for field in ["system", "tools"] {
                source.mapping.extend(column(field).map(|name| (field, name.to_owned())));
            }
        }
    }
    let usual = |found: Option<&str>, names: &[&str]| found.is_none_or(|found| names.contains(&found));
    let tags: [(&str, &[&str]); 7] = [
        ("role_tag", &["role", "from"]),
        ("content_tag", &["content", "value"]),
        ("user_tag", &["user", "human"]),
        ("assistant_tag", &["assistant", "gpt"]),
        ("system_tag", &["system"]),
        ("observation_tag", &["observation"]),
        ("function_tag", &["function_call"]),
    ];
    if tags.iter().any(|(key, names)| !usual(tag(key), names)) {
        lost.push("tags".to_owned());
    }
    for key in ["num_samples", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name", "folder"] {
        if info.get(key).is_some_and(|value| !value.is_off())
            && !(hub.is_some() && key != "num_samples" && key != "folder")
        {
            lost.push(key.to_owned());
        }
    }
    for key in ["history", "images", "videos", "audios", "chosen", "rejected", "kto_tag"] {
        if column(key).is_some() {
            lost.push(format!("columns.{key}"));
        }
    }
    source
}

fn trl(import: &mut Import<'_>) {
    let source = import.source;
    let text = |key: &str| source.get(key).and_then(Value::text);
    let config = text("dataset_config").or_else(|| text("dataset_config_name"));
    let keys = ["dataset_name", "dataset_path", "train_file", "data_path", "dataset"];
    if let Some(entry) =
        keys.iter().find_map(|key| entry(source, key)).filter(|entry| entry.value.text().is_some())
    {
        let split = text("dataset_train_split").or_else(|| text("train_split"));
        let found = place(import, "path", entry.value.text().unwrap_or_default(), split, config, None);
        for key in [
            entry.key.as_str(),
            "dataset_config",
            "dataset_config_name",
            "dataset_train_split",
            "train_split",
        ] {
            if let Some(part) = self::entry(source, key) {
                said(import, part, &found);
            }
        }
        let test_split = self::entry(source, "dataset_test_split");
        if let Some(part) = test_split.filter(|part| part.value != Value::Null) {
            let raw = entry.value.text().unwrap_or_default();
            let held = place(import, "validation_path", raw, part.value.text(), config, None);
            if held.from.is_none() && held.unread.is_none() {
                said(import, part, &held);
                write(import, &[held], "validation_path", "dataset_test_split");
            } else {
                import.left(
                    part,
                    "a file has no splits",
                    "name the rows in training.dataset.validation_path",
                );
            }
        }
        let is_of_hub = found.from.is_none() && found.unread.is_none();
        if is_of_hub && entry.key == "dataset_name" && evaluates_by_default(source) {
            let raw = entry.value.text().unwrap_or_default();
            let held = place(import, "validation_path", raw, Some("test"), config, None);
            import.default("dataset_test_split", "training.dataset.validation_path", json!(held.path));
        }
        if found.unread.is_none() {
            write(import, &[found], "path", &entry.key);
        }
    }
    if let Some(entry) = entry(source, "validation_file").filter(|entry| entry.value.text().is_some()) {
        let raw = entry.value.text().unwrap_or_default();
        let found = place(import, "validation_path", raw, None, None, None);
        said(import, entry, &found);
        if found.unread.is_none() {
            write(import, &[found], "validation_path", "validation_file");
        }
    }
}

/// Whether TRL's script evaluates on the split `test`, its default, because no validation rows are named.
fn evaluates_by_default(source: &Value) -> bool {
    let is_given = |key: &str| source.get(key).is_some_and(|it| *it != Value::Null);
    let is_on = |key: &str| source.get(key).is_some_and(|it| !it.is_off());
    (is_on("eval_strategy") || is_on("evaluation_strategy"))
        && !is_given("dataset_test_split")
        && !is_given("validation_file")
}
