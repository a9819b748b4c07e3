//! Which Python interpreter runs the worker, and by which rule it was chosen.
//!
//! Nothing that a download can bring decides: the working directory and the folders above it are not searched, for they
//! may be the repository that an expert came in. The environment that expert-cli was installed in is, and the one of the
//! checkout that it was built in.
//!
//! `pip`, `pipx` and `uv tool` place the program beside the interpreter of its environment, or link to it. Two cases
//! differ: `pip install --user` has no interpreter beside it, and on Windows the tools copy the program.

use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::package::{PACKAGE, installed_package, version_of};
use crate::failure::Failure;
use crate::sys::env;
use crate::sys::files::children;
use crate::sys::paths::file_name;

const VENV: &str = ".venv";
/// The name of this program's package. `expert-cli` on PyPI is another project's.
const DISTRIBUTION: &str = "expert-cli-lora";
const INSTALLED_WITH: &str = "the environment that expert-cli was installed in";
/// A file that identifies this project's checkout among folders with a `target` in them.
const SOURCES: &str = "worker/python/expert_worker/__init__.py";

/// The inputs of the search; [`Search::here`] takes them from the process, tests set them.
#[derive(Debug, Default, Clone)]
pub struct Search {
    /// `--python`
    pub flag: Option<PathBuf>,
    pub expert_python: Option<OsString>,
    /// Links resolved.
    pub executable: Option<PathBuf>,
    pub virtual_env: Option<OsString>,
    pub working_directory: PathBuf,
    pub path: Option<OsString>,
    /// The folder that must not be searched.
    pub expert_folder: Option<PathBuf>,
    /// Environments that hold the original of this program where it is a copy.
    pub tool_environments: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub python: PathBuf,
    /// Why this one: "EXPERT_PYTHON", "VIRTUAL_ENV".
    pub rule: &'static str,
    /// Interpreters that a rule before this one found, and why they were not taken.
    pub skipped: Vec<String>,
    /// What to do if this one lacks the worker.
    pub remedy: String,
    /// The checkout whose environment this is.
    pub checkout: Option<PathBuf>,
}

impl Search {
    pub fn here(flag: Option<&Path>, expert_folder: Option<&Path>) -> Self {
        let executable = std::env::current_exe().ok();
        Self {
            flag: flag.map(Path::to_owned),
            expert_python: env::PYTHON.get(),
            executable: executable.map(|path| path.canonicalize().unwrap_or(path)),
            virtual_env: env::VIRTUAL_ENV.get(),
            working_directory: std::env::current_dir().unwrap_or_default(),
            path: std::env::var_os("PATH"),
            expert_folder: expert_folder.and_then(|folder| folder.canonicalize().ok()),
            tool_environments: tool_environments(),
        }
    }

