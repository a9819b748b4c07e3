//! The manifest of an expert in a user's own rows: their fields, a scorer that fits their answers, and lengths that they need.

use std::collections::BTreeSet;

use expert_contract::rules::plain_label;
use serde_json::json;

use crate::edit::{self, Setting};
use crate::scaffold::{Preset, filled};
use crate::split_rows::{Reading, Written};

/// What a manifest says that is made for rows.
pub struct OwnRows<'a> {
    /// The files that the rows came from.
    pub source: &'a str,
    pub options: &'a Reading,
    pub written: &'a Written,
}

/// Answers may be a few tokens longer than those seen.
const STEP: u64 = 16;
/// Longer answers and rows are for the user to decide on: `pretokenize` counts the rows that are cut.
const LONGEST_ANSWER: u64 = 1024;
const LONGEST_ROW: u64 = 2048;

pub fn manifest(name: &str, preset: Preset, rows: &OwnRows<'_>) -> serde_json::Result<String> {
    let OwnRows { source, options, written } = rows;
    let line = |key: &str, value: String| format!("\n      \"{key}\": {value},");
    let fields: Vec<_> =
        options.mapping.iter().map(|(name, field)| format!("{}: {}", json!(name), json!(field))).collect();
    let mapping = match &fields[..] {
        [] => String::new(),
        _ => line("field_mapping", format!("{{ {} }}", fields.join(", "))),
    };
    let tested = if written.rows.test == 0 {
        String::new()
    } else {
        line("test_path", json!("datasets/test.jsonl").to_string())
    };
    let answer = (written.answer_tokens * 5 / 4).next_multiple_of(STEP).min(LONGEST_ANSWER);
    let text = filled(include_str!("scaffold/manifest-data.json"), name, preset)?
        .replace("{{description}}", &json!(format!("Answers as the rows of {source} do.")).to_string())
        .replace(
            "{{source}}",
            &json!(format!("Divided from {source} by `expert-cli datasets split`.")).to_string(),
        )
        .replace("{{test_path}}", &tested)
        .replace("{{field_mapping}}", &mapping)
        .replace("{{max_new_tokens}}", &answer.to_string())
        .replace("{{evaluation}}", &evaluation(written));
    Ok(long_enough(text, preset, written.row_tokens.next_power_of_two().min(LONGEST_ROW)))
}

fn evaluation(written: &Written) -> String {
    let Some(scorer) = written.scorer.as_deref().filter(|_| written.rows.test > 0) else {
        return String::new();
    };
    let why = match scorer {
        "json" => {
            "Compares objects whatever the order of their keys, and lists in their order. Where that says nothing, as of tags, compare sets: {\"python\": \"score.py:score\"}."
        }
        "classification" => {
            "Right where the answer names the row's label and no other; the labels are those of all rows."
        }
        "chrf" => {
            "How much of the reference the answer shares, from 0 to 1. Your own function: {\"python\": \"score.py:score\"}."
        }
        _ => {
            "Right where the answer equals the reference. Your own function: {\"python\": \"score.py:score\"}."
        }
    };
    format!(
        ",\n  \"evaluation\": {{\n    \"_comment\": {},\n    \"scorer\": {}\n  }}",
        json!(why),
        if scorer == "classification" { classification(&written.labels) } else { json!(scorer).to_string() }
    )
}

/// Each label once, in any case. A label that few rows have may be missing in the test and validation rows.
fn classification(labels: &[String]) -> String {
    let mut known = BTreeSet::new();
    let different = labels.iter().filter(|label| known.insert(plain_label(label)));
    let named: Vec<_> = different.map(|label| json!(label).to_string()).collect();
    match &named[..] {
        // The worker takes them from the rows.
        [] | [_] => json!("classification").to_string(),
        _ => format!("{{\"classification\": {{\"labels\": [{}]}}}}", named.join(", ")),
    }
}

