//! Which names in a folder are a run's, and how a run makes room for the next one. Nothing else in the folder is touched:
//! it may be anyone's.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::events::{holds_an_event, made_a_step};
use super::names::{
    ANSWERS, EVENTS, FINAL, LOG, PLAN, PREVIOUS, RECORD, REPLACED, REPORT, SCORES, STOP, TENSORBOARD,
};
use super::record::{Begun, CONFIG, Finished, checkpoint_step, read_plan};
use crate::failure::Failure;
use crate::sys::durable::{remove, rename};
use crate::sys::files::children;
use crate::sys::paths::file_name;
use crate::sys::{lease, run_lock};

/// Written by replacing: a crash may leave their temporary names.
const REPLACEABLE: [&str; 5] = [RECORD, FINAL, REPORT, SCORES, ANSWERS];
const OTHERS: [&str; 9] =
    [EVENTS, PLAN, TENSORBOARD, LOG, STOP, PREVIOUS, REPLACED, run_lock::NAME, lease::NAME];

/// Whether expert-cli gives this name to what a run leaves. The worker sends the same names to a store, see its
/// `ray_engine/run_folder.py`.
pub fn is_own(name: &str) -> bool {
    let bare = name.strip_suffix(".partial").or(name.strip_suffix(".trash")).unwrap_or(name);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let aside = bare.strip_suffix(".damaged").or(bare.strip_suffix(".superseded")).unwrap_or(bare);
    let log = name.strip_prefix("worker-").and_then(|rest| rest.strip_suffix(".log"));
    let writing = name.strip_prefix(".writing-");
    REPLACEABLE.contains(&bare)
        || OTHERS.contains(&name)
        || checkpoint_step(Path::new(aside)).is_some()
        || log.is_some_and(digits)
        || writing.is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|it| it.is_ascii_alphanumeric()))
}

/// Files with a run's names in a folder where expert-cli never ran.
pub fn refuse_foreign(run: &Path) -> Result<(), Failure> {
    const HARMLESS: [&str; 8] =
        [run_lock::NAME, lease::NAME, STOP, REPORT, SCORES, ANSWERS, LOG, TENSORBOARD];
    let mut found: Vec<String> = children(run).iter().map(|path| file_name(path)).collect();
    found.retain(|name| is_own(name) && !HARMLESS.contains(&name.as_str()) && !name.starts_with('.'));
    if found.is_empty() || shows_a_run(run) {
        return Ok(());
    }
    found.sort();
    let message = format!(
        "{} holds {}, and nothing there shows that expert-cli made it",
        run.display(),
        found.join(", ")
    );
    Err(Failure::bad_input("not-a-run", message).hint("choose another folder with -o"))
}

fn shows_a_run(run: &Path) -> bool {
    let plan = read_plan(run);
    let planned = plan.contract.is_some() && plan.recipe_digest.is_some();
    let kept = || shows_a_run(&run.join(REPLACED)) || shows_a_run(&run.join(PREVIOUS));
    planned
        || Finished::of(run).is_some()
        || Begun::of_run(run).is_some()
        || holds_an_event(run)
        || (run.join(REPLACED).is_dir() || run.join(PREVIOUS).is_dir()) && kept()
}

/// Moves the run aside. Its events go first: without them the folder counts as one in which no step was made.
pub fn set_aside(run: &Path) -> Result<(), Failure> {
    let aside = run.join(REPLACED);
    let mut paths: Vec<PathBuf> = children(run)
        .into_iter()
        .filter(|path| {
            is_own(&file_name(path))
                && ![run_lock::NAME, lease::NAME, STOP, PREVIOUS, REPLACED]
                    .contains(&file_name(path).as_str())
        })
        .collect();
    if paths.is_empty() {
        return Ok(());
    }
    paths.sort_by_key(|path| file_name(path) != EVENTS);
    fs::create_dir_all(&aside).map_err(|error| Failure::writing("create", &aside, &error))?;
    for path in paths {
        move_to(&path, &aside).map_err(|error| Failure::writing("move", &path, &error))?;
    }
    Ok(())
}

/// After a start that came to nothing, or was cut short: the run that was set aside is back, its events last.
pub fn restore(run: &Path) -> Result<(), Failure> {
    let aside = run.join(REPLACED);
    let mut paths = children(&aside);
    paths.sort_by_key(|path| file_name(path) == EVENTS);
    // The log of the start that came to nothing says why.
    paths.retain(|path| file_name(path) != LOG || !run.join(LOG).exists());
    for path in paths {
        move_to(&path, run).map_err(|error| Failure::writing("move", &path, &error))?;
    }
    remove(&aside).map_err(|error| Failure::writing("remove", &aside, &error))
}