    /// A named interpreter must exist. Of the others, the first that has the worker is taken, or the first of all where
    /// none has.
    pub fn find(&self) -> Result<Found, Failure> {
        for (named, rule) in
            [(self.flag.as_deref(), "--python"), (self.named_by_environment(), env::PYTHON.name)]
        {
            if let Some(named) = named {
                return self.named(named, rule);
            }
        }
        let rules = [
            self.beside_executable(),
            self.installed_with(),
            self.in_virtual_env(),
            self.in_checkout(),
            self.on_path(),
        ];
        let candidates: Vec<(PathBuf, &'static str)> = rules.into_iter().flatten().collect();
        let has_worker =
            |(python, rule): &(PathBuf, &str)| *rule == INSTALLED_WITH || installed_package(python).is_some();
        let chosen = candidates.iter().position(has_worker).unwrap_or(0);
        let (python, rule) = candidates.get(chosen).cloned().ok_or_else(|| self.none_found())?;
        let skipped = candidates[..chosen]
            .iter()
            .map(|(python, rule)| format!("{} ({rule}) lacks the expert-worker package", python.display()));
        let skipped = skipped.collect();
        let checkout = self.checkout().filter(|root| python.starts_with(root));
        Ok(Found { python, rule, skipped, remedy: self.remedy(), checkout })
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
        let found =
            |python| Found { python, rule, skipped: Vec::new(), remedy: self.remedy(), checkout: None };
        place.map(found).ok_or_else(|| {
            Failure::missing(
                "python-missing",
                format!("{rule} names {}, which is not a file", python.display()),
            )
            .hint("name a Python 3.11 or newer that has the expert-worker package")
        })
    }

    fn beside_executable(&self) -> Option<(PathBuf, &'static str)> {
        let folder = self.executable.as_deref()?.parent()?;
        Some((first_python(folder).filter(|file| self.allowed(file))?, "beside expert-cli"))
    }

    /// The interpreter that the installer used, although it is in another folder than this program.
    fn installed_with(&self) -> Option<(PathBuf, &'static str)> {
        let python = self.of_user_packages().or_else(|| {
            let copied = self.checkout().is_none();
            let roots = self.tool_environments.iter().filter(|_| copied);
            roots
                .filter_map(|root| self.in_environment(root))
                .find(|python| installed_package(python).is_some())
        })?;
        Some((python, INSTALLED_WITH))
    }

    /// `pip install --user`: `~/.local/bin/expert-cli` and `~/.local/lib/python3.12/site-packages`, or in one folder
    /// `Scripts` and `site-packages` on Windows.
    fn of_user_packages(&self) -> Option<PathBuf> {
        let prefix = self.executable.as_deref()?.parent()?.parent()?;
        let has_worker = |folder: &Path| folder.join(PACKAGE).join("__init__.py").is_file();
        let versions = children(&prefix.join("lib"));
        let names = versions
            .iter()
            .filter(|folder| has_worker(&folder.join("site-packages")))
            .map(|it| file_name(it));
        let names = names.chain(has_worker(&prefix.join("site-packages")).then(|| "python".to_owned()));
        names.filter(|name| name.starts_with("python")).find_map(|name| {
            [name.as_str(), "python3", "python"].iter().find_map(|name| self.look_up(OsStr::new(name)))
        })
    }

    fn in_virtual_env(&self) -> Option<(PathBuf, &'static str)> {
        let root = Path::new(self.virtual_env.as_deref().filter(|value| !value.is_empty())?);
        Some((self.in_environment(root)?, env::VIRTUAL_ENV.name))
    }

    fn in_checkout(&self) -> Option<(PathBuf, &'static str)> {
        Some((
            self.in_environment(&self.checkout()?.join(VENV))?,
            "the checkout that expert-cli was built in",
        ))
    }

    fn on_path(&self) -> Option<(PathBuf, &'static str)> {
        let names: &[&str] = if cfg!(windows) { &["python", "python3"] } else { &["python3", "python"] };
        Some((names.iter().find_map(|name| self.look_up(OsStr::new(name)))?, "PATH"))
    }

    fn in_environment(&self, root: &Path) -> Option<PathBuf> {
        first_python(&bin_of(root)).filter(|file| self.allowed(file))
    }

    /// The sources whose `target/<profile>/` or `target/<platform>/<profile>/` holds this executable.
    fn checkout(&self) -> Option<PathBuf> {
        let mut folders = self.executable.as_deref()?.ancestors().skip(2).take(2);
        let root = folders.find(|folder| folder.ends_with("target"))?.parent()?;
        root.join(SOURCES).is_file().then(|| root.to_owned())
    }

    fn remedy(&self) -> String {
        let nearby = self.working_directory.ancestors().map(|folder| folder.join(VENV));
        let with_worker = nearby.filter_map(|root| first_python(&bin_of(&root)));
        let nearby = with_worker.into_iter().find(|python| installed_package(python).is_some());
        let name = match nearby {
            Some(python) => format!("name one with --python or EXPERT_PYTHON, such as {}", python.display()),
            None => "name another with --python or EXPERT_PYTHON".to_owned(),
        };
        if let Some(root) = self.checkout() {
            let venv = root.join(VENV);
            format!("run `make -C {} setup`, which makes {}, or {name}", root.display(), venv.display())
        } else {
            let install =
                "install the expert-worker wheel (of `make wheels` or a release) into this interpreter";
            format!("{install}, activate the virtual environment that has it, or {name}")
        }
    }

    fn none_found(&self) -> Failure {
        Failure::missing("python-missing", "no Python interpreter for the worker was found")
            .hint(self.remedy().replace("into this interpreter", "into a virtual environment"))
    }

    /// Relative entries of PATH are relative to the working directory, which may be a downloaded expert's.
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

    /// The folder decides, not the target of a link in it: the link comes with the expert.
    fn allowed(&self, python: &Path) -> bool {
        let Some(expert) = &self.expert_folder else { return true };
        let folder = python.parent().and_then(|folder| folder.canonicalize().ok());
        !folder.is_some_and(|folder| folder.starts_with(expert))
    }
}

impl Found {
    /// Both are released together. A worker without a version in its sources is checked by its first event alone.
    pub fn of_this_version(self) -> Result<Self, Failure> {
        let ours = env!("CARGO_PKG_VERSION");
        match installed_package(&self.python).and_then(|package| version_of(&package)) {
            Some(theirs) if theirs != ours => Err(Failure::missing(
                "version-mismatch",
                format!(
                    "{} has expert-worker {theirs}, and this is expert-cli {ours}: both must have one version",
                    self.python.display()
                ),
            )
            .hint(format!("{} ({} chose this one)", self.same_version(), self.rule))),
            _ => Ok(self),
        }
    }

