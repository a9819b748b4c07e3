//! Pages of the user guide that are generated from the ledger and the codes.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::diagnostic::Code;
use crate::families;
use crate::ledger::{Class, Entry, Field, Section, Unknown, entries};
use crate::manifest::ROOT;

/// A line of `schema --ledger`.
#[derive(Debug, Clone, Serialize)]
pub struct LedgerRow {
    pub path: String,
    pub other_spellings: Vec<&'static str>,
    pub class: &'static str,
    pub takes: String,
    pub default: Option<Value>,
    pub doc: &'static str,
    /// Why the key has no effect, and what to do instead.
    pub reason: Option<&'static str>,
    pub instead: Option<&'static str>,
}

/// Every key of the manifest and its effect.
pub fn ledger_rows() -> Vec<LedgerRow> {
    entries(&ROOT).iter().map(row).collect()
}

fn row(entry: &Entry) -> LedgerRow {
    let field = entry.field;
    let (reason, instead) = match field.class {
        Class::Advice { reason, instead } => (Some(reason), Some(instead)),
        _ => (None, None),
    };
    LedgerRow {
        path: entry.path.clone(),
        other_spellings: field.keys[1..].to_vec(),
        class: field.class.as_str(),
        takes: field.kind.describe(),
        default: (field.default)(),
        doc: field.doc,
        reason,
        instead,
    }
}

const MANIFEST_HEAD: &str = "# The manifest

<!-- Generated from the field ledger; `UPDATE=1 cargo test -p expert-contract --test generated` writes it. -->

A `manifest.json` describes one expert. Every key below is honoured, or reported as without effect together with the
reason, or kept as metadata for other readers. Where a section says so, any other key is an error. A key that begins with
`_` is a comment, anywhere. Paths count from the manifest's folder.

Values that depend on the base model may stand in `base_models[].overrides`, which has the keys of `training.config` and
goes over it for that base. `validate` judges every base; other commands only warn of an error in a base that they do not use, such as an
unknown key in its `overrides`. `--preset`, flags and `--set dotted.path=value` go over both; a
path to a part of a value, such as `training.config.distributed.processes=2`, leaves the other parts as they are. If two settings conflict
(`epochs` and `max_steps`), the later layer wins.
";

/// `docs/manifest.md`.
pub fn manifest_page() -> String {
    let mut page = MANIFEST_HEAD.to_owned();
    for section in sections() {
        let _ = write!(page, "\n{}", section_text(section));
    }
    page
}

/// Each section once, outermost first.
fn sections() -> Vec<&'static Section> {
    let mut found: Vec<&'static Section> = vec![&ROOT];
    let mut next = 0;
    while let Some(section) = found.get(next).copied() {
        next += 1;
        for inner in section.fields.iter().flat_map(|field| field.kind.sections()) {
            if !found.iter().any(|known| std::ptr::eq(*known, inner)) {
                found.push(inner);
            }
        }
    }
    found
}

fn section_text(section: &'static Section) -> String {
    let title = if section.path.is_empty() {
        "The outermost object".to_owned()
    } else {
        format!("`{}`", section.path)
    };
    let mut text = format!("## {title}\n\n{}", section.doc.trim());
    let strictness = match section.unknown {
        Unknown::Refuse => "Any other key is an error.",
        Unknown::Keep => "Any other key is kept as metadata.",
    };
    let _ = writeln!(text, " {strictness}");
    let honoured: Vec<_> = section.fields.iter().filter(|field| field.is_honoured()).collect();
    if !honoured.is_empty() {
        text += "\n| key | takes | default | meaning |\n|---|---|---|---|\n";
        for field in honoured {
            text += &honoured_line(section, field);
        }
    }
    let advice: Vec<_> = section.fields.iter().filter_map(advice_line).collect();
    if !advice.is_empty() {
        let _ = write!(text, "\nAccepted and reported as without effect:\n\n{}", advice.concat());
    }
    let metadata: Vec<_> = section.fields.iter().filter(|field| field.class == Class::Metadata).collect();
    let endings = section.metadata_endings.iter().map(|ending| format!("`*{ending}`"));
    let names: Vec<_> = metadata.iter().map(|field| format!("`{}`", field.name())).chain(endings).collect();
    if !names.is_empty() {
        let _ = write!(text, "\nMetadata, kept and not checked: {}.\n", names.join(", "));
    }
    text
}

