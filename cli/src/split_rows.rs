//! The rows of one data set in three files, which the worker divides.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use expert_contract::diagnostic::one_of;
use expert_contract::paths::{DataFiles, NotData, find_data, unknown_ending};
use expert_contract::rules::FIELDS;
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::failure::Failure;
use crate::sys::paths::{near, portable};
use crate::ui::number::grouped;
use crate::ui::{Align, Console, Table};
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.split_rows";

/// How the rows are read and kept together. Whoever takes these options names the files `data`.
#[derive(clap::Args, Debug)]
pub struct Reading {
    /// A field of your rows by another name: --map prompt=ticket --map completion=category
    #[arg(long = "map", value_name = "NAME=FIELD", value_parser = pair, requires = "data")]
    pub mapping: Vec<(String, String)>,
    /// Rows with the same value of this field stay in one file: a customer, a document
    #[arg(long, value_name = "FIELD", requires = "data")]
    by: Option<String>,
}

/// How large the parts are, and which rows get into them.
#[derive(clap::Args, Debug)]
pub struct Division {
    /// Rows to validate on: a share below 1, or their number (default: a tenth, at most 500)
    #[arg(long, value_name = "ROWS", value_parser = amount)]
    validation: Option<f64>,
    /// Rows to test on, likewise
    #[arg(long, value_name = "ROWS", value_parser = amount)]
    test: Option<f64>,
    /// Random seed: each one divides the rows differently
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u32,
    /// Whether to count the tokens of rows and answers, too.
    #[arg(skip)]
    lengths: bool,
}

impl Division {
    /// The usual one, and how long rows and answers are.
    pub fn measured() -> Self {
        Self { validation: None, test: None, seed: 1, lengths: true }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, field)) if !name.is_empty() && !field.is_empty() => {
            if FIELDS.contains(&name) {
                Ok((name.to_owned(), field.to_owned()))
            } else {
                Err(format!("no row is read by a field `{name}`; {}", one_of(name, &FIELDS)))
            }
        }
        _ => Err("write it as prompt=FIELD".to_owned()),
    }
}

/// Two fields for one name: the rows would be read by the last alone.
fn refuse_two_fields(mapping: &[(String, String)]) -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    for (name, field) in mapping {
        if let Some(other) = found.insert(name, field).filter(|other| *other != field) {
            let message = format!("--map names two fields for {name}: {other} and {field}");
            return Err(Failure::bad_input("map-twice", message).hint("name each once"));
        }
    }
    Ok(())
}

fn amount(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if number.is_finite() && (0.0..1e9).contains(&number) && (number < 1.0 || number.fract() == 0.0) {
        Ok(number)
    } else {
        Err("write a share below 1, such as 0.1, or a whole number of rows".to_owned())
    }
}

/// How many rows each file got.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rows {
    pub train: u64,
    pub validation: u64,
    pub test: u64,
}

