//! `bench compare`: two measurements, and whether their ratios are within bands.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use serde::Serialize;
use serde_json::json;

use crate::args::positive;
use crate::failure::Failure;
use crate::run::measured::{TOKENS_PER_SECOND, number, read};
use crate::ui::number::{bytes, seconds, short};
use crate::ui::{Align, Console, Table};

/// Compare two measurements, and fail where a ratio is outside its band
#[derive(clap::Args)]
pub struct Args {
    /// The measurement before: an ablation.json, a run's folder or its run.json
    before: PathBuf,
    /// The measurement after
    after: PathBuf,
    /// Tokens per second of AFTER, as a multiple of BEFORE's, at least
    #[arg(long, value_name = "RATIO", default_value_t = 0.95, value_parser = ratio)]
    speed: f64,
    /// Peak memory of AFTER, as a multiple of BEFORE's, at most
    #[arg(long, value_name = "RATIO", default_value_t = 1.05, value_parser = ratio)]
    memory: f64,
    /// Time until the first step of AFTER, as a multiple of BEFORE's, at most; runs do not record it
    #[arg(long, value_name = "RATIO", default_value_t = 1.5, value_parser = ratio)]
    ready: f64,
}

fn ratio(text: &str) -> Result<f64, String> {
    positive(text, "ratio")
}

#[derive(Debug, Serialize)]
struct Compared {
    name: &'static str,
    before: f64,
    after: f64,
    ratio: f64,
    band: f64,
    passed: bool,
}

/// Name, keys that hold it, and whether more is better.
const MEASURES: [(&str, &[&str], bool); 3] = [
    ("tokens/s", &[TOKENS_PER_SECOND], true),
    ("peak memory", &["peak_bytes", "peak_memory_bytes"], false),
    ("ready after", &["ready_seconds"], false),
];

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let bands = [args.speed, args.memory, args.ready];
    let compared: Vec<_> = MEASURES
        .iter()
        .zip(bands)
        .filter_map(|((name, keys, more), band)| {
            let (before, after) = (number(&before, keys)?, number(&after, keys)?);
            let ratio = after / before;
            let passed = if *more { ratio >= band } else { ratio <= band };
            Some(Compared { name, before, after, ratio, band, passed })
        })
        .collect();
    if compared.is_empty() {
        return Err(Failure::bad_input("nothing-to-compare", "the two files have no measurement in common")
            .hint("name two results of `bench ablate -o`, or two finished runs"));
    }
    let passed = compared.iter().all(|it| it.passed);
    if console.json {
        console.document(&json!({"ok": passed, "compared": compared}));
    } else {
        console.data(&table(&compared));
    }
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

fn table(compared: &[Compared]) -> String {
    let columns = ["", "before", "after", "ratio", "band", ""];
    let columns = columns.map(|name| (name, if name.is_empty() { Align::Left } else { Align::Right }));
    let mut table = Table::new(&columns);
    for it in compared {
        let shown = |value: f64| match it.name {
            "peak memory" => bytes(value as u64),
            "ready after" => seconds(value),
            _ => short(value),
        };
        let more = it.name == MEASURES[0].0;
        table.row([
            it.name.to_owned(),
            shown(it.before),
            shown(it.after),
            format!("{:.2}x", it.ratio),
            format!("{} {}x", if more { "at least" } else { "at most" }, it.band),
            if it.passed { "pass" } else { "FAIL" }.to_owned(),
        ]);
    }
    table.render()
}
