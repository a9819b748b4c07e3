"""Rows that a run tokenizes for itself are gone after it, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.train import dataset
from expert_worker.train.dataset import open_dataset

OWNER = """
import sys
from expert_worker.train import dataset
folder = dataset.create_rows_folder()
(folder.path / "cache").mkdir()
(folder.path / "cache" / "rows.arrow").write_bytes(b"rows")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@contextmanager
def owner(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder for its rows."""
    source = Path(__file__).parents[3] / "worker" / "python"
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(source)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def test_rows_of_a_killed_worker_are_removed_and_those_of_a_live_one_kept(temporary: Path) -> None:
    with owner(temporary) as (dead, abandoned), owner(temporary) as (live, used):
        assert dataset.remove_abandoned_rows() == []
        dead.kill()
        dead.wait()
        assert (abandoned / "cache" / "rows.arrow").is_file()
        assert dataset.remove_abandoned_rows() == [abandoned]
        assert not abandoned.exists() and (used / "cache" / "rows.arrow").is_file()
        assert live.poll() is None


def test_a_removal_that_was_killed_itself_is_completed(temporary: Path) -> None:
    with owner(temporary) as (dead, abandoned):
        dead.kill()
        dead.wait()
        (abandoned / "cache" / "rows.arrow").unlink()
        (abandoned / "cache").rmdir()
        assert dataset.remove_abandoned_rows() == [abandoned]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
def test_what_is_not_a_worker_s_folder_stays(temporary: Path, tmp_path: Path) -> None:
    """A link, a folder without a lock, a lock that is a link: the temporary folder is everyone's."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "owner.lock").touch()
    (temporary / "expert-rows-link").symlink_to(mine)
    (temporary / "expert-rows-bare").mkdir()
    (temporary / "expert-rows-bare" / "thesis.tex").touch()
    (temporary / "expert-rows-lock").mkdir()
    (temporary / "expert-rows-lock" / "owner.lock").symlink_to(mine / "owner.lock")
    assert dataset.remove_abandoned_rows() == []
    assert (mine / "owner.lock").is_file() and (temporary / "expert-rows-bare" / "thesis.tex").is_file()
    assert (temporary / "expert-rows-lock").is_dir()


def on_the_fly(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, write_base(tmp_path / "base", llama3_like()), tmp_path / "home")


def test_a_run_removes_abandoned_rows_first_and_its_own_at_the_end(tmp_path: Path, temporary: Path) -> None:
    workshop = on_the_fly(tmp_path)
    plan = workshop.plan(
        workshop.jsonl([{"prompt": "Q", "completion": "A"}]), {"machine.loader.use_cache": False}
    )
    with owner(temporary) as (dead, abandoned):
        dead.kill()
        dead.wait()
        opened = open_dataset(plan, Events.in_memory()[0])
    assert not abandoned.exists() and len(opened.train) == 1
    (own,) = temporary.iterdir()
    assert dataset.remove_abandoned_rows() == [] and own.is_dir()
    opened.close()
    opened.close()
    assert list(temporary.iterdir()) == []


def test_rows_that_cannot_be_tokenized_leave_no_folder(tmp_path: Path, temporary: Path) -> None:
    workshop = on_the_fly(tmp_path)
    plan = workshop.plan(workshop.jsonl([{"odd": 1}]), {"machine.loader.use_cache": False})
    with pytest.raises(BadInput):
        open_dataset(plan, Events.in_memory()[0])
    assert list(temporary.iterdir()) == []
