//! The datasets and files that TRL's scripts take.

use std::collections::BTreeMap;

use expert_contract::rules::FIELDS as KNOWN;
use serde_json::json;

use super::items::{builder, files_of, listed, no_file, with_further_files, within};
use super::settings::write;
use super::source::{FIELDS, Source, local, place, said};
use crate::import::draft::{Fate, Import};
use crate::import::tree::{Entry, Value};

pub(super) fn read(import: &mut Import<'_>) {
    let source = import.source;
    if let Some(entry) = source.entry("datasets").filter(|entry| !entry.value.is_off()) {
        mixture(import, entry);
        // Its script ignores them then.
        for key in ["dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split"] {
            if let Some(other) = source.entry(key).filter(|other| other.value != Value::Null) {
                import.unneeded(other, "`datasets` names the rows");
            }
        }
        return;
    }
    let text = |key: &str| source.get(key).and_then(Value::text);
    let config = text("dataset_config").or_else(|| text("dataset_config_name"));
    let keys = ["dataset_name", "dataset_path", "train_file", "data_path", "dataset"];
    if let Some(entry) =
        keys.iter().find_map(|key| source.entry(key)).filter(|entry| entry.value.text().is_some())
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
            if let Some(part) = source.entry(key) {
                said(import, part, &found);
            }
        }
        let test_split = source.entry("dataset_test_split");
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
    if let Some(entry) = source.entry("validation_file").filter(|entry| entry.value.text().is_some()) {
        let raw = entry.value.text().unwrap_or_default();
        let found = place(import, "validation_path", raw, None, None, None);
        said(import, entry, &found);
        if found.unread.is_none() {
            write(import, &[found], "validation_path", "validation_file");
        }
    }
}

/// `datasets` of a DatasetMixtureConfig, all of whose rows are learned.
fn mixture(import: &mut Import<'_>, entry: &Entry) {
    let Value::List(items) = &entry.value else {
        return import.left(entry, "it is not a list of datasets", "name the rows in training.dataset.path");
    };
    let each = items.iter().enumerate();
    let mut found: Vec<Vec<Source>> = each.map(|(index, item)| dataset(import, entry, index, item)).collect();
    let are_apart = found.iter().all(|sources| sources.len() < 2);
    let are_several = found.iter().flatten().count() > 1;
    let has_fraction = |item: &Value| item.get("fraction").is_some_and(|it| *it != Value::Null);
    let have_all = items.iter().all(has_fraction);
    let mut place = 0;
    for (index, item) in items.iter().enumerate() {
        let fraction = item.entry("fraction").filter(|it| it.value != Value::Null);
        let Some(line) = fraction.map(|it| within(entry, index, it)) else {
            place += found[index].len();
            continue;
        };
        match (line.value.number(), found[index].as_mut_slice()) {
            (_, []) => import.unneeded(&line, "these rows are not read"),
            _ if !have_all => import.left(
                &line,
                "TRL refuses fractions of some datasets alone; all rows of all datasets are used",
                "give each dataset a weight in training.dataset.tasks",
            ),
            _ if !are_several => import.unneeded(&line, "all rows of the only dataset are used, as there"),
            (Some(share), [source]) if are_apart => {
                source.weight = Some(share);
                import.line(
                    &line,
                    Fate::Changed,
                    vec![format!("training.dataset.tasks.{place}.weight = {}", line.value.json())],
                    "the shares are the same; which rows of the larger datasets are left out is drawn here, and there \
                     it is the last ones",
                    "",
                );
            }
            _ => import.left(
                &line,
                "the files of a dataset would have a share each, so all rows of all datasets are used",
                "put the files of each dataset into a folder and give each a weight in training.dataset.tasks",
            ),
        }
        place += found[index].len();
    }
    write(import, &found.concat(), "path", &entry.key);
}

