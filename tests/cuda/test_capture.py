"""The stand-in driver captures streams as CUDA does: launches are recorded, and what CUDA forbids fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stand_in import RTX_4090, Driver

CASES = Path(__file__).with_name("capture_cases.py")
REFUSED = {
    "value": "previous error during capture",
    "value in backward": "previous error during capture",
    "wait for all": "previous error during capture",
    "wait for a stream": "previous error during capture",
    "pageable copy": "unless the CPU tensor is pinned",
    "unjoined fork": "unjoined work",
    "event from outside": "previous error during capture",
    "out of memory": "out of memory",
}


@pytest.fixture(scope="module")
def found(driver: Driver) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, CASES], env=driver.environment(RTX_4090), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    cases: dict[str, Any] = json.loads(done.stdout)
    return cases


def test_a_replay_is_one_launch(found: dict[str, Any]) -> None:
    captured, replayed = found["step"]["captured"], found["step"]["replayed"]
    # A product forward and its gradient's, and at least sum, ReLU, and the gradients of both.
    assert captured["captures"] == 1 and captured["captured"] >= 6
    assert captured["kernels"] == captured["products"] == captured["replays"] == 0
    assert replayed == {
        **dict.fromkeys(replayed, 0), "replays": 1, "replayed": captured["captured"],
    }  # fmt: skip


def test_what_a_capture_allows(found: dict[str, Any]) -> None:
    assert all("error" not in found[case] for case in ("fork and join", "pinning", "pinned copy"))
    # A replay reads the memory that was captured, as it is then.
    assert found["pinned copy"]["arrived"] == [7.0] * 4


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_capture_forbids(found: dict[str, Any], case: str) -> None:
    assert REFUSED[case] in found[case].get("error", "captured")


def test_memory_is_not_unmapped_under_a_replay(found: dict[str, Any]) -> None:
    """The recorder waits before its graphs' memory is given back, and the driver finds where nobody waits."""
    assert found["freed"]["renewed"] == ""
    assert "unmapped under a replay" in found["freed"]["at once"]
