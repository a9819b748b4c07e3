"""A task of a cluster publishes through its lease's folder, and no longer once another has taken over."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from expert_worker import lease
from expert_worker.checkpoint import files


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run = tmp_path / "run"
    mine = run / "lease" / "3"
    mine.mkdir(parents=True)
    monkeypatch.setenv(lease.NAME, str(mine))
    return run


def take_over(run: Path) -> None:
    (run / "lease" / "4").mkdir()
    shutil.rmtree(run / "lease" / "3")


def fill(folder: Path) -> None:
    files.write(folder / "state.json", [b"mine"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda run: files.replace(run / "run.json", b"mine"),
    "a checkpoint": lambda run: files.build_folder(run / "checkpoint-9", fill),
    "a checkpoint that is there": lambda run: files.build_folder(run / "checkpoint-2", fill),
    "its deletion": lambda run: files.discard_folder(run / "checkpoint-2"),
    "its renaming": lambda run: files.move_folder(run / "checkpoint-2", run / "checkpoint-2.damaged"),
    "leftovers": lambda run: files.remove_leftovers(run, files.re.compile("checkpoint-2")),
    "a cache elsewhere": lambda run: files.build_folder(run.parent / "cache", fill),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_holder_changes_the_run_and_one_that_lost_its_lease_does_not(
    run: Path, change: Callable[[Path], object]
) -> None:
    for name in ("checkpoint-2", "checkpoint-2.partial"):
        (run / name).mkdir()
        (run / name / "state.json").write_bytes(b"theirs")
    before = tree(run.parent)
    kept = run.parent.with_name("kept")
    shutil.copytree(run.parent, kept)
    change(run)
    assert tree(run.parent) != before
    assert names(run / "lease" / "3") == [], "nothing is left in its folder"
    shutil.rmtree(run.parent)
    kept.rename(run.parent)
    take_over(run)
    with pytest.raises(lease.LeaseLost, match="Another task"):
        change(run)
    assert tree(run.parent) == before


@pytest.mark.parametrize("change", ["a file", "a checkpoint", "its deletion"])
def test_a_pause_right_before_the_rename_changes_nothing(
    run: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "checkpoint-2").mkdir()
    (run / "checkpoint-2" / "state.json").write_bytes(b"theirs")
    before = tree(run)

    def paused(real: Callable[..., object]) -> Callable[..., object]:
        def rename(source: Path, target: Path) -> object:
            if (run / "lease" / "3").exists():
                take_over(run)
            return real(source, target)

        return rename

    monkeypatch.setattr(Path, "rename", paused(os.rename))
    monkeypatch.setattr(Path, "replace", paused(os.replace))
    with pytest.raises(lease.LeaseLost):
        CHANGES[change](run)
    assert tree(run) == before


def test_without_a_lease_temporary_names_are_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lease.NAME, raising=False)
    assert lease.beside(tmp_path / "final", ".partial") == tmp_path / "final.partial"
    lease.confirm()
    monkeypatch.setenv(lease.NAME, str(tmp_path / "run" / "lease" / "7"))
    assert lease.beside(tmp_path / "cache", ".partial") == tmp_path / "cache.7.partial"
