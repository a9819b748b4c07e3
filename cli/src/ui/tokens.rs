//! The result of `pretokenize`: the cache, the row counts, and preview rows.

use expert_contract::results::{
    DuplicateRows, Duplicates, PretokenizeResult, PreviewRow, RowCounts, SlowEncoder, SourceCounts,
    SplitStatistics,
};

use super::number::{bytes, grouped, seconds};
use super::style::{DIM, ERROR, GOOD, STRONG, coloured};
use super::table::{Align, Table};

/// What became of rows, with its text; shown only if it is above 0.
fn happenings(counts: &RowCounts) -> [(u64, &'static str); 17] {
    [
        (counts.bad, "bad, left out"),
        (counts.truncated, "truncated, too long"),
        (counts.split_rows, "split"),
        (counts.dropped_pieces, "pieces of split rows dropped, nothing to learn"),
        (counts.dropped_tokens, "tokens in these pieces"),
        (counts.dropped_overlong, "dropped, too long"),
        (counts.dropped_unsupervised, "dropped, nothing to learn"),
        (counts.dropped_duplicate, "dropped, seen before"),
        (counts.dropped_near, "dropped, near copies of earlier ones"),
        (counts.dropped_short, "dropped, too few characters"),
        (counts.dropped_long, "dropped, too many characters"),
        (counts.dropped_mixture, "left out by the mixture"),
        (counts.repeated, "repeated by the mixture"),
        (counts.unanswered, "with trailing messages left out, which have no answer"),
        (counts.thoughts_left_out, "with thoughts that the chat template leaves out"),
        (counts.parsed_dialogues, "texts read as dialogues"),
        (counts.interpreted, "rendered by the template's interpreter (slower)"),
    ]
}

pub fn text(result: &PretokenizeResult) -> String {
    text_as(result, coloured())
}

fn text_as(result: &PretokenizeResult, coloured: bool) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let built = if result.existed { "was there".to_owned() } else { built(result) };
    table.row(["cache".to_owned(), format!("{} ({built})", result.cache.as_deref().unwrap_or("?"))]);
    if let Some(slow) = &result.slow_encoder {
        table.row(["encoder".to_owned(), slow_encoder(slow)]);
    }
    table.row(["rows", &learned(&result.totals)]);
    happened(&mut table, &result.totals);
    for source in result.sources.iter().filter(|source| source.split == VALIDATION) {
        let line = format!("{}, of {}", read_and_used(&source.counts), source.name);
        table.row(["validation rows".to_owned(), line]);
        happened(&mut table, &source.counts);
    }
    for source in result.sources.iter().filter(|source| !source.unused_fields.is_empty()) {
        table.row([String::new(), unused(source)]);
    }
    for (name, split) in &result.splits {
        table.row([name.clone(), split_line(name, split)]);
    }
    if let Some(duplicates) = &result.duplicates {
        for (place, line) in copies_or_none(duplicates).into_iter().enumerate() {
            table.row([if place == 0 { "copies" } else { "" }.to_owned(), line]);
        }
    }
    preview(&result.preview, coloured) + &table.render()
}

/// Where the fast encoder was not used: what that cost, and why.
pub fn slow_encoder(slow: &SlowEncoder) -> String {
    format!("Hugging Face tokenizers: {}; the fast encoder is not used: {}", slow.words, slow.cost.reason)
}

fn built(result: &PretokenizeResult) -> String {
    let size: u64 = result.splits.values().map(|split| split.bytes).sum();
    format!("{} in {}", bytes(size), result.seconds.map_or_else(|| "?".to_owned(), seconds))
}

/// The split that nothing is learned from.
const VALIDATION: &str = "validation";

fn read_and_used(counts: &RowCounts) -> String {
    format!("{} read, {} used", grouped(counts.read), grouped(counts.used))
}

fn learned(totals: &RowCounts) -> String {
    let (tokens, supervised) = (grouped(totals.tokens), grouped(totals.supervised_tokens));
    format!("{}; {tokens} tokens, {supervised} of them learned", read_and_used(totals))
}