fn honoured_line(section: &Section, field: &Field) -> String {
    let others: Vec<_> = field.keys[1..].iter().map(|key| format!(" (or `{key}`)")).collect();
    let others = others.concat();
    let default = match (field.default)() {
        _ if section.required.contains(&field.name()) => "required".to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(value) => format!("`{value}`"),
    };
    let words = match &field.kind {
        kind if kind.describe() == "one of its words" => word_list(field),
        kind => kind.describe(),
    };
    format!("| `{}`{others} | {} | {default} | {} |\n", field.name(), cell(&words), cell(field.doc))
}

fn word_list(field: &Field) -> String {
    match &field.kind {
        crate::ledger::Kind::Word(words) => {
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
        }
        other => other.describe(),
    }
}

fn advice_line(field: &Field) -> Option<String> {
    let Class::Advice { reason, instead } = field.class else { return None };
    Some(format!("- `{}`: {reason}; {instead}.\n", field.name()))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const DIAGNOSTICS_HEAD: &str = "# Diagnostics

<!-- Generated from the codes; `UPDATE=1 cargo test -p expert-contract --test generated` writes it. -->

Everything that `expert-cli validate` can report about a manifest. With an error nothing runs. A warning names a setting that has no
effect, and the value that is used, or something that is missing on this machine. Advice names a better setting.

| code | severity | meaning |
|---|---|---|
";

/// `docs/families.md`.
pub fn families_page() -> String {
    let table = families::table();
    let mut page = FAMILIES_HEAD.to_owned();
    for family in &table.families {
        let mut layers: Vec<_> = family.linears.iter().map(|(path, ..)| last(path)).collect();
        layers.sort_unstable();
        layers.dedup();
        let ia3: Vec<_> = family.ia3.target.iter().map(String::as_str).collect();
        let architectures: Vec<_> = family.architectures.iter().map(String::as_str).collect();
        let path = if family.fast_path.is_some() { "fast" } else { "plain" };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {path} |",
            family.name,
            codes(&architectures),
            codes(&layers),
            codes(&ia3)
        );
    }
    page.push_str(REFUSED_HEAD);
    for (reason, architectures) in &table.refused {
        let architectures: Vec<_> = architectures.iter().map(String::as_str).collect();
        let _ = writeln!(page, "| {} | {reason} |", codes(&architectures));
    }
    page
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn codes(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(" ")
}

const FAMILIES_HEAD: &str = "\
# Base models

<!-- Generated from contract/src/families.json by `UPDATE=1 cargo test -p expert-contract --test generated`. -->

Each architecture of this table trains, resumes to the same bytes and generates in the tests, with a tiny random base. `architecture` is
`model_type` in the base's `config.json`; `layers` are what `\"target_modules\": \"all-linear\"` means, and `ia3` is what ia3 scales if the
manifest names no modules. The fast path computes packed rows without padding; the plain path is transformers with peft, padded. Mistral with a
sliding window takes the plain path. The experts of a mixture stay frozen: they are one tensor, which peft's adapters cannot be put on.

Any other architecture that transformers has built in is tried on the plain path: its layers are read from the weights, and its trained
parameters are counted when the base is loaded. A name in `target_modules` that matches no layer is an error that lists the layers.

Some bases come with dropout: 0.1 in GPT-2 and OPT, in general what `*_dropout` and `*_pdrop` in `config.json` say. As in transformers it drops
values while the adapter learns. Its masks follow from the seed, the step and the rows computed together, so that on such a base
another `batch_size`, number of processes or micro-batch (after memory ran out) gives another adapter. The adapter's own dropout does not depend
on them.

| family | architecture | layers | ia3 | path |
|---|---|---|---|---|
";

const REFUSED_HEAD: &str = "
## Refused

| architecture | it has |
|---|---|
";

/// `docs/diagnostics.md`.
pub fn diagnostics_page() -> String {
    let lines = Code::ALL
        .iter()
        .map(|code| format!("| `{code}` | {} | {} |\n", code.severity().as_str(), cell(code.doc())));
    DIAGNOSTICS_HEAD.to_owned() + &lines.collect::<String>()
}
