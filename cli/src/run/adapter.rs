//! The adapter that a command uses: the named one, or the one of the expert's run.

use std::path::{Path, PathBuf};

use expert_contract::plan::Paths;

use super::names::FINAL;
use super::record::{CONFIG, Finished};
use crate::failure::Failure;
use crate::sys::paths::{absolute, near};

/// `final/` of the run, if training has left one; an installed expert has its adapter beside the manifest.
pub fn of_run(paths: &Paths) -> Option<String> {
    let trained = Path::new(&paths.output).join(FINAL);
    let places = [trained.as_path(), Path::new(&paths.expert_dir)];
    places.into_iter().find(|folder| folder.join(CONFIG).is_file()).map(absolute)
}

/// Whether the manifest came with its adapter, as in an installed package: its data stayed where it was trained.
pub fn is_beside(manifest: &Path) -> bool {
    manifest.with_file_name(CONFIG).is_file()
}

/// Whether the adapter is one that came with its manifest.
pub fn is_installed(paths: &Paths) -> bool {
    of_run(paths).is_some_and(|found| found == absolute(Path::new(&paths.expert_dir)))
}

/// A named folder must be an adapter; a run's folder stands for its `final/`.
pub fn named(folder: &Path) -> Result<String, Failure> {
    let places: [PathBuf; 2] = [folder.to_owned(), folder.join(FINAL)];
    let found = places.iter().find(|place| place.join(CONFIG).is_file());
    found.map(|place| absolute(place)).ok_or_else(|| {
        Failure::bad_input(NO_ADAPTER, format!("{} is not an adapter: it has no {CONFIG}", folder.display()))
            .hint("name a run's folder, its final/, or one of its checkpoints")
    })
}

pub const NO_ADAPTER: &str = "no-adapter";

pub fn not_trained(paths: &Paths) -> Failure {
    Failure::bad_input(NO_ADAPTER, format!("there is no trained adapter in {}", paths.output))
        .hint("train first, or name an adapter with --adapter")
}

/// What leaves a run's folder, as a package or an export, must be what its training wrote.
pub fn demand_whole(record: &Finished, run: &Path) -> Result<(), Failure> {
    let damages = record.damages(run);
    if damages.is_empty() {
        return Ok(());
    }
    let message = format!("the adapter in {} is not as its run left it: {}", near(run), damages.join(", "));
    Err(Failure::bad_input("damaged-run", message).hint("restore the file, or train again with --fresh"))
}