    /// What to do about a worker of another version. The packages are files: a bare name would fetch whatever an
    /// index has by it.
    pub fn same_version(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        if let Some(root) = &self.checkout {
            return format!("run `make -C {} setup`", root.display());
        }
        let python = self.python.display();
        let files = [PACKAGE, DISTRIBUTION]
            .map(|name| format!("{}-{version}-*.whl", name.replace('-', "_")))
            .join(" ");
        format!(
            "in the folder of this version's wheels (`make wheels` writes target/packages; a release has them as files) \
             run `{python} -m pip install {files}`, or with uv `uv pip install --python {python} {files}`"
        )
    }
}

/// Where `uv tool` and `pipx` keep this program's environment on Windows.
fn tool_environments() -> Vec<PathBuf> {
    if !cfg!(windows) {
        return Vec::new();
    }
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let uv = folder("UV_TOOL_DIR").or_else(|| Some(dirs::config_dir()?.join("uv/tools")));
    let pipx = folder("PIPX_HOME").or_else(|| Some(dirs::home_dir()?.join("pipx")));
    [uv, pipx.map(|root| root.join("venvs"))]
        .into_iter()
        .flatten()
        .map(|root| root.join(DISTRIBUTION))
        .collect()
}

/// Where an environment keeps its programs.
fn bin_of(root: &Path) -> PathBuf {
    root.join(if cfg!(windows) { "Scripts" } else { "bin" })
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

    impl World {
        fn found(&self) -> (PathBuf, &'static str) {
            let found = self.search.find().unwrap();
            (found.python, found.rule)
        }

        /// A python whose environment has the worker.
        fn environment(&self, place: &str) -> PathBuf {
            let package = self.root.path().join(place).join("lib/python3.12/site-packages/expert_worker");
            std::fs::create_dir_all(&package).unwrap();
            std::fs::write(package.join("__init__.py"), "").unwrap();
            self.python(&format!("{place}/bin/python"))
        }

        /// A checkout of this project with an executable in it, which is the one that runs.
        fn build(&mut self, place: &str) {
            let root = self.root.path().join(place);
            std::fs::create_dir_all(root.join("worker/python/expert_worker")).unwrap();
            std::fs::write(root.join(SOURCES), "").unwrap();
            self.search.executable = Some(root.join("target/release/expert-cli"));
        }
    }

    #[test]
    fn each_rule_gives_way_to_the_one_before() {
        let mut world = World::new();
        assert_eq!(world.search.find().unwrap_err().exit.code(), 3);

        let expected = world.python("usr/bin/python3");
        world.search.path = Some(expected.parent().unwrap().into());
        assert_eq!(world.found(), (expected, "PATH"));

        let expected = world.python("built/.venv/bin/python");
        world.build("built");
        assert_eq!(world.found(), (expected, "the checkout that expert-cli was built in"));

        let expected = world.python("env/bin/python");
        world.search.virtual_env = Some(world.root.path().join("env").into());
        assert_eq!(world.found(), (expected, "VIRTUAL_ENV"));

        let expected = world.python("built/target/release/python3");
        assert_eq!(world.found(), (expected, "beside expert-cli"));

        let expected = world.python("named/python3.12");
        world.search.expert_python = Some(expected.clone().into());
        assert_eq!(world.found(), (expected, "EXPERT_PYTHON"));

        let expected = world.python("flag/py");
        world.search.flag = Some(expected.clone());
        assert_eq!(world.found(), (expected, "--python"));
    }

    #[test]
    fn an_environment_with_the_worker_goes_before_those_without() {
        let mut world = World::new();
        let other = world.python("conda/bin/python");
        world.search.virtual_env = Some(world.root.path().join("conda").into());
        let expected = world.environment("built/.venv");
        world.build("built");
        let found = world.search.find().unwrap();
        assert_eq!((found.python, found.rule), (expected, "the checkout that expert-cli was built in"));
        assert_eq!(
            found.skipped,
            [format!("{} (VIRTUAL_ENV) lacks the expert-worker package", other.display())]
        );
    }

    #[test]
    fn packages_of_the_user_are_run_by_the_interpreter_that_they_were_installed_with() {
        let mut world = World::new();
        world.python("usr/bin/python3");
        let expected = world.python("usr/bin/python3.12");
        world.search.path = Some(expected.parent().unwrap().into());
        world.search.executable = Some(world.root.path().join("home/.local/bin/expert-cli"));
        assert_eq!(world.found().1, "PATH");
        let package = world.root.path().join("home/.local/lib/python3.12/site-packages/expert_worker");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("__init__.py"), "").unwrap();
        assert_eq!(world.found(), (expected.clone(), INSTALLED_WITH));
        // Another environment that is active lacks the worker, and does not change that.
        world.python("other/bin/python");
        world.search.virtual_env = Some(world.root.path().join("other").into());
        assert_eq!(world.found(), (expected, INSTALLED_WITH));
    }

