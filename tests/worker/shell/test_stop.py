"""Who is asked to stop: a signal means every run of a worker, the file in a run's folder that run alone."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from expert_worker import stop
from expert_worker.errors import Interrupted
from expert_worker.process import run_lock
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


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither TERM nor HUP")


@pytest.fixture
def installed() -> Iterator[Stop]:
    # The tests may run under nohup.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in stop.SIGNALS}
    asked = Stop()
    asked.install()
    yield asked
    for number, handler in before.items():
        signal.signal(number, handler)


@POSIX
@pytest.mark.parametrize("repeated", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_worker_of_the_cli_saves_also_where_the_signal_comes_twice(
    installed: Stop, monkeypatch: pytest.MonkeyPatch, repeated: str
) -> None:
    monkeypatch.setenv("EXPERT_PARENT_PID", "1")
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(getattr(signal, repeated))
    assert installed.requested and installed.terminated


@POSIX
def test_a_terminal_that_closes_asks_once(installed: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPERT_PARENT_PID", raising=False)
    for _ in range(2):
        signal.raise_signal(signal.SIGHUP)
    assert installed.requested and installed.terminated
    with pytest.raises(Interrupted, match="at once"):
        signal.raise_signal(signal.SIGINT)


@POSIX
def test_nohup_has_a_worker_ignore_the_end_of_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Stop().install()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_worker_knows_that_it_works_for_a_held_run_where_it_holds_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Windows: it looks for the file of `expert-cli stop` while it scores."""
    monkeypatch.setattr(run_lock, "_named", [])
    monkeypatch.setenv(run_lock.NAME, "held")
    assert not run_lock.is_held()
    run_lock.hold_inherited()
    assert run_lock.is_held() and run_lock.for_process() == ({}, ())
    assert run_lock.NAME not in os.environ
