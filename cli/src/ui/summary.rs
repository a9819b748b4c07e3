//! The summary of finished work.

use std::fmt::Write;
use std::path::Path;

use expert_contract::results::{
    EvaluationResult, ExportResult, PairedComparison, PassAt, SampledScores, Score, Share, TestScores,
    TrainResult, Unparsed,
};

use super::number::{bytes, grouped, seconds, short};
use super::table::{Align, Table};
use crate::run::speed::{self, Speed};
use crate::sys::paths::near;

/// What the result itself does not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub seconds_per_epoch: Option<f64>,
    pub price_per_hour: Option<f64>,
}

impl Spent {
    fn cost(self, result: &TrainResult) -> Option<String> {
        let price = self.price_per_hour?;
        let scoring = result.evaluation.as_ref().and_then(|evaluation| evaluation.seconds);
        let both = result.seconds? + scoring.unwrap_or_default();
        let what = if scoring.is_some() { "training and scoring" } else { "training" };
        Some(format!("{} for {} of {what}", speed::amount(speed::cost(both, price)), seconds(both)))
    }
}

/// The result of one training run. Missing values are left out.
pub fn trained(result: &TrainResult, spent: Spent) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let resumed =
        result.resumed_from.map_or(String::new(), |step| format!(", the first {} before", grouped(step)));
    let rows = [
        ("steps", result.steps.map(|steps| grouped(steps) + &resumed)),
        ("mean train loss", result.train_loss.map(loss)),
        ("eval loss", result.eval_loss.map(loss)),
        ("tokens", result.tokens.map(grouped)),
        ("tokens/s", result.tokens_per_second.map(short)),
        ("steps/s", Speed::of(result).map(|speed| format!("{:.3}", speed.steps_per_second))),
        ("time in training", result.seconds.map(seconds)),
        ("time per epoch", spent.seconds_per_epoch.map(seconds)),
        ("cost", spent.cost(result)),
        ("peak memory", result.peak_memory_bytes.map(bytes)),
        ("best checkpoint", result.best_checkpoint.as_deref().map(place)),
        ("adapter", result.adapter.as_deref().map(place)),
        ("copies", copies(result)),
        ("encoder", result.slow_encoder.as_ref().map(super::tokens::slow_encoder)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            table.row([name.to_owned(), value]);
        }
    }
    table.render()
}

fn copies(result: &TrainResult) -> Option<String> {
    (!result.duplicates.is_empty()).then(|| super::tokens::copies(&result.duplicates).join("; "))
}

fn place(path: &str) -> String {
    near(Path::new(path))
}

