//! Rows from a schema alone, which the worker makes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::args::{Global, whole};
use crate::failure::Failure;
use crate::split_rows::Rows;
use crate::ui::Console;
use crate::ui::number::grouped;
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.schema_rows";
/// As the worker limits them (schema_rows/make.py).
const ROWS: RangeInclusive<u64> = 20..=50_000;

/// The schema, and how many rows to make of it.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// CREATE TABLE statements: of SQLite, SQL Server, or a dump of PostgreSQL or MySQL
    #[arg(long, value_name = "FILE", group = "schema_file")]
    pub ddl: Option<PathBuf>,
    /// The JSON Schema of a payload, or `api.json#Order` for a schema of an OpenAPI document: texts that people type,
    /// and the JSON object that each means
    #[arg(long, value_name = "FILE", group = "schema_file")]
    schema: Option<PathBuf>,
    /// Your words for tables and columns, in JSON (docs/your-data.md has an example)
    #[arg(long, value_name = "FILE", requires = "ddl", conflicts_with = "schema")]
    pub words: Option<PathBuf>,
    /// Training rows; a tenth as many, 40 to 400, are made to validate on, and as many to test on
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "schema_file", value_parser = whole::<u32>(ROWS))]
    pub rows: u32,
    /// Random seed: each one makes other rows
    #[arg(long, value_name = "S", default_value_t = 1, requires = "schema_file", value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub seed: u32,
}

/// A JSON Schema's file, and the definition in it that is meant.
#[derive(Debug, PartialEq)]
pub struct Payload {
    pub file: PathBuf,
    part: Option<String>,
}

impl Options {
    pub fn payload(&self) -> Option<Payload> {
        self.schema.as_deref().map(Payload::named)
    }

    /// What the file, or the part of it, is called.
    pub fn name(&self) -> Option<String> {
        let stem = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match &self.ddl {
            Some(file) => Some(stem(file)),
            None => self.payload().map(|it| it.part_name().unwrap_or_else(|| stem(&it.file))),
        }
    }
}

impl Payload {
    /// A file may have `#` in its own name.
    fn named(path: &Path) -> Self {
        let parts = path.to_str().filter(|_| !path.exists()).and_then(|text| text.split_once('#'));
        match parts {
            Some((file, part)) if !file.is_empty() && !part.is_empty() => {
                Self { file: file.into(), part: Some(part.to_owned()) }
            }
            _ => Self { file: path.to_owned(), part: None },
        }
    }

    fn part_name(&self) -> Option<String> {
        self.part.as_ref().map(|part| part.rsplit('/').next().unwrap_or(part).to_owned())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Made {
    pub rows: Rows,
    pub files: Vec<PathBuf>,
    pub parts: u64,
    pub ignored: BTreeMap<String, u64>,
    pub dropped: BTreeMap<String, u64>,
    /// What no table has, and columns that no question names.
    pub unused_words: Vec<String>,
    pub unasked_words: Vec<String>,
    /// Tables that could be asked about.
    pub unasked_tables: Vec<String>,
    /// Whether the copy of the schema can be the grammar of the answers.
    #[serde(skip_serializing)]
    pub is_grammar: bool,
    /// Of the longest answer and the longest row, where `copy` was given; 0 where they are not known.
    #[serde(skip_serializing)]
    pub answer_tokens: u64,
    #[serde(skip_serializing)]
    pub row_tokens: u64,
}

/// `copy` is where a JSON Schema goes, too; with it, lengths are measured.
pub fn make(
    options: &Options,
    output: &Path,
    copy: Option<&Path>,
    global: &Global,
    console: &Console,
) -> Result<Made, Failure> {
    let mut arguments: Vec<OsString> = match (&options.ddl, options.payload()) {
        (Some(file), _) => vec!["--ddl".into(), file.into()],
        (None, Some(Payload { file, part })) => {
            let part = part.into_iter().flat_map(|part| ["--part".into(), part.into()]);
            let copy = copy.into_iter().flat_map(|copy| ["--copy".into(), copy.into()]);
            ["--schema".into(), file.into()].into_iter().chain(part).chain(copy).collect()
        }
        (None, None) => {
            return Err(Failure::bad_input("no-schema", "no schema is named")
                .hint("name CREATE TABLE statements with --ddl, or a JSON Schema with --schema"));
        }
    };
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    console.say(&format!("making {} rows; each answer is checked", grouped(u64::from(options.rows))));
    arguments.extend(["--output".into(), output.into()]);
    arguments.extend(["--rows".into(), options.rows.to_string().into()]);
    arguments.extend(["--seed".into(), options.seed.to_string().into()]);
    arguments.extend(copy.map(|_| "--lengths".into()));
    arguments.extend(options.words.iter().flat_map(|words| ["--words".into(), words.into()]));
    run_module(&python, MODULE, &arguments)?.document()
}

impl Made {
    /// What is not in the rows, and why.
    pub fn report(&self, options: &Options, console: &Console) {
        let list = |counts: &BTreeMap<String, u64>| {
            counts
                .iter()
                .map(|(what, count)| format!("{} {what}", grouped(*count)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if !self.ignored.is_empty() {
            console.say(&format!("not needed of the schema: {}", list(&self.ignored)));
        }
        if !self.dropped.is_empty() {
            console.say(&format!("rows dropped: {}", list(&self.dropped)));
        }
        let made = self.rows.train;
        if made < u64::from(options.rows) {
            let message = format!(
                "{} training rows instead of {}: no more different ones were found",
                grouped(made),
                grouped(u64::from(options.rows))
            );
            console.warn(&message, Some("fewer --rows, or a schema with more to say"));
        }
        if !self.unasked_tables.is_empty() {
            let message = format!("no row asks about the tables: {}", self.unasked_tables.join(", "));
            console.warn(&message, Some("more --rows; or see what was dropped, above"));
        }
        if !self.unused_words.is_empty() {
            let message = format!("--words names what no table has: {}", self.unused_words.join(", "));
            console.warn(&message, Some("write table, column or table.column as the schema does"));
        }
        if !self.unasked_words.is_empty() {
            let message =
                format!("--words names columns that no question names: {}", self.unasked_words.join(", "));
            console.warn(&message, Some("keys, and columns of JSON, bytes or lists, are not asked about"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_behind_the_file() {
        let named = |text: &str| {
            let found = Payload::named(Path::new(text));
            (found.file.to_string_lossy().into_owned(), found.part.clone(), found.part_name())
        };
        let part = |text: &str| Some(text.to_owned());
        assert_eq!(named("api.json#Order"), ("api.json".to_owned(), part("Order"), part("Order")));
        let pointer = "/components/schemas/Order";
        assert_eq!(
            named(&format!("a/api.json#{pointer}")),
            ("a/api.json".to_owned(), part(pointer), part("Order"))
        );
        for whole in ["api.json", "api.json#", "#Order"] {
            assert_eq!(named(whole), (whole.to_owned(), None, None));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a#b.json");
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(Payload::named(&file), Payload { file, part: None });
    }
}
