//! A world for one test: a temporary folder, a plan in it, and the CLI with a worker that misbehaves on demand.

#![allow(clippy::unwrap_used)]
// Each test file compiles this module for itself and uses a part of it.
#![allow(dead_code)]

#[cfg(unix)]
pub mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use expert_contract::plan::Plan;
use serde_json::Value;

/// Far more than anything here takes; only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// After the first signal: one that comes much sooner does not count as the second.
pub const BETWEEN_TWO: Duration = Duration::from_secs(1);

pub const BASE: &str = "home/bases/smollm2-135m-instruct";

pub struct World {
    folder: tempfile::TempDir,
    python: PathBuf,
}

/// Files of a world that is gone.
pub struct Kept {
    root: String,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let example = std::fs::read_to_string(repository().join("tests/examples/plan.json")).unwrap();
        let place = folder.path().to_str().unwrap();
        let mut plan: Plan = serde_json::from_str(&example.replace("{folder}", place)).unwrap();
        plan.recipe_digest = plan.recipe.digest();
        plan.machine.paths.base = Some(format!("{place}/{BASE}"));
        std::fs::write(folder.path().join("plan.json"), serde_json::to_string_pretty(&plan).unwrap())
            .unwrap();
        let world = Self { folder, python: python() };
        world.leave_base();
        world
    }

    /// The embedded base, as if it had been converted on this machine before.
    fn leave_base(&self) {
        let base = self.path(BASE);
        std::fs::create_dir_all(&base).unwrap();
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            std::fs::write(base.join(name), "{}").unwrap();
        }
    }

    /// With a shelf of experts in `experts/`.
    pub fn shelf(experts: &[&str]) -> Self {
        let world = Self::new();
        std::fs::create_dir(world.path("experts")).unwrap();
        for expert in experts {
            assert!(world.expert_cli(&["init", expert], "").output().unwrap().status.success());
        }
        world
    }

    /// A shelf whose page after a training is a file without content: each page costs a start of Python.
    /// `tests/shelf.rs`, `next.rs` and `route.rs` have real ones.
    #[cfg(unix)]
    pub fn shelf_without_pages(experts: &[&str]) -> Self {
        let mut world = Self::shelf(experts);
        world.leave_out_pages();
        world
    }

    #[cfg(unix)]
    fn leave_out_pages(&mut self) {
        let python = self.path("python");
        let page = "for page; do [ \"$before\" = --index ] && break; before=$page; done; : >\"$page\"; echo \"$page\"";
        let body = format!(
            "case \"$*\" in *'expert_worker.report '*--index*) {page};; *) exec '{}' \"$@\";; esac",
            self.python.display()
        );
        script(&python, &body);
        self.python = python;
    }

    /// Every file below `folder`, to be written into another world by `restore`.
    #[cfg(unix)]
    pub fn keep(self, folder: &str) -> Kept {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    walk(&path, root, found);
                } else {
                    found.push((path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        walk(&self.path(folder), self.folder.path(), &mut files);
        Kept { root: self.folder.path().to_str().unwrap().to_owned(), files }
    }

    /// A new world without pages, with the files of another. Paths in them lead to the new one.
    #[cfg(unix)]
    pub fn restore(kept: &Kept) -> Self {
        let mut world = Self::new();
        for (path, bytes) in &kept.files {
            let path = world.folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = std::str::from_utf8(bytes).unwrap();
            std::fs::write(path, text.replace(&kept.root, world.folder.path().to_str().unwrap())).unwrap();
        }
        world.leave_out_pages();
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `expert-cli work plan.json` with a worker that does `acts` in order.
    pub fn work(&self, acts: &str) -> Command {
        self.expert_cli(&["work", "plan.json"], acts)
    }

    /// Any command whose worker does `acts`.
    pub fn expert_cli(&self, arguments: &[&str], acts: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
        let python_path = [repository().join("worker/python"), repository().join("tests/cli/stage")];
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("EXPERT_PYTHON", &self.python)
            .env("PYTHONPATH", std::env::join_paths(python_path).unwrap())
            .env("EXPERT_TEST_STAGE", "expert_test_stage")
            .env("EXPERT_TEST_PID_FILE", self.path("pid"))
            .env("EXPERT_TEST_ACTS", acts)
            .env("EXPERT_HOME", self.path("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A command and its JSON document; null where it printed none.
    pub fn json(&self, arguments: &str, acts: &str) -> (Output, Value) {
        let words: Vec<&str> = arguments.split_whitespace().chain(["--json"]).collect();
        let output = self.expert_cli(&words, acts).output().unwrap();
        let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output, document)
    }

    /// The worker's process id, once its stage has begun.
    pub fn worker(&self) -> i32 {
        self.pid_in("pid")
    }

    pub fn pid_in(&self, file: &str) -> i32 {
        await_some(|| std::fs::read_to_string(self.path(file)).ok()?.parse().ok())
    }
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// `EXPERT_FULL_TESTS=1` runs every trial; without it a sample that fits into `make test`.
pub fn every_trial() -> bool {
    std::env::var("EXPERT_FULL_TESTS").is_ok_and(|value| value == "1")
}

/// What `make setup` leaves, unless another is named.
pub fn python() -> PathBuf {
    std::env::var_os("EXPERT_PYTHON").map_or_else(|| repository().join(".venv/bin/python"), PathBuf::from)
}

pub fn await_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain");
        thread::sleep(Duration::from_millis(10));
    }
}

pub fn await_that(mut holds: impl FnMut() -> bool) {
    await_some(|| holds().then_some(()));
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

/// Also where the tests themselves run under nohup.
#[cfg(unix)]
pub fn hears_hang_up(mut command: Command) -> Command {
    use std::os::unix::process::CommandExt;
    let hear = || {
        // SAFETY: the call may be made between fork and exec, and touches no memory.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: `hear` makes one system call.
    unsafe { command.pre_exec(hear) };
    command
}

/// A zombie has ended, even where nobody collects it.
pub fn alive(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'),
        Err(_) if cfg!(target_os = "linux") => false,
        Err(_) => rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok(),
    }
}

/// Standard error as text.
pub fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn pid(child: &Child) -> i32 {
    child.id().try_into().unwrap()
}

/// The executable alone in a folder, from which no checkout and no environment is found.
pub struct Elsewhere {
    pub folder: tempfile::TempDir,
    pub expert_cli: PathBuf,
}

impl Elsewhere {
    pub fn new() -> Self {
        Self::at("installed/in/bin")
    }

    /// A link, not a copy: a file that was just written cannot always be executed while other threads start programs.
    pub fn at(place: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bin = folder.path().join(place);
        std::fs::create_dir_all(&bin).unwrap();
        let expert_cli = bin.join("expert-cli");
        std::fs::hard_link(env!("CARGO_BIN_EXE_expert-cli"), &expert_cli).unwrap();
        Self { folder, expert_cli }
    }
}

/// A program that a test brings. Another process writes it: a file that this process had open for writing cannot be
/// executed while a program that another thread starts still holds it.
#[cfg(unix)]
pub fn script(file: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let draft = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(draft.path(), format!("#!/bin/sh\n{body}\n")).unwrap();
    assert!(Command::new("cp").arg(draft.path()).arg(file).status().unwrap().success());
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
