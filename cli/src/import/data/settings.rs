//! The settings that sources of rows become, together: they share one mapping, one template and one `text_dialogue`.

use std::collections::BTreeMap;

use expert_contract::paths::format_of_ending;
use expert_contract::rules::OPTIONAL_FIELDS;
use serde_json::{Value as Json, json};

use super::source::{DATASET, FIELDS, Source};
use crate::import::draft::{Copy, Fate, Import, names};
use crate::import::running_text::{DIALOGUE, LONG_TEXTS};
use crate::import::tree::{Entry, Value};

pub(super) fn has_no_rows(import: &Import<'_>) -> bool {
    import.at("training.dataset.path").is_none() && import.at("training.dataset.tasks").is_none()
}

/// `target` is `path` or `validation_path`.
pub(super) fn write(import: &mut Import<'_>, sources: &[Source], target: &str, key: &str) {
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
            // Unless another dataset names its own template, which then has the place.
            let template = "base_models.0.prompt_template";
            if import.at(template) == Some(&json!("alpaca")) {
                import.put(template, json!("tokenizer"));
            }
            let is_alpaca = |here: &str| here.ends_with("prompt_template = \"alpaca\"");
            // Their reason is what the template would do.
            for line in import.lines.iter_mut().filter(|line| line.here.iter().any(|here| is_alpaca(here))) {
                line.why.clear();
            }
            disclaim(
                import,
                key,
                is_alpaca,
                "one template renders all rows, and the other rows do not fit Alpaca's",
                "nothing; they are rendered as the other rows are",
            );
        }
    }
    let files: Vec<&Source> = sources.iter().filter(|source| source.from.is_some()).collect();
    let endings = |source: &&Source| format_of_ending(&source.path);
    let one_folder = sources.len() > 1
        && sources.iter().all(|source| source.weight.is_none())
        && files.len() == sources.len()
        && files.iter().all(|it| endings(it).is_some() && endings(it) == endings(&files[0]));
    let folder = if target == "path" { "train" } else { "validation" };
    for source in &files {
        let to = if one_folder {
            source.path.replacen("datasets/", &format!("datasets/{folder}/"), 1)
        } else {
            source.path.clone()
        };
        let copy = Copy { what: "data", from: source.from.clone().unwrap_or_default(), to };
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
            let of_key = import.lines.iter_mut().filter(|line| line.key.starts_with(key));
            of_key.filter(|line| line.here.contains(&other.path)).for_each(|line| {
                line.fate = Fate::Left;
                why.clone_into(&mut line.why);
                format!("{} holds the others", first.path).clone_into(&mut line.instead);
            });
        }
    } else if one_folder {
        import.put(&format!("{DATASET}.{target}"), json!(format!("datasets/{folder}")));
        for line in import.lines.iter_mut().filter(|line| line.key.starts_with(key)) {
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

/// Without weights all rows of each are taken, as there.
fn mixture(import: &mut Import<'_>, sources: &[Source]) {
    let task = |(index, source): (usize, &Source)| {
        let mut task = json!({"path": source.path});
        // A task is named by its path.
        let earlier = sources[..index].iter().filter(|other| other.path == source.path).count();
        if earlier > 0 {
            task["name"] = json!(format!("{}-{}", source.path, earlier + 1));
        }
        if let Some(format) = source.format {
            task["format"] = json!(format);
        }
        if let Some(weight) = source.weight {
            task["weight"] = json!(weight);
        }
        task
    };
    import.put("training.dataset.tasks", sources.iter().enumerate().map(task).collect::<Json>());
}

type Mapping = BTreeMap<String, String>;

/// Whether the rows of a source are read by this mapping as by their own. Rows need not have every field.
fn names_its_fields(mapping: &Mapping, source: &Source) -> bool {
    let is_same = |(here, there): (&String, &String)| match source.mapping.get(here.as_str()) {
        Some(own) => own == there,
        None => !source.mapping.is_empty() && OPTIONAL_FIELDS.contains(&here.as_str()),
    };
    let is_in = |(here, there): (&&str, &String)| mapping.get(*here) == Some(there);
    mapping.iter().all(is_same) && source.mapping.iter().all(is_in)
}

/// There is one mapping for all rows: that of the training rows, where they agree.
fn mapping(import: &mut Import<'_>, sources: &[Source], target: &str, key: &str) {
    let found: Mapping = if target == "path" {
        let pairs = sources.iter().flat_map(|source| &source.mapping);
        pairs.map(|(here, there)| ((*here).to_owned(), there.clone())).collect()
    } else {
        import.at(FIELDS).and_then(|found| serde_json::from_value(found.clone()).ok()).unwrap_or_default()
    };
    if sources.iter().all(|source| names_its_fields(&found, source)) {
        if target == "path" && !found.is_empty() {
            import.put(FIELDS, json!(found));
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
