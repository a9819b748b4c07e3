//! What git knows of a folder, asked through its plumbing.
//!
//! A revision comes from the command line and may begin with a dash: it is resolved once, behind
//! `--end-of-options`, and only the resulting object id is used.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Why git cannot answer, in a few words for a warning.
pub type Refusal = String;

pub struct Repository {
    /// The working tree's root, canonical.
    root: PathBuf,
}

/// A commit's full object id.
pub struct Revision(String);

impl Repository {
    pub fn containing(folder: &Path) -> Result<Self, Refusal> {
        let answer = git(folder, ["rev-parse", "--show-toplevel"])?;
        let text = String::from_utf8(answer).map_err(|_| "the repository's path is not UTF-8".to_owned())?;
        let root = Path::new(text.trim_end_matches(['\r', '\n']));
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let shallow = git(&root, ["rev-parse", "--is-shallow-repository"])?;
        if shallow.starts_with(b"true") {
            return Err("this is a shallow clone, whose history is cut off".to_owned());
        }
        Ok(Self { root })
    }

    pub fn resolve(&self, reference: &str) -> Result<Revision, Refusal> {
        let commit = format!("{reference}^{{commit}}");
        let answer = git(&self.root, ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
            .map_err(|_| format!("there is no revision {reference} here"))?;
        let id = String::from_utf8_lossy(&answer).trim().to_owned();
        let plain = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then_some(Revision(id)).ok_or_else(|| format!("{reference} names no commit"))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Files that differ between the revision and the working tree, new ones included.
    pub fn changed(&self, revision: &Revision) -> Result<Vec<PathBuf>, Refusal> {
        let compare = [
            "diff",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "-z",
            &revision.0,
            "--",
        ];
        let tracked = git(&self.root, compare)?;
        let untracked = git(&self.root, ["ls-files", "--others", "--exclude-standard", "-z"])?;
        let names = tracked.split(|byte| *byte == 0).chain(untracked.split(|byte| *byte == 0));
        Ok(names.filter(|name| !name.is_empty()).map(|name| self.root.join(path_of(name))).collect())
    }

    /// The file's contents at the revision; None where it was not there.
    pub fn contents(&self, revision: &Revision, file: &Path) -> Result<Option<Vec<u8>>, Refusal> {
        let inside = self.inside(file)?;
        let list = ["ls-tree", "-z", "--full-tree", &revision.0, "--"];
        let entry = git(&self.root, list.iter().map(OsStr::new).chain([inside.as_os_str()]))?;
        let Some(blob) = blob_of(&entry) else { return Ok(None) };
        git(&self.root, ["cat-file", "blob", &blob]).map(Some)
    }

    fn inside(&self, path: &Path) -> Result<PathBuf, Refusal> {
        // What has been deleted has no other path than the one that it had.
        if let Ok(inside) = path.strip_prefix(&self.root) {
            return Ok(inside.to_owned());
        }
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let inside = path
            .strip_prefix(&self.root)
            .map_err(|_| format!("{} is outside the repository", path.display()))?;
        Ok(inside.to_owned())
    }
}

/// `<mode> blob <id>\t<path>`
fn blob_of(entry: &[u8]) -> Option<String> {
    let head = entry.split(|byte| *byte == b'\t').next()?;
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    let (_mode, kind, id) = (words.next()?, words.next()?, words.next()?);
    (kind == "blob").then(|| id.to_owned())
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(OsStr::from_bytes(name))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}

fn git(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Vec<u8>, Refusal> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    // Paths are names, not patterns; and looking must not take the index's lock.
    command.env("GIT_LITERAL_PATHSPECS", "1").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    let output = command.output().map_err(|error| format!("git cannot be started: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(complaint(&output)) }
}

fn complaint(output: &Output) -> Refusal {
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed without a word");
    first.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()
}
