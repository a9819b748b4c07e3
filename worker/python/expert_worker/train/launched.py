"""How the processes of a launcher (torchrun, Slurm, Kubernetes) meet at MASTER_ADDR, and how each notices
that another is gone: no process of ours watches all of them, and a collective over NCCL waits without end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import uuid4

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from expert_worker.errors import ExpertError, Failed
from expert_worker.events import Events
from expert_worker.exit import Exit
from expert_worker.process.leave import leave
from expert_worker.stop import Stop

# Where the CLI does not say it. Rank 0 may fetch a base or digest data before it comes.
_PATIENCE = 900.0
_TIMEOUT = "EXPERT_RANK_TIMEOUT"
# Ranks that come one after the other, as usual, are not worth a word.
_SOON = 10.0
_ATTEMPT = timedelta(seconds=5)
_ROUND = 0.2
_BEAT = 5.0
# Longer than a machine that is out of memory may make no progress.
_SILENCE = 120.0
# A broken collective ends a process with a better message, if it notices.
_LAST_WORDS = 10.0
_LEFT, _FAILED = b"left", b"failed"
# Rank 0 waits so long for ranks that have not read its refusal; some may have ended before.
_UNTIL_READ = 180.0
_MEETING = "expert"


class KeyStore(Protocol):
    """What is used of torch's stores."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...


class Refused(ExpertError):
    """What rank 0 said when it refused to start."""

    def __init__(self, size: int, said: dict[str, Any]) -> None:
        super().__init__(
            f"Rank 0 of {size} refused to start: {said['message']}", hint=said["hint"], code=said["code"]
        )
        self._exit = Exit(said["exit"])

    @property
    def exit_code(self) -> Exit:
        return self._exit


def patience() -> float:
    """Seconds that a rank waits for the others at its start."""
    return float(os.environ.get(_TIMEOUT) or _PATIENCE)


def meet(number: int, size: int, events: Events) -> Store:
    """The store that all ranks share, once all of them are there.

    A rank whose peer was lost before it came is ended by nobody else: a launcher's agent sees only the
    processes of its machine."""
    stop, limit, began = events.stop, patience(), time.monotonic()
    deadline, said = began + limit, ""
    store = _shared_store(number, stop, deadline)
    meeting = Meeting(store, size)
    part = Join(meeting, number) if number else Gathering(meeting)
    while (name := part.round()) is None:
        stop.raise_if_requested()
        absent = ", ".join(map(str, meeting.absent(part.group())))
        if time.monotonic() > deadline:
            raise _cannot_meet(f"rank {absent} did not come within {limit:g} s ({_TIMEOUT})")
        if absent != said and time.monotonic() - began > _SOON:
            said = absent
            events.stage("processes", limit, f"waits for rank {absent}, {limit:g} s at most ({_TIMEOUT})")
        time.sleep(_ROUND)
    return PrefixStore(name, store)


def publish_refusal(size: int, said: dict[str, Any], stop: Stop) -> None:
    """In the place of rank 0, which does not join the others. Returns when they have read it."""
    deadline = time.monotonic() + _UNTIL_READ
    gathering = Gathering(Meeting(_shared_store(0, stop, deadline), size), said)
    while gathering.round() is None and time.monotonic() < deadline:
        stop.raise_if_requested()
        time.sleep(_ROUND)


class Meeting:
    """The keys by which ranks find each other in a store that may hold keys of ranks that have ended.

    torchrun's store outlives a restart of the ranks, and its agents count restarts differently. So each rank
    has a token: rank 0 names the tokens that it has found, and the group is complete when each has answered.
    """

    def __init__(self, store: KeyStore, size: int) -> None:
        self.store, self.size = store, size

    def come(self, number: int, token: str) -> None:
        self.store.set(f"{_MEETING}/come/{number}", token)

    def present(self) -> dict[str, str]:
        """The newest token of each rank but the first."""
        found = {str(number): self._read(f"come/{number}") for number in range(1, self.size)}
        return {number: token for number, token in found.items() if token is not None}

    def absent(self, group: dict[str, Any] | None) -> list[int]:
        """Without a group nobody knows more than that rank 0 has not proposed one."""
        others = range(1, self.size)
        return [0] if group is None else [one for one in others if not self.has_answered(group, one)]

    def group(self) -> dict[str, Any] | None:
        text = self._read("group")
        return None if text is None else json.loads(text)

    def propose(self, group: dict[str, Any]) -> None:
        self.store.set(f"{_MEETING}/group", json.dumps(group))

    def answer(self, group: dict[str, Any], number: int) -> None:
        self.store.set(f"{group['name']}/answer/{number}", "")

    def has_answered(self, group: dict[str, Any], number: int) -> bool:
        return self.store.check([f"{group['name']}/answer/{number}"])

    def complete(self, group: dict[str, Any]) -> None:
        self.store.set(f"{group['name']}/complete", "")

    def is_complete(self, group: dict[str, Any]) -> bool:
        return self.store.check([f"{group['name']}/complete"])

    def _read(self, key: str) -> str | None:
        key = f"{_MEETING}/{key}"
        return self.store.get(key).decode() if self.store.check([key]) else None


