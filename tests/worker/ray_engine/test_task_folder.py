"""The folder on a node is the user's alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from expert_worker.errors import Storage
from expert_worker.ray_engine.task_folder import shelf_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")


def rights(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


def test_without_a_home_it_is_a_folder_of_this_user_in_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXPERT_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = shelf_folder()
    assert folder.parent == tmp_path / f"expert-cli-{os.geteuid()}"
    assert rights(folder) == rights(folder.parent) == 0o700


def test_one_that_others_may_read_is_closed_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPERT_HOME", str(tmp_path))
    (tmp_path / "shelf").mkdir(mode=0o755)
    before = rights(tmp_path)
    assert rights(shelf_folder()) == 0o700
    assert rights(tmp_path) == before


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPERT_HOME", str(tmp_path))
    folder, user = shelf_folder(), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(Storage) as raised:
        shelf_folder()
    assert str(folder) in raised.value.message and "EXPERT_HOME" in str(raised.value.hint)