    #[test]
    fn a_copied_program_uses_the_environment_of_its_original() {
        let mut world = World::new();
        let tool = format!("uv/tools/{DISTRIBUTION}");
        let expected = world.environment(&tool);
        world.search.tool_environments = vec![world.root.path().join(tool)];
        world.search.executable = Some(world.root.path().join("bin/expert-cli"));
        assert_eq!(world.found(), (expected, INSTALLED_WITH));
        // A build in a checkout is not a copy.
        world.build("built");
        let expected = world.environment("built/.venv");
        assert_eq!(world.found(), (expected, "the checkout that expert-cli was built in"));
    }

    #[test]
    fn a_worker_of_another_version_is_refused_with_the_command_that_repairs_it() {
        let mut world = World::new();
        let python = world.environment("env");
        world.search.virtual_env = Some(world.root.path().join("env").into());
        let init = world.root.path().join("env/lib/python3.12/site-packages/expert_worker/__init__.py");
        for (text, taken) in [
            (format!("__version__ = \"{}\"\n", env!("CARGO_PKG_VERSION")), true),
            ("__version__ = \"99.1\"\n".to_owned(), false),
            ("no version".to_owned(), true),
        ] {
            std::fs::write(&init, text).unwrap();
            assert_eq!(world.search.find().unwrap().of_this_version().is_ok(), taken);
        }
        std::fs::write(&init, "__version__ = \"99.1\"\n").unwrap();
        let failure = world.search.find().unwrap().of_this_version().unwrap_err();
        assert!(failure.message.contains("has expert-worker 99.1"), "{}", failure.message);
        let version = env!("CARGO_PKG_VERSION");
        let files = format!("expert_worker-{version}-*.whl expert_cli_lora-{version}-*.whl`");
        let hint = failure.hint.unwrap();
        for installer in [
            format!("{} -m pip install", python.display()),
            format!("uv pip install --python {}", python.display()),
        ] {
            assert!(hint.contains(&format!("{installer} {files}")), "{hint}");
        }
        assert_eq!(failure.exit.code(), 3);
    }

    #[test]
    fn the_package_is_named_as_in_its_project_file() {
        let project = include_str!("../../pyproject.toml");
        assert!(project.contains(&format!("\nname = \"{DISTRIBUTION}\"\n")));
    }

    #[test]
    fn the_working_directory_and_the_folders_above_it_are_not_searched() {
        let mut world = World::new();
        world.environment("work/.venv");
        world.environment("work/deep/.venv");
        assert!(world.search.find().is_err());
        let hint = world.search.find().unwrap_err().hint.unwrap();
        assert!(hint.contains("work/deep/.venv/bin/python"), "{hint}");

        // Not even where the download looks like a checkout of this project.
        std::fs::create_dir_all(world.root.path().join("work/worker/python/expert_worker")).unwrap();
        std::fs::write(world.root.path().join("work").join(SOURCES), "").unwrap();
        world.search.executable = Some(world.root.path().join("opt/expert-cli"));
        assert!(world.search.find().is_err());
    }

    #[test]
    fn the_hint_names_the_environment_of_the_checkout() {
        let mut world = World::new();
        world.build("built");
        let hint = world.search.find().unwrap_err().hint.unwrap();
        let root = world.root.path().join("built");
        let expected = format!("`make -C {0} setup`, which makes {0}/.venv", root.display());
        assert!(hint.contains(&expected), "{hint}");
    }

    #[test]
    fn a_named_interpreter_that_is_absent_is_an_error_and_no_other_is_taken() {
        let mut world = World::new();
        world.python("usr/bin/python3");
        world.search.expert_python = Some("/nowhere/python".into());
        let failure = world.search.find().unwrap_err();
        assert!(failure.message.contains("EXPERT_PYTHON names /nowhere/python"), "{}", failure.message);
    }

    #[test]
    fn an_expert_never_brings_its_own_interpreter() {
        let mut world = World::new();
        world.python("work/deep/.venv/bin/python");
        world.python("work/deep/bin/python3");
        world.search.expert_folder = Some(world.search.working_directory.canonicalize().unwrap());
        world.search.virtual_env = Some(world.search.working_directory.join(".venv").into());
        world.search.path = Some(world.search.working_directory.join("bin").into());
        assert!(world.search.find().is_err());
    }

    #[test]
    fn relative_path_entries_are_not_searched() {
        let mut world = World::new();
        world.search.path = Some("bin:.".into());
        assert!(world.search.find().is_err());
    }

    #[test]
    fn files_that_cannot_be_executed_are_skipped() {
        let mut world = World::new();
        let file = world.python("usr/bin/python3");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        world.search.path = Some(file.parent().unwrap().into());
        assert!(world.search.find().is_err());
    }
}
