"""`expert-cli train` under two agents of torchrun on the loopback that lose a rank, a worker or a node."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from launches import Expert, Ranks, adapters_apart, await_checkpoint, expert_in, newest

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="ends processes as Linux does"),
]
STEPS = 60
# At a rate at which sixty steps do not multiply the rounding of two processes.
ASKED = ("--set", f"training.config.max_steps={STEPS}", "--learning-rate", "0.0002")
KINDS = ("rank", "worker", "node", "store", "fewer")
# Without it an agent that joins a later round waits for an address that was published in an earlier one.
FRESH_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    with expert_in(tmp_path_factory.mktemp("torchrun")) as expert:
        yield expert


@pytest.fixture(scope="module")
def undisturbed(expert: Expert) -> Path:
    """The run of one process."""
    trained = expert.alone(*expert.words("alone", *ASKED))
    assert trained.returncode == 0, trained.stderr[-3000:]
    return expert.folder / "alone"


def await_rank(launched: Ranks, number: int) -> None:
    while not launched.below(number, b"expert-cli\0train"):
        assert launched.processes[number].poll() is None, launched.said(number)[-3000:]
        time.sleep(0.02)


def lose(kind: str, victim: int, expert: Expert, launched: Ranks) -> None:
    """With what torchrun needs from outside to continue."""
    if kind in ("rank", "worker"):
        words = b"expert-cli\0train" if kind == "rank" else b"expert_worker\0train"
        for pid in launched.below(victim, words):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    launched.kill_node(0 if kind == "store" else 1)
    if kind == "node":
        expert.start_agent(launched, 1)
    elif kind == "store":
        # The agents meet at the node that is lost: the other one ends, and both are started.
        with suppress(subprocess.TimeoutExpired):
            assert launched.processes[1].wait(120) != 0
        launched.kill_node(1)


@pytest.mark.parametrize("number", range(10))
def test_what_is_lost_at_any_moment_is_resumed(expert: Expert, undisturbed: Path, number: int) -> None:
    draw = random.Random(number)
    kind, victim, run = KINDS[number % 5], number // 5, expert.folder / f"lost-{number}"
    nodes = "1:2" if kind == "fewer" else "2"
    variables = FRESH_STORE if kind in ("node", "fewer") else {}
    launched = expert.torchrun(run.name, *ASKED, nodes=nodes, restarts=3, **variables)
    # While it starts; a rank that is left alone before the others have come ends at its limit.
    if draw.random() < 0.3 and kind != "fewer":
        await_rank(launched, 0)
        await_rank(launched, 1)
        time.sleep(draw.uniform(0, 5))
    else:
        await_checkpoint(launched, run, 2 * draw.randint(1, STEPS // 3))
        time.sleep(draw.uniform(0, 0.3))
    assert not (run / "final").exists()
    print(f"{kind} {victim} lost, checkpoint {newest(run)}")
    lose(kind, victim, expert, launched)
    if kind == "store":
        launched = expert.torchrun(run.name, *ASKED)
    codes = launched.finish()
    assert codes == ([0, -signal.SIGKILL] if kind == "fewer" else [0, 0]), (
        launched.said(0)[-3000:] + launched.said(1)[-3000:]
    )
    assert adapters_apart(run, undisturbed) < 1e-6


def test_a_rank_whose_peer_is_lost_before_it_came_ends_by_itself(expert: Expert) -> None:
    """No agent ends it: that of its machine lives, and sees nothing wrong."""
    launched = expert.torchrun("left-alone", *ASKED, EXPERT_RANK_TIMEOUT="20")
    await_rank(launched, 0)
    await_rank(launched, 1)
    launched.kill_node(1)
    assert launched.processes[0].wait(300) != 0
    said = launched.said(0)
    assert "20s" in said, said[-3000:]
    assert re.search(r"rank [01] did not come within 20 s \(EXPERT_RANK_TIMEOUT\)", said), said[-3000:]
