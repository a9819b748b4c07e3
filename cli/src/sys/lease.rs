//! The lease of a run's folder: which task of a cluster may write there, where locks of the operating system do not reach.
//!
//! A lease is a folder `lease/<token>` of the run. Tokens only grow: whoever makes the folder with the next number holds the run, and
//! removes the folders before. Everything that is published passes through the holder's own folder: a file is written there and
//! renamed to its place, and what is taken away is renamed into it. A holder that lost its folder while it was paused cannot do either,
//! because the file server finds no such folder: there is no moment between a check and a rename.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use expert_contract::exit::Exit;
use fs_err as fs;

use super::env;
use super::files::{children, remove};
use super::host;
use super::paths::file_name;
use super::run_lock;
use crate::failure::Failure;

/// In the run's folder.
pub const NAME: &str = "lease";
/// Rewritten as a sign of life; says who holds the lease.
const HOLDER: &str = "holder";
/// The holder has ended: whoever comes next need not wait.
const RELEASED: &str = "released";
const EVERY: Duration = Duration::from_secs(5);
/// Without a sign of life for this long a lease may be taken over.
const EXPIRES: Duration = Duration::from_secs(30);
/// A task whose driver was killed may renew its lease once more before it ends: only later renewals count.
const DYING: Duration = Duration::from_secs(10);
/// By how much the clocks of two machines may differ.
const CLOCKS_DIFFER: Duration = Duration::from_mins(5);
const ROUND: Duration = Duration::from_millis(500);
const REMOVING: Duration = Duration::from_secs(20);

struct Held {
    /// The lease's own folder.
    folder: PathBuf,
    /// What it covers: the run, and the expert with its lock.
    covers: [PathBuf; 2],
    ended: AtomicBool,
}

/// A process trains one expert of a cluster, so it holds one lease at most.
static HELD: OnceLock<Held> = OnceLock::new();

/// Released when this is dropped.
pub struct Lease {
    pub token: u64,
}

impl Lease {
    /// `succeeds` is the token of a task that is known to be lost: its lease is taken over at once. `lost` is called when another
    /// task has taken this one over.
    pub fn take(
        run: &Path,
        expert: &Path,
        succeeds: Option<u64>,
        lost: impl Fn() + Send + 'static,
    ) -> Result<Self, Failure> {
        let all = run.join(NAME);
        fs::create_dir_all(&all).map_err(|error| Failure::writing("create", &all, &error))?;
        let token = next(&all, succeeds)?;
        let folder = all.join(token.to_string());
        sign(&folder, true).map_err(|error| Failure::writing("write", &folder, &error))?;
        let held = Held {
            folder: folder.clone(),
            covers: [run.to_owned(), expert.to_owned()],
            ended: AtomicBool::new(false),
        };
        let lease = Self { token };
        if HELD.set(held).is_err() {
            return Err(Failure::new(Exit::Locked, "locked", "this process holds another lease"));
        }
        // A process of one machine announces itself by its lock, and looks for leases then; this looks for locks now.
        if let Some(holder) = run_lock::holder(run) {
            return Err(run_lock::busy_with(run, &holder));
        }
        remove_before(&all, token)?;
        thread::spawn(move || {
            while !ended() {
                thread::sleep(EVERY);
                if !ended() && is_gone(&sign(&folder, false)) {
                    lost();
                }
            }
        });
        Ok(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(held) = HELD.get() {
            held.ended.store(true, Ordering::Relaxed);
            let _ = fs::write(held.folder.join(RELEASED), "");
        }
    }
}

fn ended() -> bool {
    HELD.get().is_some_and(|held| held.ended.load(Ordering::Relaxed))
}

fn is_gone(written: &io::Result<()>) -> bool {
    written.as_ref().is_err_and(|error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
    })
}

/// The folder that everything below `path` is published through, if a lease covers it.
pub fn folder_for(path: &Path) -> Option<&'static Path> {
    let held = HELD.get()?;
    held.covers.iter().any(|covered| path.starts_with(covered)).then_some(held.folder.as_path())
}

