//! Where Python would import the worker's package from.
//!
//! It is looked up in the interpreter's folders: starting Python to ask takes longer than everything else that is done for
//! an expert with nothing to do. Only where it is not found there, Python is asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err as fs;

use crate::sys::env;
use crate::sys::files::children;
use crate::sys::paths::file_name;

pub const PACKAGE: &str = "expert_worker";

/// Where it is by looking, or else where Python says that it is: an editable installation may be an import hook.
pub fn find_package(python: &Path) -> Option<PathBuf> {
    installed_package(python).or_else(|| ask_for_package(python))
}

fn ask_for_package(python: &Path) -> Option<PathBuf> {
    const QUESTION: &str =
        "import importlib.util as u; s = u.find_spec('expert_worker'); print(s.origin if s else '')";
    let mut command = Command::new(python);
    command.args(["-c", QUESTION]).env(env::SAFE_PATH.name, "1");
    let answer = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let origin = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    origin.parent().filter(|_| origin.is_file()).map(Path::to_owned)
}

/// Where Python would import the worker from: PYTHONPATH first, then the interpreter's packages and what they link to.
pub fn installed_package(python: &Path) -> Option<PathBuf> {
    let listed = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|folder| folder.is_absolute()).collect::<Vec<_>>();
    let sites = package_folders(python);
    let linked = sites.iter().flat_map(|site| linked_from(site)).collect::<Vec<_>>();
    let mut folders = listed.into_iter().chain(sites).chain(linked).map(|folder| folder.join(PACKAGE));
    folders.find(|package| package.join("__init__.py").is_file())
}

/// `__version__` as its sources give it.
pub fn version_of(package: &Path) -> Option<String> {
    version_in(&package.join("__init__.py"))
}

/// The version of torch that the interpreter's packages hold, with the CUDA that it is built for.
pub fn torch_of(python: &Path) -> Option<String> {
    package_folders(python).iter().find_map(|site| version_in(&site.join("torch/version.py")))
}

fn version_in(source: &Path) -> Option<String> {
    let text = fs::read_to_string(source).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}

/// `lib/python3.11/site-packages` on Unix, `Lib/site-packages` on Windows.
fn package_folders(python: &Path) -> Vec<PathBuf> {
    let Some(bin) = python.parent() else { return Vec::new() };
    let prefix = bin.parent().unwrap_or(bin);
    let versions = ["lib", "lib64"].into_iter().flat_map(|lib| children(&prefix.join(lib)));
    let unix = versions.filter(|folder| file_name(folder).starts_with("python3"));
    let windows = [prefix.join("Lib"), bin.join("Lib")];
    let mut folders: Vec<PathBuf> = unix
        .chain(windows)
        .flat_map(|lib| ["site-packages", "dist-packages"].map(|packages| lib.join(packages)))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

/// An editable installation has a file with the path of its sources.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::files::write_text;

    /// Where no file says where the package is, the interpreter does.
    #[cfg(unix)]
    #[test]
    fn a_package_behind_an_import_hook_is_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        write_text(root.path(), "src/expert_worker/__init__.py", "");
        let package = root.path().join("src/expert_worker");
        let python = root.path().join("env/bin/python");
        let answer = format!("#!/bin/sh\necho '{}'\n", package.join("__init__.py").display());
        write_text(root.path(), "env/bin/python", &answer);
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(installed_package(&python), None);
        assert_eq!(find_package(&python), Some(package));
    }

    #[test]
    fn the_package_is_found_installed_and_linked() {
        let root = tempfile::tempdir().unwrap();
        let python = root.path().join("env/bin/python");
        let site = "env/lib/python3.11/site-packages";
        write_text(root.path(), "src/expert_worker/__init__.py", "");
        let sources = root.path().join("src");
        write_text(
            root.path(),
            &format!("{site}/worker.pth"),
            &format!("import os\nbeside\n{}\n", sources.display()),
        );
        assert_eq!(linked_from(&root.path().join(site)), [sources]);
        assert_eq!(package_folders(&python), [root.path().join(site)]);
    }
}