class Gathering:
    """Rank 0: proposes a group whenever another rank has come."""

    def __init__(self, meeting: Meeting, refusal: dict[str, Any] | None = None) -> None:
        self._meeting, self._refusal = meeting, refusal
        self._token = uuid4().hex
        self._proposed: list[dict[str, str]] = [{}]

    def group(self) -> dict[str, Any]:
        name = f"{_MEETING}/{self._token}-{len(self._proposed)}"
        return {"name": name, "tokens": self._proposed[-1], "refusal": self._refusal}

    def round(self) -> str | None:
        """The name of the group, once it is complete."""
        tokens = self._meeting.present()
        if tokens != self._proposed[-1]:
            self._proposed.append(tokens)
            self._meeting.propose(self.group())
        group = self.group()
        if self._meeting.absent(group):
            return None
        self._meeting.complete(group)
        return str(group["name"])


class Join:
    """Another rank: answers the group that names its token."""

    def __init__(self, meeting: Meeting, number: int) -> None:
        self._meeting, self._number, self._token = meeting, number, uuid4().hex
        meeting.come(number, self._token)

    def group(self) -> dict[str, Any] | None:
        group = self._meeting.group()
        named = group is not None and group["tokens"].get(str(self._number)) == self._token
        return group if named else None

    def round(self) -> str | None:
        """The name of the group, once it is complete."""
        group = self.group()
        if group is None:
            return None
        self._meeting.answer(group, self._number)
        if group["refusal"] is not None:
            raise Refused(self._meeting.size, group["refusal"])
        return str(group["name"]) if self._meeting.is_complete(group) else None


def _shared_store(number: int, stop: Stop, deadline: float) -> Store:
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    _prefer_loopback(address)
    # The agent of torchrun serves a store at that port already; elsewhere rank 0 does.
    serves = number == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    while True:
        stop.raise_if_requested()
        try:
            return TCPStore(address, port, is_master=serves, timeout=_ATTEMPT, wait_for_workers=False)
        except (RuntimeError, OSError) as error:
            if serves or time.monotonic() > deadline:
                raise _cannot_meet(str(error).splitlines()[0]) from error
            time.sleep(_ROUND)


def _cannot_meet(reason: str) -> Failed:
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    return Failed(
        f"The ranks cannot meet at {address}:{port} (MASTER_ADDR, MASTER_PORT): {reason}",
        hint="See the output of the other ranks, rank 0 first. The port must be free there and open.",
        code="processes-cannot-join",
    )


def _prefer_loopback(address: str) -> None:
    """Ranks that meet on this machine need no network."""
    name = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if name and address in ("127.0.0.1", "localhost", "::1"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


class Watch(AbstractContextManager["Watch"]):
    """Shows the others that this process lives, and ends it when one of them is gone."""

    def __init__(
        self, number: int, size: int, events: Events, store: KeyStore, end: Callable[[int], object] = leave
    ) -> None:
        """`store` has a separate connection: a wait of another thread does not hold it up."""
        self._number, self._size = number, size
        self._events, self._store, self._end = events, store, end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ranks", daemon=True)

    def __enter__(self) -> Self:
        self._store.set(self._key(self._number), "0")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed.is_set():
            self._close(_FAILED if kind else _LEFT)

    def leave(self) -> None:
        """Nobody waits for this process any longer, and it waits for nobody, whatever it still has to do."""
        self._close(_LEFT)

    def _close(self, word: bytes) -> None:
        self._closed.set()
        self._thread.join(_BEAT)
        # The process that held the store may have ended.
        with contextlib.suppress(RuntimeError):
            self._store.set(self._key(self._number), word.decode())

    def _watch(self) -> None:
        now = time.monotonic()
        seen: dict[int, tuple[bytes, float]] = {
            other: (b"", now) for other in range(self._size) if other != self._number
        }
        beats = 0
        while not self._closed.wait(_BEAT):
            beats += 1
            try:
                self._store.set(self._key(self._number), str(beats))
                reason = self._look(seen)
            except RuntimeError as error:
                reason = f"The store of the ranks is gone: {str(error).splitlines()[0]}"
            if reason is not None and not self._closed.wait(_LAST_WORDS):
                error_of_all = lost(reason)
                self._events.failed(error_of_all)
                self._end(error_of_all.exit_code)
                return

    def _look(self, seen: dict[int, tuple[bytes, float]]) -> str | None:
        now = time.monotonic()
        for other, (before, since) in seen.items():
            key = self._key(other)
            value = self._store.get(key) if self._store.check([key]) else b""
            if value == _FAILED:
                return f"Rank {other} of {self._size} has failed"
            if value != before or value == _LEFT:
                seen[other] = (value, now)
            elif now - since > _SILENCE:
                return f"Rank {other} of {self._size} has shown no sign of life for {_SILENCE:.0f} s"
        return None

    def _key(self, number: int) -> str:
        return f"beat/{number}"


def lost(reason: str) -> Failed:
    return Failed(
        reason,
        hint="Its own output says why. The steps since the newest checkpoint are lost: start all again with "
        "--resume.",
        code="process-lost",
    )