impl Rows {
    /// With the file of each, among those that were written.
    pub fn table(&self, files: &[PathBuf]) -> Table {
        let columns = [("split", Align::Left), ("rows", Align::Right), ("file", Align::Left)];
        let mut table = Table::new(&columns);
        for (split, rows) in [("train", self.train), ("validation", self.validation), ("test", self.test)] {
            let file = files.iter().find(|file| file.file_stem().is_some_and(|stem| stem == split));
            table.row([split.to_owned(), grouped(rows), file.map_or_else(String::new, |file| near(file))]);
        }
        table
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Written {
    pub rows: Rows,
    pub files: Vec<PathBuf>,
    /// Rows that copy an earlier one, and are in the same file as that.
    pub exact: u64,
    pub near: u64,
    /// The one that fits the answers; None where the rows are texts without questions.
    pub scorer: Option<String>,
    pub labels: Vec<String>,
    is_free_text: bool,
    /// About how many the longest answer has, and 99 of 100 rows, where they were asked for.
    #[serde(skip_serializing)]
    pub answer_tokens: u64,
    #[serde(skip_serializing)]
    pub row_tokens: u64,
    /// Fields with bytes that are not text, and in how many rows they were left out. None of them is read.
    left_out: BTreeMap<String, u64>,
}

/// Writes train.jsonl, validation.jsonl and test.jsonl into `output`. `key`: the option that names the data, or `FILE`.
pub fn write(
    data: &[PathBuf],
    key: &str,
    options: &Reading,
    division: &Division,
    output: &Path,
    global: &Global,
    console: &Console,
) -> Result<Written, Failure> {
    refuse_two_fields(&options.mapping)?;
    let files = files_of(data, key, console)?;
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    console.say("reading the rows, and comparing them: copies stay in one file");
    let mut arguments: Vec<OsString> =
        vec!["--output".into(), output.into(), "--seed".into(), division.seed.to_string().into()];
    let mut add = |name: &str, value: String| arguments.push(format!("--{name}={value}").into());
    options.mapping.iter().for_each(|(name, field)| add("map", format!("{name}={field}")));
    options.by.iter().for_each(|field| add("by", field.clone()));
    division.validation.iter().for_each(|rows| add("validation", rows.to_string()));
    division.test.iter().for_each(|rows| add("test", rows.to_string()));
    arguments.extend(division.lengths.then(|| "--lengths".into()));
    arguments.push("--".into());
    arguments.extend(files.iter().map(OsString::from));
    run_module(&python, MODULE, &arguments)?.document()
}

/// The files themselves, those of a folder and those that a pattern matches, as a manifest's paths mean them.
fn files_of(data: &[PathBuf], key: &str, console: &Console) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in data {
        let text = portable(path);
        // The worker says that a file is not there, and what a folder of the library is.
        let found = match find_data(&text, path) {
            Err(NotData::Missing) => DataFiles { files: vec![(text, path.clone())], left_out: Vec::new() },
            found => found.map_err(|why| {
                let (message, hint) = why.words(&text, key);
                Failure::bad_input("not-data", message).hint(hint)
            })?,
        };
        if let Some((message, hint)) = found.left_out_words(&portable(path)) {
            console.warn(&message, Some(&hint));
        }
        for (_, file) in found.files {
            refuse_unreadable(&file)?;
            files.push(file);
        }
    }
    Ok(files)
}

/// Of another format, or without permission.
fn refuse_unreadable(file: &Path) -> Result<(), Failure> {
    if let Some((message, hint)) = unknown_ending(&portable(file), None) {
        return Err(Failure::bad_input("data-format", message).hint(hint));
    }
    match File::open(file) {
        Err(error) if file.is_file() => Err(Failure::reading("read", file, &error)),
        _ => Ok(()),
    }
}

impl Written {
    pub fn report(&self, console: &Console) {
        if self.exact + self.near > 0 {
            console.say(&format!(
                "copies of earlier rows: {} exact, {} near; each is in the file of the row that it copies",
                grouped(self.exact),
                grouped(self.near)
            ));
        }
        for (name, rows) in &self.left_out {
            console.warn(
                &format!(
                    "`{name}` was left out of {} rows: it holds bytes that are not text",
                    grouped(*rows)
                ),
                None,
            );
        }
    }

    /// On choosing a scorer from the answers.
    pub fn report_scorer(&self, console: &Console) {
        if self.is_free_text && self.scorer.as_deref() == Some("exact") {
            console.warn(
                "the answers are free text, and the scorer `exact` counts only answers that equal the reference",
                Some("`pip install sacrebleu` and set `evaluation.scorer` to `chrf`, or write your own scorer (docs/your-data.md)"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shares_or_whole_numbers() {
        assert_eq!(amount("0.2"), Ok(0.2));
        assert_eq!(amount("200"), Ok(200.0));
        assert_eq!(amount("0"), Ok(0.0));
        for wrong in ["-1", "1.5", "nan", "inf", "ten", "10%"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_map_names_a_field() {
        assert_eq!(pair("prompt=a=b"), Ok(("prompt".to_owned(), "a=b".to_owned())));
        for wrong in ["prompt", "prompt=", "=ticket"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
        let unknown = pair("promt=ticket").unwrap_err();
        assert!(unknown.starts_with("no row is read by a field `promt`; did you mean `prompt`"), "{unknown}");
    }

    #[test]
    fn a_name_is_mapped_to_one_field() {
        let map = |pairs: &[&str]| pairs.iter().map(|it| pair(it).unwrap()).collect::<Vec<_>>();
        assert!(refuse_two_fields(&map(&["prompt=a", "completion=b", "prompt=a"])).is_ok());
        let refused = refuse_two_fields(&map(&["prompt=a", "prompt=b"])).unwrap_err();
        assert_eq!(refused.message, "--map names two fields for prompt: a and b");
    }
}
