//! `runs`: lists runs with their state, and shows how two runs differ.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::shell;
use serde_json::json;

use crate::experts;
use crate::failure::Failure;
use crate::run::names::{EVENTS, PLAN, RECORD, REPORT};
use crate::runs::compare::Comparison;
use crate::runs::{Run, State, below, comparison, test_sets};
use crate::sys::paths::{near, portable};
use crate::ui::number::{grouped, minute, percent, short};
use crate::ui::{Align, Console, Table};

#[derive(clap::Args)]
pub struct Args {
    /// An expert, or a folder of experts or runs (default: this expert, else experts/, else here)
    #[arg(default_value_os_t = experts::usual().to_owned(), hide_default_value = true, value_parser = experts::folder_argument())]
    folder: PathBuf,
    /// Runs to compare, or experts with one run each: the settings, data, base and code that differ, and the results
    #[arg(long, value_name = "RUN", num_args = 2.., conflicts_with = "folder", value_parser = experts::folder_argument())]
    compare: Vec<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    if !args.compare.is_empty() {
        let compared = Comparison::of(&args.compare)?;
        if console.json {
            console.document(&compared.document());
        } else {
            console.data(&comparison::text(&compared));
            warn_of_unreadable(&compared.runs, console);
        }
        return Ok(Exit::Done);
    }
    let runs = below(&args.folder)?;
    if console.json {
        console.document(&json!({"ok": true, "runs": runs}));
    } else if runs.is_empty() {
        console.say("nothing has been trained here");
    } else {
        show(&runs, console);
        warn_of_unreadable(&runs, console);
        for (expert, difference) in scored_differently(&runs) {
            let message = format!("runs of {expert} were scored {difference}: do not compare their scores");
            let hint = "score them again with `evaluate`; `runs --compare` names scorers and settings";
            console.warn(&message, Some(hint));
        }
        lead_on(&args.folder, &runs, console);
    }
    Ok(Exit::Done)
}

fn warn_of_unreadable(runs: &[Run], console: &Console) {
    for run in runs {
        for name in &run.unreadable {
            let hint = advice(run, name);
            console.warn(&format!("{} cannot be read", near(&run.path.join(name))), Some(&hint));
        }
    }
}

/// What to do about a record that cannot be read.
fn advice(run: &Run, name: &str) -> String {
    let otherwise = match (name, run.state) {
        // A training that continues from its last checkpoint writes them again.
        (PLAN | RECORD, State::Resumable) => format!("rebuild it with `{}`", run.training(" --resume")),
        (PLAN | RECORD, _) => "train again with --fresh".to_owned(),
        (EVENTS, _) => "do without the run's steps and curves".to_owned(),
        _ => "score the run again with `evaluate`".to_owned(),
    };
    format!("restore the file, or {otherwise}")
}

/// Experts whose runs have scores that are not compared, and why.
fn scored_differently(runs: &[Run]) -> Vec<(String, &'static str)> {
    let mut experts: BTreeMap<String, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        experts.entry(run.expert_among(runs)).or_default().push(run);
    }
    experts
        .into_iter()
        .filter_map(|(expert, its)| Some((expert, comparison::scored_differently(&its)?)))
        .collect()
}

/// In a narrow terminal each path has a separate line, and the columns that are asked for least are left out.
fn show(runs: &[Run], console: &Console) {
    let further: Vec<[String; 2]> = test_sets(runs).into_iter().map(heads).collect();
    let sides = |side: usize| further.iter().map(move |heads| heads[side].as_str());
    let others = ["tokens/s", "last loss", "eval loss", "steps", "when (UTC)"];
    let first: Vec<&str> = sides(0).chain(others).chain(sides(1)).collect();
    let (text, left_out) = table(runs).narrow(RUN, &first);
    console.data(&text);
    console.left_out(&left_out);
    for run in runs.iter().filter(|run| run.state != State::Finished) {
        if let Some(reason) = &run.failure {
            let reason = reason.lines().next().unwrap_or_default();
            console.say(&format!("{} failed: {reason}", near(&run.path)));
        }
    }
}

/// The index of all runs or the newest run's page, and the two runs that are most likely compared.
fn lead_on(folder: &Path, runs: &[Run], console: &Console) {
    let mut newest: Vec<&Run> = runs.iter().collect();
    newest.sort_by(|one, other| other.told_at.unwrap_or(0.0).total_cmp(&one.told_at.unwrap_or(0.0)));
    let Some(latest) = newest.first() else { return };
    let pages = [folder.join(REPORT), latest.path.join(REPORT)];
    if let Some(page) = pages.iter().find(|page| page.is_file()) {
        console.say(&format!("report: {}", near(page)));
    }
    if latest.state == State::Resumable {
        console.say(&format!("next: {}", latest.training(" --resume")));
        return;
    }
    let path = |run: &Run| shell::quoted(&near(&run.path));
    let pair = newest
        .iter()
        .enumerate()
        .find_map(|(at, one)| Some((one, newest[at + 1..].iter().find(|other| other.is_of_expert_of(one))?)));
    let next = match pair {
        Some((newer, older)) => format!("runs --compare {} {}", path(older), path(newer)),
        None => format!("report {}", shell::quoted(&portable(folder))),
    };
    console.say(&format!("next: expert-cli {next}"));
}