/// For a worker, which publishes by the same rule.
pub fn for_worker() -> Option<(&'static str, &'static Path)> {
    HELD.get().map(|held| (env::LEASE.name, held.folder.as_path()))
}

/// The error in words, where the lease's folder is gone.
pub fn explained<T>(done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| match HELD.get() {
        Some(held) if !held.folder.is_dir() => io::Error::other("another task has taken over this expert"),
        _ => error,
    })
}

/// The task that holds a run now, where it is not this process.
pub fn holder(run: &Path) -> Option<String> {
    let newest = newest(&run.join(NAME))?;
    let mine = HELD.get().is_some_and(|held| held.folder == newest.folder);
    (!mine && !newest.is_released() && !newest.is_expired()).then(|| newest.holder())
}

struct Newest {
    token: u64,
    folder: PathBuf,
}

impl Newest {
    fn is_released(&self) -> bool {
        self.folder.join(RELEASED).exists()
    }

    fn holder(&self) -> String {
        let said = fs::read_to_string(self.folder.join(HOLDER)).unwrap_or_default();
        if said.trim().is_empty() { "a task of a cluster".to_owned() } else { said.trim().to_owned() }
    }

    fn signed_at(&self) -> Option<SystemTime> {
        let file = self.folder.join(HOLDER);
        // Opened, so that a network file system asks the server for its time.
        fs::File::open(&file).and_then(|file| file.metadata()?.modified()).ok()
    }

    /// By the clock of the file server alone: the clocks of two machines may differ.
    fn silent_for(&self) -> Option<Duration> {
        let now = tempfile::NamedTempFile::new_in(self.folder.parent()?).ok()?;
        self.silent_at(now.as_file().metadata().ok()?.modified().ok()?)
    }

    fn silent_at(&self, now: SystemTime) -> Option<Duration> {
        Some(now.duration_since(self.signed_at()?).unwrap_or_default())
    }

    /// By this machine's own clock where nothing may be written: whoever only looks need not be allowed to.
    fn is_expired(&self) -> bool {
        if let Some(silent) = self.silent_for() {
            return silent >= EXPIRES;
        }
        self.silent_at(SystemTime::now()).is_some_and(|silent| silent >= EXPIRES + CLOCKS_DIFFER)
    }
}

fn newest(all: &Path) -> Option<Newest> {
    let tokens = children(all).into_iter().filter_map(|folder| {
        let token = file_name(&folder).parse().ok()?;
        Some(Newest { token, folder })
    });
    tokens.max_by_key(|it| it.token)
}

/// Makes the folder of the next token, once nobody holds the newest one.
fn next(all: &Path, succeeds: Option<u64>) -> Result<u64, Failure> {
    loop {
        let before = newest(all);
        if let Some(before) = &before
            && Some(before.token) != succeeds
        {
            await_end(before).map_err(|holder| run_lock::busy_with(all.parent().unwrap_or(all), &holder))?;
        }
        let token = before.map_or(1, |it| it.token + 1);
        let folder = all.join(token.to_string());
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(token),
            // Another task was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::writing("create", &folder, &error)),
        }
    }
}

/// Until it is released or expires; its holder, if it gives a sign of life meanwhile.
fn await_end(lease: &Newest) -> Result<(), String> {
    let mut first = lease.signed_at();
    let begun = Instant::now();
    loop {
        // One that was just made is not signed yet.
        let silent = lease.silent_for().unwrap_or_else(|| begun.elapsed());
        if lease.is_released() || silent >= EXPIRES {
            return Ok(());
        }
        if begun.elapsed() < DYING {
            first = lease.signed_at();
        } else if lease.signed_at() != first {
            return Err(lease.holder());
        }
        thread::sleep(ROUND);
    }
}

