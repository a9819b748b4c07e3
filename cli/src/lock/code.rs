//! The code that decides an adapter: this program's version, and the worker's sources as they are installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use expert_contract::digest::hex;
use expert_contract::plan::Code;
use fs_err as fs;
use sha2::{Digest, Sha256};

use crate::sys::files::children;
use crate::sys::paths::{file_name, portable};
use crate::worker::{PACKAGE, find_package};

/// What of the worker decides neither an adapter nor its score: what training and scoring do not import, and what only shows
/// or passes on what they did. Whatever is not named here counts. `tests/worker/test_code_digest.py` compares it with the
/// imports.
const NEUTRAL: [&str; 12] = [
    "bench",
    "endpoint",
    "export",
    "generate",
    "notebook.py",
    "push",
    "ray_engine",
    "report",
    "routing",
    "schema_rows",
    "split_rows",
    "tracking",
];
const NATIVE: &str = "_native.";
/// The native module holds the digest of its sources behind this word.
const MARK: &[u8] = b"expert-native-sources:";
const DIGITS: usize = 64;

/// Read once: what a command started with is what its workers run.
pub fn of(python: Option<&Path>) -> Code {
    static READ: Mutex<BTreeMap<Option<PathBuf>, Code>> = Mutex::new(BTreeMap::new());
    let mut known = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || read(python.and_then(find_package).or_else(beside_executable).as_deref());
    known.entry(python.map(Path::to_owned)).or_insert_with(read).clone()
}

/// The sources that this program was built with, in a checkout where the worker is not installed: `matrix` in CI.
fn beside_executable() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?.canonicalize().ok()?;
    let package = executable.ancestors().nth(3)?.join("worker/python").join(PACKAGE);
    Some(package).filter(|package| package.join("__init__.py").is_file())
}

fn read(package: Option<&Path>) -> Code {
    let native = |package: &Path| native_digest(package).or_else(|| native_sources(package));
    Code {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        worker: package.map(digest_of),
        native: package.and_then(native),
    }
}

/// What the module will say when it is built from the sources beside the package.
fn native_sources(package: &Path) -> Option<String> {
    let root = package.parent()?.parent()?.join("native");
    let manifest = root.join("Cargo.toml");
    let mut files = below(&root.join("src"), |_| true);
    files.push(manifest.clone());
    manifest.is_file().then(|| digest_of_files(&root, &files))
}

/// Whether a file of the worker's package, by its path in it, decides what a run leaves.
pub fn decides(file: &Path) -> bool {
    !NEUTRAL.iter().any(|neutral| file.starts_with(neutral))
        && file.extension().is_some_and(|end| end == "py")
}

fn digest_of(package: &Path) -> String {
    let files = below(package, |file| file.strip_prefix(package).is_ok_and(decides));
    digest_of_files(package, &files)
}

/// Over names and contents, with normalised line ends. The native module's build script does the same.
fn digest_of_files(root: &Path, files: &[PathBuf]) -> String {
    let mut named: Vec<(String, &PathBuf)> =
        files.iter().map(|file| (portable(file.strip_prefix(root).unwrap_or(file)), file)).collect();
    named.sort();
    let mut digest = Sha256::new();
    for (name, file) in named {
        let mut text = fs::read(file).unwrap_or_default();
        if text.contains(&b'\r') {
            text.retain(|byte| *byte != b'\r');
        }
        digest.update(format!("{name} {}\n", text.len()));
        digest.update(&text);
    }
    hex(&digest.finalize())
}

/// By its sources where it says them: two builds of the same sources are the same code. Otherwise by its bytes.
fn native_digest(package: &Path) -> Option<String> {
    let module = children(package).into_iter().find(|file| {
        let library = file.extension().is_some_and(|end| end == "so" || end == "pyd");
        library && file_name(file).starts_with(NATIVE)
    })?;
    let bytes = fs::read(module).ok()?;
    let found = memchr::memmem::find(&bytes, MARK);
    let digest = found.and_then(|at| bytes.get(at + MARK.len()..at + MARK.len() + DIGITS));
    let digest = digest.filter(|digest| digest.iter().all(u8::is_ascii_hexdigit));
    digest
        .map(|digest| String::from_utf8_lossy(digest).into_owned())
        .or_else(|| Some(hex(&Sha256::digest(&bytes))))
}

fn below(folder: &Path, wanted: impl Fn(&Path) -> bool + Copy) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in children(folder) {
        if child.is_dir() {
            found.extend(below(&child, wanted));
        } else if wanted(&child) {
            found.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::files::write_text;

    #[test]
    fn everything_counts_that_is_not_known_to_decide_nothing() {
        let root = tempfile::tempdir().unwrap();
        let digest = || digest_of(root.path());
        write_text(root.path(), "train/loop.py", "a\nb\n");
        let mut last = digest();
        write_text(root.path(), "train/loop.py", "a\r\nb\r\n");
        write_text(root.path(), "report/page.py", "x");
        write_text(root.path(), "train/__pycache__/loop.pyc", "x");
        assert_eq!(digest(), last);
        for file in ["train/fast/loss.py", "evaluate/a.py", "plan/a.py", "process/a.py", "new/a.py", "top.py"]
        {
            write_text(root.path(), file, "");
            assert_ne!(digest(), last, "{file}");
            last = digest();
        }
    }

    #[test]
    fn the_native_module_counts_by_the_sources_that_it_names() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(native_digest(root.path()), None);
        let sources = "ab".repeat(32);
        let built = |padding: &str, sources: &str| {
            write_text(root.path(), "_native.abi3.so", &format!("{padding}expert-native-sources:{sources}|"));
            native_digest(root.path()).unwrap()
        };
        assert_eq!(built("here", &sources), sources);
        assert_eq!(built("there", &sources), sources, "another build of the same sources");
        assert_ne!(built("there", &"cd".repeat(32)), sources);
        write_text(root.path(), "_native.abi3.so", "no mark");
        let by_bytes = native_digest(root.path());
        write_text(root.path(), "_native.abi3.so", "no mark either");
        assert!(by_bytes.is_some() && by_bytes != native_digest(root.path()));
    }

    /// The build script and this program must agree, or a checkout would differ from its own build.
    #[test]
    fn sources_and_the_module_built_from_them_are_the_same_code() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/python/expert_worker");
        if let Some(built) = native_digest(&package) {
            assert_eq!(native_sources(&package), Some(built), "run `make setup`");
        }
    }
}
