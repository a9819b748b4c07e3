//! What the command line asks of a training, and of a shelf of them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use expert_contract::plan::{Recipe, Request, Resume};
use serde::{Deserialize, Serialize};

use super::decide::Asked;
use crate::args::whole;
use crate::experts;
use crate::failure::Failure;
use crate::plan::Here;
use crate::run;
use crate::sys::env;
use crate::sys::paths::{absolute, near};
use crate::ui::Console;

const SHELF: &str = "Every expert of a folder";

/// What becomes of the run that the folder holds, and of the new one.
#[derive(clap::Args, Clone, Serialize, Deserialize)]
pub struct RunOptions {
    /// Resume from the newest checkpoint that verifies (auto), from this one, or from the newest of a mirror's folder
    #[arg(long, value_name = "auto|PATH", num_args = 0..=1, default_missing_value = "auto", conflicts_with = "fresh")]
    pub resume: Option<PathBuf>,
    /// Start at step 0; the earlier run is kept as previous/ in the output folder
    #[arg(long)]
    pub fresh: bool,
    /// Train a finished or interrupted run for longer than its recipe said: with more --epochs, or more --max-steps where
    /// it started with those
    #[arg(long, conflicts_with = "fresh")]
    pub extend: bool,
    /// Score base and adapter on the test set once training has ended (--all does where there is a test set)
    #[arg(long)]
    pub evaluate: bool,
    /// Train only what expert.lock says: refuse if manifest, data, base or code differ
    #[arg(long, conflicts_with_all = ["data", "output", "extend"])]
    pub locked: bool,
    /// Record where the time of the first 5 steps goes
    #[arg(long)]
    pub profile: bool,
    /// Wait for each checkpoint's copy to the mirror before training continues
    #[arg(long)]
    pub no_background_upload: bool,
}

/// Clap does not miss `--all` beside what it conflicts with: options that need it must conflict as well.
const WITHOUT_SHELF: [&str; 5] = ["expert", "manifest", "data", "output", "fuse"];

/// Which experts of a folder, and how many at once.
#[derive(clap::Args, Clone)]
pub struct ShelfOptions {
    /// Train every expert of a folder (default: experts): finished ones are skipped, interrupted ones are resumed, and
    /// those whose manifest, data, base or code changed are trained again
    #[arg(long, help_heading = SHELF, value_name = "DIR", num_args = 0..=1, default_missing_value = experts::usual().as_os_str(), conflicts_with_all = ["expert", "manifest", "data", "output"])]
    pub all: Option<PathBuf>,
    /// Only these experts, with --all: names separated by commas
    #[arg(long, help_heading = SHELF, value_name = "NAMES", requires = "all", conflicts_with_all = WITHOUT_SHELF, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only experts whose result would differ from that of this git revision, with --all
    #[arg(
        long,
        help_heading = SHELF,
        value_name = "REF",
        requires = "all",
        conflicts_with_all = WITHOUT_SHELF,
        allow_hyphen_values = true
    )]
    pub changed_since: Option<String>,
    /// Experts that train at once, with --all (default: one per GPU, or one per CPU core up to what memory allows)
    #[arg(long, help_heading = SHELF, value_name = "N", requires = "all", conflicts_with_all = WITHOUT_SHELF, value_parser = whole::<u32>(1..=64))]
    pub jobs: Option<u32>,
    /// Do not score, with --all
    #[arg(long, help_heading = SHELF, conflicts_with = "evaluate")]
    pub no_evaluate: bool,
    /// Start a new Python for every expert, with --all, instead of forking it from a process that has everything loaded (Linux)
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with_all = WITHOUT_SHELF)]
    pub separate: bool,
    /// Train each expert by itself, with --all: without this, small experts that would wait for each other train in one pass where a
    /// measurement says that it is 1.2 times as fast, and their bytes depend on the group
    #[arg(long, help_heading = SHELF, requires = "all", conflicts_with_all = WITHOUT_SHELF)]
    pub no_fuse: bool,
    /// Where experts train, with --all: in processes of this machine, or as tasks of a Ray cluster
    #[arg(long, help_heading = SHELF, value_enum, default_value_t = EngineChoice::Here, requires = "all", conflicts_with_all = WITHOUT_SHELF)]
    pub engine: EngineChoice,
    /// The Ray cluster, with --engine ray, such as 10.0.0.1:6379 (default: RAY_ADDRESS, or the one that runs on this machine)
    #[arg(long, help_heading = SHELF, value_name = "ADDRESS", requires = "all", conflicts_with_all = WITHOUT_SHELF)]
    pub ray_address: Option<String>,
    /// What the nodes share, with --engine ray, such as s3://bucket/folder; credentials come from the environment of each node
    /// (default: EXPERT_STORAGE, or the experts' folder, mounted on every node)
    #[arg(long, help_heading = SHELF, value_name = "URL", requires = "all", conflicts_with_all = WITHOUT_SHELF)]
    pub storage: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    Here,
    Ray,
}

