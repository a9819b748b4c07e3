//! The code that decides an adapter: this program's version, and the worker's sources as they are installed.
//!
//! The worker's package is found in the interpreter's folders by hand, for starting Python to ask takes longer than
//! everything else that is done for an expert with nothing to do.

use std::path::{Path, PathBuf};

use expert_contract::digest::hex;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::output::children;

/// What of the worker decides the bytes of an adapter; drawing, reporting and scoring do not.
pub const SOURCES: [&str; 5] = ["base", "checkpoint", "pretokenize", "run_record", "train"];
const PACKAGE: &str = "expert_worker";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    pub version: String,
    /// SHA-256 over the sources; null where the package is not found without asking Python.
    pub worker: Option<String>,
}

impl Code {
    pub fn of(python: Option<&Path>) -> Self {
        let package = python.and_then(find_package);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            worker: package.map(|package| digest_of(&package)),
        }
    }

    /// What is unknown differs from nothing.
    pub fn differs(&self, other: &Self) -> bool {
        let workers = self.worker.as_ref().zip(other.worker.as_ref());
        self.version != other.version || workers.is_some_and(|(mine, theirs)| mine != theirs)
    }
}

/// Where Python would import the worker from: PYTHONPATH first, then the interpreter's packages and what they link to.
pub fn find_package(python: &Path) -> Option<PathBuf> {
    let listed = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|folder| folder.is_absolute()).collect::<Vec<_>>();
    let sites = package_folders(python);
    let linked = sites.iter().flat_map(|site| linked_from(site)).collect::<Vec<_>>();
    let mut folders = listed.into_iter().chain(sites).chain(linked).map(|folder| folder.join(PACKAGE));
    folders.find(|package| package.join("__init__.py").is_file())
}

/// `lib/python3.11/site-packages` on Unix, `Lib/site-packages` on Windows.
fn package_folders(python: &Path) -> Vec<PathBuf> {
    let Some(bin) = python.parent() else { return Vec::new() };
    let prefix = bin.parent().unwrap_or(bin);
    let versions = ["lib", "lib64"].into_iter().flat_map(|lib| children(&prefix.join(lib)));
    let unix = versions.filter(|folder| name(folder).starts_with("python3"));
    let windows = [prefix.join("Lib"), bin.join("Lib")];
    let mut folders: Vec<PathBuf> = unix
        .chain(windows)
        .flat_map(|lib| ["site-packages", "dist-packages"].map(|packages| lib.join(packages)))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

/// An editable installation leaves a line with the place of its sources.
fn linked_from(site: &Path) -> Vec<PathBuf> {
    let links = children(site).into_iter().filter(|file| file.extension().is_some_and(|end| end == "pth"));
    let texts = links.filter_map(|file| fs::read_to_string(file).ok()).collect::<Vec<_>>();
    texts
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| !line.starts_with("import ") && Path::new(line).is_absolute())
        .map(PathBuf::from)
        .collect()
}

/// Over names and contents, whatever the system's line ends.
fn digest_of(package: &Path) -> String {
    let mut digest = Sha256::new();
    for folder in SOURCES {
        for file in sources(&package.join(folder)) {
            let name = file.strip_prefix(package).unwrap_or(&file);
            let text = fs::read(&file).unwrap_or_default();
            let text: Vec<u8> = text.into_iter().filter(|byte| *byte != b'\r').collect();
            digest.update(format!("{} {}\n", crate::experts::portable(name), text.len()));
            digest.update(&text);
        }
    }
    hex(&digest.finalize())
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for child in children(folder) {
        if child.is_dir() {
            found.extend(sources(&child));
        } else if child.extension().is_some_and(|end| end == "py") {
            found.push(child);
        }
    }
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn only_sources_that_decide_count() {
        let root = tempfile::tempdir().unwrap();
        let digest = || digest_of(root.path());
        write(root.path(), "train/loop.py", "a\nb\n");
        let first = digest();
        write(root.path(), "train/loop.py", "a\r\nb\r\n");
        write(root.path(), "report/page.py", "x");
        write(root.path(), "train/__pycache__/loop.pyc", "x");
        assert_eq!(digest(), first);
        write(root.path(), "train/fast/loss.py", "");
        assert_ne!(digest(), first);
    }

    #[test]
    fn the_package_is_found_installed_and_linked() {
        let root = tempfile::tempdir().unwrap();
        let python = root.path().join("env/bin/python");
        let site = "env/lib/python3.11/site-packages";
        write(root.path(), "src/expert_worker/__init__.py", "");
        let sources = root.path().join("src");
        write(root.path(), &format!("{site}/worker.pth"), &format!("import os\n{}\n", sources.display()));
        assert_eq!(linked_from(&root.path().join(site)), [sources]);
        assert_eq!(package_folders(&python), [root.path().join(site)]);
    }
}
