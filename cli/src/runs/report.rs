//! The pages of runs, written by the worker.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use super::list::below;
use crate::args::Global;
use crate::failure::Failure;
use crate::routing;
use crate::run::names::REPORT;
use crate::sys::paths::{absolute, near};
use crate::ui::Console;
use crate::worker::{Search, run_module};

const MODULE: &str = "expert_worker.report";

/// After training a shelf: a page that cannot be written is a warning, not a failure.
pub fn refresh(shelf: &Path, global: &Global, console: &Console) {
    match whole_shelf(shelf).and_then(|pages| write(&pages, global, console)) {
        Ok(path) => console.say(&format!("all runs: {}", near(Path::new(&path)))),
        Err(failure) => console.warn(&failure.message, failure.hint.as_deref()),
    }
}

/// What to write pages of.
pub struct Pages {
    arguments: Vec<String>,
    /// The experts whose router the index describes.
    router: Option<NamedTempFile>,
    /// Why it describes none.
    no_router: Option<Failure>,
}

impl Pages {
    pub fn of_run(folder: String) -> Self {
        Self { arguments: vec![folder], router: None, no_router: None }
    }
}

pub fn write(pages: &Pages, global: &Global, console: &Console) -> Result<String, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    let router = pages.router.iter().flat_map(|file| [OsStr::new("--router"), file.path().as_os_str()]);
    let arguments: Vec<_> = router.chain(pages.arguments.iter().map(OsStr::new)).collect();
    let ran = run_module(&python, MODULE, &arguments)?;
    for warning in &ran.warnings {
        console.warn(warning, None);
    }
    if let Some(failure) = &pages.no_router {
        console.warn(&format!("left out: the router: {}", failure.message), failure.hint.as_deref());
    }
    Ok(ran.stdout)
}

/// The page of a search, in its folder.
pub fn of_search(folder: &Path, global: &Global) -> Result<String, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    Ok(run_module(&python, MODULE, &["--search".to_owned(), absolute(folder)])?.stdout)
}

/// The page is in the folder itself, so that both can be moved together.
pub fn whole_shelf(shelf: &Path) -> Result<Pages, Failure> {
    let found = below(shelf)?;
    if found.is_empty() {
        return Err(Failure::bad_input("no-runs", format!("there is no run in {}", shelf.display()))
            .hint("train first, or name a run's folder or one that holds runs"));
    }
    let page = ["--index".to_owned(), absolute(&shelf.join(REPORT))];
    let arguments = page.into_iter().chain(found.iter().map(|run| absolute(&run.path))).collect();
    let (router, no_router) = router(shelf).map_or_else(|failure| (None, Some(failure)), |file| (file, None));
    Ok(Pages { arguments, router, no_router })
}

/// One expert alone needs no router. A page without it is still worth writing.
fn router(folder: &Path) -> Result<Option<NamedTempFile>, Failure> {
    let Ok(found) = routing::find(folder, &[]) else { return Ok(None) };
    if let Some(same_name) = found.same_name {
        return Err(same_name);
    }
    let shelf = routing::shelf(found.experts).filter(|shelf| shelf.experts.len() > 1);
    Ok(shelf.and_then(|shelf| {
        let mut file = NamedTempFile::new().ok()?;
        file.write_all(&serde_json::to_vec(&shelf).ok()?).ok()?;
        Some(file)
    }))
}