impl ShelfOptions {
    /// For one expert of a shelf that another machine goes through.
    pub fn of_one(no_evaluate: bool) -> Self {
        let engine = EngineChoice::Here;
        let (all, changed_since, jobs, ray_address, storage) = Default::default();
        Self {
            all,
            only: Vec::new(),
            changed_since,
            jobs,
            no_evaluate,
            separate: false,
            no_fuse: true,
            engine,
            ray_address,
            storage,
        }
    }

    /// The URL of what the nodes share; None for the experts' folder.
    pub fn shared_storage(&self) -> Option<String> {
        let from_environment = || env::STORAGE.get().map(|url| url.to_string_lossy().into_owned());
        self.storage.clone().or_else(from_environment)
    }
}

pub fn has_test_set(recipe: &Recipe) -> bool {
    !recipe.data.test.is_empty() || !recipe.evaluation.test_cases.is_empty()
}

impl RunOptions {
    /// With the checkpoint that `--resume` means where it names a folder of checkpoints, such as a mirror.
    pub fn with_checkpoint(&self, console: &Console) -> Result<Self, Failure> {
        let Some(named) = self.checkpoint() else { return Ok(self.clone()) };
        let (resume, skipped) = checkpoint(named)?;
        for damaged in skipped {
            console.warn(&format!("{damaged}; resuming from {}", near(&resume)), None);
        }
        Ok(Self { resume: Some(resume), ..self.clone() })
    }

    /// As a queue that may be stopped and continued trains.
    pub fn resuming_and_scored() -> Self {
        Self {
            resume: Some("auto".into()),
            fresh: false,
            extend: false,
            evaluate: true,
            locked: false,
            profile: false,
            no_background_upload: false,
        }
    }

    /// A checkpoint belongs to one expert. `option` trains several.
    pub(super) fn refuse_checkpoint(&self, option: &str) -> Result<(), Failure> {
        let Some(path) = self.checkpoint() else { return Ok(()) };
        let message = format!("--resume names {}, a checkpoint of one expert", near(path));
        Err(Failure::bad_input("checkpoint-of-one", message).hint(format!(
            "--resume alone takes each expert's newest checkpoint; or train that expert without {option}"
        )))
    }

    /// The one that `--resume` names.
    pub(super) fn checkpoint(&self) -> Option<&Path> {
        self.resume.as_deref().filter(|path| *path != Path::new("auto"))
    }

    pub fn resumes(&self) -> bool {
        self.resume.is_some() || self.extend
    }

    /// What these options say about the machine.
    pub fn here(&self) -> Here {
        Here { wait_for_mirror: self.no_background_upload, ..Here::default() }
    }

    /// `is_one_of_many`: the expert is one of a shelf.
    pub fn asked(&self, is_one_of_many: bool) -> Asked<'_> {
        Asked {
            fresh: self.fresh,
            resume: self.resumes(),
            checkpoint: self.checkpoint(),
            extend: self.extend,
            shelf: is_one_of_many,
        }
    }

    pub fn request(&self, evaluate: bool) -> Request {
        let resume = match &self.resume {
            Some(path) if path != Path::new("auto") => Resume::Checkpoint { path: absolute(path) },
            Some(_) => Resume::Newest,
            None if self.extend => Resume::Newest,
            None => Resume::Nothing,
        };
        Request::Train { resume, extend: self.extend, evaluate, profile: self.profile }
    }
}

