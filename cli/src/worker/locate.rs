//! Which Python interpreter runs the worker, and by which rule it was chosen.
//!
//! Never one from the folder of the manifest in hand: an expert that was downloaded must not bring its own.

use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::env;
use crate::failure::Failure;

/// What the search looks at; taken from the process by [`Search::here`], given by tests.
#[derive(Debug, Default, Clone)]
pub struct Search {
    /// `--python`
    pub flag: Option<PathBuf>,
    pub expert_python: Option<OsString>,
    pub executable: Option<PathBuf>,
    pub virtual_env: Option<OsString>,
    pub working_directory: PathBuf,
    pub path: Option<OsString>,
    /// The folder that must not be searched.
    pub expert_folder: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub python: PathBuf,
    /// Why this one: "EXPERT_PYTHON", "VIRTUAL_ENV".
    pub rule: &'static str,
}

impl Search {
    pub fn here(flag: Option<&Path>, expert_folder: Option<&Path>) -> Self {
        Self {
            flag: flag.map(Path::to_owned),
            expert_python: env::PYTHON.get(),
            executable: std::env::current_exe().ok(),
            virtual_env: env::VIRTUAL_ENV.get(),
            working_directory: std::env::current_dir().unwrap_or_default(),
            path: std::env::var_os("PATH"),
            expert_folder: expert_folder.and_then(|folder| folder.canonicalize().ok()),
        }
    }

    /// A named interpreter must exist; the others are taken where they are found, in this order.
    pub fn find(&self) -> Result<Found, Failure> {
        for (named, rule) in
            [(self.flag.as_deref(), "--python"), (self.named_by_environment(), env::PYTHON.name)]
        {
            if let Some(named) = named {
                return self.named(named, rule);
            }
        }
        self.beside_executable()
            .or_else(|| self.in_virtual_env())
            .or_else(|| self.upward())
            .or_else(|| self.on_path())
            .ok_or_else(none_found)
    }

    fn named_by_environment(&self) -> Option<&Path> {
        self.expert_python.as_deref().filter(|value| !value.is_empty()).map(Path::new)
    }

    /// `python3.12` is looked up on the path, as a shell would; anything with a slash is a file.
    fn named(&self, python: &Path, rule: &'static str) -> Result<Found, Failure> {
        let place = if python.components().count() == 1 && !python.is_file() {
            self.look_up(python.as_os_str())
        } else {
            Some(self.working_directory.join(python)).filter(|file| file.is_file())
        };
        place.map(|python| Found { python, rule }).ok_or_else(|| {
            Failure::missing(
                "python-missing",
                format!("{rule} names {}, which is not a file", python.display()),
            )
            .hint("name a Python 3.11 or newer that has the expert-worker package")
        })
    }

    fn beside_executable(&self) -> Option<Found> {
        let folder = self.executable.as_deref()?.parent()?;
        first_python(folder)
            .filter(|file| self.allowed(file))
            .map(|python| Found { python, rule: "beside expert-cli" })
    }

    fn in_virtual_env(&self) -> Option<Found> {
        let root = Path::new(self.virtual_env.as_deref().filter(|value| !value.is_empty())?);
        self.in_environment(root, env::VIRTUAL_ENV.name)
    }

    fn upward(&self) -> Option<Found> {
        self.working_directory.ancestors().find_map(|folder| {
            self.in_environment(&folder.join(".venv"), ".venv upward from the working directory")
        })
    }

    fn on_path(&self) -> Option<Found> {
        let names: &[&str] = if cfg!(windows) { &["python", "python3"] } else { &["python3", "python"] };
        names
            .iter()
            .find_map(|name| self.look_up(OsStr::new(name)))
            .map(|python| Found { python, rule: "PATH" })
    }

    fn in_environment(&self, root: &Path, rule: &'static str) -> Option<Found> {
        let folder = root.join(if cfg!(windows) { "Scripts" } else { "bin" });
        first_python(&folder).filter(|file| self.allowed(file)).map(|python| Found { python, rule })
    }

