//! The result of `pretokenize`: the cache, the row counts, and preview rows.

use serde_json::Value;

use super::number::{bytes, grouped, seconds};
use super::style::{DIM, ERROR, GOOD, STRONG};
use super::{Align, Table};

/// Ledger entries that are shown only if they are above 0, with their text.
const HAPPENINGS: [(&str, &str); 11] = [
    ("bad", "bad rows"),
    ("truncated", "cut to the longest length"),
    ("split_rows", "split"),
    ("dropped_overlong", "dropped, too long"),
    ("dropped_unsupervised", "dropped, nothing to learn"),
    ("dropped_duplicate", "dropped, seen before"),
    ("dropped_short", "dropped, too few characters"),
    ("dropped_long", "dropped, too many characters"),
    ("dropped_mixture", "left out by the mixture"),
    ("parsed_dialogues", "texts read as dialogues"),
    ("interpreted", "rendered by the template's interpreter, which is slower than its compiled form"),
];

pub fn text(result: &Value) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let built = if result["existed"] == true { "was there".to_owned() } else { built(result) };
    table.row(["cache".to_owned(), format!("{} ({built})", result["cache"].as_str().unwrap_or("?"))]);
    if let Some(reason) = result["encoder_reason"].as_str() {
        table
            .row(["encoder".to_owned(), format!("Hugging Face tokenizers, about 50 times slower: {reason}")]);
    }
    table.row(["rows", &rows(&result["totals"])]);
    for (key, words) in HAPPENINGS {
        if let Some(count) = result["totals"][key].as_u64().filter(|count| *count > 0) {
            table.row([String::new(), format!("{} {words}", grouped(count))]);
        }
    }
    for (name, split) in result["splits"].as_object().into_iter().flatten() {
        table.row([name.clone(), split_line(split)]);
    }
    preview(&result["preview"]) + &table.render()
}

fn built(result: &Value) -> String {
    let size: u64 = result["splits"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, split)| split["bytes"].as_u64())
        .sum();
    format!("{} in {}", bytes(size), result["seconds"].as_f64().map_or_else(|| "?".to_owned(), seconds))
}

fn rows(totals: &Value) -> String {
    let count = |key: &str| grouped(totals[key].as_u64().unwrap_or_default());
    format!(
        "{} read, {} used; {} tokens, {} of them learned",
        count("read"),
        count("used"),
        count("tokens"),
        count("supervised_tokens")
    )
}

fn split_line(split: &Value) -> String {
    let count = |key: &str| grouped(split[key].as_u64().unwrap_or_default());
    let fill = split["fill"].as_f64().map_or(String::new(), |fill| format!(", {:.1}% full", 100.0 * fill));
    format!("{} documents in {} rows{fill}", count("documents"), count("rows"))
}

/// Context is dim, supervised tokens are green.
fn preview(rows: &Value) -> String {
    let mut text = String::new();
    for (index, row) in rows.as_array().into_iter().flatten().enumerate() {
        let tokens = row["tokens"].as_u64().map_or(String::new(), |count| {
            format!(" ({count} tokens, {} learned)", row["supervised_tokens"].as_u64().unwrap_or_default())
        });
        text += &format!("{STRONG}row {}{STRONG:#}{tokens}\n", index + 1);
        if let Some(error) = row["error"].as_str() {
            text += &format!("{ERROR}{error}{ERROR:#}\n");
        }
        for span in row["spans"].as_array().into_iter().flatten() {
            let words = span["text"].as_str().unwrap_or_default();
            let paint = if span["learned"] == true { GOOD } else { DIM };
            text += &format!("{paint}{words}{paint:#}");
        }
        text.push_str("\n\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::style::shown;
    use super::*;

    #[test]
    fn a_fallback_from_the_fast_encoder_stands_in_the_summary() {
        let result = json!({
            "existed": false, "cache": "c/k", "totals": {"read": 9, "used": 9, "interpreted": 7},
            "encoder": "tokenizers", "encoder_reason": "it does not take this tokenizer (WordLevel)",
        });
        let plain = anstream::adapter::strip_str(&text(&result)).to_string();
        assert!(
            plain.contains("Hugging Face tokenizers, about 50 times slower: it does not take"),
            "{plain}"
        );
        assert!(plain.contains("7 rendered by the template's interpreter"), "{plain}");
        let usual = text(&json!({"cache": "c/k", "encoder": "native", "encoder_reason": null, "totals": {}}));
        assert!(!usual.contains("encoder"), "{usual}");
    }

    #[test]
    fn the_ledger_shows_what_happened_and_only_that() {
        let result = json!({
            "existed": true, "cache": "c/k", "seconds": 1.0,
            "totals": {"read": 1200, "used": 1190, "tokens": 5000, "supervised_tokens": 900, "bad": 10, "truncated": 0},
            "splits": {"train": {"documents": 1190, "rows": 40, "fill": 0.9993, "bytes": 10}},
            "preview": [{"spans": [{"text": "q\u{1b}[2J", "learned": false}, {"text": "a", "learned": true}], "tokens": 3, "supervised_tokens": 1}],
        });
        let plain = anstream::adapter::strip_str(&shown(&text(&result))).to_string();
        assert_eq!(
            plain,
            "row 1 (3 tokens, 1 learned)\nq\u{fffd}[2Ja\n\ncache  c/k (was there)\nrows   1,200 read, 1,190 used; 5,000 tokens, 900 of them learned\n       10 bad rows\ntrain  1,190 documents in 40 rows, 99.9% full\n"
        );
    }
}
