"""The scoring process has no network and only its own folder; where the system cannot do that, it is said."""

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from plans import example_plan

from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.examiner import Examiner
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.subject import Subject
from expert_worker.events import Events
from expert_worker.probe import probe

CREATE_RULESET = 444


def landlock() -> int:
    """The version of Landlock that this system has, asked without the code under test."""
    return int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1)) if sys.platform == "linux" else -1


def tried(*what: str) -> tuple[list[str], Confinement]:
    """What became of each attempt in the scoring process, and what confined it. A right answer follows."""
    found: list[Confinement] = []
    texts = [*(f"try {one}" for one in what), "right"]
    verdicts = judge_all("test-offered", [{}] * len(texts), texts, confined=found.append)
    assert verdicts[-1].correct, "an attempt changed the score of another answer"
    return [verdict.reason for verdict in verdicts[:-1]], found[0]


@pytest.mark.skipif(landlock() < 1, reason="needs Linux with Landlock")
def test_a_hostile_answer_reaches_nothing_but_its_folder(offered: None, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-home" / "secret"
    secret.parent.mkdir()
    secret.write_text("hush")
    secret.chmod(0o600)
    before = secret.stat()
    outside = secret.with_name("new")
    refused = [
        "socket",
        "local socket",
        "accounts",
        "parent's secrets",
        "parent",
        "parent's priority",
        "parent's limits",
        "parent's processors",
        "session",
        "datagrams",
        f"read {secret}",
        f"list {secret.parent}",
        f"write {secret}",
        f"write {outside}",
        f"remove {secret}",
        f"open up {secret}",
        f"take {secret}",
        f"date {secret}",
        f"label {secret}",
    ]
    allowed = ["own folder", "libraries", "null", "own limits", "pair"]
    outcomes, confinement = tried(*refused, "other process", *allowed)
    assert dict(zip(refused, outcomes, strict=False)) == dict.fromkeys(refused, "PermissionError")
    assert outcomes[len(refused) :] == ["CalledProcessError", *["done"] * len(allowed)]
    assert (confinement.files, confinement.network) == (f"Landlock {landlock()}", "seccomp")
    assert confinement.missing == ()
    assert secret.read_text() == "hush" and not outside.exists()
    after = secret.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@pytest.fixture
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Makes a system call unknown to every Python that is started, as an older kernel does."""

    def hide(name: str, number: int) -> None:
        wrapper = tmp_path / f"python-without-{name}"
        wrapper.write_text(
            f"#!{sys.executable}\nimport errno, os, sys\n"
            "from expert_worker.evaluate import confinement\n"
            "confinement._forbid_new_privileges()\n"
            f"confinement._filter({{{number}: ()}}, errno.ENOSYS)\n"
            f"os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
        )
        wrapper.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(wrapper))

    return hide


@pytest.mark.skipif(landlock() < 1, reason="needs Linux with Landlock")
@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_of_landlock_confines_alike(
    offered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    if version > landlock():
        pytest.skip(f"this system has version {landlock()}")
    wrapper = tmp_path / "python-with-an-older-landlock"
    wrapper.write_text(
        f"#!{sys.executable}\nimport runpy, sys\n"
        "from expert_worker.evaluate import confinement\n"
        f"confinement._landlock_version = lambda: {version}\n"
        "runpy.run_module(sys.argv[-1], run_name='__main__')\n"
    )
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    # Python's own folders may be read, and this is one of them.
    library = tmp_path / "library"
    library.write_text("hush")
    refused = [
        "parent",
        "parent by its thread",
        "parent by a queued signal",
        "parent by a descriptor",
        f"write {library}",
        f"truncate {library}",
        f"empty by reading {library}",
        f"empty by neither {library}",
    ]
    # From version 6 on, the kernel refuses only the signal that such a file would send.
    refused += ["parent by a file's owner", "every process"] * (version < 6)
    allowed = ["itself", "a program's group", "own folder", f"read {library}"]
    outcomes, confinement = tried(*refused, *allowed, "a program's time limit")
    assert dict(zip(refused, outcomes, strict=False)) == dict.fromkeys(refused, "PermissionError")
    assert outcomes[len(refused) :] == [*["done"] * len(allowed), "TimeoutExpired"]
    assert library.read_text() == "hush"
    assert (confinement.files, confinement.missing) == (f"Landlock {version}", ())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these")
def test_without_landlock_it_is_said_and_the_network_is_still_closed(
    offered: None, without: Callable[[str, int], None]
) -> None:
    without("landlock", CREATE_RULESET)
    outcomes, confinement = tried("accounts", "socket")
    assert outcomes == ["done", "PermissionError"]
    assert confinement.files is None and confinement.network == "seccomp"
    assert confinement.missing == ("files: Landlock is not available (Function not implemented)",)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these")
def test_the_probe_says_what_a_scorer_would_be_confined_by(without: Callable[[str, int], None]) -> None:
    command = [sys.executable, "-m", "expert_worker.evaluate.confinement"]
    before = probe()["confinement"]
    assert before == json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    without("landlock", CREATE_RULESET)
    assert probe()["confinement"]["files"] is None


def test_another_system_has_none_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from expert_worker.evaluate.confinement import confine

    monkeypatch.setattr(sys, "platform", "darwin")
    found = confine(Path.cwd())
    assert (found.files, found.network) == (None, None)
    assert len(found.missing) == 1
    assert found.document() == {"files": None, "network": None, "missing": [*found.missing]}


def test_what_is_missing_is_a_warning_once(tmp_path: Path) -> None:
    events, memory = Events.in_memory("evaluate")
    subject = cast(Subject, None)
    examiner = Examiner(example_plan(tmp_path), events, subject)
    for _ in range(2):
        examiner._note_confinement(Confinement(None, "seccomp", ("files: Landlock is not available",)))
    warnings = [event.body for event in memory.events if event.body.type == "warning"]
    assert [warning.code for warning in warnings] == ["scoring-not-confined"]
    assert "files: Landlock is not available" in warnings[0].message
