"""Starts the processes that train together, forwards stop requests, and ends all of them when one is lost. It
does not train itself and does not import torch."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expert_worker.errors import ExpertError, Failed, Interrupted
from expert_worker.events.sinks import Pipe
from expert_worker.exit import Exit
from expert_worker.plan import Plan
from expert_worker.process import run_lock
from expert_worker.process.rank import INTERRUPT, RANK, RENDEZVOUS, TERMINATE, this_rank
from expert_worker.processor import available_cores
from expert_worker.stop import Stop

_ROUND = 0.05
# A process that fails reports why; rank 0 may then still be reporting or saving.
_LAST_WORDS = 5.0
_STOPPED = (Exit.INTERRUPTED, Exit.TERMINATED)


class Reported(ExpertError):
    """The reason that another process reported for its end."""

    def __init__(self, number: int, of: int, said: dict[str, Any]) -> None:
        super().__init__(
            f"Process {number} of {of}: {said['message']}", hint=said.get("hint"), code=said["code"]
        )
        self._exit = Exit(said["exit"])

    @property
    def exit_code(self) -> Exit:
        return self._exit


def leads(plan: Plan) -> bool:
    """Whether this process is to start others instead of working itself."""
    together = plan.machine.distributed
    return together is not None and plan.request.stage == "train" and this_rank() is None


@dataclass
class Member:
    number: int
    process: subprocess.Popen[bytes]
    last_words: dict[str, Any] | None = None
    listener: threading.Thread | None = field(default=None, repr=False)

    @property
    def code(self) -> int | None:
        return self.process.poll()

    def send(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.write(word)
            self.process.stdin.flush()

    def end(self) -> None:
        """At once where it still runs; then everything that it said has been read."""
        if self.code is None:
            self.process.kill()
        self.process.wait()
        if self.listener is not None:
            self.listener.join()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


def lead(plan: Plan, plan_path: Path, pipe: Pipe, stop: Stop) -> int | ExpertError:
    """The first process's exit code, where it has said its last word itself; else what there is to say."""
    together = plan.machine.distributed
    assert together is not None
    with tempfile.TemporaryDirectory(prefix="expert-ranks-", ignore_cleanup_errors=True) as folder:
        members: list[Member] = []
        try:
            for number in range(together.processes):
                members.append(_start(number, plan, plan_path, Path(folder) / "meeting", pipe))
            lost = _watch(members, stop)
        except Interrupted as at_once:
            return at_once
        finally:
            for member in members:
                member.end()
    return _explain(lost, len(members)) if lost else members[0].process.returncode


def _start(number: int, plan: Plan, plan_path: Path, rendezvous: Path, pipe: Pipe) -> Member:
    together = plan.machine.distributed
    assert together is not None
    lock, descriptors = run_lock.for_process()
    environment = {
        **os.environ,
        **lock,
        RANK: str(number),
        RENDEZVOUS: str(rendezvous),
        "EXPERT_PARENT_PID": str(os.getpid()),
        # The names that accelerate reads.
        "RANK": str(number),
        "WORLD_SIZE": str(together.processes),
        "LOCAL_RANK": str(plan.machine.device.index + number),
        "LOCAL_WORLD_SIZE": str(together.processes),
    }
    if plan.machine.device.kind == "cpu":
        environment |= _loopback()
        environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // together.processes)))
    is_main_process = number == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "expert_worker", plan.request.stage, "--plan", str(plan_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=pipe.descriptor if is_main_process else subprocess.PIPE,
        pass_fds=descriptors,
    )
    member = Member(number, process)
    if not is_main_process:
        member.listener = threading.Thread(target=_listen, args=(member, pipe), daemon=True)
        member.listener.start()
    return member


def _loopback() -> dict[str, str]:
    """They talk within this machine: no network is needed, and no firewall has to ask."""
    name = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {"GLOO_SOCKET_IFNAME": name} if name else {}


def _listen(member: Member, pipe: Pipe) -> None:
    """Of what the others say, their mishaps are passed on, and their last words kept."""
    assert member.process.stdout is not None
    for line in member.process.stdout:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = json.loads(line)
            body = event["body"]
            if body["type"] == "failed":
                member.last_words = body
            elif body["type"] == "recovered":
                body["detail"] = f"Process {member.number}: {body['detail']}"
                pipe.write_raw(json.dumps(event).encode() + b"\n")


def _watch(members: Sequence[Member], stop: Stop) -> Member | None:
    """Returns when the first process has ended in its own words, or with the one that was lost."""
    asked, deadline = False, None
    while True:
        codes = [member.code for member in members]
        killed = [m for m, code in zip(members, codes, strict=True) if code is not None and code < 0]
        if killed:
            return killed[0]
        if codes[0] is not None:
            _await_others(members)
            return None
        failed = [m for m, code in zip(members, codes, strict=True) if code and code not in _STOPPED]
        if failed and deadline is None:
            deadline = time.monotonic() + _LAST_WORDS
        if deadline is not None and time.monotonic() > deadline:
            return failed[0]
        if stop.requested and not asked:
            asked = True
            for member in members:
                member.send(TERMINATE if stop.terminated else INTERRUPT)
        time.sleep(_ROUND)


def _await_others(members: Sequence[Member]) -> None:
    """The run is over: the others have nothing left to do but to leave."""
    deadline = time.monotonic() + _LAST_WORDS
    while any(member.code is None for member in members) and time.monotonic() < deadline:
        time.sleep(_ROUND)


def _explain(lost: Member, of: int) -> ExpertError:
    if lost.last_words is not None:
        return Reported(lost.number, of, lost.last_words)
    code = lost.process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code} and without a word"
    return Failed(
        f"Process {lost.number} of {of} {how}; the others were ended with it",
        hint="Nothing but the steps since the newest checkpoint is lost: run again with --resume. "
        "A kill from outside is mostly for want of memory.",
        code="process-lost",
    )
