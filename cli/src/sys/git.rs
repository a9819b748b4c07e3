//! Queries git's plumbing commands about a folder.
//!
//! The repository may be a download, and its configuration can name programs: file system monitors, hooks, filters,
//! external diffs, transports. None of them runs: every call goes through [`git`], which switches them off.
//!
//! A revision comes from the command line and may begin with a dash: it is resolved once, behind
//! `--end-of-options`, and only the resulting object id is used.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The reason why git has no answer, for a warning.
pub type Refusal = String;

/// Submodules of submodules that are looked into.
const SUBMODULE_DEPTH: u32 = 8;

pub struct Repository {
    /// The working tree's root, canonical.
    root: PathBuf,
    /// Settings that switch the repository's own filters off.
    filters: Vec<String>,
}

/// A commit's full object id.
pub struct Revision(String);

impl Repository {
    /// With its whole history.
    pub fn containing(folder: &Path) -> Result<Self, Refusal> {
        let repository = Self::at(folder)?;
        if repository.git(["rev-parse", "--is-shallow-repository"])?.starts_with(b"true") {
            return Err("this is a shallow clone, whose history is cut off".to_owned());
        }
        Ok(repository)
    }

    fn at(folder: &Path) -> Result<Self, Refusal> {
        let answer = git(folder, &[], ["rev-parse", "--show-toplevel"])?;
        let text = String::from_utf8(answer).map_err(|_| "the repository's path is not UTF-8".to_owned())?;
        let root = Path::new(text.trim_end_matches(['\r', '\n']));
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let filters = filters_switched_off(&git(&root, &[], ["config", "--list", "--show-scope", "-z"])?)?;
        Ok(Self { root, filters })
    }

    fn git(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Vec<u8>, Refusal> {
        git(&self.root, &self.filters, arguments)
    }

    pub fn resolve(&self, reference: &str) -> Result<Revision, Refusal> {
        let commit = format!("{reference}^{{commit}}");
        let answer = self
            .git(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
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
        self.changed_below(&revision.0, SUBMODULE_DEPTH)
    }

    fn changed_below(&self, revision: &str, depth: u32) -> Result<Vec<PathBuf>, Refusal> {
        let compare = [
            "diff",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            // git would look into a submodule with the submodule's own filters.
            "--ignore-submodules=dirty",
            "-z",
            revision,
            "--",
        ];
        let tracked = self.git(compare)?;
        let untracked = self.git(["ls-files", "--others", "--exclude-standard", "-z"])?;
        let mut changed: Vec<PathBuf> =
            names(&tracked).chain(names(&untracked)).map(|name| self.root.join(path_of(name))).collect();
        for submodule in self.submodules()? {
            let inner = Self::at(&submodule)?;
            if depth == 0 || inner.root == self.root {
                return Err(format!("the submodules in {} are nested too deep", submodule.display()));
            }
            changed.extend(inner.changed_below("HEAD", depth - 1)?);
        }
        Ok(changed)
    }

    /// The files of the index, and those of the submodules.
    pub fn tracked(&self) -> Result<BTreeSet<PathBuf>, Refusal> {
        let index = self.git(["ls-files", "-z"])?;
        let mut tracked: BTreeSet<PathBuf> =
            names(&index).map(|name| self.root.join(path_of(name))).collect();
        for submodule in self.submodules()? {
            tracked.append(&mut Self::at(&submodule)?.tracked()?);
        }
        Ok(tracked)
    }

    /// The submodules that are checked out.
    fn submodules(&self) -> Result<Vec<PathBuf>, Refusal> {
        let index = self.git(["ls-files", "--stage", "-z"])?;
        // `<mode> <id> <stage>\t<path>`; a submodule's mode is that of a commit.
        let paths = names(&index).filter_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            entry.starts_with(b"160000 ").then(|| self.root.join(path_of(&entry[tab + 1..])))
        });
        Ok(paths.filter(|path| path.join(".git").exists()).collect())
    }

    /// The file's contents at the revision; None where it was not there.
    pub fn contents(&self, revision: &Revision, file: &Path) -> Result<Option<Vec<u8>>, Refusal> {
        let inside = self.inside(file)?;
        let list = ["ls-tree", "-z", "--full-tree", &revision.0, "--"];
        let entry = self.git(list.iter().map(OsStr::new).chain([inside.as_os_str()]))?;
        let Some(blob) = blob_of(&entry) else { return Ok(None) };
        self.git(["cat-file", "blob", &blob]).map(Some)
    }

    fn inside(&self, path: &Path) -> Result<PathBuf, Refusal> {
        // A deleted file keeps its old path.
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

/// git's version, or None where it is not installed.
pub fn version() -> Option<String> {
    let answer = git(Path::new("."), &[], ["--version"]).ok()?;
    Some(String::from_utf8_lossy(&answer).trim().replace("git version ", ""))
}

/// Settings that no configuration file overrides. An empty list of protocols refuses every transport, so that a
/// partial clone fetches nothing.
const NO_PROGRAMS: [&str; 4] =
    ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.alternateRefsCommand=true"];

/// Every start of git in this program.
fn git(
    folder: &Path,
    settings: &[String],
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Vec<u8>, Refusal> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    for setting in NO_PROGRAMS.iter().copied().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    command.args(arguments).stdin(Stdio::null());
    command.env("GIT_ALLOW_PROTOCOL", "").env("GIT_NO_LAZY_FETCH", "1").env("GIT_TERMINAL_PROMPT", "0");
    // Paths are names, not patterns; and looking must not take the index's lock.
    command.env("GIT_LITERAL_PATHSPECS", "1").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    let output = command.output().map_err(|error| format!("git cannot be started: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(complaint(&output)) }
}

/// For each filter that the repository's own configuration names, settings under which git runs none of its programs.
/// The person's own filters (Git LFS, mostly) stay. `configuration` is what `git config --list --show-scope -z` prints.
fn filters_switched_off(configuration: &[u8]) -> Result<Vec<String>, Refusal> {
    let mut fields = configuration.split(|byte| *byte == 0);
    let mut names = BTreeSet::new();
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let key = entry.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let name = key.strip_prefix(b"filter.").and_then(|rest| {
            let dot = rest.iter().rposition(|byte| *byte == b'.')?;
            Some(&rest[..dot])
        });
        if let Some(name) = name.filter(|_| !matches!(scope, b"system" | b"global" | b"command")) {
            names.insert(name.to_owned());
        }
    }
    let mut settings = Vec::new();
    for name in names {
        // git takes everything behind the first `=` of a setting for its value.
        let name = String::from_utf8(name).ok().filter(|name| !name.contains(['=', '\n']));
        let name =
            name.ok_or("the repository's configuration has a filter whose name cannot be switched off")?;
        for part in ["clean=", "smudge=", "process=", "required=false"] {
            settings.push(format!("filter.{name}.{part}"));
        }
    }
    Ok(settings)
}

fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty())
}

fn complaint(output: &Output) -> Refusal {
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed without a message");
    first.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()
}
