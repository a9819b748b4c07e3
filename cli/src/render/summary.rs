//! The summary of finished work.

use std::fmt::Write;

use serde_json::Value;

use super::number::{bytes, grouped, seconds, short};
use super::{Align, Table};
use crate::queue::Ended;
use crate::train::Trained;

/// The result of one training run. Missing values are left out.
pub fn trained(result: &Value) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let number = |key: &str| result[key].as_f64();
    let whole = |key: &str| result[key].as_u64();
    let text = |key: &str| result[key].as_str().map(str::to_owned);
    let resumed =
        whole("resumed_from").map_or(String::new(), |step| format!(", the first {} before", grouped(step)));
    let rows = [
        ("steps", whole("steps").map(|steps| grouped(steps) + &resumed)),
        ("train loss", number("train_loss").map(|loss| format!("{loss:.4}"))),
        ("eval loss", number("eval_loss").map(|loss| format!("{loss:.4}"))),
        ("tokens", whole("tokens").map(grouped)),
        ("tokens/s", number("tokens_per_second").map(short)),
        ("time", number("seconds").map(seconds)),
        ("peak memory", whole("peak_memory_bytes").map(bytes)),
        ("best checkpoint", text("best_checkpoint")),
        ("adapter", text("adapter")),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            table.row([name.to_owned(), value]);
        }
    }
    table.render()
}

/// One line per expert.
pub fn shelf(ended: &[Ended]) -> String {
    let columns = [
        ("expert", Align::Left),
        ("", Align::Left),
        ("steps", Align::Right),
        ("eval loss", Align::Right),
        ("base", Align::Right),
        ("adapter", Align::Right),
        ("time", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for one in ended {
        let (state, result) = match &one.outcome {
            Some(Ok(Trained::Now(result))) => ("done".to_owned(), result),
            Some(Ok(Trained::Before(result))) => ("finished before".to_owned(), result),
            Some(Err(failure)) => (format!("failed ({})", failure.cause()), &Value::Null),
            None => ("not started".to_owned(), &Value::Null),
        };
        let steps = result["steps"].as_u64().map_or(String::new(), grouped);
        let loss = result["eval_loss"].as_f64().map_or(String::new(), |loss| format!("{loss:.4}"));
        let time = result["seconds"].as_f64().map_or(String::new(), seconds);
        let accuracy = |who: &str| {
            let share = result["evaluation"][who]["accuracy"].as_f64();
            share.map_or(String::new(), |share| format!("{:.1}%", 100.0 * share))
        };
        table.row([one.expert.clone(), state, steps, loss, accuracy("base"), accuracy("adapter"), time]);
    }
    table.render()
}

/// Scores of base and adapter.
pub fn evaluated(result: &Value) -> String {
    let columns =
        [("", Align::Left), ("accuracy", Align::Right), ("95 %", Align::Right), ("loss", Align::Right)];
    let mut table = Table::new(&columns);
    for who in ["base", "adapter"] {
        let found = &result[who];
        if found.is_object() {
            let percent = |key: &str| found[key].as_f64().map(|share| format!("{:.1}%", 100.0 * share));
            let range = percent("low")
                .zip(percent("high"))
                .map_or(String::new(), |(low, high)| format!("{low} to {high}"));
            let loss = found["loss"].as_f64().map_or(String::new(), |loss| format!("{loss:.4}"));
            table.row([who.to_owned(), percent("accuracy").unwrap_or_default(), range, loss]);
        }
    }
    let mut text = String::new();
    if let (Some(rows), Some(scorer)) = (result["rows"].as_u64(), result["scorer"].as_str()) {
        let _ = writeln!(text, "{} rows, judged by {scorer}", grouped(rows));
    }
    text + &table.render() + &parts(result)
}

/// The same by level and by tag, if the rows have any.
fn parts(result: &Value) -> String {
    let columns =
        [("", Align::Left), ("rows", Align::Right), ("base", Align::Right), ("adapter", Align::Right)];
    let mut table = Table::new(&columns);
    let mut empty = true;
    for (key, word) in [("by_level", "level "), ("by_tag", "")] {
        for line in result[key].as_array().into_iter().flatten() {
            let percent = |who: &str| {
                line[who]["accuracy"].as_f64().map_or(String::new(), |share| format!("{:.1}%", 100.0 * share))
            };
            let rows = ["adapter", "base"].into_iter().find_map(|who| line[who]["total"].as_u64());
            let name = line["name"].as_str().unwrap_or_default();
            let rows = rows.map_or(String::new(), grouped);
            table.row([format!("{word}{name}"), rows, percent("base"), percent("adapter")]);
            empty = false;
        }
    }
    if empty { String::new() } else { format!("\n{}", table.render()) }
}

/// Any other stage's result: its scalar values, one per line.
pub fn plain(result: &Value) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    for (key, value) in result.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
            Value::String(text) => text.clone(),
            Value::Number(number) if key.ends_with("bytes") => {
                number.as_u64().map_or_else(|| number.to_string(), bytes)
            }
            Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
            Value::Bool(flag) => flag.to_string(),
        };
        table.row([key.replace('_', " "), shown]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::style::shown;
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let result =
            json!({"ok": true, "steps": 1200, "train_loss": 0.5, "eval_loss": null, "seconds": 62.0});
        assert_eq!(trained(&result), "steps       1,200\ntrain loss  0.5000\ntime        1m02s\n");
    }

    #[test]
    fn base_and_adapter_stand_one_under_the_other() {
        let base = json!({"accuracy": 0.125, "low": 0.1, "high": 0.2, "loss": 2.5});
        let result = json!({"rows": 40, "scorer": "json", "base": base, "adapter": null});
        let text = anstream::adapter::strip_str(&shown(&evaluated(&result))).to_string();
        assert_eq!(
            text,
            "40 rows, judged by json\n      accuracy            95 %    loss\nbase     12.5%  10.0% to 20.0%  2.5000\n"
        );
    }

    #[test]
    fn levels_and_tags_follow() {
        let share = |accuracy: f64| json!({"accuracy": accuracy, "total": 20});
        let line = json!({"name": "1", "base": share(0.05), "adapter": share(0.5)});
        let tag = json!({"name": "join", "base": share(0.0), "adapter": null});
        let text = parts(&json!({"by_level": [line], "by_tag": [tag]}));
        assert_eq!(
            anstream::adapter::strip_str(&shown(&text)).to_string(),
            "\n         rows  base  adapter\nlevel 1    20  5.0%    50.0%\njoin       20  0.0%\n"
        );
        assert_eq!(parts(&json!({})), "");
    }
}
