//! A search on the terminal.

use expert_contract::results::{SearchRecord, SearchTrial, Share};
use serde_json::Value;

use super::halving::{Cost, LAST, LENGTHS, score, sorted, tied, unreached, validation_loss};
use super::space::shown;
use crate::ui::number::{percent, seconds};
use crate::ui::{Align, Table, wrap};

pub fn time(amount: f64) -> String {
    seconds(amount)
}

pub fn length(rung: usize) -> &'static str {
    ["a ninth of their steps", "a third of their steps", "full length"][rung]
}

/// What a trial costs, and how many there are.
pub fn before(cost: Cost, trials: usize, jobs: usize, is_all: bool) -> String {
    let [first, second, third] = [0, 1, LAST].map(|rung| time(cost.at(rung)));
    let at_once = if jobs > 1 { format!(", {jobs} at once") } else { String::new() };
    let all = if is_all { " (the space has no more)" } else { "" };
    format!(
        "a trial like the manifest's takes about {first} for a ninth of its steps, {second} for a third and {third} for all of \
         them\n{trials} trials{all}{at_once}: about {} in all",
        time(cost.of_search(trials, jobs))
    )
}

/// One line per trial, the best first, and the columns that a narrow terminal has no room for.
pub fn table(record: &SearchRecord) -> (String, Vec<String>) {
    let names: Vec<&str> = record
        .trials
        .iter()
        .max_by_key(|it| it.settings.len())
        .map_or_else(Vec::new, |it| it.settings.iter().map(|setting| setting.name.as_str()).collect());
    let mut columns = vec![("trial", Align::Left)];
    columns.extend(names.iter().map(|name| (*name, Align::Right)));
    columns.extend([
        ("1/9", Align::Right),
        ("1/3", Align::Right),
        ("all", Align::Right),
        ("95%", Align::Right),
        ("loss", Align::Right),
        ("", Align::Left),
    ]);
    let mut table = Table::new(&columns);
    for index in sorted(record) {
        let trial = &record.trials[index];
        let mut cells = vec![if index == 0 { "own".to_owned() } else { index.to_string() }];
        cells.extend(names.iter().map(|name| {
            let setting = trial.settings.iter().find(|it| it.name == *name);
            setting.map_or_else(String::new, |it| value(&it.value))
        }));
        let shares: Vec<Option<&Share>> =
            (0..LENGTHS.len()).map(|rung| score(trial, rung)?.share.as_ref()).collect();
        cells.extend(shares.iter().map(|it| it.and_then(|it| it.accuracy).map(percent).unwrap_or_default()));
        cells.push(shares.iter().rev().find_map(|it| it.map(range)).unwrap_or_default());
        let loss = (0..LENGTHS.len()).rev().find_map(|rung| validation_loss(trial, rung));
        cells.push(loss.map(|loss| format!("{loss:.4}")).unwrap_or_default());
        let state = if record.winner == Some(index as u64) {
            "best"
        } else if is_failed(trial) {
            "failed"
        } else {
            ""
        };
        cells.push(state.to_owned());
        table.row(cells);
    }
    let left_out = table.fit(&["alpha", "95%", "1/9", "loss"]);
    let failures = record.trials.iter().enumerate().filter_map(|(index, trial)| {
        let failure = trial.scores.iter().find_map(|it| it.failure.as_ref())?;
        let line = format!("trial {index} failed: {failure}");
        Some(wrap::wrapped(&line, 2, wrap::columns()) + "\n")
    });
    (table.stacked() + &failures.collect::<String>(), left_out)
}

fn value(value: &Value) -> String {
    value.as_f64().map_or_else(|| value.to_string(), shown)
}

fn range(share: &Share) -> String {
    share
        .low
        .zip(share.high)
        .map_or_else(String::new, |(low, high)| format!("{}-{}", percent(low), percent(high)))
}

/// What decided between the winner and a trial with as many right answers.
fn decided_by(record: &SearchRecord, best: usize, other: usize, rung: usize) -> String {
    let [won, lost] = [best, other].map(|trial| &record.trials[trial]);
    let name = if other == 0 { "the manifest's own recipe".to_owned() } else { format!("trial {other}") };
    let [low, high] = [won, lost].map(|trial| validation_loss(trial, rung));
    let steps = |trial| score(trial, rung).and_then(|it| it.steps);
    let what = match (low, high) {
        (Some(low), Some(high)) if low < high => {
            format!("the validation loss decided ({low:.4} against {high:.4})")
        }
        (Some(low), None) => format!("the validation loss decided ({low:.4}, the other's is not known)"),
        _ if steps(won) != steps(lost) => "fewer steps decided".to_owned(),
        _ => "the lower rank, or the order in which they were drawn, decided".to_owned(),
    };
    format!("{name} answers as many of them right: {what}")
}

