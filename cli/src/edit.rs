//! Edits a manifest's text: changes the values and keeps everything else as it is.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::Path;

use expert_contract::diagnostic::{Diagnostic, Severity};
use expert_contract::ledger::Section;
use expert_contract::manifest::json::{Member, Node, Object, parse};
use expert_contract::manifest::{Options, ROOT};
use expert_contract::read;
use fs_err as fs;
use serde_json::Value;

use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::plan::real_manifest;
use crate::sys::durable;
use crate::ui::Console;

/// One setting, by its key of `training.config`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub key: &'static str,
    pub value: Value,
    /// Changed where the manifest has it, and otherwise left out.
    only_present: bool,
}

impl Setting {
    pub fn new(key: &'static str, value: impl Into<Value>) -> Self {
        Self { key, value: value.into(), only_present: false }
    }

    /// For a manifest that has the key: another setting must not be overruled by it.
    pub fn where_present(key: &'static str, value: impl Into<Value>) -> Self {
        Self { only_present: true, ..Self::new(key, value) }
    }
}

/// One line of the file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Counts from 1.
    pub line: usize,
    pub key: &'static str,
    /// The present value; None for a new key.
    pub before: Option<String>,
    pub after: String,
}

impl fmt::Display for Changed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: \"{}\": ", self.line, self.key)?;
        match &self.before {
            Some(before) => write!(to, "{before} -> {}", self.after),
            None => write!(to, "new: {}", self.after),
        }
    }
}

struct Replacement {
    start: usize,
    end: usize,
    text: String,
}

/// The text with the new settings for `bases[base]`, and the changes. None where the text has no `training` to write to.
pub fn apply(text: &str, base: usize, settings: &[Setting]) -> Option<(String, Vec<Changed>)> {
    let root = parse(&without_mark(text), 0).root?;
    let layers = Layers::of(&root, base)?;
    let mut replacements = Vec::new();
    let mut changed = Vec::new();
    let mut fresh: Vec<&Setting> = Vec::new();
    for setting in settings {
        let places = layers.places(setting.key);
        if places.is_empty() && !setting.only_present {
            fresh.push(setting);
        }
        for node in places {
            let (start, end) = (node.span.start as usize, node.span.end as usize);
            let after = setting.value.to_string();
            if text[start..end] != after {
                let before = Some(text[start..end].to_owned());
                changed.push(Changed {
                    line: line_of(text, start),
                    key: setting.key,
                    before,
                    after: after.clone(),
                });
                replacements.push(Replacement { start, end, text: after });
            }
        }
    }
    if !fresh.is_empty() {
        let insertion = layers.insertion(text, &fresh, &indentation(text, &root));
        let line = line_of(text, insertion.start);
        changed.extend(fresh.iter().map(|setting| Changed {
            line,
            key: setting.key,
            before: None,
            after: setting.value.to_string(),
        }));
        replacements.push(insertion);
    }
    Some((replaced(text, replacements), changed))
}

/// The names of the other bases that take a changed setting from where this base has it: it changes for them too.
fn others_changed(text: &str, base: usize, changes: &[Changed]) -> Vec<String> {
    let Some(root) = parse(&without_mark(text), 0).root else { return Vec::new() };
    let places = |base: usize, key: &str| -> Vec<u32> {
        let nodes = Layers::of(&root, base).map(|layers| layers.places(key)).unwrap_or_default();
        nodes.into_iter().map(|node| node.span.start).collect()
    };
    let is_shared = |other: usize| {
        changes.iter().any(|it| {
            let own = places(base, it.key);
            places(other, it.key).iter().any(|place| own.contains(place))
        })
    };
    let bases =
        root.as_object().and_then(|it| it.get("base_models")).and_then(Node::as_list).unwrap_or_default();
    let named = |other: usize| Some(as_object_or_empty(bases.get(other)?).get("name")?.as_text()?.to_owned());
    (0..bases.len()).filter(|other| *other != base && is_shared(*other)).filter_map(named).collect()
}

