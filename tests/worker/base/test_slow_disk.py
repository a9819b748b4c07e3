"""A slow disk is named before a load of minutes, and no other one."""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

import pytest

from expert_worker import slow_disk
from expert_worker.events import Events


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """10 GB that take no room."""
    with (tmp_path / "model.safetensors").open("wb") as file:
        os.truncate(file.fileno(), 10_000_000_000)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def warnings(folder: Path) -> list[tuple[str, str]]:
    events, memory = Events.in_memory()
    slow_disk.warn_if_slow("the base", folder, "Copy it.", events)
    return [(e.body.code, e.body.message) for e in memory.events if e.body.type == "warning"]


def test_a_slow_disk_is_named_with_what_it_costs(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(slow_disk, "_bytes_per_second", lambda path: 17e6)
    (found,) = warnings(folder)
    assert found[0] == "slow-disk"
    assert f"in {folder} reads 17 MB/s: its 10.0 GB take about 10 min" in found[1]


@pytest.mark.parametrize(
    ("size", "speed"), [(10_000_000_000, 200e6), (100_000_000, 17e6), (10_000_000_000, None)]
)
def test_a_fast_disk_and_a_small_base_are_not_mentioned(folder: Path, monkeypatch, size, speed) -> None:
    os.truncate(folder / "model.safetensors", size)
    monkeypatch.setattr(slow_disk, "_bytes_per_second", lambda path: speed)
    assert warnings(folder) == []


@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux alone")
def test_time_in_which_the_processor_is_busy_is_not_the_disks(folder: Path, monkeypatch) -> None:
    """Each read takes a second by the clock, of which the thread waited 0.9 s for a core."""
    walls, others = count(0.0, 1.0), count(0.0, 0.9)
    monkeypatch.setattr("time.perf_counter", lambda: next(walls))
    monkeypatch.setattr(slow_disk, "_seconds_without_disk", lambda: next(others))
    speed = slow_disk._bytes_per_second(folder / "model.safetensors")
    assert speed == pytest.approx((16 << 20) / 0.1)


def test_the_disk_of_the_token_cache_is_looked_at(folder: Path, monkeypatch) -> None:
    from expert_worker.pretokenize import ensure

    monkeypatch.setattr(ensure, "read_description", lambda target: object())
    monkeypatch.setattr(ensure, "damage", lambda target, found: None)
    monkeypatch.setattr(slow_disk, "_bytes_per_second", lambda path: 17e6)
    events, memory = Events.in_memory()
    assert ensure._undamaged(folder, events) is not None
    assert [e.body.code for e in memory.events if e.body.type == "warning"] == ["slow-disk"]