/// The dataset's files; none where its rows cannot be read.
fn dataset(import: &mut Import<'_>, entry: &Entry, index: usize, item: &Value) -> Vec<Source> {
    let text = |key: &str| item.get(key).and_then(Value::text);
    let files = files_of(item);
    let reader = builder(item);
    let folder = text("data_dir").filter(|_| files.is_empty());
    let named = if reader.is_some() { files.first().map(String::as_str).or(folder) } else { None };
    if let (Some(reader), None) = (reader, named) {
        no_file(import, &listed(entry, index, item), reader);
        return Vec::new();
    }
    let Some(raw) = named.or_else(|| text("path")) else {
        import.left(
            &listed(entry, index, item),
            "it names no dataset",
            "name the rows in training.dataset.path",
        );
        return Vec::new();
    };
    let mut source = match named {
        Some(files) => local(import, "path", files, reader),
        None => place(import, "path", raw, text("split"), text("name"), None),
    };
    let columns = columns_of(item);
    source.mapping.clone_from(&columns);
    for inner in item.entries().iter().filter(|inner| inner.key != "fraction") {
        let line = within(entry, index, inner);
        let is_of_files = source.from.is_some();
        match inner.key.as_str() {
            _ if inner.value == Value::Null => import.unneeded(&line, "empty: the default holds"),
            "path" if named.is_some() && files.is_empty() => {
                import.unneeded(&line, "data_dir names the folder");
            }
            "path" if named.is_some() => import.unneeded(&line, "data_files names the file"),
            "path" | "split" | "name" | "data_files" | "data_dir" | "columns" if source.unread.is_some() => {
                said(import, &line, &source);
            }
            "data_files" | "data_dir" if named.is_none() => import.left(
                &line,
                "every file of the dataset or folder is read",
                "put those files into the expert's folder and name them in training.dataset.path or tasks",
            ),
            "data_dir" if !files.is_empty() => {
                import.left(&line, "files are named by their paths", "check the paths of data_files");
            }
            "split" if is_of_files && inner.value.text().is_some_and(|it| it.contains('[')) => {
                import.left(&line, "all rows of a file are trained on", "write a file with these rows");
            }
            "split" | "name" if is_of_files => import.unneeded(&line, "a file has no splits"),
            "path" | "split" | "name" | "data_files" | "data_dir" => said(import, &line, &source),
            "columns" if has_messages(&inner.value) => {
                import.unneeded(&line, "messages are read, whatever other fields a row has");
            }
            "columns" if columns.is_empty() => import.left(
                &line,
                "rows are read by the names of their fields, and not all of these are known",
                "map them with training.dataset.field_mapping",
            ),
            "columns" => {
                import.line(&line, Fate::Carried, vec![format!("{FIELDS} = {}", json!(columns))], "", "");
            }
            _ => import.left(&line, "it is not a key of a dataset in a mixture", "remove it"),
        }
    }
    if source.unread.is_some() {
        return Vec::new();
    }
    with_further_files(import, entry, "path", (index, item), source)
}

fn has_messages(columns: &Value) -> bool {
    columns
        .texts()
        .is_some_and(|names| names.iter().any(|name| ["messages", "conversations"].contains(&&**name)))
}

/// Other fields than the selected ones are not read where these are mapped to themselves. A dialogue is read before
/// other fields, and whole only without a mapping.
fn columns_of(item: &Value) -> BTreeMap<&'static str, String> {
    let Some(columns) = item.get("columns").filter(|columns| !has_messages(columns)) else {
        return BTreeMap::new();
    };
    let known = |name: String| KNOWN.iter().find(|known| **known == name).map(|known| (*known, name));
    columns.texts().unwrap_or_default().into_iter().map(known).collect::<Option<_>>().unwrap_or_default()
}

/// Whether TRL's script evaluates on the split `test`, its default, because no validation rows are named.
fn evaluates_by_default(source: &Value) -> bool {
    let is_given = |key: &str| source.get(key).is_some_and(|it| *it != Value::Null);
    let is_on = |key: &str| source.get(key).is_some_and(|it| !it.is_off());
    (is_on("eval_strategy") || is_on("evaluation_strategy"))
        && !is_given("dataset_test_split")
        && !is_given("validation_file")
}