/// The next run has begun: the one before is kept as `previous/`. An unfinished one takes no finished one's place.
pub fn keep_as_previous(run: &Path) -> Result<(), Failure> {
    let (aside, previous) = (run.join(REPLACED), run.join(PREVIOUS));
    if !aside.is_dir() {
        return Ok(());
    }
    let (old, new) = if has_adapter(&aside) || !has_adapter(&previous) {
        (&previous, Some(&aside))
    } else {
        (&aside, None)
    };
    remove(old).map_err(|error| Failure::writing("remove", old, &error))?;
    if let Some(new) = new {
        rename(new, &previous).map_err(|error| Failure::writing("move", new, &error))?;
    }
    Ok(())
}

/// What a process that was killed left between two runs.
pub fn recover(run: &Path) -> Result<(), Failure> {
    match (run.join(REPLACED).is_dir(), made_a_step(run)) {
        (false, _) => Ok(()),
        (true, true) => keep_as_previous(run),
        (true, false) => restore(run),
    }
}

fn has_adapter(run: &Path) -> bool {
    // Older versions kept only the adapter itself.
    [run.join(FINAL), run.to_owned()].iter().any(|folder| folder.join(CONFIG).is_file())
}

fn move_to(path: &Path, folder: &Path) -> io::Result<()> {
    let target = folder.join(path.file_name().unwrap_or_default());
    remove(&target)?;
    rename(path, &target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::files::write_text;

    fn names(folder: &Path) -> Vec<String> {
        let mut found: Vec<String> = children(folder).iter().map(|path| file_name(path)).collect();
        found.sort();
        found
    }

    const MINE: [&str; 9] = [
        "movie.mkv.partial",
        "notes.trash",
        "checkpoint-best",
        "checkpoint-007",
        "checkpoint-7-other-tool",
        "checkpoints.md",
        "worker-notes.log",
        "final.docx",
        "run.json.bak",
    ];
    const OWN: [&str; 9] = [
        "checkpoint-3",
        "checkpoint-3.partial",
        "checkpoint-3.damaged",
        "checkpoint-3.superseded.trash",
        "final.partial",
        "run.json.partial",
        "worker-12.log",
        ".writing-aB3dE9",
        "events.jsonl",
    ];
    const STEP: &str = r#"{"time":1.0,"attempt":1,"body":{"type":"progress","step":1}}"#;

    #[test]
    fn only_exact_names_are_a_runs() {
        for name in MINE {
            assert!(!is_own(name), "{name}");
        }
        for name in OWN {
            assert!(is_own(name), "{name}");
        }
    }

    #[test]
    fn a_run_is_set_aside_and_comes_back_or_becomes_the_previous_one() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        write_text(run, "events.jsonl", STEP);
        write_text(run, "final/adapter_config.json", "old");
        write_text(run, "mine.txt", "mine");
        set_aside(run).unwrap();
        assert_eq!(names(run), ["mine.txt", "replaced"]);
        write_text(run, "events.jsonl", "no step");
        recover(run).unwrap();
        assert_eq!(names(run), ["events.jsonl", "final", "mine.txt"]);
        assert_eq!(std::fs::read_to_string(run.join("events.jsonl")).unwrap(), STEP);

        set_aside(run).unwrap();
        write_text(run, "events.jsonl", STEP);
        recover(run).unwrap();
        assert_eq!(names(run), ["events.jsonl", "mine.txt", "previous"]);
        // An unfinished run takes no finished one's place.
        set_aside(run).unwrap();
        keep_as_previous(run).unwrap();
        assert!(run.join("previous/final/adapter_config.json").is_file());
        assert_eq!(names(run), ["mine.txt", "previous"]);
    }

    /// Killed after any number of moves, nothing of the run is lost.
    #[test]
    fn a_move_that_is_cut_short_is_undone() {
        for moved in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let run = folder.path();
            let all = [("events.jsonl", STEP), ("final/a", "1"), ("checkpoint-2/state.json", "2")];
            for (place, text) in all {
                write_text(run, place, text);
            }
            std::fs::create_dir(run.join(REPLACED)).unwrap();
            for place in ["events.jsonl", "final", "checkpoint-2"].iter().take(moved + 1) {
                move_to(&run.join(place), &run.join(REPLACED)).unwrap();
            }
            recover(run).unwrap();
            assert_eq!(names(run), ["checkpoint-2", "events.jsonl", "final"]);
            for (place, text) in all {
                assert_eq!(std::fs::read_to_string(run.join(place)).unwrap(), text);
            }
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        for (place, foreign) in [
            ("final/thesis.tex", true),
            ("checkpoint-500/trainer_state.json", true),
            ("plan.json", true),
            ("events.jsonl", true),
            ("notes.md", false),
            ("evaluation.json", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write_text(folder.path(), place, "mine");
            assert_eq!(refuse_foreign(folder.path()).is_err(), foreign, "{place}");
            write_text(folder.path(), "run.json", r#"{"recipe_digest":"d"}"#);
            assert!(refuse_foreign(folder.path()).is_ok());
        }
    }
}