/// A holder before may still write into its folder: it is removed until it is gone.
fn remove_before(all: &Path, token: u64) -> Result<(), Failure> {
    let deadline = Instant::now() + REMOVING;
    loop {
        let older: Vec<PathBuf> = children(all)
            .into_iter()
            .filter(|folder| file_name(folder).parse::<u64>().is_ok_and(|found| found < token))
            .collect();
        let Some(first) = older.first() else { return Ok(()) };
        let failed = older.iter().find_map(|folder| remove(folder).err());
        if let Some(error) = failed {
            if Instant::now() >= deadline {
                return Err(Failure::writing("remove", first, &error));
            }
            thread::sleep(ROUND / 10);
        }
    }
}

/// By its path, not by an open file: a folder that was removed must be noticed.
fn sign(folder: &Path, new: bool) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(new).open(folder.join(HOLDER))?;
    writeln!(file, "process {} on {}", std::process::id(), host::name())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What another process would have left.
    fn leave(run: &Path, token: u64) -> PathBuf {
        let folder = run.join(NAME).join(token.to_string());
        fs::create_dir_all(&folder).unwrap();
        sign(&folder, true).unwrap();
        folder
    }

    fn signed_before(folder: &Path, ago: Duration) {
        let file = fs::OpenOptions::new().write(true).open(folder.join(HOLDER)).unwrap();
        file.file().set_modified(SystemTime::now() - ago).unwrap();
    }

    #[test]
    fn tokens_grow_over_released_expired_and_succeeded_leases() {
        let run = tempfile::tempdir().unwrap();
        let all = run.path().join(NAME);
        fs::create_dir(&all).unwrap();
        assert_eq!(next(&all, None).unwrap(), 1);
        fs::write(all.join("1").join(RELEASED), "").unwrap();
        assert_eq!(next(&all, None).unwrap(), 2);
        signed_before(
            &{
                sign(&all.join("2"), true).unwrap();
                all.join("2")
            },
            EXPIRES,
        );
        assert_eq!(next(&all, None).unwrap(), 3);
        sign(&all.join("3"), true).unwrap();
        assert_eq!(next(&all, Some(3)).unwrap(), 4);
        leave(run.path(), 40);
        remove_before(&all, 40).unwrap();
        assert_eq!(children(&all), [all.join("40")]);
    }

    /// Root writes into every folder, so the folder's clock is left out.
    #[cfg(unix)]
    #[test]
    fn an_expired_lease_is_seen_by_who_may_not_write_there() {
        use std::os::unix::fs::PermissionsExt;
        let run = tempfile::tempdir().unwrap();
        let folder = leave(run.path(), 7);
        let all = run.path().join(NAME);
        let may_write = |mode| fs::set_permissions(&all, std::fs::Permissions::from_mode(mode)).unwrap();
        may_write(0o500);
        if tempfile::NamedTempFile::new_in(&all).is_ok() {
            return;
        }
        assert!(holder(run.path()).is_some());
        signed_before(&folder, EXPIRES * 2);
        assert!(holder(run.path()).is_some(), "the clocks may differ by so much");
        signed_before(&folder, EXPIRES + CLOCKS_DIFFER);
        assert_eq!(holder(run.path()), None);
        may_write(0o700);
    }

    #[test]
    fn a_lease_with_signs_of_life_is_not_taken() {
        let run = tempfile::tempdir().unwrap();
        let folder = leave(run.path(), 7);
        assert!(holder(run.path()).unwrap().starts_with("process "));
        let living = Arc::new(AtomicBool::new(true));
        let signing = thread::spawn({
            let (folder, living) = (folder.clone(), Arc::clone(&living));
            move || {
                while living.load(Ordering::Relaxed) {
                    thread::sleep(ROUND);
                    sign(&folder, false).unwrap();
                }
            }
        });
        let refused = next(&run.path().join(NAME), Some(6)).unwrap_err();
        living.store(false, Ordering::Relaxed);
        signing.join().unwrap();
        assert_eq!((refused.exit, refused.code.as_str()), (Exit::Locked, "locked"));
        assert!(run_lock::RunLock::take(run.path()).is_err(), "nor by a process of one machine");
        signed_before(&folder, EXPIRES * 2);
        assert_eq!(holder(run.path()), None);
        assert!(run_lock::RunLock::take(run.path()).is_ok());
    }
}
