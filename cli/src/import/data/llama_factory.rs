//! LLaMA-Factory's `dataset` and `eval_dataset`: names that `dataset_info.json` describes.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::settings::{has_no_rows, write};
use super::source::{NOT_HERE, Source, downloaded, local, place};
use crate::import::draft::{Fate, Import};
use crate::import::running_text::{DIALOGUE, is_pretraining};
use crate::import::tool::Tool;
use crate::import::tree::{self, Entry, Value};
use crate::sys::paths::portable;

pub(super) fn read(import: &mut Import<'_>) {
    let source = import.source;
    let (known, folder) = dataset_info(import);
    if let Some(entry) = source.entry("dataset_dir") {
        import.unneeded(entry, "it is where dataset_info.json was looked for");
    }
    for (key, target) in [("dataset", "path"), ("eval_dataset", "validation_path")] {
        if let Some(entry) = source.entry(key).filter(|entry| entry.value != Value::Null) {
            let found = datasets(import, entry, target, &folder, known.as_ref());
            write(import, &found, target, &entry.key);
        }
    }
    if is_pretraining(source) && has_no_rows(import) {
        import.put(DIALOGUE, json!("raw"));
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
pub(in crate::import) fn ranked(import: &Import<'_>) -> Option<(String, Option<usize>)> {
    let known = dataset_info(import).0.filter(|_| import.tool == Tool::LlamaFactory)?;
    let is_ranked = |name: &String| {
        known.get(name).and_then(|info| info.get("ranking")).is_some_and(|value| !value.is_off())
    };
    ["dataset", "eval_dataset"].iter().find_map(|key| {
        let entry = import.source.entry(key)?;
        let name = entry.value.texts()?.into_iter().find(is_ranked)?;
        Some((format!("{key}: {name} (ranking: true)"), (entry.line > 0).then_some(entry.line)))
    })
}

fn datasets(
    import: &mut Import<'_>,
    entry: &Entry,
    target: &str,
    folder: &Path,
    known: Option<&Value>,
) -> Vec<Source> {
    let names = entry.value.texts().unwrap_or_default();
    let (mut sources, mut unread) = (Vec::new(), Vec::new());
    let (mut unknown, mut lost) = (Vec::new(), Lost::default());
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
        let names = unknown.join(", ");
        let why = if known.is_some() {
            format!("{info} does not describe {names}")
        } else {
            format!("there is no readable {info} here that describes {names}")
        };
        unread.push((why, format!("{NOT_HERE}; fields of other names need field_mapping")));
    }
    if !lost.fields.is_empty() {
        unread.push((
            format!("without {}", lost.fields.join(", ")),
            "rows are read by their fields; change the rows, or map them with field_mapping".to_owned(),
        ));
    }
    unread.append(&mut lost.rows);
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

/// What of described datasets is not carried over.
#[derive(Default)]
struct Lost {
    /// Columns and tags of their rows.
    fields: Vec<String>,
    /// Which rows there are, or where: why, and what to do.
    rows: Vec<(String, String)>,
}

/// The hubs that rows have to be downloaded from: the key that names a dataset there, the hub, and its address.
const OTHER_HUBS: [(&str, &str, &str); 2] = [
    ("ms_hub_url", "ModelScope", "https://www.modelscope.cn/datasets"),
    ("om_hub_url", "Modelers", "https://modelers.cn/datasets"),
];

/// Where the rows of a described dataset are; of several keys LLaMA-Factory takes the first of these too.
fn placed(import: &mut Import<'_>, target: &str, info: &Value, folder: &Path, lost: &mut Lost) -> Source {
    let text = |key: &str| info.get(key).and_then(Value::text);
    if let Some(hub) = text("hf_hub_url") {
        return place(import, target, hub, text("split"), text("subset"), None);
    }
    for (key, hub, address) in OTHER_HUBS {
        if let Some(name) = text(key) {
            let source = downloaded(import, target, &format!("{address}/{name}"));
            let why = format!("{name} is a dataset of {hub}, and read from the expert's folder");
            lost.rows.push((why, format!("download it from {hub} to {}", source.path)));
            return source;
        }
    }
    if let Some(script) = text("script_url") {
        let why = format!("the script {script} makes the rows, and is not run");
        let instead = format!("let it write them; {NOT_HERE}");
        return Source { unread: Some((why, instead)), ..Source::default() };
    }
    match (text("cloud_file_name"), text("file_name")) {
        (Some(file), _) => place(import, target, file, None, None, None),
        (None, Some(file)) => local(import, target, &portable(&folder.join(file)), None),
        (None, None) => place(import, target, "train.jsonl", None, None, None),
    }
}

/// Which of the rows LLaMA-Factory takes, where here all are taken.
fn chosen_rows(info: &Value, lost: &mut Lost) {
    let has = |key: &str| info.get(key).is_some_and(|value| !value.is_off());
    if has("num_samples") {
        lost.rows.push((
            "without num_samples: all rows are used".to_owned(),
            "write a file with as many rows, or set training.config.max_steps".to_owned(),
        ));
    }
    if has("folder") && ["hf_hub_url", "ms_hub_url", "om_hub_url"].into_iter().any(has) {
        lost.rows.push((
            "without folder: every file of the dataset is read".to_owned(),
            "download the files of that folder, and name them in training.dataset.path".to_owned(),
        ));
    }
}

/// A dataset as `dataset_info.json` describes it.
fn described(import: &mut Import<'_>, target: &str, info: &Value, folder: &Path, lost: &mut Lost) -> Source {
    let column = |key: &str| info.get("columns").and_then(|columns| columns.get(key)).and_then(Value::text);
    let is_renamed = |key: &str| column(key).is_some_and(|name| name != key);
    let tag = |key: &str| info.get("tags").and_then(|tags| tags.get(key)).and_then(Value::text);
    let mut source = placed(import, target, info, folder, lost);
    chosen_rows(info, lost);
    let formatting = info.get("formatting").and_then(Value::text).unwrap_or("alpaca");
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
                lost.fields.push("columns.query".to_owned());
            }
        } else if renamed || is_renamed("system") || is_renamed("history") {
            source
                .mapping
                .extend(columns.iter().filter_map(|(here, found, _)| Some((*here, (*found)?.to_owned()))));
            for field in ["system", "history"] {
                source.mapping.extend(column(field).map(|name| (field, name.to_owned())));
            }
        }
        // Only dialogues are read with tools.
        if column("tools").is_some() {
            lost.fields.push("columns.tools".to_owned());
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
        lost.fields.push("tags".to_owned());
    }
    if source.raw && column("history").is_some() {
        lost.fields.push("columns.history".to_owned());
    }
    for key in ["images", "videos", "audios", "chosen", "rejected", "kto_tag"] {
        if column(key).is_some() {
            lost.fields.push(format!("columns.{key}"));
        }
    }
    source
}