/// After a change was written for one of several bases.
pub fn warn_of_others(text: &str, base: usize, changes: &[Changed], console: &Console) {
    let others = others_changed(text, base, changes);
    if !others.is_empty() {
        console.warn(
            &format!("these settings were found for one base, and also change for {}", others.join(", ")),
            Some("to keep those as they were, put their former values into their `overrides`"),
        );
    }
}

/// A byte order mark as blanks, so that offsets stay those of the text.
fn without_mark(text: &str) -> Cow<'_, str> {
    text.strip_prefix('\u{feff}').map_or(Cow::Borrowed(text), |rest| Cow::Owned(format!("   {rest}")))
}

/// The objects that settings of one base may stand in.
struct Layers<'a> {
    overrides: Option<&'a Member>,
    training: &'a Member,
    config: Option<&'a Member>,
    /// What describes the adapter of each base, in their order.
    adapters: Vec<Option<&'a Object>>,
    base: usize,
}

impl<'a> Layers<'a> {
    /// Of either version of the format.
    fn of(root: &'a Node, base: usize) -> Option<Self> {
        let root = root.as_object()?;
        let training = root.member("training")?;
        let bases: Vec<&Object> = match root.get("base_models").and_then(Node::as_list) {
            Some(list) if !list.is_empty() => list.iter().map(as_object_or_empty).collect(),
            _ => root.get("base_model").map(as_object_or_empty).into_iter().collect(),
        };
        let shared = first_adapter(root);
        Some(Self {
            overrides: bases.get(base).and_then(|base| base.member("overrides")),
            training,
            config: training.node.as_object()?.member("config"),
            adapters: bases.iter().map(|base| first_adapter(base).or(shared)).collect(),
            base,
        })
    }

    /// Every value that has to change with the setting; none for a setting that is new to the manifest.
    fn places(&self, key: &str) -> Vec<&'a Node> {
        let names = spellings(&["training", "config"], key);
        if let Some(node) = self.overrides.and_then(|overrides| find(overrides, names)) {
            return vec![node];
        }
        // There it holds; elsewhere the base's number of epochs would.
        let of_epochs = spellings(&["training", "config"], "epochs");
        if key == "max_steps" && self.overrides.is_some_and(|it| find(it, of_epochs).is_some()) {
            return Vec::new();
        }
        let adapter_names = spellings(&["adapters"], key);
        let described = |adapter: &'a Object| {
            adapter_names.iter().find_map(|name| adapter.get(name)).filter(|node| !node.is_null())
        };
        let config = self.config.and_then(|config| find(config, names));
        // What adapters describe must agree with the settings of all bases.
        let (first, adapters) = match config.or_else(|| find(self.training, names)) {
            Some(node) => (Some(node), &self.adapters[..]),
            None => (None, self.adapters.get(self.base).map_or(&[][..], std::slice::from_ref)),
        };
        let mut places: Vec<&Node> =
            first.into_iter().chain(adapters.iter().flatten().copied().filter_map(described)).collect();
        places.sort_by_key(|node| node.span.start);
        places.dedup_by_key(|node| node.span.start);
        places
    }

    /// New settings: into this base's overrides if it has any, else where the settings of all bases are.
    fn insertion(&self, text: &str, settings: &[&Setting], indentation: &str) -> Replacement {
        let members: Vec<(&str, String)> =
            settings.iter().map(|setting| (setting.key, setting.value.to_string())).collect();
        let is_empty = |member: &Member| member.node.as_object().is_none_or(|it| it.members.is_empty());
        let overrides = self.overrides.filter(|it| !is_empty(it));
        if let Some(target) = overrides.or(self.config) {
            return added(text, target, &members, indentation);
        }
        let is_setting = |member: &Member| !spellings(&["training", "config"], &member.key).is_empty();
        if self.training.node.as_object().is_some_and(|it| it.members.iter().any(is_setting)) {
            return added(text, self.training, &members, indentation);
        }
        let separator = match self.training.node.as_object().and_then(|it| it.members.last()) {
            Some(last) => separator(text, last.key_span.start as usize),
            None => deeper(&separator(text, self.training.key_span.start as usize), indentation),
        };
        let config = object(&members, &separator, indentation);
        added(text, self.training, &[("config", config)], indentation)
    }
}

