//! The pages of runs, written by the worker.

use std::path::Path;

use super::list::below;
use crate::args::Global;
use crate::failure::Failure;
use crate::sys::paths::{absolute, near};
use crate::ui::Console;
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.report";
pub const PAGE: &str = "report.html";

/// After training a shelf: a page that cannot be written is a warning, not a failure.
pub fn refresh(shelf: &Path, global: &Global, console: &Console) {
    match whole_shelf(shelf).and_then(|arguments| write(&arguments, global, console)) {
        Ok(path) => console.say(&format!("all runs: {}", near(Path::new(&path)))),
        Err(failure) => console.warn(&failure.message, failure.hint.as_deref()),
    }
}

pub fn write(arguments: &[String], global: &Global, console: &Console) -> Result<String, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    let ran = run_module(&python, MODULE, arguments)?;
    for warning in &ran.warnings {
        console.warn(warning, None);
    }
    Ok(ran.stdout)
}

/// The page is in the folder itself, so that both can be moved together.
pub fn whole_shelf(shelf: &Path) -> Result<Vec<String>, Failure> {
    let found = below(shelf)?;
    if found.is_empty() {
        return Err(Failure::bad_input("no-runs", format!("there is no run in {}", shelf.display()))
            .hint("train first, or name a run's folder or one that holds runs"));
    }
    let page = ["--index".to_owned(), absolute(&shelf.join(PAGE))];
    Ok(page.into_iter().chain(found.iter().map(|run| absolute(&run.path))).collect())
}
