//! The folder of a run, which one process at a time may write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use expert_contract::plan::Recipe;
use fs_err as fs;

use super::events::made_a_step;
use super::names::FINAL;
use super::own;
use super::record::{CONFIG, Finished, checkpoints};
use super::stop;
use crate::failure::Failure;
use crate::sys::lease;
use crate::sys::run_lock::RunLock;

/// A run's folder, locked until the last clone of this is dropped and no worker shares it any more.
#[derive(Clone)]
pub struct RunFolder {
    path: PathBuf,
    lock: Arc<RunLock>,
}

/// What earlier runs left.
#[derive(Debug, PartialEq)]
pub enum State {
    /// Nothing that a new run would overwrite.
    Unused,
    /// The folder has steps, and no finished run of this recipe.
    Used,
    /// This very recipe is finished here.
    Finished(Box<Finished>),
}

impl RunFolder {
    pub fn claim(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| Failure::writing("create", path, &error))?;
        // The holder of a lease locks the lease's own folder: one that is paused would keep the run's lock.
        let lock = RunLock::take(lease::folder_for(path).unwrap_or(path))?;
        own::recover(path)?;
        stop::forget(path)?;
        Ok(Self { path: path.to_owned(), lock: Arc::new(lock) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn lock(&self) -> &RunLock {
        &self.lock
    }

    pub fn is_asked_to_stop(&self) -> bool {
        stop::is_asked(&self.path)
    }

    /// The run that is here makes room for another one; nothing else in the folder is touched.
    pub fn set_aside(&self) -> Result<(), Failure> {
        own::set_aside(&self.path)
    }

    /// The run that was set aside is back, unless the one after it has made a step.
    pub fn recover(&self) -> Result<(), Failure> {
        own::recover(&self.path)
    }

    pub fn keep_as_previous(&self) -> Result<(), Failure> {
        own::keep_as_previous(&self.path)
    }
}

/// Also for folders that are not locked; the answer may be outdated when it is used.
pub fn state(path: &Path, recipe: &Recipe) -> State {
    match Finished::of(path) {
        Some(record) if record.is_of(recipe) => State::Finished(Box::new(record)),
        Some(_) => State::Used,
        None if has_adapter(path) || !checkpoints(path).is_empty() || made_a_step(path) => State::Used,
        None => State::Unused,
    }
}

fn has_adapter(path: &Path) -> bool {
    path.join(FINAL).join(CONFIG).is_file()
}

#[cfg(test)]
mod tests {
    use expert_contract::plan::Plan;
    use serde_json::json;

    use super::*;
    use crate::sys::files::write_text;

    const STARTED: &str = r#"{"time":1.0,"attempt":1,"body":{"type":"started"}}"#;
    const PROGRESS: &str = r#"{"time":1.0,"attempt":1,"body":{"type":"progress","step":1}}"#;

    #[test]
    fn a_folder_is_used_once_a_step_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(state(path, &recipe()), State::Unused);
        write_text(path, "plan.json", "{}");
        write_text(path, "notes.txt", "mine");
        write_text(path, "events.jsonl", &format!("{STARTED}\n{{torn"));
        assert_eq!(state(path, &recipe()), State::Unused);
        write_text(path, "events.jsonl", &format!("{STARTED}\n{{torn\n{PROGRESS}\n"));
        assert_eq!(state(path, &recipe()), State::Used);
    }

    fn recipe() -> Recipe {
        let example = include_str!("../../../tests/examples/plan.json");
        serde_json::from_str::<Plan>(example).unwrap().recipe
    }

    #[test]
    fn only_the_very_recipe_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let record = |digest: &str| json!({"recipe_digest": digest, "result": {"ok": true}}).to_string();
        write_text(path, "run.json", &record(&recipe().digest()));
        assert!(matches!(state(path, &recipe()), State::Finished(record) if record.result(path).is_some()));
        write_text(path, "run.json", &record("e"));
        assert_eq!(state(path, &recipe()), State::Used);
    }

    #[test]
    fn a_recipe_is_the_same_whichever_parts_of_it_a_version_made_its_digest_of() {
        let folder = tempfile::tempdir().unwrap();
        let record = |recipe: &Recipe| {
            let document = json!({"recipe_digest": "of another version", "recipe": recipe});
            write_text(folder.path(), "run.json", &document.to_string());
        };
        record(&recipe());
        assert!(matches!(state(folder.path(), &recipe()), State::Finished(_)));
        record(&Recipe { seed: recipe().seed + 1, ..recipe() });
        assert_eq!(state(folder.path(), &recipe()), State::Used);
    }
}