fn as_object_or_empty(node: &Node) -> &Object {
    static EMPTY: Object = Object { members: Vec::new() };
    node.as_object().unwrap_or(&EMPTY)
}

fn first_adapter(object: &Object) -> Option<&Object> {
    object.get("adapters")?.as_list()?.first()?.as_object()
}

/// The members at the end of an object.
fn added(text: &str, target: &Member, members: &[(&str, String)], indentation: &str) -> Replacement {
    match target.node.as_object().and_then(|object| object.members.last()) {
        Some(last) => {
            let at = last.node.span.end as usize;
            let separator = separator(text, last.key_span.start as usize);
            let written = members.iter().map(|(key, value)| format!(",{separator}\"{key}\": {value}"));
            Replacement { start: at, end: at, text: written.collect() }
        }
        None => Replacement {
            start: target.node.span.start as usize,
            end: target.node.span.end as usize,
            text: object(members, &separator(text, target.key_span.start as usize), indentation),
        },
    }
}

/// An object whose own key follows `separator`.
fn object(members: &[(&str, String)], separator: &str, indentation: &str) -> String {
    let inner = deeper(separator, indentation);
    let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    if inner == " " {
        return format!("{{{}}}", members.join(", "));
    }
    format!("{{{inner}{}{separator}}}", members.join(&format!(",{inner}")))
}

/// The separator of members one level further inside.
fn deeper(separator: &str, indentation: &str) -> String {
    if separator.contains('\n') { format!("{separator}{indentation}") } else { separator.to_owned() }
}

/// What one level adds to the beginning of a line.
fn indentation(text: &str, root: &Node) -> String {
    let first = root.as_object().and_then(|object| object.members.first());
    let separator = first.map(|first| separator(text, first.key_span.start as usize)).unwrap_or_default();
    separator.rsplit_once('\n').map_or(String::new(), |(_, indentation)| indentation.to_owned())
}

/// Which of the manifest's bases a command's settings are for; none where its base is neither one of them nor a copy of one.
pub fn base_of(options: &PlanOptions) -> Result<Option<usize>, Failure> {
    let file = options.manifest_file()?;
    let Some(named) = options.model.as_deref() else { return Ok(Some(0)) };
    // A manifest with errors is reported when the plan is made, and data elsewhere without --allow-path.
    let reading = Options { anywhere: true, sets: options.sets(), ..Options::default() };
    Ok(read::load(&file, &reading).manifest.map_or(Some(0), |manifest| manifest.entry_for(named)))
}

/// The entry that says how the base of a command is held. One that the manifest does not have is held as the first.
pub fn entry(options: &PlanOptions) -> Result<usize, Failure> {
    Ok(base_of(options)?.unwrap_or(0))
}

pub fn no_place_for_base() -> Failure {
    Failure::bad_input("unknown-model", "--write has no place for a base that is not in the manifest")
        .hint("add the base to base_models first, or leave --write out")
}

pub fn edited(file: &Path, base: usize, settings: &[Setting]) -> Result<(String, Vec<Changed>), Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::reading("read", file, &error))?;
    apply(&text, base, settings).ok_or_else(|| {
        Failure::bad_input("no-config", format!("{} has no training to write to", file.display()))
            .hint("add \"training\": {\"config\": {}} to it")
    })
}

/// Before work that ends with `write`: whether such settings can be written.
pub fn rehearse(
    file: &Path,
    base: usize,
    settings: &[Setting],
    options: &PlanOptions,
    console: &Console,
) -> Result<(), Failure> {
    real_manifest(file, &options.allow_path)?;
    check(&edited(file, base, settings)?.0, file, options, console)
}

