"""Who is asked to stop: a signal means every run of a worker, the file in a run's folder that run alone."""

from pathlib import Path

import pytest

from expert_worker import stop
from expert_worker.errors import Interrupted
from expert_worker.stop import Stop


def test_a_file_stops_one_run_and_a_signal_all_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "_ROUND", 0.0)
    worker = Stop()
    one, other = Stop(worker), Stop(worker)
    one.watch(tmp_path / "one")
    other.watch(tmp_path / "other")
    (tmp_path / "one").mkdir()
    assert not one.requested
    (tmp_path / "one" / "stop").touch()
    assert one.requested and not one.terminated
    assert not other.requested and not worker.requested
    with pytest.raises(Interrupted):
        one.raise_if_requested()
    worker.request(terminated=True)
    assert other.requested and other.terminated and one.terminated


def test_the_folder_is_not_looked_at_for_every_step(tmp_path: Path) -> None:
    asked = Stop()
    asked.watch(tmp_path)
    assert not asked.requested
    (tmp_path / "stop").touch()
    assert not asked.requested, "within a second of the last look"
