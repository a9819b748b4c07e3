//! Rows from a schema alone, which the worker makes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::failure::Failure;
use crate::sys::paths::near;
use crate::ui::number::grouped;
use crate::ui::{Align, Console, Table, wrap};
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.schema_rows";

/// The schema, and how many rows to make of it.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// CREATE TABLE statements: of SQLite, SQL Server, or a dump of PostgreSQL or MySQL
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    pub ddl: Option<PathBuf>,
    /// The JSON Schema of a payload: texts that people type, and the JSON object that each means
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Your words for tables and columns, in JSON (docs/your-data.md has an example)
    #[arg(long, value_name = "FILE", requires = "ddl")]
    pub words: Option<PathBuf>,
    /// Training rows; a tenth as many are made to validate and to test on
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub rows: u32,
    /// Another seed, another data set
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u32,
}

impl Options {
    pub fn file(&self) -> Option<&Path> {
        self.ddl.as_deref().or(self.schema.as_deref())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Rows {
    train: u64,
    validation: u64,
    test: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Made {
    pub rows: Rows,
    pub files: Vec<PathBuf>,
    pub parts: u64,
    pub ignored: BTreeMap<String, u64>,
    pub dropped: BTreeMap<String, u64>,
    pub unused_words: Vec<String>,
}

pub fn make(options: &Options, output: &Path, global: &Global, console: &Console) -> Result<Made, Failure> {
    let (flag, file) = match (&options.ddl, &options.schema) {
        (Some(file), _) => ("--ddl", file),
        (None, Some(file)) => ("--schema", file),
        (None, None) => {
            return Err(Failure::bad_input("no-schema", "no schema is named")
                .hint("name CREATE TABLE statements with --ddl, or a JSON Schema with --schema"));
        }
    };
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    console.say(&format!("making {} rows; each answer is checked", grouped(u64::from(options.rows))));
    let mut arguments: Vec<OsString> = vec![flag.into(), file.into(), "--output".into(), output.into()];
    arguments.extend(["--rows".into(), options.rows.to_string().into()]);
    arguments.extend(["--seed".into(), options.seed.to_string().into()]);
    arguments.extend(options.words.iter().flat_map(|words| ["--words".into(), words.into()]));
    let ran = run_module(&python, MODULE, &arguments)?;
    serde_json::from_str(&ran.stdout).map_err(|error| {
        Failure::new(Exit::Failed, "worker-failed", format!("the worker's answer cannot be read: {error}"))
    })
}

impl Made {
    pub fn table(&self) -> Table {
        let columns = [("split", Align::Left), ("rows", Align::Right), ("file", Align::Left)];
        let mut table = Table::new(&columns);
        let Rows { train, validation, test } = self.rows;
        for (split, rows) in [("train", train), ("validation", validation), ("test", test)] {
            let is_its = |file: &&PathBuf| file.file_stem().is_some_and(|stem| stem == split);
            let file = self.files.iter().find(is_its).map_or_else(String::new, |file| near(file));
            table.row([split.to_owned(), grouped(rows), file]);
        }
        table
    }

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
            console.say(&wrap::message(&format!("not needed of the schema: {}", list(&self.ignored)), 2));
        }
        if !self.dropped.is_empty() {
            console.say(&wrap::message(&format!("rows dropped: {}", list(&self.dropped)), 2));
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
        if !self.unused_words.is_empty() {
            let message = format!("--words names what no table has: {}", self.unused_words.join(", "));
            console.warn(&message, Some("write table, column or table.column as the schema does"));
        }
    }
}
