//! Programs that a downloaded repository brings along, in its git configuration or as an interpreter, never run.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::{Elsewhere, script};

/// A repository with one expert, committed, whose programs leave a file when they run.
struct Download {
    folder: tempfile::TempDir,
}

impl Download {
    fn new() -> Self {
        let download = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(download.path("experts")).unwrap();
        download.expert_cli(&["init", "a"]);
        download.git(&["init", "--quiet"]);
        download.git(&["add", "--all"]);
        download.git(&["commit", "--quiet", "--message", "x"]);
        download
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env("HOME", self.path("../no-home"));
        for name in ["EXPERT_PYTHON", "VIRTUAL_ENV", "GIT_DIR"] {
            command.env_remove(name);
        }
        command
    }

    fn expert_cli(&self, arguments: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_expert-cli"), arguments).output().unwrap()
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let done = self.command("git", &[&identity[..], arguments].concat()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A program that leaves `ran` and behaves like `cat`, so that git continues after it.
    fn program(&self) -> String {
        let file = self.path(".git/program");
        let ran = self.path(".git/ran");
        script(&file, &format!("echo \"$0 $*\" >> '{}'\ncat", ran.display()));
        file.to_str().unwrap().to_owned()
    }

    fn ran(&self) -> Option<String> {
        std::fs::read_to_string(self.path(".git/ran")).ok()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What the line of `matrix --changed-since HEAD` lists, and standard error.
    fn changed(&self) -> (String, String) {
        let output = self.expert_cli(&["matrix", "--changed-since", "HEAD"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }
}

/// The data was edited and its new time is that of the index, so that git has to read the file.
fn edited() -> Download {
    let download = Download::new();
    let data = download.path("experts/a/datasets/train.jsonl");
    let text = std::fs::read_to_string(&data).unwrap();
    std::fs::write(&data, text.replace("Monday", "Sunday")).unwrap();
    download
}

#[test]
fn no_program_of_the_repositorys_configuration_runs() {
    let settings: [(&str, &[(&str, &str)]); 9] = [
        ("fsmonitor", &[("core.fsmonitor", "{program}")]),
        ("clean", &[("filter.x.clean", "{program}")]),
        ("smudge", &[("filter.x.smudge", "{program}")]),
        ("process", &[("filter.x.process", "{program}"), ("filter.x.required", "true")]),
        ("hooks", &[("core.hooksPath", "{hooks}")]),
        ("diff", &[("diff.external", "{program}"), ("diff.x.command", "{program}")]),
        ("textconv", &[("diff.x.textconv", "{program}"), ("diff.x.cachetextconv", "true")]),
        ("pager", &[("core.pager", "{program}"), ("pager.diff", "{program}"), ("core.editor", "{program}")]),
        (
            "alias",
            &[
                ("alias.diff", "!{program}"),
                ("alias.rev-parse", "!{program}"),
                ("core.sshCommand", "{program}"),
            ],
        ),
    ];
    for (name, lines) in settings {
        let download = edited();
        let program = download.program();
        let hooks = download.path(".git/evil-hooks");
        for hook in ["post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"] {
            script(&hooks.join(hook), &format!("exec {program} < /dev/null"));
        }
        for (key, value) in lines {
            let value = value.replace("{program}", &program).replace("{hooks}", hooks.to_str().unwrap());
            download.git(&["config", key, &value]);
        }
        download.write(".git/info/attributes", "* filter=x diff=x\n");
        let (listed, talk) = download.changed();
        assert_eq!(download.ran(), None, "{name}");
        assert!(listed.contains("\"expert\":\"a\""), "{name}: {listed}");
        assert_eq!(talk, "", "{name}");
    }
}

#[test]
fn the_programs_of_this_test_would_run_if_git_were_asked_plainly() {
    let download = edited();
    let program = download.program();
    download.git(&["config", "filter.x.clean", &program]);
    download.write(".git/info/attributes", "* filter=x\n");
    download.git(&["diff", "--name-only", "HEAD"]);
    assert!(download.ran().unwrap().contains("program"));
}

#[test]
fn configuration_that_is_included_or_belongs_to_the_working_tree_counts_as_the_repositorys() {
    for name in ["include", "includeIf", "worktree", "odd name"] {
        let download = edited();
        let program = download.program();
        let evil = download.path(".git/evil");
        let filter = format!("[filter \"x\"]\n\tclean = {program}\n[core]\n\tfsmonitor = {program}\n");
        std::fs::write(&evil, filter).unwrap();
        match name {
            "include" => download.git(&["config", "include.path", evil.to_str().unwrap()]),
            "includeIf" => download.git(&["config", "includeIf.gitdir:/.path", evil.to_str().unwrap()]),
            "worktree" => {
                download.git(&["config", "extensions.worktreeConfig", "true"]);
                std::fs::rename(&evil, download.path(".git/config.worktree")).unwrap();
            }
            _ => {
                let odd = format!("\n[filter \"x=y.clean=z\"]\n\tclean = {program}\n");
                let config = download.path(".git/config");
                let text = std::fs::read_to_string(&config).unwrap();
                std::fs::write(config, text + &odd).unwrap();
            }
        }
        let attributes = if name == "odd name" { "* filter=x=y.clean=z\n" } else { "* filter=x\n" };
        download.write(".git/info/attributes", attributes);
        let (listed, _) = download.changed();
        assert_eq!(download.ran(), None, "{name}");
        assert!(listed.contains("\"expert\":\"a\""), "{name}: {listed}");
    }
}

/// git fetches an object that a partial clone lacks, by a program that the configuration names.
#[test]
fn nothing_is_fetched_to_complete_the_repository() {
    let download = edited();
    let program = download.path(".git/program").to_str().unwrap().to_owned();
    script(program.as_ref(), &format!("echo fetch >> '{}'", download.path(".git/ran").display()));
    for (key, value) in [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{program}")),
        ("remote.origin.uploadpack", program.as_str()),
        ("protocol.ext.allow", "always"),
        ("protocol.allow", "always"),
    ] {
        download.git(&["config", key, value]);
    }
    let manifest = std::fs::read_to_string(download.path("experts/a/manifest.json")).unwrap();
    std::fs::write(download.path("experts/a/manifest.json"), manifest.replace("\"rank\": 8", "\"rank\": 16"))
        .unwrap();
    // The objects of the commit's files are gone, so that its manifest can only be had from the remote.
    let id = Command::new("git")
        .args(["rev-parse", "HEAD:experts/a/manifest.json"])
        .current_dir(download.folder.path())
        .output()
        .unwrap();
    let id = String::from_utf8(id.stdout).unwrap();
    std::fs::remove_file(download.path(&format!(".git/objects/{}/{}", &id[..2], id[2..].trim()))).unwrap();
    let (listed, talk) = download.changed();
    assert_eq!(download.ran(), None, "{talk}");
    assert!(listed.contains("\"expert\":\"a\""), "{listed}");
}

/// A submodule has its own configuration.
#[test]
fn the_programs_of_a_submodule_do_not_run_and_its_changes_count() {
    let download = Download::new();
    let inner = tempfile::tempdir().unwrap();
    let inside = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        assert!(
            Command::new("git")
                .args(identity)
                .args(arguments)
                .current_dir(inner.path())
                .output()
                .unwrap()
                .status
                .success()
        );
    };
    inside(&["init", "--quiet"]);
    std::fs::write(inner.path().join("rows.csv"), "one\n").unwrap();
    inside(&["add", "--all"]);
    inside(&["commit", "--quiet", "--message", "x"]);
    download.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        inner.path().to_str().unwrap(),
        "experts/a/shared",
    ]);
    download.git(&["commit", "--quiet", "--message", "y"]);
    let (listed, talk) = download.changed();
    assert_eq!((listed.as_str(), talk.as_str()), ("{\"include\":[]}\n", ""));

    let program = download.program();
    let config = download.path(".git/modules/experts/a/shared/config");
    let text = std::fs::read_to_string(&config).unwrap();
    let evil = format!("\n[core]\n\tfsmonitor = {program}\n[filter \"x\"]\n\tclean = {program}\n");
    std::fs::write(&config, text + &evil).unwrap();
    download.write(".git/modules/experts/a/shared/info/attributes", "* filter=x\n");
    download.write("experts/a/shared/rows.csv", "two\n");
    let (listed, talk) = download.changed();
    assert_eq!(download.ran(), None, "{talk}");
    assert!(listed.contains("\"expert\":\"a\""), "{listed}");
}

#[test]
fn the_interpreter_of_a_download_does_not_run() {
    let download = Download::new();
    let installed = Elsewhere::new();
    let ran = download.path(".git/ran");
    for place in [".venv", "experts/.venv", "experts/a/.venv", "venv"] {
        script(&download.path(place).join("bin/python"), &format!("echo run > '{}'", ran.display()));
        download.write(&format!("{place}/lib/python3.12/site-packages/expert_worker/__init__.py"), "");
    }
    download.write("experts/a/datasets/train.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    for folder in ["", "experts", "experts/a"] {
        for words in [
            "doctor",
            "train --manifest {a}",
            "pretokenize --manifest {a}",
            "report {a}",
            "train --all {a}",
            "bench watch",
        ] {
            let expert = download.path("experts/a").to_str().unwrap().to_owned();
            let words: Vec<String> = words.split(' ').map(|word| word.replace("{a}", &expert)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut command = download.command(&installed.expert_cli, &words);
            let output = command
                .current_dir(download.path(folder))
                .env("PATH", installed.folder.path())
                .output()
                .unwrap();
            assert!(!ran.exists(), "{words:?} in {folder}");
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_ne!(output.status.code(), Some(0), "{words:?}: {text}");
        }
    }
}

/// The same folders, once a person asks for them.
#[test]
fn an_interpreter_that_is_asked_for_runs() {
    let download = Download::new();
    let installed = Elsewhere::new();
    let python = download.path(".venv/bin/python");
    script(&python, &format!("echo run > '{}'", download.path(".git/ran").display()));
    for (name, value) in [("EXPERT_PYTHON", python.clone()), ("VIRTUAL_ENV", download.path(".venv"))] {
        let mut command = download.command(&installed.expert_cli, &["doctor"]);
        command.env(name, value).env("PATH", installed.folder.path()).output().unwrap();
        assert!(download.ran().is_some(), "{name}");
        std::fs::remove_file(download.path(".git/ran")).unwrap();
    }
}