pub fn write(text: &str, file: &Path, options: &PlanOptions, console: &Console) -> Result<(), Failure> {
    check(text, file, options, console)?;
    let place = real_manifest(file, &options.allow_path)?;
    let as_before = |new: &mut std::fs::File| {
        new.set_permissions(place.metadata()?.permissions())?;
        new.write_all(text.as_bytes())
    };
    durable::replace_with(&place, as_before).map_err(|error| Failure::changing("write", file, &error))
}

/// The written text must be a valid manifest by itself, without what `--set` and the shorthands change.
fn check(text: &str, file: &Path, options: &PlanOptions, console: &Console) -> Result<(), Failure> {
    let read = Options { sets: Vec::new(), ..options.reading() };
    let loaded = read::from_bytes(text.as_bytes().to_vec(), file, &read);
    if loaded.ok() {
        return Ok(());
    }
    let errors: Vec<Diagnostic> =
        loaded.diagnostics.into_iter().filter(|it| it.severity == Severity::Error).collect();
    console.report(&errors, &loaded.document.sources);
    let failure = Failure::manifest(file, errors);
    let failure =
        Failure { message: format!("with the settings written to it, {}", failure.message), ..failure };
    Err(if options.sets().is_empty() {
        failure
    } else {
        failure
            .hint("--write leaves out what --set and the shorthands change: put that into the manifest first")
    })
}

fn replaced(text: &str, mut replacements: Vec<Replacement>) -> String {
    replacements.sort_by_key(|it| std::cmp::Reverse(it.start));
    let mut text = text.to_owned();
    for it in replacements {
        text.replace_range(it.start..it.end, &it.text);
    }
    text
}

fn find<'a>(layer: &'a Member, names: &[&str]) -> Option<&'a Node> {
    let object = layer.node.as_object()?;
    names.iter().find_map(|name| object.get(name))
}