fn happened(table: &mut Table, counts: &RowCounts) {
    for (count, words) in happenings(counts) {
        if count > 0 {
            table.row([String::new(), format!("{} {words}", grouped(count))]);
        }
    }
}

/// A line for each part that copies another one, or one that none does.
pub fn copies_or_none(duplicates: &Duplicates) -> Vec<String> {
    let lines = copies(&duplicates.found);
    if !lines.is_empty() {
        return lines;
    }
    let parts: Vec<_> = duplicates.rows.keys().map(String::as_str).collect();
    vec![format!("none in {}", parts.join(", "))]
}

/// A line for each part that copies another one.
pub fn copies(found: &[DuplicateRows]) -> Vec<String> {
    let line = |one: &DuplicateRows| {
        let what = if one.is_within() {
            format!("{} rows repeat earlier ones", one.part)
        } else {
            format!("{} rows copy {} rows", one.part, one.of)
        };
        let (all, rows) = (grouped(one.exact + one.near), grouped(one.rows));
        format!("{all} of {rows} {what} ({} exact, {} near)", grouped(one.exact), grouped(one.near))
    };
    found.iter().map(line).collect()
}

fn unused(source: &SourceCounts) -> String {
    let field = |(name, rows): (&String, &u64)| format!("{name} ({})", grouped(*rows));
    let fields: Vec<_> = source.unused_fields.iter().map(field).collect();
    format!("not used in {}: {}", source.name, fields.join(", "))
}

fn split_line(name: &str, split: &SplitStatistics) -> String {
    let fill = split.fill.map_or(String::new(), |fill| format!(", {:.1}% full", 100.0 * fill));
    let whole = split.tokens + split.shared_tokens;
    let shared = if split.shared_tokens == 0 {
        String::new()
    } else {
        format!(", {:.0}% of tokens shared", 100.0 * split.shared_tokens as f64 / whole as f64)
    };
    let scored = if name == VALIDATION {
        format!("; {} tokens, {} of them scored", grouped(whole), grouped(split.supervised_tokens))
    } else {
        String::new()
    };
    format!("{} documents in {} rows{fill}{shared}{scored}", grouped(split.documents), grouped(split.rows))
}

/// Around supervised tokens where colours are not shown.
const LEARNED: [&str; 2] = ["\u{27e6}", "\u{27e7}"];

