//! The folder of a run, which one process at a time may write.

use std::fs::TryLockError;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use fs_err as fs;
use serde_json::Value;

use crate::failure::Failure;

mod record;

pub use record::{Begun, FINAL, RunRecord, checkpoints, has_whole_checkpoint};

/// The files of a run besides its checkpoints. The record and the adapter of a finished run are removed first, so that
/// an interrupted removal does not look finished.
const FILES: [&str; 9] = [
    "run.json",
    "final",
    "events.jsonl",
    "plan.json",
    "report.html",
    "evaluation.json",
    "tensorboard",
    "worker.log",
    PREVIOUS,
];
/// The adapter of the run before, kept while the next one is made.
const PREVIOUS: &str = "previous";

/// A run's folder, locked until this is dropped.
pub struct RunFolder {
    path: PathBuf,
    _lock: fs::File,
}

/// What earlier runs left.
#[derive(Debug, PartialEq)]
pub enum State {
    /// Nothing that a new run would overwrite.
    Unused,
    /// The folder has steps, and no finished run of this recipe.
    Used,
    /// This very recipe is finished here.
    Finished(Box<RunRecord>),
}

impl RunFolder {
    pub fn claim(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| Failure::writing("create", path, &error))?;
        let lock = lock(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files of a run, and nothing else: the folder may hold other files.
    pub fn clear(&self) -> Result<(), Failure> {
        self.remove_all(&FILES)
    }

    /// The same for a run that another one follows: its adapter stays beside it until that one is finished.
    pub fn start_over(&self) -> Result<(), Failure> {
        let (made, kept) = (self.path.join("final"), self.path.join(PREVIOUS));
        if made.is_dir() {
            remove(&kept).map_err(|error| Failure::writing("remove", &kept, &error))?;
            fs::rename(&made, &kept).map_err(|error| Failure::writing("move", &made, &error))?;
        }
        self.remove_all(&FILES.map(|name| if name == PREVIOUS { "final" } else { name }))
    }

    fn remove_all(&self, names: &[&str]) -> Result<(), Failure> {
        let checkpoints = children(&self.path).into_iter().filter(|path| is_of_a_run(path));
        let mut others = names.iter().map(|name| self.path.join(name));
        let finished: Vec<PathBuf> = others.by_ref().take(2).collect();
        for path in finished.into_iter().chain(checkpoints).chain(others) {
            remove(&path).map_err(|error| Failure::writing("remove", &path, &error))?;
        }
        Ok(())
    }
}

/// Also for folders that are not locked; the answer may be outdated when it is used.
pub fn state(path: &Path, recipe_digest: &str) -> State {
    match RunRecord::of(path) {
        Some(record) if record.recipe_digest == recipe_digest => State::Finished(Box::new(record)),
        Some(_) => State::Used,
        None if has_adapter(path) || !checkpoints(path).is_empty() || made_a_step(path) => State::Used,
        None => State::Unused,
    }
}

fn has_adapter(path: &Path) -> bool {
    path.join(FINAL).join("adapter_config.json").is_file()
}

pub fn read_record(path: &Path) -> Option<Value> {
    read_json(&path.join("run.json"))
}

pub fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Whether a process holds the run now, and which.
pub fn holder(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path.join("lock")).ok()?;
    matches!(file.file().try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| signature(&mut file))
}

/// `checkpoint-120` -> 120
pub fn checkpoint_step(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse().ok()
}

/// Checkpoints, partly written or removed ones too, and crash logs.
fn is_of_a_run(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = name.strip_prefix("worker-").and_then(|rest| rest.strip_suffix(".log"));
    let folder = name.trim_start_matches('.').strip_prefix("checkpoint-");
    log.is_some_and(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        || folder.is_some_and(|step| step.starts_with(|c: char| c.is_ascii_digit()))
}

pub fn children(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

fn made_a_step(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path.join("events.jsonl")) else { return false };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let mut bodies = lines.filter_map(|line| serde_json::from_slice::<Value>(&line).ok());
    bodies.any(|event| event["body"]["type"] == "progress")
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

/// Locked by the operating system, so that it ends with its process in any case; the file names the holder.
fn lock(folder: &Path) -> Result<fs::File, Failure> {
    let path = folder.join("lock");
    let open = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(|error| Failure::writing("write", &path, &error))?;
    match file.file().try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
        Err(TryLockError::Error(error)) => return Err(Failure::writing("lock", &path, &error)),
    }
    sign(&mut file).map_err(|error| Failure::writing("write", &path, &error))?;
    Ok(file)
}

fn sign(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.flush()
}

fn signature(file: &mut fs::File) -> String {
    let mut holder = String::new();
    let _ = file.take(32).read_to_string(&mut holder);
    match holder.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    }
}

fn held(folder: &Path, file: &mut fs::File) -> Failure {
    let holder = signature(file);
    Failure::new(Exit::Locked, "locked", format!("{} is in use by {holder}", folder.display()))
        .hint("wait until it has ended, or choose another folder with -o")
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
        assert!(matches!(state(path, "d"), State::Finished(record) if record.result["ok"] == true));
        assert_eq!(state(path, "e"), State::Used);
    }

    #[test]
    fn clearing_leaves_what_is_not_of_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for name in ["notes.txt", "checkpoints.md", "worker-notes.log", "checkpoint-best/x"] {
            write(path, name, "mine");
        }
        for name in [
            "run.json",
            "final/a",
            "checkpoint-3/state.json",
            ".checkpoint-4.tmp/x",
            "worker-12.log",
            "events.jsonl",
        ] {
            write(path, name, "");
        }
        let run = RunFolder::claim(path).unwrap();
        run.clear().unwrap();
        let mut left: Vec<_> =
            children(path).iter().map(|it| it.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        left.sort();
        assert_eq!(left, ["checkpoint-best", "checkpoints.md", "lock", "notes.txt", "worker-notes.log"]);
        assert_eq!(state(path, "d"), State::Unused);
    }

    #[test]
    fn a_held_folder_says_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()), None);
        let run = RunFolder::claim(folder.path()).unwrap();
        assert_eq!(holder(folder.path()), Some(format!("process {}", std::process::id())));
        assert_eq!(RunFolder::claim(folder.path()).map(|_| ()).unwrap_err().exit, Exit::Locked);
        drop(run);
        assert_eq!(holder(folder.path()), None);
    }
}