/// The key and its other spellings in the section at `path`, by the ledger; none where the section has no such key.
fn spellings(path: &[&str], key: &str) -> &'static [&'static str] {
    fn inside(section: &'static Section, key: &str) -> Option<&'static Section> {
        section.field(key)?.kind.sections().first().copied()
    }
    let section = path.iter().try_fold(&ROOT, |section, key| inside(section, key));
    let field = section.and_then(|section| section.field(key)).filter(|field| field.is_honoured());
    field.map_or(&[], |field| field.keys)
}

/// The separator of two members: a line break with the last one's indentation, or a space.
fn separator(text: &str, key_start: usize) -> String {
    let line_start = text[..key_start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start..key_start];
    if line_start > 0 && before.chars().all(|c| c == ' ' || c == '\t') {
        let ending = if text[..line_start].ends_with("\r\n") { "\r\n" } else { "\n" };
        format!("{ending}{before}")
    } else {
        " ".to_owned()
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "{\r\n  \"_note\": \"kept  as it is\",\r\n  \"base_models\": [{\"name\": \"a\"}, {\"name\": \"b\", \"overrides\": {\"batch_size\":  4}}],\r\n  \"training\": {\"config\": {\r\n    \"_why\": \"because\",\r\n    \"per_device_train_batch_size\": 16,\r\n    \"rank\": 8\r\n  }}\r\n}\r\n";

    fn settings() -> Vec<Setting> {
        vec![Setting::new("batch_size", json!(8)), Setting::new("gradient_accumulation_steps", json!(2))]
    }

    #[test]
    fn a_value_changes_in_its_place_under_any_spelling_and_a_new_key_follows_the_last() {
        let (text, changed) = apply(TEXT, 0, &settings()).unwrap();
        let wanted = TEXT
            .replace("batch_size\": 16", "batch_size\": 8")
            .replace("\"rank\": 8", "\"rank\": 8,\r\n    \"gradient_accumulation_steps\": 2");
        assert_eq!(text, wanted);
        assert_eq!(
            (changed[0].line, changed[0].before.as_deref(), changed[0].after.as_str()),
            (6, Some("16"), "8")
        );
        assert_eq!((changed[1].key, changed[1].before.as_deref()), ("gradient_accumulation_steps", None));
    }

    #[test]
    fn what_a_base_overrides_is_changed_there() {
        let (text, _) = apply(TEXT, 1, &settings()).unwrap();
        let wanted =
            TEXT.replace("{\"batch_size\":  4}", "{\"batch_size\":  8, \"gradient_accumulation_steps\": 2}");
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_copy_of_a_base_is_written_to_the_entry_of_that_base() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifest.json");
        let text = "{\"name\": \"x\", \"base_models\": [{\"name\": \"smollm2-135m-instruct\"}, {\"name\": \"Qwen/Qwen3-4B\"}], \"training\": {\"dataset\": {\"path\": \"a.jsonl\"}, \"config\": {\"rank\": 8, \"alpha\": 16}}}";
        std::fs::write(&file, text).unwrap();
        let base = |named: &str| {
            let options =
                json!({"manifest": file, "model": named, "set": [], "device": "Auto", "allow_path": []});
            base_of(&serde_json::from_value(options).unwrap()).unwrap()
        };
        assert_eq!((base("qwen3-4b"), base("./copies/Qwen3-4B")), (Some(1), Some(1)));
        assert_eq!((base("./copies/Qwen3-8B"), base("unsloth/Qwen3-4B")), (None, None));
    }

    #[test]
    fn an_equal_value_does_not_count_as_a_change() {
        let same = [Setting::new("rank", json!(8))];
        assert_eq!(apply(TEXT, 0, &same), Some((TEXT.to_owned(), Vec::new())));
        assert_eq!(apply("{}", 0, &same), None);
    }

    /// The settings that a search writes.
    fn found() -> Vec<Setting> {
        vec![
            Setting::new("learning_rate", json!(0.001)),
            Setting::new("rank", json!(32)),
            Setting::new("alpha", json!(64)),
        ]
    }

    #[test]
    fn what_describes_the_adapter_is_changed_there() {
        let text = "{\"base_models\": [{\"name\": \"a\", \"adapters\": [{\"type\": \"lora\", \"r\": 8, \"alpha\": 16}]}],\n \"training\": {\"config\": {\"learning_rate\": 1}}}";
        let (written, changed) = apply(text, 0, &found()).unwrap();
        let wanted = text
            .replace("\"r\": 8, \"alpha\": 16", "\"r\": 32, \"alpha\": 64")
            .replace("\"learning_rate\": 1", "\"learning_rate\": 0.001");
        assert_eq!((written, changed.len()), (wanted, 3));
        // In version 1.0 of the format it stands at the root.
        let text = "{\"base_model\": \"a\", \"adapters\": [{\"rank\": 8, \"lora_alpha\": 16}], \"training\": {\"learning_rate\": 1}}";
        let (written, _) = apply(text, 0, &found()).unwrap();
        let wanted = text
            .replace(": 8", ": 32")
            .replace(": 16", ": 64")
            .replace("\"learning_rate\": 1", "\"learning_rate\": 0.001");
        assert_eq!(written, wanted);
    }

    #[test]
    fn what_the_settings_and_the_adapters_of_all_bases_say_changes_together() {
        let text = "{\"base_models\": [{\"adapters\": [{\"r\": 8}]}, {\"adapters\": [{\"r\": 8, \"alpha\": null}]}, {\"overrides\": {\"rank\": 4}}], \"training\": {\"config\": {\"rank\": 8}}}";
        let rank = [Setting::new("rank", json!(32))];
        let (written, changed) = apply(text, 1, &rank).unwrap();
        assert_eq!((written, changed.len()), (text.replace(": 8", ": 32"), 3));
        assert_eq!(apply(text, 2, &rank).unwrap().0, text.replace(": 4", ": 32"));
        let alpha = [Setting::new("alpha", json!(64))];
        let wanted = text.replace("{\"rank\": 8}", "{\"rank\": 8, \"alpha\": 64}");
        assert_eq!(apply(text, 1, &alpha).unwrap().0, wanted, "null describes nothing");
    }

    /// From there its number of epochs would switch off steps that stand in `training.config`.
    #[test]
    fn steps_stand_in_the_layer_in_which_epochs_do() {
        let text = "{\"base_models\": [{\"overrides\": {\"epochs\": 3}}, {}], \"training\": {\"config\": {\"max_steps\": 9}}}";
        let steps = [Setting::new("max_steps", json!(600))];
        let wanted = text.replace("\"epochs\": 3", "\"epochs\": 3, \"max_steps\": 600");
        assert_eq!(apply(text, 0, &steps).unwrap().0, wanted);
        assert_eq!(apply(text, 1, &steps).unwrap().0, text.replace(": 9", ": 600"));
    }

    #[test]
    fn other_bases_that_share_a_changed_setting_are_named() {
        let rank = [Setting::new("rank", json!(32))];
        let others = |bases: &str, base: usize| {
            let text = format!("{{\"base_models\": {bases}, \"training\": {{\"config\": {{\"rank\": 8}}}}}}");
            let (written, changed) = apply(&text, base, &rank).unwrap();
            others_changed(&written, base, &changed)
        };
        let bases = "[{\"name\": \"a\"}, {\"name\": \"b\", \"overrides\": {\"rank\": 4}}, {\"name\": \"c\"}]";
        assert_eq!(others(bases, 0), ["c"]);
        assert!(others(bases, 1).is_empty(), "its overrides are its own");
        assert!(others("[{\"name\": \"a\"}]", 0).is_empty());
    }

    #[test]
    fn settings_without_a_config_stay_in_training() {
        let text = "\u{feff}{\n  \"training\": {\n    \"dataset\": \"a\",\n    \"learning_rate\": 1,\n    \"lora_rank\": 8\n  }\n}";
        let (written, changed) = apply(text, 0, &found()).unwrap();
        let wanted = text.replace(
            "\"learning_rate\": 1,\n    \"lora_rank\": 8",
            "\"learning_rate\": 0.001,\n    \"lora_rank\": 32,\n    \"alpha\": 64",
        );
        assert_eq!(written, wanted);
        assert_eq!(changed.iter().map(|it| it.line).collect::<Vec<_>>(), [4, 5, 5]);
    }

    #[test]
    fn an_empty_config_is_filled_and_an_absent_one_is_added() {
        let rate = [Setting::new("lr", json!(1)), Setting::new("r", json!(2))];
        for (text, wanted) in [
            ("{\"training\": {\"config\": {}}}", "{\"training\": {\"config\": {\"lr\": 1, \"r\": 2}}}"),
            ("{\"training\": {}}", "{\"training\": {\"config\": {\"lr\": 1, \"r\": 2}}}"),
            (
                "{\n\t\"training\": {\n\t\t\"config\": { }\n\t}\n}",
                "{\n\t\"training\": {\n\t\t\"config\": {\n\t\t\t\"lr\": 1,\n\t\t\t\"r\": 2\n\t\t}\n\t}\n}",
            ),
            (
                "{\n  \"training\": {\n    \"dataset\": \"a\"\n  }\n}",
                "{\n  \"training\": {\n    \"dataset\": \"a\",\n    \"config\": {\n      \"lr\": 1,\n      \"r\": 2\n    }\n  }\n}",
            ),
        ] {
            let (written, changed) = apply(text, 0, &rate).unwrap();
            assert_eq!((written.as_str(), changed.len()), (wanted, 2));
        }
    }

    #[test]
    fn what_would_overrule_another_setting_changes_where_it_stands_and_is_not_added() {
        let ratio = [Setting::new("warmup_ratio", 0.1), Setting::where_present("warmup_steps", 0)];
        let written = |config: &str| {
            apply(&format!("{{\"training\": {{\"config\": {config}}}}}"), 0, &ratio).unwrap().0
        };
        assert!(written("{\"warmup_steps\": 9}").contains("{\"warmup_steps\": 0, \"warmup_ratio\": 0.1}"));
        assert!(!written("{\"epochs\": 2}").contains("warmup_steps"));
    }
}
