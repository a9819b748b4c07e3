//! Who may write a run's folder: one CLI with its worker.
//!
//! Two locks of the operating system, which end with their holders. The CLI alone holds the file `lock`, which names it. The
//! folder itself is locked as well, and the worker has the same descriptor: so neither the CLI's death nor a deleted
//! file lets a second writer in. On Windows a folder cannot be locked; there the file cannot be deleted while it is
//! held, and the worker is in a job that ends with the CLI.

use std::fs::TryLockError;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use expert_contract::exit::Exit;
use fs_err as fs;

use super::files::without_following;
use super::lease;
use crate::failure::Failure;

pub const NAME: &str = "lock";
const ROUND: Duration = Duration::from_millis(20);
/// A command that only looks whether the folder is locked holds it for a moment.
const LOOK: Duration = Duration::from_millis(200);
/// A killed CLI's worker ends a moment later.
const END: Duration = Duration::from_secs(3);
/// One file that is synced to a slow disk.
const WRITE: Duration = Duration::from_secs(10);

/// Held until this is dropped and the worker that shares it has ended.
#[derive(Debug)]
#[cfg_attr(windows, allow(dead_code))]
pub struct RunLock {
    file: fs::File,
    /// None where the file system locks no folders (NFS, Windows): the worker then shares the file's lock.
    folder: Option<std::fs::File>,
}

impl RunLock {
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(NAME);
        let open = options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| Failure::writing("write", &path, &error))?;
        let refuse = |error: &io::Error| Failure::writing("lock", &path, error);
        if !patiently(LOOK, || free(file.file().try_lock())).map_err(|error| refuse(&error))? {
            return Err(busy(folder, &Holder::Process(signature(&mut file))));
        }
        let mut whole = opened(folder);
        match whole.as_ref().map(|it| patiently(END, || free(it.try_lock()))) {
            Some(Ok(false)) => return Err(busy(folder, &holder_of_folder(folder))),
            Some(Err(_)) => whole = None,
            Some(Ok(true)) | None => {}
        }
        sign(&mut file).map_err(|error| Failure::writing("write", &path, &error))?;
        // Where tasks of a cluster write, no lock of this machine reaches.
        match lease::holder(folder) {
            Some(holder) => Err(busy_with(folder, &holder)),
            None => Ok(Self { file, folder: whole }),
        }
    }

    /// What the worker is to hold too.
    #[cfg(unix)]
    pub fn shared(&self) -> std::os::fd::BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.folder.as_ref().map_or_else(|| self.file.file().as_fd(), AsFd::as_fd)
    }
}

/// Holds any folder's lock for one short write. None where its storage locks no folders (NFS, Windows), or where
/// another program holds it for longer than a write takes: the write is then made without it.
pub fn alone_in(folder: &Path) -> Option<std::fs::File> {
    let file = opened(folder)?;
    matches!(patiently(WRITE, || free(file.try_lock())), Ok(true)).then_some(file)
}

/// Whether a run is or was written in this folder; its lock stays there.
pub fn is_left_in(folder: &Path) -> bool {
    folder.join(NAME).is_file()
}

/// Who holds a run.
enum Holder {
    /// `process 12`, or `another process`.
    Process(String),
    /// By its number, where the system shows it.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    Worker(u32),
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(name) => out.write_str(name),
            Self::Worker(pid) => write!(out, "process {pid}, a worker whose expert-cli has ended"),
        }
    }
}

/// Whether a process holds the run now, and which.
pub fn holder(folder: &Path) -> Option<String> {
    let taken = |result| matches!(result, Err(TryLockError::WouldBlock));
    if let Ok(mut file) = fs::File::open(folder.join(NAME))
        && taken(file.file().try_lock_shared())
    {
        return Some(signature(&mut file));
    }
    let whole = opened(folder)?;
    taken(whole.try_lock_shared()).then(|| holder_of_folder(folder).to_string())
}

/// `holder` as [`holder`] names it.
pub fn busy_with(folder: &Path, holder: &str) -> Failure {
    busy(folder, &Holder::Process(holder.to_owned()))
}