/// Longer packed rows where the preset's would cut texts, with as many tokens in a step.
pub fn long_enough(text: String, preset: Preset, wanted: u64) -> String {
    let config = preset.sets();
    let number = |key: &str| {
        let set = config.iter().find(|set| set.path.ends_with(&format!(".{key}")));
        set.and_then(|set| set.value.parse::<u64>().ok())
    };
    let (Some(length), Some(batch)) = (number("max_seq_length"), number("batch_size")) else { return text };
    if wanted <= length {
        return text;
    }
    let settings = [
        Setting::new("max_seq_length", wanted),
        Setting::new("batch_size", (batch * length / wanted).max(1)),
    ];
    edit::apply(&text, 0, &settings).map_or(text.clone(), |(changed, _)| changed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;
    use expert_contract::manifest::Options;
    use expert_contract::read::from_bytes;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        data: Option<String>,
        #[command(flatten)]
        options: Reading,
    }

    fn made(arguments: &[&str], written: Value) -> Value {
        let line = Line::parse_from([&["x", "--data", "a.csv"], arguments].concat());
        let written: Written = serde_json::from_value(written).unwrap();
        let rows = OwnRows { source: "a \"b\".csv", options: &line.options, written: &written };
        let text = manifest("x", Preset::Cpu, &rows).unwrap();
        let loaded =
            from_bytes(text.clone().into(), Path::new("/nowhere/x/manifest.json"), &Options::default());
        assert!(loaded.manifest.is_some(), "{:?}\n{text}", loaded.diagnostics);
        serde_json::from_str(&text).unwrap()
    }

    fn written(test: u64, scorer: Option<&str>, row_tokens: u64) -> Value {
        json!({"rows": {"train": 8, "validation": 1, "test": test}, "files": [], "exact": 0, "near": 0,
            "scorer": scorer, "labels": [], "is_free_text": false, "answer_tokens": 20, "row_tokens": row_tokens, "left_out": {}})
    }

    #[test]
    fn the_comment_of_json_says_that_lists_have_an_order() {
        let made = made(&[], written(1, Some("json"), 100));
        let comment = made["evaluation"]["_comment"].as_str().unwrap();
        assert!(comment.contains("lists in their order"), "{comment}");
    }

    #[test]
    fn fields_scorer_and_lengths_are_those_of_the_rows() {
        let made = made(
            &["--map", "prompt=ticket", "--map", "completion=label"],
            written(1, Some("classification"), 700),
        );
        let training = &made["training"];
        assert_eq!(training["dataset"]["field_mapping"], json!({"prompt": "ticket", "completion": "label"}));
        assert_eq!(training["dataset"]["test_path"], "datasets/test.jsonl");
        assert_eq!(made["evaluation"]["scorer"], "classification");
        assert_eq!(
            (&training["config"]["max_seq_length"], &training["config"]["batch_size"]),
            (&json!(1024), &json!(1))
        );
        assert_eq!(training["decoding"]["max_new_tokens"], 32);
    }

    #[test]
    fn labels_of_all_rows_are_named_once_each() {
        let scorer = |labels: Value| {
            let mut written = written(1, Some("classification"), 100);
            written["labels"] = labels;
            made(&[], written)["evaluation"]["scorer"].take()
        };
        let labels = json!(["Not OK", "fraud", "not  ok", "say \"no\""]);
        let named = json!({"classification": {"labels": ["Not OK", "fraud", "say \"no\""]}});
        assert_eq!(scorer(labels), named);
        // They differ in case alone, which a manifest may not name.
        assert_eq!(scorer(json!(["OK", "ok"])), "classification");
    }

    #[test]
    fn texts_without_questions_are_not_scored() {
        let made = made(&[], written(0, None, 90));
        assert_eq!(made["evaluation"], Value::Null);
        let training = &made["training"];
        assert_eq!(training["dataset"]["test_path"], Value::Null);
        assert_eq!(
            (&training["config"]["max_seq_length"], &training["config"]["batch_size"]),
            (&json!(256), &json!(4))
        );
    }
}
