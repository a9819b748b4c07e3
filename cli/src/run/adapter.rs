//! The adapter that a command uses: the named one, or the one of the expert's run.

use std::path::{Path, PathBuf};

use expert_contract::plan::Paths;

use super::record::{CONFIG, FINAL};
use crate::failure::Failure;
use crate::sys::paths::absolute;

/// `final/` of the run, if training has left one.
pub fn of_run(paths: &Paths) -> Option<String> {
    let folder = Path::new(&paths.output).join(FINAL);
    folder.join(CONFIG).is_file().then(|| absolute(&folder))
}

/// A named folder must be an adapter; a run's folder stands for its `final/`.
pub fn named(folder: &Path) -> Result<String, Failure> {
    let places: [PathBuf; 2] = [folder.to_owned(), folder.join(FINAL)];
    let found = places.iter().find(|place| place.join(CONFIG).is_file());
    found.map(|place| absolute(place)).ok_or_else(|| {
        Failure::bad_input(
            "no-adapter",
            format!("{} is not an adapter: it has no {CONFIG}", folder.display()),
        )
        .hint("name a run's folder, its final/, or one of its checkpoints")
    })
}

pub fn not_trained(paths: &Paths) -> Failure {
    Failure::bad_input("no-adapter", format!("there is no trained adapter in {}", paths.output))
        .hint("train first, or name an adapter with --adapter")
}