/// Context is dim, supervised tokens are green; without colours they are in brackets.
fn preview(rows: &[PreviewRow], coloured: bool) -> String {
    let mut text = String::new();
    let [open, close] = if coloured { [""; 2] } else { LEARNED };
    if !coloured && !rows.is_empty() {
        text += &format!("text between {open} and {close} is learned\n\n");
    }
    for (index, row) in rows.iter().enumerate() {
        let tokens = row.tokens.map_or(String::new(), |count| {
            format!(" ({count} tokens, {} learned)", row.supervised_tokens.unwrap_or_default())
        });
        text += &format!("{STRONG}row {}{STRONG:#}{tokens}\n", index + 1);
        if let Some(error) = &row.error {
            text += &format!("{ERROR}{error}{ERROR:#}\n");
        }
        for span in &row.spans {
            if span.learned {
                text += &format!("{GOOD}{open}{}{close}{GOOD:#}", span.text);
            } else {
                text += &format!("{DIM}{}{DIM:#}", span.text);
            }
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

    fn typed(document: serde_json::Value) -> PretokenizeResult {
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_fallback_from_the_fast_encoder_stands_in_the_summary() {
        let result = json!({
            "existed": false, "cache": "c/k", "totals": {"read": 9, "used": 9, "interpreted": 7},
            "slow_encoder": {"reason": "it differs", "words": "9.5 times slower, measured on 40 rows"},
        });
        let plain = anstream::adapter::strip_str(&text(&typed(result))).to_string();
        let row = "encoder  Hugging Face tokenizers: 9.5 times slower, measured on 40 rows; the fast encoder is not used: it differs";
        assert!(plain.contains(row), "{plain}");
        assert!(plain.contains("7 rendered by the template's interpreter"), "{plain}");
        let usual =
            text(&typed(json!({"cache": "c/k", "encoder": "native", "slow_encoder": null, "totals": {}})));
        assert!(!usual.contains("encoder"), "{usual}");
    }

    #[test]
    fn copies_are_counted_by_the_parts_that_they_are_in() {
        let shown = |found: serde_json::Value| {
            let result =
                json!({"cache": "c/k", "totals": {}, "duplicates": {"rows": {"train": 9}, "found": found}});
            anstream::adapter::strip_str(&text(&typed(result))).to_string()
        };
        let found = json!([
            {"part": "train", "of": "train", "rows": 4800, "exact": 0, "near": 1236},
            {"part": "people", "of": "train", "rows": 171, "exact": 1, "near": 2},
        ]);
        let lines = "copies  1,236 of 4,800 train rows repeat earlier ones (0 exact, 1,236 near)\n        3 of 171 people rows copy train rows (1 exact, 2 near)\n";
        assert!(shown(found.clone()).ends_with(lines), "{}", shown(found));
        assert!(shown(json!([])).contains("copies  none in train\n"), "{}", shown(json!([])));
        let other = anstream::adapter::strip_str(&text(&typed(json!({"cache": "c/k"})))).to_string();
        assert!(!other.contains("copies"), "{other}");
    }

    #[test]
    fn validation_rows_are_counted_apart_as_scored() {
        let result = json!({
            "existed": true, "cache": "c/k",
            "totals": {"read": 320, "used": 320, "tokens": 16000, "supervised_tokens": 7752},
            "sources": [
                {"name": "train.jsonl", "split": "train", "read": 320, "used": 320},
                {"name": "validation.jsonl", "split": "validation", "read": 41, "used": 40, "bad": 1},
            ],
            "splits": {
                "train": {"documents": 320, "rows": 80},
                "validation": {"documents": 40, "rows": 10, "tokens": 8900, "shared_tokens": 76, "supervised_tokens": 1224},
            },
        });
        let plain = anstream::adapter::strip_str(&text_as(&typed(result), false)).to_string();
        for line in [
            "rows             320 read, 320 used; 16,000 tokens, 7,752 of them learned\n",
            "validation rows  41 read, 40 used, of validation.jsonl\n                 1 bad, left out\n",
            "train            320 documents in 80 rows\n",
            "validation       40 documents in 10 rows, 1% of tokens shared; 8,976 tokens, 1,224 of them scored\n",
        ] {
            assert!(plain.contains(line), "{plain}");
        }
    }

    #[test]
    fn the_ledger_shows_what_happened_and_only_that() {
        let result = json!({
            "existed": true, "cache": "c/k", "seconds": 1.0,
            "totals": {"read": 1200, "used": 1190, "tokens": 5000, "supervised_tokens": 900, "bad": 10, "truncated": 0},
            "sources": [{"name": "rows.jsonl", "unused_fields": {"id": 1200}}],
            "splits": {"train": {"documents": 1190, "rows": 40, "fill": 0.9993, "bytes": 10}},
            "preview": [{"spans": [{"text": "q\u{1b}[2J", "learned": false}, {"text": "a", "learned": true}], "tokens": 3, "supervised_tokens": 1}],
        });
        let shown_as = |coloured| {
            anstream::adapter::strip_str(&shown(&text_as(&typed(result.clone()), coloured))).to_string()
        };
        let uncoloured = shown_as(false);
        let start = "text between \u{27e6} and \u{27e7} is learned\n\nrow 1 (3 tokens, 1 learned)\nq\u{fffd}[2J\u{27e6}a\u{27e7}\n\n";
        assert!(uncoloured.starts_with(start), "{uncoloured}");
        assert_eq!(
            shown_as(true),
            "row 1 (3 tokens, 1 learned)\nq\u{fffd}[2Ja\n\ncache  c/k (was there)\nrows   1,200 read, 1,190 used; 5,000 tokens, 900 of them learned\n       10 bad, left out\n       not used in rows.jsonl: id (1,200)\ntrain  1,190 documents in 40 rows, 99.9% full\n"
        );
    }
}