/// Why no winner was trained to its full length; None where one was.
pub fn not_whole(record: &SearchRecord) -> Option<String> {
    let rung = record.winner.and(record.winner_rung).map(|rung| rung as usize);
    if rung == Some(LAST) {
        return None;
    }
    let longer = rung.map_or(0, |rung| rung + 1);
    let open = (longer..LENGTHS.len()).find(|rung| !unreached(record, *rung).is_empty());
    Some(match open {
        Some(open) => format!(
            "the budget ended before each trial that was to be compared at {} was trained: raise --budget to continue",
            length(open)
        ),
        None => "every trial that was trained for longer failed: the table says why".to_owned(),
    })
}

/// Whether the winner is another trial than the manifest's own recipe, and that one failed at the winner's length: nobody knows
/// whether it is better.
pub fn own_has_failed(record: &SearchRecord) -> bool {
    let winner = record.winner.filter(|winner| *winner > 0).zip(record.winner_rung);
    let own = |rung: u64| record.trials.first().and_then(|own| score(own, rung as usize));
    winner.is_some_and(|(_, rung)| own(rung).is_none_or(|own| own.share.is_none()))
}

/// Whether another set of rows may put the manifest's own recipe before the winner.
pub fn is_noise(record: &SearchRecord) -> bool {
    record.comparison.as_ref().is_some_and(|paired| paired.low <= 0.0)
}

/// The winner, and whether its difference to the manifest's own recipe is more than noise.
pub fn verdict(record: &SearchRecord) -> Vec<String> {
    let not_whole = not_whole(record);
    let Some((best, rung)) = record.winner.zip(record.winner_rung) else {
        return not_whole.map(|why| format!("no trial is the best yet: {why}")).into_iter().collect();
    };
    let trial = &record.trials[best as usize];
    let share = score(trial, rung as usize).and_then(|it| it.share.as_ref());
    let reached = share.map(|it| {
        format!(
            "{} of validation rows right (95%: {})",
            it.accuracy.map(percent).unwrap_or_default(),
            range(it)
        )
    });
    let settings: Vec<String> =
        trial.settings.iter().map(|it| format!("{} {}", it.name, value(&it.value))).collect();
    let name = if best == 0 {
        "the manifest's own recipe".to_owned()
    } else {
        format!("trial {best} ({})", settings.join(", "))
    };
    let at = not_whole.as_ref().map(|_| format!(" at {}", length(rung as usize))).unwrap_or_default();
    let mut lines = vec![format!("best{at}: {name}, {}", reached.unwrap_or_default())];
    lines.extend(tied(record).map(|other| decided_by(record, best as usize, other, rung as usize)));
    let is_whole = not_whole.is_none();
    lines.extend(not_whole);
    match &record.comparison {
        _ if best == 0 && !is_whole => {}
        _ if best == 0 && record.trials.len() > 1 && record.trials.iter().skip(1).all(is_failed) => {
            lines.push("every other trial failed: nothing is known of other settings".to_owned());
        }
        _ if best == 0 => lines
            .push("no trial is better than the manifest's own recipe: there is nothing to change".to_owned()),
        Some(paired) => {
            let points = |share: f64| format!("{:+.1}", 100.0 * share);
            let interval = format!(
                "{} points (95%: {} to {})",
                points(paired.difference),
                points(paired.low),
                points(paired.high)
            );
            lines.push(format!("against the manifest's own recipe on the same rows: {interval}"));
            lines.push(if is_noise(record) {
                "this difference is within noise: another set of rows may reverse it".to_owned()
            } else {
                "the winner was chosen by these rows, so its score is a little too high: evaluate it on the test rows".to_owned()
            });
        }
        None => lines.push(
            "it could not be compared with the manifest's own recipe, which has no score at this length"
                .to_owned(),
        ),
    }
    lines
}
fn is_failed(trial: &SearchTrial) -> bool {
    trial.scores.iter().any(|it| it.failure.is_some())
}