/// The newest whole checkpoint in a folder, and why newer ones cannot be used.
fn checkpoint(named: &Path) -> Result<(PathBuf, Vec<String>), Failure> {
    let text = named.to_string_lossy();
    let folder = PathBuf::from(text.strip_prefix("file://").unwrap_or(&text));
    if folder.to_string_lossy().contains("://") {
        let message = format!("--resume takes a folder of this machine, and {text} is a URL");
        return Err(Failure::bad_input("resume-url", message)
            .hint("copy one of its checkpoint folders here, and name the copy"));
    }
    if !folder.is_dir() {
        let message = format!("--resume names {}, and there is no such folder", near(&folder));
        return Err(Failure::bad_input("no-checkpoint", message)
            .hint("correct the path; --resume without one takes the newest checkpoint of the run"));
    }
    // One that is named itself is for the worker to refuse, in its words.
    if run::is_checkpoint(&folder) || run::checkpoint_step(&folder).is_some() {
        return Ok((folder, Vec::new()));
    }
    let mut skipped = Vec::new();
    for found in run::checkpoints(&folder).into_iter().rev() {
        match run::checkpoint_damage(&found) {
            None => return Ok((found, skipped)),
            Some(damage) => skipped.push(format!("{}: {damage}", near(&found))),
        }
    }
    let message = if skipped.is_empty() {
        format!("--resume names {}, and there is no checkpoint in it", near(&folder))
    } else {
        format!("no checkpoint in {} can be used:\n  {}", near(&folder), skipped.join("\n  "))
    };
    Err(Failure::bad_input("no-checkpoint", message)
        .hint("a copy to a mirror ends with state.json; name another folder, or start over with --fresh"))
}

#[cfg(test)]
mod tests {
    use expert_contract::digest::hex;
    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::sys::files::write_text;

    #[test]
    fn a_mirror_stands_for_its_newest_whole_checkpoint() {
        let mirror = tempfile::tempdir().unwrap();
        let here = mirror.path();
        let taken = |named: &Path| checkpoint(named).unwrap();
        let refusal = || checkpoint(here).unwrap_err();
        assert!(refusal().message.ends_with("and there is no checkpoint in it"), "{}", refusal().message);
        assert_eq!(checkpoint(&here.join("nowhere")).unwrap_err().code, "no-checkpoint");
        let state = json!({"files": {"a": {"sha256": hex(&Sha256::digest("a")), "bytes": 1}}}).to_string();
        for step in [2, 9] {
            write_text(here, &format!("checkpoint-{step}/a"), "a");
            write_text(here, &format!("checkpoint-{step}/state.json"), &state);
        }
        let [older, newest] = [2, 9].map(|step| here.join(format!("checkpoint-{step}")));
        assert_eq!(taken(here), (newest.clone(), vec![]));
        let url = format!("file://{}", here.display());
        assert_eq!(taken(Path::new(&url)).0, newest);
        assert_eq!(checkpoint(Path::new("s3://bucket/run")).unwrap_err().code, "resume-url");

        write_text(here, "checkpoint-9/a", "b");
        let (found, skipped) = taken(here);
        assert_eq!((found, skipped.len()), (older, 1));
        assert!(skipped[0].ends_with("checkpoint-9: a is damaged"), "{skipped:?}");
        assert_eq!(taken(&newest).0, newest, "the worker says why it cannot be used");

        write_text(here, "checkpoint-2/a.zst", "packed");
        assert!(taken(here).0.ends_with("checkpoint-2"), "the worker verifies what it unpacks");
        std::fs::remove_dir_all(here.join("checkpoint-2")).unwrap();
        write_text(here, "checkpoint-10/a.zst", "");
        let message = refusal().message;
        assert!(message.contains("checkpoint-10: state.json is missing\n"), "{message}");
        assert!(message.ends_with("checkpoint-9: a is damaged"), "{message}");
    }
}