fn busy(folder: &Path, holder: &Holder) -> Failure {
    let hint = match holder {
        Holder::Process(_) => "run the same command again when it has ended".to_owned(),
        Holder::Worker(pid) => {
            format!("end it with `kill {pid}`, and run the same command again: it saves a checkpoint first")
        }
    };
    Failure::new(Exit::Locked, "locked", format!("{} is in use by {holder}", folder.display())).hint(hint)
}

fn free(locked: Result<(), TryLockError>) -> io::Result<bool> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn patiently(patience: Duration, mut done: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        if done()? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(ROUND);
    }
}

#[cfg(unix)]
fn opened(folder: &Path) -> Option<std::fs::File> {
    std::fs::File::open(folder).ok()
}

#[cfg(not(unix))]
fn opened(_folder: &Path) -> Option<std::fs::File> {
    None
}

#[cfg(not(windows))]
fn options() -> fs::OpenOptions {
    without_following()
}

/// Shared for reading and writing, not for deleting.
#[cfg(windows)]
fn options() -> fs::OpenOptions {
    use fs_err::os::windows::fs::OpenOptionsExt;
    let mut options = without_following();
    options.share_mode(3);
    options
}

/// The CLI, if it lives, or else the first of its worker's processes.
#[cfg(target_os = "linux")]
fn holder_of_folder(folder: &Path) -> Holder {
    let Ok(folder) = folder.canonicalize() else { return unknown() };
    let pids: Vec<u32> = super::files::children(Path::new("/proc"))
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .filter(|pid| holds(*pid, &folder))
        .collect();
    let Some(first) = pids.iter().find(|pid| parent(**pid).is_none_or(|parent| !pids.contains(&parent)))
    else {
        return unknown();
    };
    let command = fs::read(format!("/proc/{first}/cmdline")).unwrap_or_default();
    if String::from_utf8_lossy(&command).contains("expert_worker") {
        Holder::Worker(*first)
    } else {
        Holder::Process(format!("process {first}"))
    }
}

#[cfg(not(target_os = "linux"))]
fn holder_of_folder(_folder: &Path) -> Holder {
    unknown()
}

fn unknown() -> Holder {
    Holder::Process("another process".to_owned())
}

/// Whether a descriptor of this process has the lock, and not only the folder open.
#[cfg(target_os = "linux")]
fn holds(pid: u32, folder: &Path) -> bool {
    super::files::children(Path::new(&format!("/proc/{pid}/fd"))).iter().any(|descriptor| {
        let name = descriptor.file_name().unwrap_or_default().to_string_lossy();
        std::fs::read_link(descriptor).is_ok_and(|target| target == folder)
            && fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}"))
                .is_ok_and(|text| text.contains("FLOCK"))
    })
}

#[cfg(target_os = "linux")]
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in brackets and may hold anything.
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_folder_says_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let ours = format!("process {}", std::process::id());
        assert_eq!(holder(path), None);
        let lock = RunLock::take(path).unwrap();
        assert_eq!(holder(path).as_ref(), Some(&ours));
        for _ in 0..2 {
            let refused = RunLock::take(path).unwrap_err();
            assert_eq!(refused.exit, Exit::Locked);
            assert!(refused.message.ends_with(&format!("is in use by {ours}")), "{}", refused.message);
            assert_eq!(refused.hint.as_deref(), Some("run the same command again when it has ended"));
            #[cfg(target_os = "linux")]
            let _ = std::fs::remove_file(path.join(NAME));
        }
        drop(lock);
        assert_eq!(holder(path), None);
    }

    #[test]
    fn a_look_in_passing_does_not_refuse_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let looking = std::fs::File::open(path).unwrap();
        looking.try_lock_shared().unwrap();
        let moment = thread::spawn(move || {
            thread::sleep(ROUND * 3);
            drop(looking);
        });
        RunLock::take(path).unwrap();
        moment.join().unwrap();
    }
}