pub fn loss(value: f64) -> String {
    format!("{value:.4}")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

pub fn accuracy(share: Option<&Share>) -> String {
    share.and_then(|share| share.accuracy).map(percent).unwrap_or_default()
}

fn range(share: &Share) -> String {
    let reach = share.low.zip(share.high);
    reach.map_or(String::new(), |(low, high)| format!("{} to {}", percent(low), percent(high)))
}

/// Scores of base and adapter on each test set, then those of their parts.
pub fn evaluated(result: &EvaluationResult) -> String {
    let scorer = result.scored_by();
    let mut text = scores(&result.main, "", scorer.as_deref());
    for (name, set) in &result.test_sets {
        text += &format!("\n{}", scores(set, &format!("{name}: "), scorer.as_deref()));
    }
    text += &parts(&result.main, "");
    text = result.test_sets.iter().fold(text, |text, (name, set)| text + &parts(set, name));
    let sets = result.test_sets.iter().map(|(name, set)| (name.as_str(), set));
    std::iter::once(("", &result.main)).chain(sets).fold(text, |text, (name, set)| text + &samples(set, name))
}

fn scores(result: &TestScores, name: &str, scorer: Option<&str>) -> String {
    let measure = result.measure.as_deref().unwrap_or("accuracy");
    let columns = [("", Align::Left), (measure, Align::Right), ("95%", Align::Right), ("loss", Align::Right)];
    let mut table = Table::new(&columns);
    for (who, found) in sides(result) {
        let share = &found.share;
        let loss = found.loss.map(loss).unwrap_or_default();
        table.row([format!("{who}{}", examples(found)), accuracy(Some(share)), range(share), loss]);
    }
    let mut text = String::new();
    if let (Some(rows), Some(scorer)) = (result.rows, scorer) {
        let _ = writeln!(text, "{name}{} rows, judged by {scorer}", grouped(rows));
    }
    text + &table.render() + &compared(result)
}

/// A model whose prompt showed examples did not answer the bare question.
fn examples(found: &Score) -> String {
    match found.prompt.as_ref().and_then(|prompt| prompt["shots"].as_u64()) {
        None | Some(0) => String::new(),
        Some(1) => ", 1 example".to_owned(),
        Some(count) => format!(", {count} examples"),
    }
}

fn sides(result: &TestScores) -> impl Iterator<Item = (&str, &Score)> {
    let against = result.against.as_ref();
    let sides = [
        ("base", result.base.as_ref()),
        ("adapter", result.adapter.as_ref()),
        (against.map_or("", |it| it.name.as_str()), against.and_then(|it| it.score.as_ref())),
    ];
    sides.into_iter().filter_map(|(who, found)| Some((who, found?)))
}

/// The adapter less another on the same rows.
pub fn difference(other: &str, paired: &PairedComparison) -> String {
    let points = |share: f64| format!("{:+.1}", 100.0 * share);
    format!(
        "adapter - {other}: {} points (95%: {} to {}), better on {} rows, worse on {}",
        points(paired.difference),
        points(paired.low),
        points(paired.high),
        grouped(paired.better),
        grouped(paired.worse)
    )
}

/// The adapter against the others on the same rows, and answers that nothing could score or parse.
fn compared(result: &TestScores) -> String {
    let mut text = String::new();
    let against = result.against.as_ref().map(|it| (it.name.as_str(), it.comparison.as_ref()));
    for (other, paired) in [("base", result.comparison.as_ref())].into_iter().chain(against) {
        if let Some(paired) = paired {
            let _ = writeln!(text, "{}", difference(other, paired));
        }
    }
    if let Some(classes) = &result.classes {
        let sides = [("base", &classes.base), ("adapter", &classes.adapter)];
        let each =
            sides.map(|(who, side)| side.as_ref().map(|side| format!("{who} {}", percent(side.macro_f1))));
        let _ = writeln!(text, "macro F1: {}", each.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    for (who, found) in sides(result) {
        if found.unscored > 0 {
            let _ =
                writeln!(text, "{who}: {} answers were not scored and count as 0", grouped(found.unscored));
        }
        if let Some(line) = unparsed(found) {
            let _ = writeln!(text, "{who}: {line}");
        }
    }
    text
}

/// How many wrong answers the scorer's parser refuses.
fn unparsed(score: &Score) -> Option<String> {
    let Unparsed { answers, cut } = *score.unparsed.as_ref()?;
    let wrong = score.share.total?.saturating_sub(score.share.correct?);
    let cut =
        if cut > 0 { format!(", {} of them cut at max_new_tokens", grouped(cut)) } else { String::new() };
    (wrong > 0).then(|| format!("{} of {} wrong answers do not parse{cut}", grouped(answers), grouped(wrong)))
}

/// The same by level and by tag, if the rows have any; `name` of the test set, for further ones.
fn parts(result: &TestScores, name: &str) -> String {
    let levels = result.by_level.iter().map(|line| ("level ", line));
    let lines: Vec<_> = levels.chain(result.by_tag.iter().map(|line| ("", line))).collect();
    let has_base = lines.iter().any(|(_, line)| line.base.is_some());
    let has_adapter = lines.iter().any(|(_, line)| line.adapter.is_some());
    let mut columns = vec![(name, Align::Left), ("rows", Align::Right)];
    columns.extend(has_base.then_some(("base", Align::Right)));
    columns.extend(has_adapter.then_some(("adapter", Align::Right)));
    columns.extend(result.against.as_ref().map(|it| (it.name.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    for (word, line) in lines {
        let (base, adapter) = (line.base.as_ref(), line.adapter.as_ref());
        let rows = [adapter, base].into_iter().flatten().find_map(|share| share.total);
        let rows = rows.map(grouped).unwrap_or_default();
        let mut cells = vec![format!("{word}{}", line.name), rows];
        cells.extend(has_base.then(|| accuracy(base)));
        cells.extend(has_adapter.then(|| accuracy(adapter)));
        cells.extend(result.against.as_ref().map(|_| accuracy(line.against.as_ref())));
        table.row(cells);
    }
    if result.by_level.is_empty() && result.by_tag.is_empty() {
        String::new()
    } else {
        format!("\n{}", table.render())
    }
}

/// How often one of k samples is right, and what a vote among all of them scores; then by level and tag.
fn samples(result: &TestScores, name: &str) -> String {
    let Some(found) = &result.samples else { return String::new() };
    let who = if result.adapter.is_some() { "adapter" } else { "base" };
    let mut table = Table::new(&[("", Align::Left), ("share", Align::Right), ("95%", Align::Right)]);
    let all = found.pass_at.iter().map(|part| (format!("pass@{}", part.k), &part.share));
    for (head, share) in all.chain(found.vote.iter().map(|share| ("vote".to_owned(), share))) {
        table.row([head, accuracy(Some(share)), range(share)]);
    }
    let set = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let head = format!(
        "\n{set}{} samples of the {who} for each row, at temperature {}\n",
        grouped(found.per_row),
        found.temperature
    );
    head + &table.render() + &sampled_parts(found)
}

/// Of one sample and of all of them, beside the vote.
fn sampled_parts(found: &SampledScores) -> String {
    let most = format!("pass@{}", found.per_row);
    let columns = ["", "rows", "pass@1", &most, "vote"];
    let aligned = columns.map(|head| (head, if head.is_empty() { Align::Left } else { Align::Right }));
    let mut table = Table::new(&aligned);
    let levels = found.by_level.iter().map(|line| ("level ", line));
    for (word, line) in levels.chain(found.by_tag.iter().map(|line| ("", line))) {
        let share = |part: Option<&PassAt>| accuracy(part.map(|part| &part.share));
        let total = line.vote.as_ref().and_then(|share| share.total).map(grouped).unwrap_or_default();
        let (one, all) = (line.pass_at.first(), line.pass_at.last());
        let name = format!("{word}{}", line.name);
        table.row([name, total, share(one), share(all), accuracy(line.vote.as_ref())]);
    }
    if found.by_level.is_empty() && found.by_tag.is_empty() {
        String::new()
    } else {
        format!("\n{}", table.render())
    }
}

/// What `export` wrote.
pub fn exported(result: &ExportResult) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let what = match (result.merged, result.answers.is_some()) {
        (true, _) => "merged model",
        (false, true) => "adapter and base",
        (false, false) => "adapter",
    };
    table.row([what.to_owned(), format!("{} ({})", place(&result.target), bytes(result.bytes))]);
    if let Some(difference) = result.logits_difference {
        table.row(["check".to_owned(), format!("logits differ by {difference:.1e} of their size")]);
    }
    if let Some(answers) = &result.answers {
        let ties = match answers.near_ties {
            0 => String::new(),
            ties => format!(", {ties} part at tokens of nearly the same likelihood"),
        };
        let same = format!("{} of {} answers of llama.cpp are the same{ties}", answers.equal, answers.asked);
        table.row(["check".to_owned(), same]);
        if let Some(equal) = answers.equal_unquantized {
            let kept = format!("{equal} of {} are those of the unquantized weights", answers.asked);
            table.row([String::new(), kept]);
        }
    }
    for command in &result.commands {
        table.row(["serve".to_owned(), command.clone()]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use expert_contract::results::AnswerCheck;

    use super::super::style::shown;
    use super::*;

    fn typed<T: serde::de::DeserializeOwned>(document: Value) -> T {
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let result =
            json!({"ok": true, "steps": 1200, "train_loss": 0.5, "eval_loss": null, "seconds": 62.0});
        assert_eq!(
            trained(&typed(result), Spent::default()),
            "steps             1,200\nmean train loss   0.5000\ntime in training  1m02s\n"
        );
        let slow = json!({"steps": 1, "slow_encoder": {"words": "9.5 times slower", "reason": "it differs"}});
        assert!(
            trained(&typed(slow), Spent::default())
                .contains("9.5 times slower; the fast encoder is not used: it differs")
        );
    }

    #[test]
    fn an_export_names_its_folder_and_its_check() {
        let result = ExportResult {
            target: "/x/merged".into(),
            merged: true,
            bytes: 3 << 20,
            logits_difference: Some(8.11e-7),
            answers: None,
            commands: vec!["vllm serve /x/merged".into()],
        };
        assert_eq!(
            exported(&result),
            "merged model  /x/merged (3.00 MiB)\ncheck         logits differ by 8.1e-7 of their size\n\
             serve         vllm serve /x/merged\n"
        );
        let answers = Some(AnswerCheck { asked: 8, equal: 7, near_ties: 1, equal_unquantized: Some(5) });
        let result = ExportResult { answers, merged: false, logits_difference: None, ..result };
        let text = exported(&result);
        assert!(text.starts_with("adapter and base  /x/merged"), "{text}");
        assert!(text.contains("7 of 8 answers of llama.cpp are the same, 1 part at tokens"), "{text}");
        assert!(text.contains("5 of 8 are those of the unquantized weights"), "{text}");
    }

    #[test]
    fn base_and_adapter_are_shown_side_by_side() {
        let base = json!({"accuracy": 0.125, "low": 0.1, "high": 0.2, "loss": 2.5});
        let result = json!({"rows": 40, "scorer": "json", "base": base, "adapter": null});
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        assert_eq!(
            text,
            "40 rows, judged by json\n      accuracy             95%    loss\nbase     12.5%  10.0% to 20.0%  2.5000\n"
        );
    }

    #[test]
    fn partial_scores_say_what_their_mean_is_and_what_was_not_scored() {
        let side = |mean: f64, unscored: u64| json!({"accuracy": mean, "low": 0.1, "high": 0.9, "unscored": unscored});
        let comparison = json!({"difference": 0.25, "low": 0.125, "high": 0.375, "better": 30, "worse": 4});
        let result = json!({
            "rows": 40, "scorer": "score.py:score", "scorer_sha256": "0123456789abcdef", "measure": "mean score",
            "base": side(0.25, 0), "adapter": side(0.5, 2), "comparison": comparison,
            "classes": {"base": {"macro_f1": 0.2}, "adapter": {"macro_f1": 0.4}},
        });
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        assert_eq!(
            text,
            "40 rows, judged by score.py:score (01234567)\n         mean score             95%  loss\n\
             base          25.0%  10.0% to 90.0%\nadapter       50.0%  10.0% to 90.0%\n\
             adapter - base: +25.0 points (95%: +12.5 to +37.5), better on 30 rows, worse on 4\n\
             macro F1: base 20.0%, adapter 40.0%\n\
             adapter: 2 answers were not scored and count as 0\n"
        );
    }

    #[test]
    fn wrong_answers_that_do_not_parse_are_counted_where_the_scorer_parses() {
        let side =
            |unparsed: Value| json!({"accuracy": 0.5, "correct": 20, "total": 40, "unparsed": unparsed});
        let result = json!({
            "base": side(json!({"answers": 12, "cut": 3})), "adapter": side(json!({"answers": 0, "cut": 0})),
        });
        let text = compared(&typed(result));
        assert_eq!(
            text,
            "base: 12 of 20 wrong answers do not parse, 3 of them cut at max_new_tokens\n\
             adapter: 0 of 20 wrong answers do not parse\n"
        );
        assert_eq!(compared(&typed(json!({"base": side(Value::Null)}))), "");
        let right = json!({"accuracy": 1.0, "correct": 9, "total": 9, "unparsed": {"answers": 0, "cut": 0}});
        assert_eq!(compared(&typed(json!({"base": right}))), "");
    }

    #[test]
    fn each_test_set_has_its_own_scores_under_its_name() {
        let side = |mean: f64| json!({"accuracy": mean, "low": 0.0, "high": 0.5, "total": 20});
        let tag = |name: &str| json!([{"name": name, "base": side(0.0), "adapter": side(0.25)}]);
        let of = |rows: u32, adapter: f64, tags: Value| json!({"rows": rows, "base": side(0.0), "adapter": side(adapter), "by_tag": tags});
        let mut result = of(40, 0.75, tag("join"));
        result["scorer"] = "sql".into();
        result["test_sets"] = json!({"people": of(20, 0.25, tag("shop"))});
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        assert_eq!(
            text,
            "40 rows, judged by sql\n         accuracy            95%  loss\nbase         0.0%  0.0% to 50.0%\n\
             adapter     75.0%  0.0% to 50.0%\n\n\
             people: 20 rows, judged by sql\n         accuracy            95%  loss\nbase         0.0%  0.0% to 50.0%\n\
             adapter     25.0%  0.0% to 50.0%\n\n\
             \x20     rows  base  adapter\njoin    20  0.0%    25.0%\n\n\
             people  rows  base  adapter\nshop      20  0.0%    25.0%\n"
        );
    }

    #[test]
    fn a_base_with_examples_is_named_so_and_stands_alone_where_nothing_else_was_scored() {
        let side = json!({"accuracy": 0.5, "low": 0.0, "high": 1.0, "total": 2, "prompt": {"shots": 3}});
        let result = json!({"base": side, "by_tag": [{"name": "join", "base": side}]});
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        assert_eq!(
            text,
            "                  accuracy             95%  loss\nbase, 3 examples     50.0%  0.0% to 100.0%\n\n\
             \x20     rows   base\njoin     2  50.0%\n"
        );
    }

    #[test]
    fn what_an_adapter_is_compared_with_is_a_third_column() {
        let side = |mean: f64| json!({"accuracy": mean, "low": 0.0, "high": 0.5, "total": 20});
        let comparison = json!({"difference": -0.05, "low": -0.1, "high": 0.0, "better": 1, "worse": 2});
        let tag = json!({"name": "join", "base": side(0.0), "adapter": side(0.25), "against": side(0.75)});
        let result = json!({
            "rows": 20, "scorer": "sql", "base": side(0.0), "adapter": side(0.25), "by_tag": [tag],
            "against": {"name": "qwen3-0.6b", "score": side(0.3), "comparison": comparison},
        });
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        assert_eq!(
            text,
            "20 rows, judged by sql\n            accuracy            95%  loss\nbase            0.0%  0.0% to 50.0%\n\
             adapter        25.0%  0.0% to 50.0%\nqwen3-0.6b     30.0%  0.0% to 50.0%\n\
             adapter - qwen3-0.6b: -5.0 points (95%: -10.0 to +0.0), better on 1 rows, worse on 2\n\n\
             \x20     rows  base  adapter  qwen3-0.6b\njoin    20  0.0%    25.0%       75.0%\n"
        );
    }

    #[test]
    fn samples_are_shown_after_the_scores() {
        let share = |accuracy: f64| json!({"accuracy": accuracy, "low": 0.1, "high": 0.9, "total": 20});
        let pass = |k: u64, accuracy: f64| {
            let mut part = share(accuracy);
            part["k"] = k.into();
            part
        };
        let line = json!({"name": "1", "pass_at": [pass(1, 0.25), pass(2, 0.5)], "vote": share(0.3)});
        let sampled = json!({
            "per_row": 2, "temperature": 0.8, "pass_at": [pass(1, 0.2), pass(2, 0.4)], "vote": share(0.35),
            "by_level": [line],
        });
        let result = json!({"scorer": "sql", "rows": 20, "base": share(0.1), "samples": sampled});
        let text = anstream::adapter::strip_str(&shown(&evaluated(&typed(result)))).to_string();
        let (_, last) = text.split_once("\n\n").unwrap();
        assert_eq!(
            last,
            "2 samples of the base for each row, at temperature 0.8\n\
             \x20       share             95%\npass@1  20.0%  10.0% to 90.0%\npass@2  40.0%  10.0% to 90.0%\n\
             vote    35.0%  10.0% to 90.0%\n\n\
             \x20        rows  pass@1  pass@2   vote\nlevel 1    20   25.0%   50.0%  30.0%\n"
        );
    }

    #[test]
    fn levels_and_tags_follow() {
        let share = |accuracy: f64| json!({"accuracy": accuracy, "total": 20});
        let line = json!({"name": "1", "base": share(0.05), "adapter": share(0.5)});
        let tag = json!({"name": "join", "base": share(0.0), "adapter": null});
        let text = parts(&typed(json!({"by_level": [line], "by_tag": [tag]})), "");
        assert_eq!(
            anstream::adapter::strip_str(&shown(&text)).to_string(),
            "\n         rows  base  adapter\nlevel 1    20  5.0%    50.0%\njoin       20  0.0%\n"
        );
        assert_eq!(parts(&TestScores::default(), ""), "");
    }
}
