//! The folder of a run, which one process at a time may write.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expert_contract::results::{Evaluation, PlanRecord};
use fs_err as fs;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

mod events;
mod links;
mod own;
mod record;
mod run_lock;

pub use events::recorded;
pub use links::{leads_out, refuse_links_out};
pub use own::refuse_foreign;
pub use record::{Arithmetic, Begun, FINAL, Finished, checkpoints, has_whole_checkpoint};
pub use run_lock::{RunLock, holder};

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
        let lock = RunLock::take(path)?;
        own::recover(path)?;
        Ok(Self { path: path.to_owned(), lock: Arc::new(lock) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn lock(&self) -> &RunLock {
        &self.lock
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
pub fn state(path: &Path, recipe_digest: &str) -> State {
    match Finished::of(path) {
        Some(record) if record.recipe_digest() == recipe_digest => State::Finished(Box::new(record)),
        Some(_) => State::Used,
        None if has_adapter(path) || !checkpoints(path).is_empty() || made_a_step(path) => State::Used,
        None => State::Unused,
    }
}

fn has_adapter(path: &Path) -> bool {
    path.join(FINAL).join("adapter_config.json").is_file()
}

/// `plan.json` of a run; empty where there is none that can be read.
pub fn read_plan(run: &Path) -> PlanRecord {
    read_json(&run.join("plan.json")).unwrap_or_default()
}

/// `evaluation.json` of a run.
pub fn read_evaluation(run: &Path) -> Option<Evaluation> {
    read_json(&run.join("evaluation.json"))
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read_file(path)?).ok()
}

/// A pipe with the name of a record is not opened: that would wait for whoever writes into it.
pub fn open_file(path: &Path) -> Option<fs::File> {
    path.metadata().is_ok_and(|data| data.is_file()).then(|| fs::File::open(path).ok()).flatten()
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    open_file(path)?.read_to_end(&mut content).ok()?;
    Some(content)
}

/// `checkpoint-120` -> 120
pub fn checkpoint_step(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse().ok()
}

pub fn children(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

fn made_a_step(path: &Path) -> bool {
    recorded(path).any(|event| event.is_step())
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// For files in folders that may have been downloaded: a symbolic link there is an error, wherever it leads.
pub fn without_following() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"time":1.0,"attempt":1,"body":{"type":"started"}}"#;
    const PROGRESS: &str = r#"{"time":1.0,"attempt":1,"body":{"type":"progress","step":1}}"#;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_folder_is_used_once_a_step_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(state(path, "d"), State::Unused);
        write(path, "plan.json", "{}");
        write(path, "notes.txt", "mine");
        write(path, "events.jsonl", &format!("{STARTED}\n{{torn"));
        assert_eq!(state(path, "d"), State::Unused);
        write(path, "events.jsonl", &format!("{STARTED}\n{{torn\n{PROGRESS}\n"));
        assert_eq!(state(path, "d"), State::Used);
    }

    #[test]
    fn only_the_very_recipe_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(path, "run.json", r#"{"recipe_digest":"d","result":{"ok":true}}"#);
        assert!(matches!(state(path, "d"), State::Finished(record) if record.result().is_some()));
        assert_eq!(state(path, "e"), State::Used);
    }
}