    /// Relative entries of PATH mean the working directory, which may be a downloaded expert's.
    fn look_up(&self, name: &OsStr) -> Option<PathBuf> {
        let mut file_name = name.to_owned();
        if !Path::new(name).to_string_lossy().ends_with(EXE_SUFFIX) {
            file_name.push(EXE_SUFFIX);
        }
        std::env::split_paths(self.path.as_deref()?)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(&file_name))
            .find(|file| is_executable(file) && self.allowed(file))
    }

    /// The folder itself decides, not what a link in it points to: the link is what the expert brought.
    fn allowed(&self, python: &Path) -> bool {
        let Some(expert) = &self.expert_folder else { return true };
        let folder = python.parent().and_then(|folder| folder.canonicalize().ok());
        !folder.is_some_and(|folder| folder.starts_with(expert))
    }
}

fn first_python(folder: &Path) -> Option<PathBuf> {
    ["python", "python3"]
        .iter()
        .map(|name| folder.join(format!("{name}{EXE_SUFFIX}")))
        .find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

fn none_found() -> Failure {
    Failure::missing("python-missing", "no Python interpreter for the worker was found")
        .hint("run `make setup`, activate a virtual environment, or name one with --python or EXPERT_PYTHON")
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct World {
        root: tempfile::TempDir,
        search: Search,
    }

    impl World {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let search = Search { working_directory: root.path().join("work/deep"), ..Search::default() };
            std::fs::create_dir_all(&search.working_directory).unwrap();
            Self { root, search }
        }

        fn python(&self, place: &str) -> PathBuf {
            let file = self.root.path().join(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            file
        }
    }

    #[test]
    fn each_rule_gives_way_to_the_one_before() {
        let mut world = World::new();
        assert_eq!(world.search.find().unwrap_err().exit.code(), 3);

        let expected = world.python("usr/bin/python3");
        world.search.path = Some(expected.parent().unwrap().into());
        assert_eq!(world.search.find().unwrap(), Found { python: expected, rule: "PATH" });

        let expected = world.python("work/.venv/bin/python");
        assert_eq!(world.search.find().unwrap().python, expected);

        let expected = world.python("env/bin/python");
        world.search.virtual_env = Some(world.root.path().join("env").into());
        assert_eq!(world.search.find().unwrap(), Found { python: expected, rule: "VIRTUAL_ENV" });

        let expected = world.python("opt/python3");
        world.search.executable = Some(world.root.path().join("opt/expert-cli"));
        assert_eq!(world.search.find().unwrap(), Found { python: expected, rule: "beside expert-cli" });

        let expected = world.python("named/python3.12");
        world.search.expert_python = Some(expected.clone().into());
        assert_eq!(world.search.find().unwrap(), Found { python: expected, rule: "EXPERT_PYTHON" });

        let expected = world.python("flag/py");
        world.search.flag = Some(expected.clone());
        assert_eq!(world.search.find().unwrap(), Found { python: expected, rule: "--python" });
    }

    #[test]
    fn a_named_interpreter_that_is_absent_is_an_error_and_no_other_is_taken() {
        let mut world = World::new();
        world.python("work/.venv/bin/python");
        world.search.expert_python = Some("/nowhere/python".into());
        let failure = world.search.find().unwrap_err();
        assert!(failure.message.contains("EXPERT_PYTHON names /nowhere/python"), "{}", failure.message);
    }

    #[test]
    fn an_expert_never_brings_its_own_interpreter() {
        let mut world = World::new();
        world.python("work/deep/.venv/bin/python");
        world.python("work/deep/bin/python3");
        let outside = world.python("work/.venv/bin/python");
        world.search.expert_folder = Some(world.search.working_directory.canonicalize().unwrap());
        world.search.virtual_env = Some(world.search.working_directory.join(".venv").into());
        world.search.path = Some(world.search.working_directory.join("bin").into());
        assert_eq!(world.search.find().unwrap().python, outside);
    }

    #[test]
    fn relative_path_entries_are_not_searched() {
        let mut world = World::new();
        world.search.path = Some("bin:.".into());
        assert!(world.search.find().is_err());
    }

    #[test]
    fn files_that_cannot_be_executed_are_passed_over() {
        let mut world = World::new();
        let file = world.python("usr/bin/python3");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        world.search.path = Some(file.parent().unwrap().into());
        assert!(world.search.find().is_err());
    }
}