const RUN: &str = "run";
const SCORES_OF: &str = "scores of";

/// Over the scores of base and adapter on a further test set.
fn heads(set: &str) -> [String; 2] {
    ["base", "adapter"].map(|side| format!("{set} {side}"))
}

fn table(runs: &[Run]) -> Table {
    let sets = test_sets(runs);
    let further: Vec<String> = sets.iter().copied().flat_map(heads).collect();
    let mut columns = vec![
        ("expert", Align::Left),
        ("state", Align::Left),
        ("steps", Align::Right),
        ("last loss", Align::Right),
        ("eval loss", Align::Right),
        ("base", Align::Right),
        ("adapter", Align::Right),
    ];
    let in_part = runs.iter().any(|run| run.scores_of.is_some());
    columns.extend(in_part.then_some((SCORES_OF, Align::Left)));
    columns.extend(further.iter().map(|head| (head.as_str(), Align::Right)));
    columns.extend([("tokens/s", Align::Right), ("when (UTC)", Align::Left), (RUN, Align::Left)]);
    let mut table = Table::new(&columns);
    let told = |value: Option<f64>, show: fn(f64) -> String| value.map_or(String::new(), show);
    for run in runs {
        let mut cells = vec![
            run.expert.clone(),
            run.state.as_str().to_owned(),
            run.steps.map_or(String::new(), grouped),
            told(run.last_loss, |loss| format!("{loss:.4}")),
            told(run.eval_loss, |loss| format!("{loss:.4}")),
            told(run.base_accuracy, percent),
            told(run.accuracy, percent),
        ];
        cells.extend(in_part.then(|| run.scores_of.clone().unwrap_or_default()));
        cells.extend(sets.iter().flat_map(|set| {
            let found = run.test_sets.get(*set);
            [found.and_then(|it| it.base_accuracy), found.and_then(|it| it.accuracy)]
                .map(|score| told(score, percent))
        }));
        cells.extend([told(run.tokens_per_second, short), told(run.told_at, minute), portable(&run.path)]);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::names::SCORES;
    use crate::runs::look;
    use crate::sys::files::write_text;

    #[test]
    fn a_damaged_record_is_rebuilt_from_a_checkpoint_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let expert = folder.path().join("an expert");
        let run = expert.join("weights/tiny");
        let plan = r#"{"recipe": {"base": {"name": "Org/tiny"}}}"#;
        write_text(&run, "plan.json", plan);
        write_text(&run, RECORD, "{");
        write_text(&run, SCORES, "{");
        let found = look(&run);
        assert_eq!(found.unreadable, [RECORD, SCORES]);
        assert_eq!(advice(&found, RECORD), "restore the file, or train again with --fresh");
        write_text(&run, "checkpoint-3/state.json", "{}");
        let (found, place) = (look(&run), near(&expert));
        assert_eq!(
            advice(&found, RECORD),
            format!("restore the file, or rebuild it with `expert-cli train '{place}' --resume`")
        );
        assert_eq!(advice(&found, SCORES), "restore the file, or score the run again with `evaluate`");
        write_text(&run, PLAN, "{");
        write_text(&run, EVENTS, "\0\0\0");
        let damaged = look(&run);
        assert_eq!(damaged.unreadable, [PLAN, EVENTS, RECORD, SCORES]);
        assert_eq!(advice(&damaged, PLAN), advice(&damaged, RECORD));
        assert_eq!(advice(&damaged, EVENTS), "restore the file, or do without the run's steps and curves");
        write_text(&run, PLAN, plan);
        write_text(&run, EVENTS, "");
        assert_eq!(look(&run).unreadable, [RECORD, SCORES]);
        write_text(&expert.join("weights/other"), "plan.json", plan);
        let hint = advice(&found, RECORD);
        assert!(hint.ends_with(&format!("train '{place}' --model Org/tiny --resume`")), "{hint}");
    }

    #[test]
    fn the_base_of_a_run_is_named_where_the_manifest_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("weights/tiny");
        let begin = |base: &str| {
            write_text(&run, "plan.json", &format!(r#"{{"recipe": {{"base": {{"name": "{base}"}}}}}}"#));
            look(&run).training(" --resume")
        };
        let manifest = r#"{"name": "a", "base_models": ["Org/large"],
            "training": {"dataset": {"path": "a.jsonl"}, "config": {"rank": 8, "alpha": 16}}}"#;
        write_text(folder.path(), "manifest.json", manifest);
        let place = near(folder.path());
        assert_eq!(begin("Org/large"), format!("expert-cli train {place} --resume"));
        assert_eq!(begin("Org/tiny"), format!("expert-cli train {place} --model Org/tiny --resume"));
    }
}
